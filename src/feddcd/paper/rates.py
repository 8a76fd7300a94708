"""The theorems put to the test: contraction on random quadratics, and the worst-case chain.

`errors` follows what `theory` bounds; `chain_gaps` is a method on the problem behind the lower
bound. Both take seconds, mostly to compile.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._types import Key, Params, Scalar
from ..algorithms import AbstractAlgorithm, AccFedDCD, FedAvg, FedDCD, PointSAGA, Scaffold
from ..participation import AbstractParticipation, Cohort, UniformSubset
from ..problems import Quadratic, optimum, random_quadratics, worst_case_chain
from ..simulator.simulate import State, federation, one_round, start
from ..solvers import AbstractLocalSolver, GradientDescent, LocalSolution
from . import theory

N, D, ALPHA, BETA, TAUS = 20, 10, 0.1, 3.0, (2, 5, 10, 20)
CHAIN_N, CHAIN_TAU, CHAIN_ALPHA, CHAIN_BETA, CHAIN_D = 10, 2, 1e-3, 1.0, 200
SEEDS = 32
FLOOR = 1e-9  # of the start; rounding shows below

Look = Callable[[Any, State], Scalar]


class Exact(AbstractLocalSolver):
    """`solve(f, h)` is (A + μ I)^-1 h; a step is one of them."""

    solve: Callable[[Any, Array], Array]

    def __call__(self, f: Any, w: Params, key: Key) -> LocalSolution:
        h = f.b if f.q is None else f.b + f.q
        return LocalSolution(self.solve(f, h), jnp.zeros_like(f.mu), jnp.ones((), jnp.int32))


class SomeOf(AbstractParticipation):
    """UniformSubset with τ an array, so that one program serves every τ."""

    certain: ClassVar[bool] = False
    N: int
    tau: Int[Array, ""]

    def __call__(self, key: Key) -> Cohort:
        there = jax.random.permutation(key, self.N) < self.tau
        return Cohort(jnp.arange(self.N), there, there)


class Chain(Quadratic):
    """`worst_case_chain` in O(d): every A_i has blocks of one and of two coordinates; kept of it
    are the diagonal and what couples a coordinate with the next one."""

    A: Float[Array, "*N 2 d"]

    def __init__(self, f: Quadratic):
        coupling = jnp.pad(jnp.diagonal(f.A, 1, axis1=1, axis2=2), ((0, 0), (0, 1)))
        self.A = jnp.stack([jnp.diagonal(f.A, axis1=1, axis2=2), coupling], 1)
        self.b, self.mu, self.q, self.rows = f.b, f.mu, f.q, f.rows
        self.loss_alpha, self.loss_beta = f.loss_alpha, f.loss_beta

    def loss(self, w: Float[Array, " d"]) -> Scalar:
        diagonal, coupling = self.A
        return jnp.sum(w * (diagonal * w / 2 + coupling * jnp.roll(w, -1)) - self.b * w)


def dense(f: Quadratic, h: Float[Array, " d"]) -> Float[Array, " d"]:
    return jnp.linalg.solve(f.A + f.mu * jnp.eye(len(h)), h)


def by_blocks(f: Chain, h: Float[Array, " d"]) -> Float[Array, " d"]:
    """Cramer's rule for a coordinate and the neighbour that it is coupled with, if any."""
    diagonal, coupling = f.A
    a, before = diagonal + f.mu, jnp.roll(coupling, 1)
    c = coupling + before
    partner = lambda x: jnp.where(before != 0, jnp.roll(x, 1), jnp.roll(x, -1))
    return (partner(a) * h - c * partner(h)) / (a * partner(a) - c**2)


class Contraction(NamedTuple):
    """Per round of the paper, of which AccFedDCD's have two cohorts."""

    method: str
    tau: int
    measured: float
    bound: float


class Curve(NamedTuple):
    """The mean of `chain_gaps` over seeds, and its standard error."""

    method: str
    mean: np.ndarray
    error: np.ndarray


def _dual_gap(f: Quadratic, y: Float[Array, "N d"]) -> Scalar:
    """G(y) - G* = sum_i e_i'A_i^-1 e_i/2, e = y - y*, since sum_i e_i = 0."""
    e = y + f.b - f.A @ optimum(f)
    return jnp.sum(e * jnp.linalg.solve(f.A, e[..., None])[..., 0]) / 2


def _caught_up_gap(fed: Any, state: State) -> Scalar:
    down = fed.algorithm.broadcast(state.server, fed.key)
    now = jax.vmap(fed.algorithm.caught_up, (0, None))(state.clients, down)
    return _dual_gap(fed.problem, now.y)


def _distance(fed: Any, state: State) -> Scalar:
    """|x - x*|² + (1/(α β)) mean_i |g_i - ∇f_i(x*)|²."""
    f, x = fed.problem, optimum(fed.problem)
    e = state.clients.g + f.b - f.A @ x
    return jnp.sum((state.server.x - x) ** 2) + jnp.mean(jnp.sum(e**2, 1)) / (ALPHA * BETA)


class Contestant(NamedTuple):
    make: Callable[[Any, Array], AbstractAlgorithm]  # of tau and rho
    error: Look
    rate: Callable[[int, int, float, float], theory.Rate]
    rounds: int
    cohorts: int = 1


_exact = Exact(dense)
_gap = lambda fed, state: _dual_gap(fed.problem, state.clients.y)
METHODS = {
    "FedDCD": Contestant(lambda tau, rho: FedDCD(_exact), _gap, theory.feddcd, 600),
    "AccFedDCD": Contestant(
        lambda tau, rho: AccFedDCD(tau, N, _exact, kappa=ALPHA / BETA),
        _caught_up_gap, theory.accfeddcd, 800, 2,
    ),
    "Point-SAGA": Contestant(
        lambda tau, rho: eqx.tree_at(lambda m: m.rho, PointSAGA(2, N, _exact, rho=1.0), rho),
        _distance, theory.pointsaga, 300,
    ),
}  # fmt: skip


def errors(name: str) -> Float[np.ndarray, "taus seeds rounds"]:
    """What the theorem bounds, on random quadratics, after 0, 1, 2, ... rounds of the paper."""
    method = METHODS[name]
    with jax.enable_x64(True):
        f = random_quadratics(N, D, alpha=ALPHA, beta=BETA)
        rho = jnp.array([theory.pointsaga_rho(N, tau, ALPHA, BETA) for tau in TAUS])

        def run(tau: Array, rho: Array) -> Array:
            who = SomeOf(N, tau)
            fed = federation(method.make(tau, rho), f, who, seed=0, side_by_side=True, share=False)
            return _paths(fed, method.error, method.rounds, SEEDS)

        paths = jax.jit(jax.vmap(run))(jnp.array(TAUS), rho)
        return np.asarray(paths)[..., :: method.cohorts]


def contractions(name: str) -> list[Contraction]:
    """E error_{t+1} / E error_t over the second half of the way down."""
    rows = []
    for tau, paths in zip(TAUS, errors(name), strict=True):
        mean = paths.mean(0)
        end = int(np.flatnonzero(mean > FLOOR * mean[0])[-1])
        measured = (mean[end] / mean[end // 2]) ** (1 / (end - end // 2))
        bound = METHODS[name].rate(N, tau, ALPHA, BETA).factor
        rows.append(Contraction(name, tau, float(measured), bound))
    return rows


class Run(NamedTuple):
    algorithm: AbstractAlgorithm
    exchanges: int  # about what it needs
    seeds: int


def _chain_runs() -> dict[str, Run]:
    n, tau, exact = CHAIN_N, CHAIN_TAU, Exact(by_blocks)
    rho = theory.pointsaga_rho(n, tau, CHAIN_ALPHA, CHAIN_BETA)
    return {
        "FedDCD": Run(FedDCD(exact), 14_000, 32),
        "AccFedDCD": Run(AccFedDCD(tau, n, exact, kappa=CHAIN_ALPHA / CHAIN_BETA), 3_000, 64),
        "Point-SAGA": Run(PointSAGA(tau, n, exact, rho=rho), 400, 256),
        "SCAFFOLD": Run(Scaffold(GradientDescent(steps=8)), 400, 256),
        "FedAvg": Run(FedAvg(GradientDescent(steps=2)), 1_000, 64),
    }


CHAIN_METHODS = tuple(_chain_runs())


def chain_gaps(name: str) -> Float[np.ndarray, "seeds exchanges"]:
    """(F(w) - F*)/(F(0) - F*)."""
    algorithm, exchanges, seeds = _chain_runs()[name]
    with jax.enable_x64(True):
        quadratic = worst_case_chain(CHAIN_N, CHAIN_D, alpha=CHAIN_ALPHA, beta=CHAIN_BETA)
        f, w = Chain(quadratic), optimum(quadratic)
        whole = jax.tree.map(lambda x: jnp.sum(x, 0), f)
        square = eqx.tree_at(lambda f: f.b, whole, jnp.zeros_like(whole.b))
        # F(w) - F* as a quadratic form, so that nothing cancels
        gap = lambda fed, state: square(fed.algorithm.model(state.server) - w)
        who = UniformSubset(CHAIN_N, CHAIN_TAU)
        fed = federation(algorithm, f, who, seed=0, side_by_side=True, share=False)
        paths = np.asarray(eqx.filter_jit(_paths)(fed, gap, exchanges, seeds))
    return paths / paths[0, 0]


def chain_curve(name: str) -> Curve:
    gaps = chain_gaps(name)
    return Curve(name, gaps.mean(0), gaps.std(0, ddof=1) / len(gaps) ** 0.5)


def _paths(fed: Any, look: Look, rounds: int, seeds: int) -> Float[Array, "seeds rounds"]:
    """look(fed, state) from w = 0."""

    def one(key: Key) -> Array:
        run = eqx.tree_at(lambda fed: fed.key, fed, key)
        first = start(run, jnp.zeros_like(fed.problem.b[0]))

        def step(state: State, _) -> tuple[State, Scalar]:
            state, _ = one_round(run, state)
            return state, look(run, state)

        _, seen = jax.lax.scan(step, first, length=rounds)
        return jnp.append(look(run, first), seen)

    return jax.vmap(one)(jax.vmap(jax.random.key)(jnp.arange(seeds)))
