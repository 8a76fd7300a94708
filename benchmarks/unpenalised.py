"""Which method needs few bytes without a penalty: MB until little is left, by method.

    python benchmarks/unpenalised.py [diabetes] [logistic] [poisson] [cancer] [digits]
        [rcv1] [mnist]

20 clients with equal shares of the rows, l2 = 0, at most `ROUNDS` rounds, 8 bits for each number,
and default settings. mnist and rcv1-subset come from the folder FEDDCD_DATA, with `FEW` rows for
each client. On cancer, digits, mnist and rcv1 a model predicts all rows perfectly, so the objective
has no smallest value and its limit is 0. On the others, the limit is the smallest objective that
any run found. Each number of `LEFT` is a part of the distance between the objective at the start
(w = 0) and the limit: the table shows the MB that clients sent until no larger part was left, to
the end of the run. "first" and "worst" are the objective after one round, and the largest of all.
"""

import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

import feddcd
from feddcd._errors import FeddcdError

CLIENTS, ROUNDS, BITS, FEW = 20, 40, 8, 250
LEFT = (0.1, 1e-3)
SHARES = (5, 20)
SOME = ("fedqn", "fednewton", "fedavg", "scaffold")
SEPARABLE = ("cancer", "digits", "mnist", "rcv1")
LARGE = ("mnist", "rcv1")  # too many parameters for FedNewton


class Course(NamedTuple):
    problem: str
    tau: int
    method: str
    objective: np.ndarray
    megabytes: np.ndarray


def main() -> None:
    head = ["problem", "clients", "method", "first", "end", "worst", "MB"] + [
        f"MB to {left:g}" for left in LEFT
    ]
    print(row(*head))
    print(row(*["---"] * len(head)))
    for name in sys.argv[1:] or ("diabetes", "logistic", "poisson", *SEPARABLE):
        found = list(courses(name))
        ends = [np.min(one.objective) for one in found]
        limit = 0.0 if name in SEPARABLE else min(ends)
        for one in found:
            print(line(one, limit), flush=True)


def courses(name: str) -> Iterator[Course]:
    options = problem(name)
    for tau in SHARES:
        for method in methods(name, tau):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    run = feddcd.run(
                        **options, algorithm=method, settings={"bits": BITS}, tau=tau,
                        rounds=ROUNDS, l2=0.0, weighting="samples", certify_every=ROUNDS,
                    )  # fmt: skip
                except FeddcdError as error:
                    print(f"{name}, {tau} clients, {method}: {error}", file=sys.stderr)
                    continue
            history = run.history
            yield Course(name, tau, method, history["objective"], history["bytes_up"] / 1e6)


def methods(name: str, tau: int) -> list[str]:
    some = [method for method in SOME if not (name in LARGE and method == "fednewton")]
    return some + ["fedlbfgs"] * (tau == CLIENTS)


def line(one: Course, limit: float) -> str:
    start = one.objective[0]
    numbers = (f"{x:.4g}" for x in (start, one.objective[-1], np.max(one.objective)))
    return row(one.problem, one.tau, one.method, *numbers, f"{one.megabytes[-1]:.3g}",
               *(needed(one, limit, left) for left in LEFT))  # fmt: skip


def needed(one: Course, limit: float, left: float) -> str:
    """MB from which on the objective stays near the limit."""
    far = np.flatnonzero(~(one.objective - limit <= left * (FIRST[one.problem] - limit)))
    after = far[-1] + 1 if len(far) else 0
    return f"{one.megabytes[after]:.3g}" if after < len(one.megabytes) else "-"


FIRST: dict[str, float] = {}  # the objective at w = 0


def problem(name: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X: Any = rng.normal(size=(3000, 8))
    y: Any
    z = X @ rng.normal(size=8)
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        y, model = (y - np.mean(y)) / np.std(y), "ridge"
    elif name == "logistic":
        y, model = (rng.random(len(X)) < 1 / (1 + np.exp(-z))).astype(int), "logistic"
    elif name == "poisson":
        y, model = rng.poisson(np.exp(0.3 * z)), "poisson"
    elif name == "cancer":
        X, y = load_breast_cancer(return_X_y=True)
        model = "logistic"
    else:
        data = feddcd.load({"rcv1": "rcv1-subset"}.get(name, name))
        X, y = data.X, data.y
        model = "logistic" if name == "rcv1" else "softmax"
    if name not in (*LARGE, "digits"):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = rng.permutation(len(y))[: FEW * CLIENTS if name in LARGE else None]
    FIRST[name] = _zero(model, y)
    parts = np.array_split(np.arange(len(rows)), CLIENTS)
    return {"data": (X[rows], y[rows]), "parts": parts, "model": model}


def _zero(model: str, y: np.ndarray) -> float:
    if model == "ridge":
        return float(np.mean(y**2) / 2)
    return {"logistic": math.log(2), "softmax": math.log(10), "poisson": 1.0}[model]


def row(*cells: Any) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
