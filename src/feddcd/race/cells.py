"""One run of the race as data: a method, with its bits and settings, on a problem at a share of
the clients, with one seed. Its result is a small file named by all that determines it."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import SpecError
from .._files import write_atomically
from ..algorithms import BITS as WIDTHS
from ..algorithms import Method
from ..algorithms.catalogue import get_method
from ..runs.spec import Setting
from .methods import digest_of
from .problems import RaceProblem

VERSION = 8  # of the numbers: raise it when a change of the code changes them
SHARES = (0.1, 0.3, 1.0)
BITS = (64, 8)
TARGETS = (1e-3, 1e-6, 1e-9)
SEEDS = 5
LIMIT = 8_000  # models in doubles: a run that has sent as many bytes is given up
MOST_ROUNDS = 4_000
CHUNK = 20  # rounds between two looks at what a run has sent
TUNING_SEED = 1_000  # no result is made with it
METHODS = (
    "fedqn", "pointsaga", "accfeddcd", "feddcd", "fivegcs", "feddyn", "fedadmm", "tamuna",
    "fednlpp", "fednewton", "scaffold", "fedavg", "giant", "fedlbfgs", "scaffnew", "sdane",
    "accsdane",
)  # fmt: skip
USUAL: dict[str, dict[str, Setting]] = {"scaffold": {"solver": "gd"}}  # mini-batches leave a gap
FACTORS = (0.01, 0.03, 0.1, 0.3, 3.0, 10.0)  # of the number that a method would choose by itself
TUNED = {  # by method: the setting, and where a run records what was chosen
    "pointsaga": ("rho", "rho"),
    "accfeddcd": ("kappa", "kappa"),
    "fivegcs": ("gamma", "gamma"),
    "feddyn": ("a", "a"),
    "fedadmm": ("rho", "rho"),
    "sdane": ("lam", "lam"),
    "accsdane": ("lam", "lam"),
}
GRIDS: dict[str, tuple[dict[str, Setting], ...]] = {  # where the default has another scale
    "feddcd": tuple({"eta": eta} for eta in (1.25, 1.5, 1.75)),
    "fedavg": tuple({"lr": lr, "epochs": e} for lr in (0.01, 0.1, 1.0) for e in (1, 5)),
    "scaffold": tuple({"steps": steps} for steps in (5, 20, 500)),
    "tamuna": tuple({"p": p} for p in (0.01, 0.03, 0.1, 0.3, 1.0)),
    "scaffnew": tuple({"p": p} for p in (0.01, 0.03, 0.1, 0.3, 1.0)),
    "fednlpp": ({"rank": 2}, {"rank": 4}, {"rank": 8}),
    "fedlbfgs": ({"memory": 5}, {"memory": 20}, {"memory": 100}),
}


@dataclass(frozen=True)
class RaceCell:
    problem: RaceProblem
    share: float  # of the clients, in a round
    method: str
    bits: int = 64
    settings: tuple[tuple[str, Setting], ...] = ()
    seed: int = 0
    tuned: bool = False  # its settings are the best of a grid
    limit: float = LIMIT

    @property
    def id(self) -> str:
        content: dict[str, Any] = dataclasses.asdict(self) | {"version": VERSION}
        if (digest := digest_of(self.method)) is not None:
            content["file"] = digest
        content["problem"] = {
            name: value
            for name, value in content["problem"].items()
            if name != "half" and not (name in ("label", "group") and value is None)
        }
        for name in ("tuned", "limit"):  # neither changes a number that both runs have
            content.pop(name)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.problem.name}-{self.share:g}-{self.method}-{self.bits}-{self.seed}-{digest}"

    def file(self, folder: Path) -> Path:
        return folder / "cells" / f"{self.id}.json"


@dataclass(frozen=True)
class RaceOutcome:
    """Where a run was when its gap first fell below each of a row of levels: rounds, bytes up and
    down, uploads, steps of local solvers. `ended` says why it stopped."""

    ended: str
    chosen: dict[str, float]
    gap: list[float]
    rounds: list[int]
    up: list[float]
    down: list[float]
    uploads: list[int]
    steps: list[float]
    seconds: float
    size: int  # numbers in a model
    limit: float = LIMIT
    clients: int = 0  # 0: not known
    tau: int = 0  # of them, in a round
    rows: int = 0  # of all clients

    @property
    def both(self) -> list[float]:
        """Bytes in both directions."""
        return [up + down for up, down in zip(self.up, self.down, strict=True)]

    def to(self, target: float, what: str = "up") -> float:
        """What it cost to come to this gap; infinite where it did not."""
        found = [k for k, gap in enumerate(self.gap) if gap <= target]
        return float(getattr(self, what)[found[0]]) if found else np.inf

    def is_enough(self, cell: RaceCell) -> bool:
        """Whether the cell would come no further."""
        return self.ended != "limit" or self.limit >= cell.limit

    def save(self, file: Path) -> None:
        text = json.dumps(dataclasses.asdict(self))
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, lambda path: path.write_text(text + "\n"))


def read_outcome(file: Path) -> RaceOutcome | None:
    try:
        values: Any = json.loads(file.read_text())
        return RaceOutcome(**values)
    except (OSError, ValueError, TypeError):  # not there, or of a run that was cut short
        return None


def allowed(method: Method, share: float, size: int) -> bool:
    if method.needs_everyone and share < 1:
        return False
    return method.matrix_up_to is None or size <= method.matrix_up_to


def left_out(methods: Sequence[str], shares: Sequence[float]) -> list[str]:
    """Why methods have no run at all."""
    lacking = [name for name in methods if get_method(name).needs_everyone and max(shares) < 1]
    return [
        f"the method {name!r} needs all clients in each round; to run this method, give --share 1"
        for name in lacking
    ]


def cells(
    problems: Sequence[RaceProblem], methods: Sequence[str], shares, bits, seeds: int,
    limit: float = LIMIT,
) -> Iterator[RaceCell]:  # fmt: skip
    """By their usual settings."""
    _check(shares, bits, seeds, limit)
    for problem in problems:
        for share in shares:
            for method in methods:
                if get_method(method).needs_everyone and share < 1:
                    continue
                for width in bits:
                    for seed in range(1, seeds + 1):
                        usual = usual_settings(method)
                        yield RaceCell(problem, share, method, width, usual, seed, limit=limit)


def usual_settings(method: str) -> tuple[tuple[str, Setting], ...]:
    """Those of a race, beside a method's own defaults."""
    return tuple(sorted(USUAL.get(method, {}).items()))


def _check(shares: Sequence[float], bits: Sequence[int], seeds: int, limit: float) -> None:
    for share in shares:
        if not 0 < share <= 1:
            raise SpecError(
                f"the share of the clients must be above 0 and at most 1, got {share:g}"
            )
    for width in bits:
        if width not in WIDTHS:
            raise SpecError(
                f"the number of bits must be one of {', '.join(map(str, WIDTHS))}, got {width}"
            )
    if seeds < 1:
        raise SpecError(f"the race needs at least one seed, got {seeds}")
    if not limit > 0:
        raise SpecError(
            "the limit (the bytes of a run, divided by the bytes of one model) must be above 0; "
            f"got {limit:g}"
        )


def trials(cell: RaceCell, chosen: dict[str, float]) -> list[RaceCell]:
    """The grid of a method, with a seed of its own: at most twenty runs."""
    if cell.method in GRIDS:
        grid = GRIDS[cell.method]
    elif cell.method in TUNED and (base := chosen.get(TUNED[cell.method][1])):
        grid = tuple({TUNED[cell.method][0]: base * factor} for factor in FACTORS)
    else:
        return []
    given = [tuple(sorted((dict(cell.settings) | settings).items())) for settings in grid]
    return [
        dataclasses.replace(cell, settings=settings, seed=TUNING_SEED, tuned=True)
        for settings in (cell.settings, *given)
    ]
