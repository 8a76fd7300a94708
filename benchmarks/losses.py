"""Why FedQN loses: rounds to a gap of 1e-6, beside the better method and with a metric that nobody
has to learn.

    python benchmarks/losses.py [NAME ...]

For each case of docs/race.md: rounds, visits of a client, models sent and those of the start, the
share of the rounds with a guard above 1. "exact metric" is FedQN's rule in doubles where M is the
Hessian at the optimum from the first round on: what is left then is not the metric's fault.
"""

import sys
from typing import Any, NamedTuple

import jax
import numpy as np
from fedqn_problems import Problem

from feddcd.race._play import Track
from feddcd.race.cells import RaceCell
from feddcd.race.problems import PROBLEMS
from feddcd.runs.sizes import message_sizes
from feddcd.simulator.simulate import start
from feddcd.simulator.threads import compiled

GAP, MOST, SEEDS = 1e-6, 1500, (1, 2, 3)
CASES = {  # share, bits, the better method, and whether the Hessian is small enough
    "rcv1-iid-3": (0.1, 8, "feddyn", False),
    "rcv1-iid-3 all": (1.0, 8, "feddcd", False),
    "a9a-iid-3 all": (1.0, 8, "giant", True),
    "synthetic-heterogeneous-4": (0.1, 8, "pointsaga", True),
    "synthetic-heterogeneous-4 all": (1.0, 8, "fedlbfgs", True),
    "randhie-3": (0.3, 8, "pointsaga", True),
    "wine-iid-2": (0.3, 8, "pointsaga", True),
}


class Told(NamedTuple):
    rounds: int
    visits: float
    models: float
    start: float  # what the first three rounds took more than the last of the run
    guarded: float


def played(track: Track, method: str, share: float, bits: int, seed: int) -> Told:
    built = track.built(RaceCell(track.problem, share, method, bits, (), seed))
    fed, w = built.federation, built.federated.w
    model = 8 * sum(x.size for x in jax.tree.leaves(w))
    sizes, state = message_sizes(fed, w), start(fed, w)
    advance = compiled(fed, state, 1)
    sent, arrived, guards = [], 0.0, []
    while len(sent) < MOST:
        state, trace, _ = advance(fed, state, 1)
        arrived += float(trace.arrived[0])
        sent.append(float(trace.arrived[0]) * sizes.up + float(np.asarray(trace.extra)[0]))
        guards.append(float(fed.algorithm.chosen(state.server).get("guard", 1.0)))
        if float(trace.objective[0]) - track.optimum <= GAP:
            break
    more = sum(max(0.0, each - sent[-1]) for each in sent[:3])
    guarded = float(np.mean(np.array(guards) > 1.01))
    return Told(len(sent), arrived / track.N, sum(sent) / model, more / model, guarded)


def pooled(track: Track) -> Problem:
    X, y, kind, K = np.asarray(track.data.X, float), track.data.y, track.problem.model, 1
    if kind in ("softmax", "logistic"):
        y = np.unique(y, return_inverse=True)[1]
        K = int(y.max()) + 1 if kind == "softmax" else 1
    return Problem([(X[part], y[part]) for part in track.parts], track.problem.l2, kind, K)


def optimum(problem: Problem) -> tuple[np.ndarray, float]:
    """The Hessian there, and the objective."""
    pool, w, M = problem.pool, np.zeros(problem.d), np.eye(problem.d)
    for _ in range(100):
        g = pool.loss(0, w)[1] / problem.n + problem.l2 * w
        M = pool.hessian(0, w) / problem.n + problem.l2 * np.eye(problem.d)
        step, t = np.linalg.solve(M, g), 1.0
        while problem.value(w - t * step) > problem.value(w) and t > 1e-8:
            t /= 2
        w = w - t * step
    return M, problem.value(w)


def exact(problem: Problem, M: np.ndarray, best: float, tau: int, seed: int) -> int:
    rng, p = np.random.default_rng(seed), problem.rows / problem.n
    w, g = np.zeros((2, problem.N, problem.d))
    seen, x, c = np.zeros(problem.N, bool), np.zeros(problem.d), 1.0
    for k in range(1, MOST + 1):
        bent = guess = 0.0
        for i in rng.choice(problem.N, tau, replace=False):
            v, new = x - w[i], problem.loss(i, x)[1] / problem.rows[i]
            if seen[i]:
                bent += p[i] * ((new - g[i]) @ v + problem.l2 * v @ v) / 2
                guess += p[i] * v @ M @ v / 2
            w[i], g[i], seen[i] = x, new, True
        if guess > 0:
            c = bent / guess if bent > 2 * guess else max(1.0, min(0.7 * c, np.sqrt(10 * c)))
        part = p[seen].sum()
        middle, slope = p[seen] @ w[seen] / part, p[seen] @ g[seen] / part
        step = np.linalg.solve(M, slope + problem.l2 * middle) / c
        x = middle - step * part / (part + 0.3 * (1 - part))
        if problem.value(x) - best <= GAP:
            return k
    return MOST


def main() -> None:
    known: dict[str, Any] = {problem.name: problem for problem in PROBLEMS}
    for name in sys.argv[1:] or CASES:
        share, bits, other, small = CASES[name]
        track = Track(known[name.split()[0]])
        tau = track.tau(share)
        print(f"{name}: {tau} of {track.N} clients, {bits} bits", flush=True)
        for method in ("fedqn", other):
            runs = [played(track, method, share, bits, seed) for seed in SEEDS]
            told = Told(*np.median(runs, axis=0))
            print(
                f"  {method:10s} {told.rounds:.0f} rounds, {told.visits:.1f} visits, "
                f"{told.models:.1f} models, {told.start:.1f} of the start, "
                f"guard in {told.guarded:.0%} of the rounds",
                flush=True,
            )
        if small:
            problem = pooled(track)
            M, best = optimum(problem)
            rounds = [exact(problem, M, best, tau, seed) for seed in SEEDS]
            print(f"  exact metric {np.median(rounds):.0f} rounds", flush=True)


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
