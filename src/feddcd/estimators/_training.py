"""Rounds of an algorithm until the gap is proven to be small."""

import time
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..history import COLUMNS, History
from ..simulator.simulate import Record, advance, start
from ._gap import Proof, prove
from ._plan import Plan, federated, messages
from ._rows import Rows, for_duals, for_newton

VISITS = 4  # a dual method is certified when every client was asked this often, on average
SCALARS = 3  # of the certificate beside vectors and matrices: objective, size, change


class Course(NamedTuple):
    w: np.ndarray  # d by k
    b: np.ndarray
    gap: float
    history: History


def train(rows: Rows, plan: Plan) -> Course:
    """From the best constant model to one whose gap is at most tol, or the last round's."""
    with jax.enable_x64(True):
        return _Run(rows, plan).to_the_end()


class _Run:
    """The host's side of a fit."""

    def __init__(self, rows: Rows, plan: Plan):
        self.rows, self.plan, self.N = rows, plan, len(rows.parts)
        b, curvature = np.zeros(rows.shape[1]), 1.0
        if rows.intercept:
            b, curvature = rows.link.constant_model(rows.s @ rows.Y)
        self.stacked = for_newton(rows) if plan.newton else for_duals(rows, curvature)
        w = jax.device_put(self.stacked.inside(np.zeros((len(self.stacked.center), len(b))), b))
        self.fed = federated(self.stacked, plan, w, self.N)
        self.state = start(self.fed, w)
        self._center(np.asarray(w))
        self.every = 1 if plan.newton else VISITS * -(-self.N // plan.tau)
        self.history = History.empty()

    def to_the_end(self) -> Course:
        w, b, gap, limit = np.zeros(0), np.zeros(0), np.inf, self.plan.max_rounds
        while gap > self.plan.tol and self.history.rounds < limit:
            began, rounds = time.perf_counter(), min(self.every, limit - self.history.rounds)
            count = jax.device_put(np.int32(rounds))
            self.state, trace, sound = advance(self.fed, self.state, count, self.every)
            if not bool(sound):
                raise ArithmeticError(
                    f"{self.plan.algorithm}: the objective is not finite after round "
                    f"{int(self.state.t)}"
                )
            w, b = self.stacked.outside(np.asarray(self.fed.algorithm.model(self.state.server)))
            proof = prove(self.rows, w, b, refine=not self.plan.newton)
            b, gap = proof.b, proof.gap
            self._record(trace, proof, rounds, time.perf_counter() - began)
            self._center(self.stacked.inside(w, b))
        return Course(w, b, gap, self.history)

    def _center(self, w: np.ndarray) -> None:
        """Dual methods penalise the intercept, too: its distance from that of w, so that it is
        free to go where it will, one certificate after the other."""
        if self.plan.newton or not self.rows.intercept:
            return
        q = np.zeros((self.N, *self.rows.shape))
        q[:, -1] = self.rows.l2 * w[-1]
        self.fed = eqx.tree_at(lambda fed: fed.problem.q, self.fed, jax.device_put(q))

    def _record(self, trace: Record, proof: Proof, n: int, seconds: float) -> None:
        asked, arrived, steps, _, objective, score, residual = (
            np.array(column, float)[:n] for column in trace
        )
        before = self.history.rounds
        last = lambda name: float(self.history[name][-1]) if before else 0.0
        sizes = messages(self.plan.algorithm, *self.rows.shape)
        uploads, bytes_up = self._certificate(proof.steps, first=before == 0)
        bound, gap = np.full(n, np.nan), np.full(n, np.nan)
        objective[-1], bound[-1], gap[-1] = proof.objective, proof.objective - proof.gap, proof.gap
        rounds, end = before + 1 + np.arange(n), np.arange(n) == n - 1
        values = (
            rounds,
            -(-rounds // self.fed.algorithm.rounds_per_iteration),
            last("uploads") + np.cumsum(arrived + self.N * uploads * end),
            last("bytes_up") + np.cumsum(arrived * sizes.up + self.N * bytes_up * end),
            last("bytes_down") + np.cumsum(asked * sizes.down),
            objective, bound, gap, np.minimum(score, 1.0), residual,
            last("solver_steps") + np.cumsum(steps),
            last("seconds") + seconds * (1 + np.arange(n)) / n,
        )  # fmt: skip
        more = History(dict(zip(COLUMNS, values, strict=True)))
        self.history = self.history.plus(more)

    def _certificate(self, steps: int, *, first: bool) -> tuple[int, int]:
        """Each client's uploads and bytes beside the rounds: an exchange, and one per step of the
        intercept; none if all take part in Newton's method, whose uploads then say it, but for
        a few numbers. Before the first round: sums of weights, targets, features and squares."""
        (d, k), features = self.rows.shape, len(self.stacked.center)
        numbers = 1 + 2 * (k + features) if first else 0
        if self.plan.newton and self.plan.tau == self.N:
            return int(first), 8 * (numbers + SCALARS)
        matrix = k + k * (k + 1) // 2
        return int(first) + 1 + steps, 8 * (numbers + d * k + SCALARS + (1 + steps) * matrix)
