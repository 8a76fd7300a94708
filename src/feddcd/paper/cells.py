"""The paper's experiments as data: its problems, small ones to try things out on, the settings of
every method on them, and every cell of its figures and tables.

A cell is one method on one problem, split and cohort size. Two variants of each: `paper`
follows the text (with the settings that `feddcd tune` chose), `authors` follows their code
where it differs; docs/paper.md lists the differences.
"""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from .._errors import SpecError
from .._text import nearest
from ..runs.spec import Setting, Spec

Variant = Literal["paper", "authors"]
Settings = dict[str, Setting]

VARIANTS = ("paper", "authors")
PRIMAL = ("fedavg", "fedprox", "scaffold")
DUAL = ("feddcd", "accfeddcd")
BEYOND = ("pointsaga",)  # not in the paper
PAPER_CLIENTS = 100


class Problem(NamedTuple):
    """`reference` stands in for the optimum where none can be computed; `prefer` is the data
    set that is taken instead where its files are at hand."""

    data: str
    model: str
    l2: float
    clients: int = PAPER_CLIENTS
    reference: float | None = None
    prefer: str | None = None


PROBLEMS = {
    "mnist-softmax": Problem("mnist", "softmax", 1e-2),
    "rcv1-softmax": Problem("rcv1-subset", "softmax", 1e-3, prefer="rcv1"),
    "mnist-mlp": Problem("mnist", "mlp:32", 1e-2, reference=0.504563),
    "digits-softmax": Problem("digits", "softmax", 1e-2, clients=40),
    "digits-mlp": Problem("digits", "mlp:32", 1e-2, clients=40, reference=0.0),
}
PAPER_PROBLEMS = ("mnist-softmax", "rcv1-softmax", "mnist-mlp")
TEXT_NEWTON: Settings = {"max_steps": 10}


def check_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        if problem not in PROBLEMS:
            raise SpecError(f"unknown problem {problem!r}{nearest(problem, PROBLEMS)}")


def is_mlp(problem: str) -> bool:
    return PROBLEMS[problem].model.startswith("mlp")


def data_of(problem: str) -> str:
    """The data set of a problem: the one it prefers if its file is there."""
    from ..data.known import KNOWN, find

    kind = PROBLEMS[problem]
    if kind.prefer is not None and find(KNOWN[kind.prefer].train) is not None:
        return kind.prefer
    return kind.data


def hyperparameters(
    problem: str, split: str, tau: int, algorithm: str, variant: Variant
) -> Settings:
    if algorithm in PRIMAL:
        theirs = variant == "authors"
        primal = _authors_primal(problem, split, tau) if theirs else tuned_settings(problem, split)
        return primal[algorithm] | {"batch_size": batch_size(problem)}
    if is_mlp(problem):
        return _mlp_dual(problem, split, tau, algorithm, variant)
    exact: Settings = {"tol": 1e-6} if variant == "authors" else TEXT_NEWTON
    if algorithm == "feddcd":
        theirs = variant == "authors"
        return exact | ({"eta": 0.99} if theirs else tuned_settings(problem, split)["feddcd"])
    if algorithm == "pointsaga" or variant == "paper":
        return exact
    kind = PROBLEMS[problem]
    return exact | {"eta": 0.99, "kappa": kind.l2, "r": tau / kind.clients}


def batch_size(problem: str) -> int:
    """What the authors ran; the text does not say."""
    return 128 if is_mlp(problem) else 1


def _authors_primal(problem: str, split: str, tau: int) -> dict[str, Settings]:
    """Of the run with the number in the paper, or of the closest one where there were several;
    for the MLP with a tenth of the clients there is only the slow one."""
    same, tenth = split != "two-class", 10 * tau == PROBLEMS[problem].clients
    if is_mlp(problem):
        shared: Settings = {"lr": 0.1, "epochs": 10 if same else 5}
        if same and tenth:
            shared = {"lr": 0.01, "epochs": 5}
        m = 1e-4 if same else 1e-3
    else:
        shared = {"lr": 0.1 if problem == "rcv1-softmax" else 1e-3, "epochs": 5}
        m = 1e-4 if same else 1e-2
    return {"fedavg": shared, "fedprox": shared | {"m": m}, "scaffold": shared}


def _mlp_dual(problem: str, split: str, tau: int, algorithm: str, variant: Variant) -> Settings:
    """The text has 20 steps of Adam, the authors' first objectives are those of 20 epochs;
    5 epochs of SGD on unlike clients. The authors start each local solve at the mean and
    leave l2 out of the dual step."""
    kind, same = PROBLEMS[problem], split != "two-class"
    local: Settings = {"solver": "sgd", "lr": 0.1, "epochs": 5}
    if same:
        local = {"solver": "adam", "lr": 1e-3, "epochs": 20 if variant == "authors" else 4}
    local |= {"batch_size": batch_size(problem)}
    if variant == "paper":
        return local | {"start": "own"}
    local |= {"start": "model", "step": 0.01 if same else 0.1}
    if algorithm == "feddcd":
        return local
    return local | {"kappa": 30 * kind.l2, "r": tau / kind.clients}


@cache
def _tuned_file() -> dict[str, Any]:
    return tomllib.loads(files("feddcd.paper").joinpath("tuned.toml").read_text())


def tuned_settings(problem: str, split: str) -> dict[str, Settings]:
    """What `feddcd tune` found, by algorithm, from the file that is kept with the code."""
    rows = _tuned_file().get(problem, {}).get("two-class" if split == "two-class" else "iid")
    if not rows:
        raise SpecError(
            f"there are no tuned settings for the problem {problem!r} with the split {split!r}: "
            "run feddcd tune"
        )
    keep = ("lr", "epochs", "m", "eta")
    return {name: {k: row[k] for k in keep if k in row} for name, row in rows.items()}


class Setup(NamedTuple):
    """A row of Table 2: the cohort as a share of the clients, the gaps, and the limit. `added` are
    the gaps that the paper does not have."""

    share: float
    eps: tuple[float, ...]
    iterations: int
    added: tuple[float, ...] = ()

    def tau(self, problem: str) -> int:
        return self.tau_of(PROBLEMS[problem].clients)

    def tau_of(self, clients: int) -> int:
        return max(2, round(self.share * clients))


TABLE2 = (
    Setup(0.3, (1e-2, 1e-3), 100),
    Setup(0.1, (1e-2,), 500),
    Setup(0.05, (1e-1, 1e-2, 1e-3), 500, added=(1e-2, 1e-3)),
)


FIGURE_ITERATIONS = 100
VERSION = 2  # of the numbers: raise it when a change of the code changes them


@dataclass(frozen=True)
class Cell:
    """One method on one problem. `iterations` is a limit, `until` the gap at which it may stop;
    neither changes the numbers, so neither is part of the cell's id."""

    problem: str
    data: str
    split: str
    tau: int
    algorithm: str
    settings: tuple[tuple[str, Setting], ...]
    iterations: int
    seeds: int
    until: float | None = None

    def __post_init__(self):
        check_problems([self.problem])
        if self.seeds < 1 or self.iterations < 1:
            raise SpecError(
                f"seeds and iterations must be at least 1, got seeds={self.seeds}, "
                f"iterations={self.iterations}"
            )
        object.__setattr__(self, "settings", tuple(sorted(map(tuple, dict(self.settings).items()))))

    @property
    def id(self) -> str:
        """Stable: of all that determines the numbers, and of the code that computes them."""
        values = dataclasses.asdict(self) | PROBLEMS[self.problem]._asdict()
        content = {k: v for k, v in values.items() if k not in ("iterations", "seeds", "until")}
        text = json.dumps(content | {"data": self.data, "version": VERSION}, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.problem}-{self.split}-tau{self.tau}-{self.algorithm}-{digest}"

    @property
    def draws(self) -> range:
        """Its seeds; 0 is the one that settings were tuned with."""
        return range(1, self.seeds + 1)

    def spec(self) -> Spec:
        """The same as a run for `feddcd run` (one seed, rounds in place of iterations)."""
        kind = PROBLEMS[self.problem]
        return Spec(
            data=self.data, model=kind.model, partition=self.split, clients=kind.clients,
            tau=self.tau, algorithm=self.algorithm, settings=dict(self.settings), l2=kind.l2,
            rounds=self.iterations,
        )  # fmt: skip

    def to_toml(self) -> str:
        import tomli_w

        values = dataclasses.asdict(self) | {"settings": dict(self.settings)}
        return tomli_w.dumps({k: v for k, v in values.items() if v is not None})


def figure1(problem: str, variant: Variant, seeds: int) -> Iterator[Cell]:
    """Primal against dual methods: tau = 0.3 N, iid."""
    tau = TABLE2[0].tau(problem)
    for algorithm in methods(problem):
        yield cell(problem, iid(variant), tau, algorithm, variant, FIGURE_ITERATIONS, seeds)


def table2(problem: str, variant: Variant, seeds: int) -> Iterator[Cell]:
    """Rounds to a gap: tau = 0.3 N, 0.1 N, 0.05 N, iid."""
    for setup in TABLE2:
        yield from table2_cells(problem, setup, variant, seeds)


def table2_cells(problem: str, setup: Setup, variant: Variant, seeds: int) -> Iterator[Cell]:
    """One row of the table; a cell stops at its smallest gap."""
    tau, limit, until = setup.tau(problem), setup.iterations, min(setup.eps)
    for algorithm in methods(problem):
        yield cell(problem, iid(variant), tau, algorithm, variant, limit, seeds, until)


def figure3(problem: str, variant: Variant, seeds: int) -> Iterator[Cell]:
    """Unlike clients: two classes each, tau = 0.3 N. Table 3 is the accuracy of the same runs."""
    tau = TABLE2[0].tau(problem)
    for algorithm in methods(problem):
        yield cell(problem, "two-class", tau, algorithm, variant, FIGURE_ITERATIONS, seeds)


PARTS = {"figure1": figure1, "table2": table2, "figure3": figure3, "table3": figure3}
NOT_IN_FIGURE3 = ("rcv1-softmax",)


def grid(parts: list[str], problems: list[str], variant: Variant, seeds: int) -> list[Cell]:
    """The cells of these parts, each once, those of one problem and split together."""
    cells = {}
    for problem in problems:
        for part in parts:
            if PARTS[part] is figure3 and problem in NOT_IN_FIGURE3:
                continue
            for c in PARTS[part](problem, variant, seeds):
                other = cells.get(c.id)
                if other is None or (other.until is not None and c.until is None):
                    cells[c.id] = c
    return sorted(cells.values(), key=lambda c: (problems.index(c.problem), c.split))


def cell(
    problem: str,
    split: str,
    tau: int,
    algorithm: str,
    variant: Variant,
    iterations: int,
    seeds: int,
    until: float | None = None,
) -> Cell:
    settings = hyperparameters(problem, split, tau, algorithm, variant)
    return Cell(
        problem, data_of(problem), split, tau, algorithm, tuple(settings.items()), iterations,
        seeds, until,
    )  # fmt: skip


def iid(variant: Variant) -> str:
    """The text draws the rows at random, the authors' code cuts the file into chunks."""
    return "contiguous" if variant == "authors" else "iid"


def methods(problem: str) -> tuple[str, ...]:
    return PRIMAL + DUAL + (() if is_mlp(problem) else BEYOND)
