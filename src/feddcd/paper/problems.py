"""The problems of the paper, and small ones to try things out on."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .._errors import SpecError
from .._text import nearest
from ..runs.spec import Setting

Variant = Literal["paper", "authors"]
Settings = dict[str, Setting]

VARIANTS = ("paper", "authors")
PRIMAL = ("fedavg", "fedprox", "scaffold")
DUAL = ("feddcd", "accfeddcd")
BEYOND = ("pointsaga",)  # not in the paper


class Problem(NamedTuple):
    """`reference` stands in for the optimum where none can be computed; `prefer` is the data
    set that is taken instead where its files are at hand."""

    data: str
    model: str
    l2: float
    clients: int = 100
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
