"""FedQN's bytes to a true gap: python benchmarks/fedqn.py [--seeds 5] [--bits 8] [case ...]

One-column logistic regression of a9a and phishing over 50 clients, 15 a round: uploads in vectors
of d doubles to a gap of 1e-6, the median over seeds. `mnist` is softmax over 100 clients, 30 each:
megabytes to gaps of 1e-3 and 1e-6, of every method. FEDDCD_DATA names the folder of the data.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
import scipy.sparse

from feddcd.runs.build import load_data
from feddcd.runs.result import Result
from feddcd.runs.run import execute
from feddcd.runs.spec import Spec

CASES = {
    "phishing-iid": ("phishing", "iid", 1e-3, 50),
    "phishing-sorted": ("phishing", "sorted", 1e-3, 70),
    "a9a-iid": ("a9a", "iid", 1e-3, 50),
    "a9a-sorted": ("a9a", "sorted", 1e-3, 60),
    "a9a-sorted-5": ("a9a", "sorted", 1e-5, 90),
}
MNIST_ROUNDS = {"fedqn": 150, "pointsaga": 150, "feddcd": 150, "accfeddcd": 150, "scaffold": 150}
GAP = 1e-6


def least(spec: Spec) -> tuple[float, int]:
    """The least objective, by Newton's method on all rows, and the number of parameters."""
    data = load_data(spec)
    X = np.asarray(data.X.toarray() if scipy.sparse.issparse(data.X) else data.X)  # pyright: ignore
    y = (data.y == data.y.max()).astype(float)
    n, d = X.shape
    w = np.zeros(d)
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ w))
        H = X.T @ ((p * (1 - p))[:, None] * X) / n + spec.l2 * np.eye(d)
        w -= np.linalg.solve(H, X.T @ (p - y) / n + spec.l2 * w)
    z = X @ w
    return float(np.mean(np.logaddexp(0, z) - y * z) + spec.l2 / 2 * w @ w), d


def reached(result: Result, best: float, gap: float) -> tuple[float, float]:
    """Bytes and rounds to the gap; infinite where it was not reached."""
    there = np.flatnonzero(result.history["objective"] - best <= gap)
    if not len(there):
        return np.inf, np.inf
    return float(result.history["bytes_up"][there[0]]), float(there[0] + 1)


def logistic(case: str, seeds: int, bits: int) -> None:
    data, partition, l2, rounds = CASES[case]
    spec = Spec(
        data=data, partition=partition, l2=l2, rounds=rounds, certify_every=rounds, clients=50,
        tau=15, model="logistic", weighting="samples", algorithm="fedqn", settings={"bits": bits},
    )  # fmt: skip
    (best, d), began = least(spec), time.perf_counter()
    found = [reached(execute(replace(spec, seed=seed)), best, GAP) for seed in range(seeds)]
    sizes, counts = (np.array(column) for column in zip(*found, strict=True))
    sizes = sizes / 8 / d
    print(
        f"{case:16} {np.median(sizes):7.1f} uploads of d doubles ({sizes.min():.1f} to "
        f"{sizes.max():.1f}), {np.median(counts):.0f} rounds, {bits} bits, "
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )


def mnist(bits: int) -> None:
    """The best objective of all runs stands for the optimum, less the best certified gap."""
    runs = {}
    for name, rounds in MNIST_ROUNDS.items():
        spec = Spec(
            data="mnist", partition="contiguous", l2=1e-2, rounds=rounds, certify_every=rounds,
            clients=100, tau=30, model="softmax", algorithm=name,
            settings={"bits": bits} if name == "fedqn" else {},
        )  # fmt: skip
        runs[name] = execute(spec)
    best = min(float(np.nanmin(run.history["objective"])) for run in runs.values())
    for name, run in runs.items():
        sizes = [reached(run, best, gap) for gap in (1e-3, GAP)]
        told = ", ".join(f"{size / 1e6:.2f} MB in {count:.0f} rounds" for size, count in sizes)
        print(f"mnist {name:10} to 1e-3 and 1e-6: {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}, mnist; without, all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--bits", type=int, default=8)
    given = parser.parse_args()
    for case in given.cases or [*CASES, "mnist"]:
        if case == "mnist":
            mnist(given.bits)
        else:
            logistic(case, given.seeds, given.bits)


if __name__ == "__main__":
    main()
