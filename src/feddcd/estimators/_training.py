"""Which method trains, with whom and what its messages weigh; then its rounds, until the gap is
proven to be small."""

import time
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._errors import SpecError
from .._types import Params
from ..algorithms import AbstractAlgorithm, AccFedDCD, FedDCD, FedNewton, PointSAGA
from ..algorithms.fednewton import MAX_PARAMETERS
from ..history import COLUMNS, History
from ..measure import Measure
from ..participation import Everyone, UniformSubset
from ..problems import FAMILIES, Dense, Linear
from ..runs.sizes import message_sizes
from ..simulator.simulate import Federation, Record, advance, federation, start
from ._gap import GapProof, prove
from ._rows import EstimatorRows, Stacked, for_duals, for_newton

ALGORITHMS = ("auto", "fednewton", "pointsaga", "feddcd", "accfeddcd")
NEWTON_UP_TO = 256  # parameters for which "auto" is fednewton
VISITS = 4  # a dual method is certified when every client was asked this often, on average
SCALARS = 3  # of the certificate beside vectors and matrices: objective, size, change


class Schedule(NamedTuple):
    algorithm: str
    tau: int
    tol: float
    max_rounds: int
    seed: int

    @property
    def newton(self) -> bool:
        return self.algorithm == "fednewton"


def make_schedule(rows: EstimatorRows, algorithm: str, tau: int | None, **rest) -> Schedule:
    """Newton's method with everyone where its matrices are small, Point-SAGA otherwise."""
    N, p = len(rows.parts), int(np.prod(rows.shape))
    name = ("fednewton" if p <= NEWTON_UP_TO else "pointsaga") if algorithm == "auto" else algorithm
    if name == "fednewton" and p > MAX_PARAMETERS:
        raise SpecError(
            f"'fednewton' works with at most {MAX_PARAMETERS} parameters, but this model has {p}. "
            f"The reason: 'fednewton' keeps a {p} x {p} matrix for each client. Use "
            "algorithm='pointsaga'"
        )
    usual = N if name == "fednewton" else max(2, -(-N // 4))
    return Schedule(name, usual if tau is None else tau, **rest)


def _build(stacked: Stacked, schedule: Schedule, w: Params, N: int) -> Federation:
    """What the engine runs; the objective it records has a free intercept."""
    who = Everyone(N) if schedule.tau == N else UniformSubset(N, schedule.tau)
    fed = federation(
        _algorithm(schedule.algorithm, w, schedule.tau, N), stacked.problem, who, seed=schedule.seed
    )
    return eqx.tree_at(lambda fed: fed.measure, fed, Measure(stacked.truth))


class Messages(NamedTuple):
    """Bytes for one client in one round."""

    up: int
    down: int


@cache
def messages(algorithm: str, d: int, k: int) -> Messages:
    """Of a model of d by k parameters, whatever padding the simulator adds."""
    N, ones = 2, lambda *shape: jax.device_put(np.ones(shape))
    w, one = ones(d, k), ones(N)
    f = Linear(
        X=Dense(ones(N, 1, d)), Y=ones(N, 1, k), s=ones(N, 1), family=FAMILIES["ridge"],
        mu=one, rows=jax.device_put(np.ones(N, int)), loss_alpha=one, loss_beta=one,
    )  # fmt: skip
    made = _algorithm(algorithm, w, 2, N)
    fed = Federation(made, f, Everyone(N), Measure(f), one, jax.random.key(0), True)
    sizes = message_sizes(fed, w)
    return Messages(sizes.up, sizes.down + sizes.answer)


def _algorithm(name: str, w: Params, tau: int, N: int) -> AbstractAlgorithm:
    makers = {
        "fednewton": lambda: FedNewton(w),
        "pointsaga": lambda: PointSAGA(tau, N),
        "feddcd": lambda: FedDCD(),
        "accfeddcd": lambda: AccFedDCD(tau, N),
    }
    return makers[name]()


class TrainingPath(NamedTuple):
    w: np.ndarray  # d by k
    b: np.ndarray
    gap: float
    history: History


def train(rows: EstimatorRows, schedule: Schedule) -> TrainingPath:
    """From the best constant model to one with a gap of at most tol, or the last round's."""
    with jax.enable_x64(True):
        return _Training(rows, schedule).run()


class _Training:
    """The host's side of a fit."""

    def __init__(self, rows: EstimatorRows, schedule: Schedule):
        self.rows, self.schedule, self.N = rows, schedule, len(rows.parts)
        b, curvature = np.zeros(rows.shape[1]), 1.0
        if rows.intercept:
            b, curvature = rows.link.constant_model(rows.s @ rows.Y)
        self.stacked = for_newton(rows) if schedule.newton else for_duals(rows, curvature)
        w = jax.device_put(self.stacked.inside(np.zeros((len(self.stacked.center), len(b))), b))
        self.fed = _build(self.stacked, schedule, w, self.N)
        self.state = start(self.fed, w)
        self._center(np.asarray(w))
        self.every = 1 if schedule.newton else VISITS * -(-self.N // schedule.tau)
        self.history = History.empty()

    def run(self) -> TrainingPath:
        w, b, gap, limit = np.zeros(0), np.zeros(0), np.inf, self.schedule.max_rounds
        while gap > self.schedule.tol and self.history.rounds < limit:
            began, rounds = time.perf_counter(), min(self.every, limit - self.history.rounds)
            count = jax.device_put(np.int32(rounds))
            self.state, trace, sound = advance(self.fed, self.state, count, self.every)
            if not bool(sound):
                raise ArithmeticError(
                    f"{self.schedule.algorithm}: the objective is not finite after round "
                    f"{int(self.state.t)}"
                )
            w, b = self.stacked.outside(np.asarray(self.fed.algorithm.model(self.state.server)))
            proof = prove(self.rows, w, b, refine=not self.schedule.newton)
            b, gap = proof.b, proof.gap
            self._record(trace, proof, rounds, time.perf_counter() - began)
            self._center(self.stacked.inside(w, b))
        return TrainingPath(w, b, gap, self.history)

    def _center(self, w: np.ndarray) -> None:
        """Dual methods penalise the intercept, too: its distance from that of w, so that it is
        free to go where it will, one certificate after the other."""
        if self.schedule.newton or not self.rows.intercept:
            return
        q = np.zeros((self.N, *self.rows.shape))
        q[:, -1] = self.rows.l2 * w[-1]
        self.fed = eqx.tree_at(lambda fed: fed.problem.q, self.fed, jax.device_put(q))

    def _record(self, trace: Record, proof: GapProof, n: int, seconds: float) -> None:
        taken = (trace.asked, trace.arrived, trace.steps, trace.objective, trace.score)
        asked, arrived, steps, objective, score, residual = (
            np.array(column, float)[:n] for column in (*taken, trace.dual_residual)
        )
        before = self.history.rounds
        last = lambda name: float(self.history[name][-1]) if before else 0.0
        sizes = messages(self.schedule.algorithm, *self.rows.shape)
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
        intercept; none if all take part in Newton's method: its uploads then say it, but for
        a few numbers. Before the first round: sums of weights, targets, features and squares."""
        (d, k), features = self.rows.shape, len(self.stacked.center)
        numbers = 1 + 2 * (k + features) if first else 0
        if self.schedule.newton and self.schedule.tau == self.N:
            return int(first), 8 * (numbers + SCALARS)
        matrix = k + k * (k + 1) // 2
        return int(first) + 1 + steps, 8 * (numbers + d * k + SCALARS + (1 + steps) * matrix)
