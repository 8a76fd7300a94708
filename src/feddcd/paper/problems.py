"""The problems of the paper, small ones to try things out on, and the settings of every method
on them, by variant."""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

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
    """Of the run whose number the paper shows, or that came closest where there were several;
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
        raise SpecError(f"nothing is tuned for {problem} with the split {split}: run feddcd tune")
    keep = ("lr", "epochs", "m", "eta")
    return {name: {k: row[k] for k in keep if k in row} for name, row in rows.items()}
