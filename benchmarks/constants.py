"""How good are the constants that Point-SAGA and AccFedDCD choose by themselves?

    python benchmarks/constants.py [--out FILE] [--advice] [NAME ...]

Uploads to a true gap of 1e-6 with the default rho and kappa, over those with the best constant of a
grid (quarters of a decade from 3e-5 to 10), on eight problems, each sorted by its targets,
by Dirichlet's draw and at random. On a CPU the grid is walked from the default's last value, in
both directions, until two values in a row are not better than the best so far. A grid that FILE has
is not walked again; the default is always run.

With --advice it shows instead what runs of AccFedDCD to a certified gap of 1e-6 say of their kappa.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from sklearn import datasets

import feddcd
from feddcd.algorithms import AbstractAlgorithm, AccFedDCD, PointSAGA
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.data.partition import partition
from feddcd.participation import UniformSubset
from feddcd.problems import Clients
from feddcd.simulator.simulate import Federation, State, federation, one_round, start
from feddcd.solvers import NewtonCG, Tolerance

GAP, CHUNK, MOST, WORSE, PATIENCE = 1e-6, 50, 6_000, 3.0, 2
SPLITS = ("sorted", "dirichlet", "iid")
SOLVER = NewtonCG(stop=Tolerance(1e-9))


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    model: str
    clients: int
    tau: int
    l2: float


def scaled(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)


def known(name: str, rows: int, *shape) -> Rows:
    data = feddcd.load(name)
    X: Any = data.X
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    dense = X[chosen].toarray() if hasattr(X, "toarray") else X[chosen]
    return Rows(dense, np.asarray(data.y)[chosen], "softmax", *shape)


def bundled(load: Callable, model: str, *shape) -> Rows:
    X, y = load(return_X_y=True)
    return Rows(scaled(X), scaled(y) if model == "ridge" else y, model, *shape)


def unlike_22() -> Rows:
    """22 features, ten of them yes or no, and one row in seven of the rarer class."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 22)) * np.exp(rng.normal(0, 0.7, 22))
    X[:, :10] = X[:, :10] > 0.8
    z = X @ rng.normal(0, 3, 22) - 4
    return Rows(X, (rng.random(len(X)) < 1 / (1 + np.exp(-z))) * 1, "softmax", 50, 15, 1e-3)


def stretched() -> Rows:
    rng = np.random.default_rng(1)
    X = rng.normal(0, 1, (1500, 20)) * np.logspace(0, -1.5, 20)
    z = X @ rng.normal(0, 3, 20)
    return Rows(X, (rng.random(len(X)) < 1 / (1 + np.exp(-z))) * 1, "softmax", 30, 6, 1e-3)


def counts() -> Rows:
    rng = np.random.default_rng(2)
    X = np.c_[rng.normal(0, 0.4, (1000, 8)), np.ones(1000)]
    rate = np.exp(X @ np.append(rng.normal(0, 0.6, 8), 0.5))
    return Rows(X, rng.poisson(rate) * 1.0, "poisson", 20, 5, 1e-2)


def squares() -> Rows:
    rng = np.random.default_rng(3)
    X = rng.normal(0, 1, (800, 12)) * np.logspace(0.5, -1, 12)
    y = X @ rng.normal(0, 1, 12) + rng.normal(0, 0.5, 800)
    return Rows(X, y, "ridge", 40, 8, 1e-3)


CASES: dict[str, Callable[[], Rows]] = {
    "breast-cancer": lambda: bundled(datasets.load_breast_cancer, "softmax", 20, 6, 1e-2),
    "wine": lambda: bundled(datasets.load_wine, "softmax", 12, 4, 1e-2),
    "diabetes": lambda: bundled(datasets.load_diabetes, "ridge", 15, 5, 1e-2),
    "22 features": unlike_22,
    "stretched": stretched,
    "counts": counts,
    "squares": squares,
    "phishing": lambda: known("phishing", 2000, 30, 9, 1e-3),
    "a9a": lambda: known("a9a", 1500, 20, 6, 1e-3),
    "digits": lambda: bundled(datasets.load_digits, "softmax", 20, 6, 1e-2),
}


class Case(NamedTuple):
    problem: Clients
    w: Any
    shape: Rows
    optimum: float


def shared_out(rows: Rows, split: str) -> list[np.ndarray]:
    if split == "sorted":
        return np.array_split(np.argsort(rows.y, kind="stable"), rows.clients)
    label = rows.y
    if rows.model != "softmax":
        label = np.digitize(rows.y, np.quantile(rows.y, (0.2, 0.4, 0.6, 0.8)))
    scheme = "dirichlet:0.3" if split == "dirichlet" else split
    return partition(label, scheme, rows.clients, seed=1)


def case(rows: Rows, split: str) -> Case:
    data = Dataset("made", rows.X, rows.y)
    made = federate(
        data, shared_out(rows, split), model=rows.model, l2=rows.l2, weighting="samples"
    )
    return Case(made.problem, made.w, rows, least(made.problem, made.w))


def least(problem, w) -> float:
    """The smallest mean of the f_i, by Newton's method with halved steps."""
    flat, restore = ravel_pytree(w)
    F = eqx.filter_jit(lambda f, x: jnp.mean(jax.vmap(lambda f: f(restore(x)))(f)))
    look = eqx.filter_jit(lambda f, x: (jax.grad(F, 1)(f, x), jax.hessian(F, 1)(f, x)))
    for _ in range(60):
        g, H = look(problem, flat)
        step, t = -jnp.linalg.solve(H + 1e-12 * jnp.eye(len(g)), g), 1.0
        if float(jnp.linalg.norm(g)) < 1e-11:
            break
        while t > 1e-6 and F(problem, flat + t * step) > F(problem, flat) + 1e-4 * t * (g @ step):
            t /= 2
        flat = flat + t * step
    return float(F(problem, flat))


@eqx.filter_jit
def go_on(fed: Federation, where: Callable | None, values: jax.Array | None, states: Any):
    """A chunk of rounds for each value of the constant, side by side."""

    def one(value, state):
        own = fed if where is None else eqx.tree_at(where, fed, value)
        state, record = jax.lax.scan(lambda s, _: one_round(own, s), state, None, CHUNK)
        return state, record.objective

    return jax.vmap(one)(values, states)


def uploads(
    fed: Federation, made: Case, most: float, where: Callable | None = None, values: Any = None
) -> tuple[float, int]:
    """Uploads until one of the values reaches the gap (inf: more than `most`), and which."""
    found, which, _ = until(fed, made, most, where, values)
    return found, which


def until(
    fed: Federation, made: Case, most: float, where: Callable | None = None, values: Any = None
) -> tuple[float, int, State]:
    """The same, and the states at the end."""
    size = 1 if values is None else len(values)
    begin = lambda value: start(fed if where is None else eqx.tree_at(where, fed, value), made.w)
    states = jax.vmap(begin, axis_size=size)(values)
    tau, done = made.shape.tau, 0
    while done < MOST and done * tau < most:
        states, objective = go_on(fed, where, values, states)
        reached = np.asarray(objective) - made.optimum <= GAP
        if reached.any():
            rounds = np.where(reached.any(1), reached.argmax(1), CHUNK)
            return float((done + rounds.min() + 1) * tau), int(rounds.argmin()), states
        done += CHUNK
    return math.inf, 0, states


def best_of_grid(fed: Federation, made: Case, where: Callable, near: float) -> tuple[float, float]:
    """The fewest uploads, and with which value. A run ends as soon as it cannot win."""
    grid = np.array([10 ** (k / 4) for k in range(-18, 5)])
    if jax.default_backend() != "cpu":
        found, which = uploads(fed, made, math.inf, where, jnp.asarray(grid))
        return found, float(grid[which])
    best, at, worse = math.inf, math.nan, {True: 0, False: 0}
    for value in grid[np.argsort(abs(np.log(grid / near)))]:
        if best < math.inf and worse[value > near] == PATIENCE:
            continue
        found, _ = uploads(fed, made, best, where, jnp.asarray([value]))
        worse[value > near] = 0 if found < best else worse[value > near] + 1
        if found < best:
            best, at = found, float(value)
    return best, at


class Contest(NamedTuple):
    name: str
    constant: str
    default: AbstractAlgorithm
    given: AbstractAlgorithm

    def where(self, fed: Federation):
        return getattr(fed.algorithm, self.constant)


def contests(tau: int, N: int) -> Iterator[Contest]:
    saga = PointSAGA(tau, N, SOLVER), PointSAGA(tau, N, SOLVER, rho=1.0)
    yield Contest("Point-SAGA", "rho", *saga)
    accelerated = AccFedDCD(tau, N, SOLVER), AccFedDCD(tau, N, SOLVER, kappa=1.0)
    yield Contest("AccFedDCD", "kappa", *accelerated)


def compared(made: Case, contest: Contest, before: dict | None) -> dict:
    """As a row of the file, with the grid's part from `before` if it is there."""
    who = UniformSubset(made.shape.clients, made.shape.tau)
    fed = federation(contest.default, made.problem, who, seed=0)
    most = math.inf if before is None else WORSE * before["best"]
    default, last = with_default(fed, made, most, contest.constant)
    if before is None:
        given = federation(contest.given, made.problem, who, seed=0)
        best, at = best_of_grid(given, made, contest.where, last)
        before = {"best": best, "at": at}
    return before | {"default": default, "last": last}


def with_default(fed: Federation, made: Case, most: float, constant: str) -> tuple[float, float]:
    """Uploads of the default, and the last constant that it chose."""
    found, _, states = until(fed, made, most)
    server = jax.tree.map(lambda x: x[0], states.server)
    return found, float(fed.algorithm.chosen(server)[constant])


def advice(rows: Rows, split: str) -> str:
    result = feddcd.run(
        (rows.X, rows.y), parts=shared_out(rows, split), model=rows.model, l2=rows.l2,
        tau=rows.tau, weighting="samples", algorithm="accfeddcd", rounds=MOST, target_gap=GAP,
    )  # fmt: skip
    found = result.summary
    return f"{found['rounds']:,} rounds to {found['certified_gap']:.1e}: {found.get('advice', '')}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--advice", action="store_true")
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("constants.jsonl"))
    asked = parser.parse_args()
    if asked.advice:
        for name in asked.names or CASES:
            for split in SPLITS:
                print(f"{name}, {split}: {advice(CASES[name](), split)}", flush=True)
        return
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    known = {(row["problem"], row["split"], row["method"]): row for row in map(json.loads, lines)}
    print("| data | split | method | best of the grid | default |")
    print("|---|---|---|---:|---:|")
    for name in asked.names or CASES:
        rows = CASES[name]()
        for split in SPLITS:
            made = case(rows, split)
            for contest in contests(rows.tau, rows.clients):
                key = (name, split, contest.name)
                row = dict(zip(("problem", "split", "method"), key, strict=True))
                row |= compared(made, contest, known.get(key))
                with open(asked.out, "a") as file:
                    file.write(json.dumps(row) + "\n")
                print(shown(row), flush=True)


def shown(row: dict) -> str:
    ratio = row["default"] / row["best"]
    said = f"{ratio:.2f}" if ratio < math.inf else f"> {WORSE:g}"
    best = f"{row['best']:,.0f} ({row['at']:.2g})"
    return f"| {row['problem']} | {row['split']} | {row['method']} | {best} | {said} |"


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
