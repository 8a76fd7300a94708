"""The paper's experiments as data: every cell of its figures and tables.

A cell is one method on one problem, split and cohort size. Two variants of each: `paper`
follows the text (with the settings that `feddcd tune` chose), `authors` follows their code
where it differs; docs/paper.md lists the differences.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .._errors import SpecError
from ..runs.spec import Setting, Spec
from .problems import (
    BEYOND,
    DUAL,
    PRIMAL,
    PROBLEMS,
    Variant,
    check_problems,
    data_of,
    hyperparameters,
    is_mlp,
)


class Setup(NamedTuple):
    """A row of Table 2: the cohort as a share of the clients, the gaps, and the limit."""

    share: float
    eps: tuple[float, ...]
    iterations: int

    def tau(self, problem: str) -> int:
        return max(2, round(self.share * PROBLEMS[problem].clients))


TABLE2 = (
    Setup(0.3, (1e-2, 1e-3), 100),
    Setup(0.1, (1e-2,), 500),
    Setup(0.05, (1e-1,), 500),
)
FIGURE_ITERATIONS = 100
VERSION = 1  # of the numbers: raise it when a change of the code changes them


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
                f"need seeds >= 1 and iterations >= 1, got {self.seeds} and {self.iterations}"
            )
        object.__setattr__(self, "settings", tuple(sorted(map(tuple, dict(self.settings).items()))))

    @property
    def id(self) -> str:
        """Stable: of all that determines the numbers, and of the code that computes them."""
        known = dataclasses.asdict(self) | PROBLEMS[self.problem]._asdict()
        content = {k: v for k, v in known.items() if k not in ("iterations", "seeds", "until")}
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
                known = cells.get(c.id)
                if known is None or (known.until is not None and c.until is None):
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
