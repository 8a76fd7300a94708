"""The way out of a site: its policy, a person where one is to be asked, and its log."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._errors import DataError, FeddcdError, Refused
from ..._files import Disk
from ..._text import listed
from ...analysis.blocks import words_of
from ._salt import salt_of
from .approval import ID_LENGTH, NOBODY, Asker, Waits, require
from .log import append, hash_of
from .policy import (
    FILE,
    REVEALS,
    UNTRAINED,
    Outgoing,
    Policy,
    Ruled,
    load_policy,
    not_allowed,
)
from .told import DENIED

ASKS = "The coordinator asks this site for an answer:"
COUNTED = ("rows", "parameters", "sites")
YES, NO = ("y", "yes"), ("n", "no")
MOST_LETTERS = 1000  # of a reason in the log, which may be that of a library


def describe(outgoing: Outgoing) -> str:
    """For a person; names are quoted, so that none can play tricks on a terminal."""
    if outgoing.kind == "columns":
        return _describe_names(outgoing)
    counts = lambda rows: ", ".join(f"{str(k)!r}: {rows[k]}" for k in list(rows)[:20])
    lines = {
        "kind": f"{outgoing.kind!r}: {REVEALS.get(outgoing.kind, 'unknown')}",
        "method": repr(outgoing.method),
        "columns": f"{len(outgoing.columns)}: {listed(outgoing.columns)}",
        "rows": outgoing.rows,
        "parameters": outgoing.parameters,
        "sites": f"{outgoing.sites} in the sum"
        + ("" if outgoing.mode == "sum" else ", as the coordinator says"),
        "classes": f"{len(outgoing.classes)}: {counts(outgoing.classes)}",
        **{f"levels of {k!r}": f"{len(v)}: {counts(v)}" for k, v in outgoing.levels.items()},
        **_blocks(outgoing),
    }
    return "\n".join(["This would leave this site:", *(f"  {k}: {v}" for k, v in lines.items())])


def _blocks(outgoing: Outgoing) -> dict[str, str]:
    """In words, with the name that a file of numbers has for it."""
    words = words_of(outgoing.method, outgoing.arrays)
    return {
        f"{words[name]}, {name!r}": _numbers(np.asarray(array))
        for name, array in outgoing.arrays.items()
    }


def _sent(outgoing: Outgoing) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """The names, levels and classes that leave: of declared levels all, also those of no row."""
    told = {name: getattr(outgoing, name) for name in ("columns", "levels", "classes")}
    told |= outgoing.sent
    levels = {str(name): list(map(str, each)) for name, each in told["levels"].items()}
    names = list(map(str, told.get("names", told["columns"])))
    return names, levels, list(map(str, told["classes"]))


def _describe_names(outgoing: Outgoing) -> str:
    """Names leave; the rows behind them are shown to the person alone."""
    names, levels, classes = _sent(outgoing)
    sent = {f"levels of {k!r}": v for k, v in levels.items()}
    sent |= {"classes": classes} if classes else {}
    kinds = {f"levels of {k!r}": v for k, v in outgoing.levels.items()}
    kinds |= {"classes": outgoing.classes} if outgoing.classes else {}
    counts = lambda rows: ", ".join(f"{str(k)!r}: {rows[k]}" for k in list(rows)[:20])
    lines = [
        "This would leave this site:",
        f"  kind: 'columns': {REVEALS['columns']}",
        f"  columns: {len(names)}: {listed(names)}",
        *(f"  {name}: {len(each)}: {listed(each, 20)}" for name, each in sent.items()),
        "These numbers stay at this site. Only you see these numbers, for your decision:",
        f"  rows: {_rows_told(outgoing.rows, kinds)}",
        *(f"  rows by {name}: {counts(rows)}" for name, rows in kinds.items()),
    ]
    return "\n".join(lines)


def _rows_told(rows: int, kinds: Mapping[str, Mapping[Any, int]]) -> str:
    """The levels count only rows that have all values, where rows without some are left out."""
    sums = {sum(counts.values()) for counts in kinds.values() if counts}
    if len(sums) != 1 or sums == {rows}:
        return str(rows)
    return f"{rows}, of which {sums.pop()} are complete (the others lack a value)"


def _numbers(array: np.ndarray, most: int = 6) -> str:
    first = ", ".join(f"{value:.6g}" for value in array.ravel()[:most].tolist())
    more = ", ..." if array.size > most else ""
    span = f", from {array.min().item():.6g} to {array.max().item():.6g}" if array.size else ""
    return f"{array.dtype} {array.shape}{span}: {first}{more}"


def confirm(outgoing: Outgoing, ask: Callable[[str], str], site: str = "") -> None:
    """What is neither yes nor no is asked once more, and then means no."""
    whose = f"the site {site}" if site else "the site"
    question = f"May this answer leave {whose}? Write yes or no (y or n is enough): "
    text = f"{f'At the site {site}:' if site else ''}\n{describe(outgoing)}\n{question}".lstrip()
    try:
        reply = ask(text).strip().lower()
        if reply not in (*YES, *NO):
            reply = ask(f"{reply!r} is neither yes nor no. {question}").strip().lower()
    except EOFError:
        reply = ""
    if reply not in YES:
        raise Ruled("denied", f"{DENIED} this answer")


def record(outgoing: Outgoing, question: bytes, key: bytes) -> dict[str, Any]:
    """As it is logged: levels in words where they themselves leave; arrays by their shape and a
    digest with the site's `key`, as who reads the log could try counts against a plain digest."""
    plain: dict[str, Any] = {"kind": outgoing.kind, "method": outgoing.method}
    plain |= {"columns": list(outgoing.columns)}
    plain |= {"complete": list(outgoing.complete)} if outgoing.complete else {}
    plain |= {name: int(getattr(outgoing, name)) for name in COUNTED}
    if outgoing.kind == "columns":  # names leave, the counts of their rows stay
        names, levels, classes = _sent(outgoing)
        plain |= {"names": names} if outgoing.sent else {}
        plain |= {"classes": classes, "levels": levels}
    plain["arrays"] = {name: _fingerprint(array, key) for name, array in outgoing.arrays.items()}
    return plain | {"question": hashlib.sha256(question).hexdigest()}


def _fingerprint(array: np.ndarray, key: bytes) -> dict[str, Any]:
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"only numbers may leave a site, got {array.dtype}")
    content = hmac.digest(key, array.tobytes(), "sha256").hex()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "hmac-sha256": content}


def hold(folder: Path, outgoing: Outgoing, question: bytes, disk: Disk, asked: Asker) -> None:
    """Refuses unless this very answer to this very question was approved.

    The id stays here, as the numbers do that are shown.
    """
    entry = record(outgoing, question, salt_of(folder, disk))
    id = hash_of(json.dumps(entry, sort_keys=True).encode())[:ID_LENGTH]
    numbers = {name: np.asarray(a).tolist() for name, a in outgoing.arrays.items()}
    shown = {"shown": [ASKS, *describe(outgoing).splitlines()], "numbers": numbers}
    if outgoing.kind == "columns":  # beside names that leave, a number would seem to leave, too
        entry = {name: value for name, value in entry.items() if name not in COUNTED}
    require(folder, id, "an answer", entry | shown, disk, asked=asked)


def _quotes_none(error: BaseException | None) -> bool:
    """What is wrong with data, and what a library says, may quote a value: site.log has it."""
    return isinstance(error, FeddcdError) and not isinstance(error, DataError)


class Release(NamedTuple):
    """The way out of a site: its folder, its name, and who is asked, if anyone is there."""

    folder: Path
    client: str
    ask: Callable[[str], str] | None = None
    disk: Disk = Disk()
    asked: Asker = NOBODY

    def policy(self) -> Policy:
        self.folder.mkdir(parents=True, exist_ok=True)
        return load_policy(self.folder / FILE)

    def check_trains(self) -> None:
        """Before a row is read for a training."""
        if not self.policy().training:
            raise not_allowed(UNTRAINED)

    def check(self, outgoing: Outgoing, question: bytes) -> Policy:
        """The rules alone, for before the work; arrays may be missing still."""
        policy = self.policy()
        self._guard(lambda: self._judge(policy, outgoing), outgoing, question)
        return policy

    def _judge(self, policy: Policy, outgoing: Outgoing) -> None:
        policy.check(outgoing)
        if outgoing.trains:  # of a plan, the roles of its columns are checked before
            from ._roles import check_no_identifier

            check_no_identifier(self.folder, outgoing.columns)

    def release(self, answer: bytes, outgoing: Outgoing, question: bytes) -> bytes:
        """The answer, once the rules and a person allow it and the log has it.

        With `ask` a person is asked; without, what has to be asked for waits in the folder.
        """
        policy = self.check(outgoing, question)
        if self.ask is not None:
            self._guard(partial(confirm, outgoing, self.ask, self.client), outgoing, question)
        elif policy.approve == "answer":
            wait = partial(hold, self.folder, outgoing, question, self.disk, self.asked)
            self._guard(wait, outgoing, question)
        # logged before it leaves: a crash in between leaves a line too many, never one too few
        content: dict[str, Any] = {
            "bytes": len(answer),
            "sha256": hashlib.sha256(answer).hexdigest(),
        }
        content |= self.asked.named()
        key = salt_of(self.folder, self.disk)
        append(self.folder, record(outgoing, question, key) | content, self.disk)
        return answer

    def _guard(self, act: Callable[[], None], outgoing: Outgoing, question: bytes) -> None:
        """A refusal leaves too, so the log has it first; that something waits was logged before."""
        try:
            act()
        except Waits as reason:
            raise Waits(f"{self.client}: {reason}") from None
        except Refused as reason:
            unsent = outgoing._replace(classes={}, levels={}, arrays={}, sent={})
            about = record(unsent, question, b"")
            self.refuse(reason, question, about)
            raise self.named(reason) from None

    def refuse(self, reason: Refused, question: bytes, about: Mapping[str, Any] = {}) -> None:
        """Logs a refusal, with the rule and the reason, which others do not hear."""
        told = str(reason).removeprefix(f"{self.client}: ")
        line = {"refused": told, "question": hashlib.sha256(question).hexdigest(), **about}
        line |= self.asked.named()
        if isinstance(reason, Ruled):
            line |= {"rule": reason.rule, "why": reason.in_log}
        elif _quotes_none(cause := reason.__cause__):
            line |= {"why": str(cause)[:MOST_LETTERS]}
        append(self.folder, line, self.disk)

    def fault(self, told: str, why: str = "", question: bytes = b"") -> None:
        """Logs that no answer left because something is broken here; `told` is all others hear."""
        line: dict[str, Any] = {"refused": told} | ({"why": why[:MOST_LETTERS]} if why else {})
        line |= {"question": hashlib.sha256(question).hexdigest()} if question else {}
        append(self.folder, line | self.asked.named(), self.disk)

    def named(self, reason: Refused) -> Refused:
        """As others hear it, with the site's name; it was logged."""
        told = Refused(f"{self.client}: {str(reason).removeprefix(f'{self.client}: ')}")
        told.logged = True
        return told
