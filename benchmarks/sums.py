"""What masks cost a site and an exchange, beside answers that are told one by one.

    python benchmarks/sums.py [SITES:COLUMNS ...]

20,000 rows of a logistic regression are shared among the sites; the exchange is one in the middle
of the talk, with Hessian and leverage. `each` is that exchange in one process without masks; `mask`
is what one site adds to it: numbers to integers, masks, signature; `open` is what it takes to check
all signatures, to add up and to read the sum: once at the coordinator, and once at each site before
it answers the next question. The ratio is that of an exchange with masks, opened once, to one
without, and behind it with `open` at every site, too, as if all sites were one machine.
Milliseconds are of the processor, with one thread; of REPEATS measurements the quickest counts.
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from feddcd.analysis._regression import RegressionTable
from feddcd.analysis._schema import prepare
from feddcd.analysis.plan import ModelSettings
from feddcd.analysis.protocol import Blocks, Count, Max, Questions, Replies, Sum, in_process
from feddcd.analysis.table import Roles, read
from feddcd.sums import signing
from feddcd.sums.chain import begin, new_secret, public_half
from feddcd.sums.keys import SiteKeys
from feddcd.sums.layout import Layout, Slot
from feddcd.sums.levels import grid_of
from feddcd.sums.masks import context, masked
from feddcd.sums.roster import Roster, RosterMember

ROWS, REPEATS, EXCHANGE = 20_000, 5, 2
LEAST_S = 0.2
CASES = [f"{sites}:{columns}" for sites in (3, 12, 50) for columns in (10, 100, 500)]


def main(cases: list[str]) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {ROWS:,} rows in all")
    print(
        "sites columns | each, all sites | mask, a site |     open |      ratio | kB up: each, sum"
    )
    for case in cases:
        sites, columns = map(int, case.split(":"))
        with threadpool_limits(1):
            show(sites, columns)
        gc.collect()


def show(sites: int, columns: int) -> None:
    ask, questions, replies = asked(sites, columns)
    federation = Federation(replies)
    each, _ = quickest(lambda: ask(questions))
    mask, sent = quickest(lambda: federation.sent())
    opened, sums = quickest(lambda: federation.opened(sent))
    check(replies, sums)
    ratios = [(each + mask + times * opened) / each for times in (1, sites + 1)]
    plain = sum(block.value.size * 8 for block in next(iter(replies.values())).values())
    up = len(next(iter(sent.values()))[0]) + signing.SIGNATURE
    print(
        f"{sites:5d} {columns:7d} | {each:15.2f} | {mask / sites:12.2f} | {opened:8.2f} | "
        f"{ratios[0]:4.2f} {ratios[1]:5.2f} | {plain / 1e3:12.1f} {up / 1e3:.1f}",
        flush=True,
    )


def asked(sites: int, columns: int) -> tuple[Callable[[Questions], Replies], Questions, Replies]:
    """How to ask, and the questions and answers of an exchange."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, columns))
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-X[:, 0] / 2))).astype(float)
    groups = np.array([f"s{i:02d}" for i in range(sites)])[np.arange(ROWS) % sites]
    settings, analysis = ModelSettings(), RegressionTable()
    cohort, rows, _ = prepare(read(X, Roles(y, groups), None, "error"), settings)
    ask, talk = in_process(analysis, rows), analysis.talk(settings, cohort)
    questions = next(talk)
    for _ in range(EXCHANGE):
        questions = talk.send(ask(questions))
    return ask, questions, ask(questions)


class Federation:
    """Sites with keys, and one layout for all."""

    def __init__(self, replies: Replies):
        self.replies = replies
        self.keys = {name: SiteKeys.generate() for name in replies}
        self.roster = Roster(RosterMember.of(name, key) for name, key in self.keys.items())
        self.layout = layout_of(next(iter(replies.values())))
        self.ctx = context(self.roster, self.roster.names, bytes(32), 0, b"question")
        secrets = {name: new_secret() for name in self.keys}
        nonces = {name: public_half(secret) for name, secret in secrets.items()}
        begun = lambda name: begin(self.keys[name], self.roster, bytes(32), nonces, secrets[name])
        self.chains = {name: begun(name)[""] for name in self.keys}  # once for a job

    def sent(self) -> dict[str, tuple[bytes, bytes]]:
        return {name: self._sent(name, blocks) for name, blocks in self.replies.items()}

    def _sent(self, name: str, blocks: Blocks) -> tuple[bytes, bytes]:
        layout, keys, names = self.layout, self.keys[name], self.roster.names
        words = layout.encode({slot.name: blocks[slot.name].value for slot in layout.slots})
        hidden = masked(words, layout, self.chains[name], name, self.roster, names, self.ctx)
        said = layout.to_bytes(hidden)
        return said, signing.sign_answer(keys.signing, self.ctx, layout.digest, said)

    def opened(self, sent: dict[str, tuple[bytes, bytes]]) -> dict[str, np.ndarray]:
        layout = self.layout
        for name, (said, signature) in sent.items():
            public = self.roster[name].signing
            signing.verify_answer(public, self.ctx, layout.digest, said, signature)
        return layout.decode(layout.total(layout.from_bytes(said) for said, _ in sent.values()))


def layout_of(blocks: Blocks) -> Layout:
    kinds = {Sum: "sum", Count: "count", Max: "max"}
    slots = []
    for name, block in blocks.items():
        grid = grid_of(block.grid) if isinstance(block, Max) else None
        if type(block) in kinds:  # what is told site by site is left out
            slots.append(Slot(name, kinds[type(block)], np.shape(block.value), grid))
    return Layout(slots)


def check(replies: Replies, sums: dict[str, np.ndarray]) -> None:
    """The sums are those of the answers."""
    H = sum(blocks["H"].value for blocks in replies.values())
    assert np.allclose(sums["H"], H, rtol=1e-12, atol=1e-12 * np.max(np.abs(H)))


def quickest(act: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of the processor, and what came out. Under a limit of processor time (ulimit -t)
    this clock may move in steps: so each measurement is of as many calls as take LEAST_S."""
    began, calls, result = time.perf_counter(), 0, None
    while not calls or time.perf_counter() - began < LEAST_S:
        result, calls = act(), calls + 1
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(calls):
            act()
        times.append(1e3 * (time.process_time() - began) / calls)
    return min(times), result


if __name__ == "__main__":
    main(sys.argv[1:] or CASES)
