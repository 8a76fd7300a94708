"""What many and unequal clients cost: ratios of one run, and seconds of set-up.

    python benchmarks/scale.py [sizes] [newton] [many] [wide] [cohort]

sizes   a round and the memory of clients whose sizes differ, over the same rows in equal parts
newton  a FedNewton round with 800 clients over one with 100
many    set-up, compiling and the first objective of 100,000 clients
wide    four methods on sparse data with d x K = 1.24 million: peak memory
cohort  100 of a million clients: a draw, beside a permutation of all
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
import scipy.sparse
from rounds import Nothing

import feddcd
from feddcd import load
from feddcd.algorithms import FedDCD, FedNewton
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.participation import UniformSubset
from feddcd.simulator.simulate import federation, start
from feddcd.simulator.threads import compiled

TURNS = 5
WIDE = ("fedavg", "feddcd", "pointsaga", "fedqn")


def main(names: list[str]) -> None:
    print(jax.devices()[0].device_kind)
    with jax.enable_x64(True):
        for name in names:
            print(f"\n{name}")
            globals()[name]()


def ready(made, algorithm, tau: int) -> tuple[Callable[[], None], dict[str, float]]:
    """A function that runs a round, and the seconds of set-up and compiling."""
    began = time.perf_counter()
    N = len(made.problem.mu)
    fed = federation(algorithm, made.problem, UniformSubset(N, tau), seed=0)
    fed = eqx.tree_at(lambda f: f.measure, fed, Nothing(), is_leaf=lambda x: x is fed.measure)
    state = [jax.block_until_ready(start(fed, made.w))]
    setup = time.perf_counter() - began
    advance = compiled(fed, state[0], 1)

    def once() -> None:
        state[0], _, _ = jax.block_until_ready(advance(fed, state[0], 1))

    once()
    compiling = time.perf_counter() - began - setup
    size = sum(x.nbytes for x in jax.tree.leaves(fed.problem) if eqx.is_array(x))
    return once, {"setup": setup, "compile": compiling, "MB": size / 1e6}


def turn_by_turn(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least seconds of `rounds` rounds of each: other work on the machine only adds."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(TURNS):
        for name, once in runs.items():
            began = time.perf_counter()
            for _ in range(rounds):
                once()
            best[name] = min(best[name], (time.perf_counter() - began) / rounds)
    return best


def skewed(kind: str, rows: int, N: int) -> np.ndarray:
    """Sizes that sum to `rows`: one client with 30 %, or a power law."""
    if kind == "one":
        parts = np.r_[0.3, np.full(N - 1, 0.7 / (N - 1))]
    else:
        parts = np.arange(1, N + 1) ** -1.0
    sizes = np.maximum(1, (rows * parts / parts.sum()).astype(int))
    sizes[0] += rows - sizes.sum()
    return sizes


def sizes() -> None:
    data = load("a9a")
    rows, order = len(data.y), np.random.default_rng(0).permutation(len(data.y))
    for kind, N, tau in (("one", 50, 15), ("power", 1000, 100), ("power", 10_000, 100)):
        cut = lambda sizes: np.split(order, np.cumsum(sizes)[:-1])
        equal = [len(part) for part in np.array_split(order, N)]
        uneven = skewed(kind, rows, N)
        cases = {"equal": cut(equal), "skewed": cut(uneven)}
        runs, known = {}, {}
        for name, parts in cases.items():
            made = federate(data, parts, model="logistic", l2=1e-3, weighting="samples")
            runs[name], known[name] = ready(made, FedDCD(), tau)
        # cohorts differ, so one round says little
        seconds = turn_by_turn(runs, 10)
        padded = N * uneven.max() * data.X.shape[1] * 8 / 1e6  # pyright: ignore
        for name in cases:
            k = known[name]
            print(
                f"  {kind:5s} N = {N:6d}  {name:6s} {1e3 * seconds[name]:8.1f} ms a round, "
                f"{k['MB']:7.1f} MB, set up {k['setup']:.1f} s, compile {k['compile']:.1f} s"
            )
        time_ratio = seconds["skewed"] / seconds["equal"]
        memory = known["skewed"]["MB"] / known["equal"]["MB"]
        print(f"    ratio {time_ratio:.2f} in time, {memory:.2f} in memory; padded {padded:.0f} MB")


def newton() -> None:
    runs, random = {}, np.random.default_rng(0)
    for N in (100, 800):
        X, y = random.normal(size=(20 * N, 60)), random.integers(0, 2, 20 * N).astype(float)
        parts = np.array_split(np.arange(20 * N), N)
        made = federate(Dataset("random", X, y), parts, model="logistic", l2=1e-2)
        runs[f"N = {N}"], _ = ready(made, FedNewton(made.w), 30)
    for name, seconds in turn_by_turn(runs, 5).items():
        print(f"  {name:8s} {1e3 * seconds:8.2f} ms a round")


def many() -> None:
    N, random = 100_000, np.random.default_rng(0)
    X, y = random.normal(size=(5 * N, 20)), random.integers(0, 2, 5 * N).astype(float)
    data, parts = Dataset("random", X, y), np.array_split(np.arange(5 * N), N)
    began, worked = time.perf_counter(), time.process_time()
    made = federate(data, parts, model="logistic", l2=1e-2)
    stacked = time.perf_counter()
    fed = federation(FedDCD(), made.problem, UniformSubset(N, 100), seed=0)
    state = jax.block_until_ready(start(fed, made.w))
    built = time.perf_counter()
    advance = compiled(fed, state, 1)
    compiling = time.perf_counter()
    _, record, _ = jax.block_until_ready(advance(fed, state, 1))
    end = time.perf_counter()
    print(
        f"  rows to clients {stacked - began:.1f} s, set up {built - stacked:.1f} s, compile "
        f"{compiling - built:.1f} s, a round with its objective {end - compiling:.1f} s: "
        f"{end - began:.1f} s in all, {time.process_time() - worked:.1f} s of the CPU "
        f"(objective {float(record.objective[0]):.6f})"
    )


def wide() -> None:
    """News20's size, with fewer rows; each method in a process of its own, for its peak memory."""
    for name in WIDE:
        code = f"import scale; scale.wide_run({name!r})"
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run([sys.executable, "-c", code], cwd=here, check=True)


def wide_run(algorithm: str) -> None:
    """3,000 rows, 62,061 columns, 80 entries a row, 20 classes; 3 rounds with 15 of 50 clients."""
    n, d, k, N = 3_000, 62_061, 20, 50
    random = np.random.default_rng(0)
    columns = np.minimum((d * random.random((n, 80)) ** 3).astype(int), d - 1)
    rows = np.repeat(np.arange(n), 80)
    X = scipy.sparse.coo_array((random.random(80 * n), (rows, columns.ravel())), (n, d)).tocsr()
    found = feddcd.run(
        data=(X, random.integers(0, k, n)), model="softmax", partition="iid", clients=N, tau=15,
        algorithm=algorithm, l2=1e-3, rounds=3, certify_every=3,
    )  # fmt: skip
    peak, end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, found.summary["objective"]
    print(f"  {algorithm:10s} objective {end:.4f}, peak memory {peak:.2f} GB", flush=True)


def cohort() -> None:
    N, tau = 10**6, 100
    ways = {
        "now": UniformSubset(N, tau),
        "permutation": lambda key: jax.random.choice(key, N, (tau,), replace=False),
    }
    keys = iter(jax.random.split(jax.random.key(0), 1000))
    runs = {name: jax.jit(way) for name, way in ways.items()}
    once = {n: (lambda f=f: jax.block_until_ready(f(next(keys)))) for n, f in runs.items()}
    for name, seconds in turn_by_turn(once, 3).items():  # pyright: ignore
        print(f"  {name:12s} {1e3 * seconds:8.2f} ms a draw")


if __name__ == "__main__":
    main(sys.argv[1:] or ["sizes", "newton", "many", "cohort", "wide"])
