"""The table: federations whose optimum is known, and every algorithm with what it should do."""

from collections.abc import Callable
from functools import cache
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from feddcd import tree
from feddcd.algorithms import (
    SDANE,
    AbstractAlgorithm,
    AccFedDCD,
    AccSDANE,
    FedADMM,
    FedAvg,
    FedDCD,
    FedDualAvg,
    FedDyn,
    FedLBFGS,
    FedNewton,
    FedNLPP,
    FedProx,
    FedQN,
    FiveGCS,
    Giant,
    Mime,
    MinibatchSGD,
    PointSAGA,
    Scaffnew,
    Scaffold,
    Tamuna,
    catalogue,
)
from feddcd.participation import AbstractParticipation, Cohort
from feddcd.problems import AbstractProblem, Quadratic, optimum, random_quadratics
from feddcd.simulator.simulate import Federation, Record, State, advance, federation, start
from feddcd.solvers import AbstractLocalSolver, GradientDescent, LocalSolution, NewtonCG, Tolerance

N, D, TAU = 8, 5, 5
ROOM = 500  # rounds in one call, so that every length of run is compiled once


class Direct(AbstractLocalSolver):
    """w - (A + μ)^-1 ∇f(w): exact for a quadratic, whatever w is, and quickly compiled."""

    def __call__(self, f, w, key) -> LocalSolution:
        H = f.A + f.mu * jnp.eye(len(w))
        w = w - jax.scipy.linalg.solve(H, jax.grad(f)(w), assume_a="pos")
        return LocalSolution(w, tree.norm(jax.grad(f)(w)), jnp.ones((), jnp.int32))


EXACT = NewtonCG(stop=Tolerance(1e-12))
DIRECT = Direct()
FEW_STEPS = GradientDescent(steps=3)
SHORT_STEPS = GradientDescent(lr=0.2, steps=3)  # SCAFFOLD's first option diverges with 1/β_i in 1-d


def _identical() -> Quadratic:
    one = random_quadratics(1, D, alpha=0.1, beta=1.0, seed=3)
    return Quadratic(jnp.tile(one.A, (N, 1, 1)), jnp.tile(one.b, (N, 1)))


_FEDERATIONS: dict[str, Callable[[], Quadratic]] = {
    "equal": lambda: random_quadratics(N, D, alpha=0.2, beta=1.0, seed=1),
    "unequal": lambda: random_quadratics(N, D, alpha=0.05, beta=1.5, spread=30.0, seed=2),
    "identical": _identical,
    "stiff": lambda: random_quadratics(N, D, alpha=0.01, beta=1.0, seed=4),
    "scalar": lambda: random_quadratics(N, 1, alpha=0.1, beta=3.0, spread=30.0, seed=5),
}
FEDERATIONS = tuple(_FEDERATIONS)


@cache
def quadratics(name: str) -> Quadratic:
    with jax.enable_x64(True):
        return _FEDERATIONS[name]()


@cache
def solution(name: str) -> np.ndarray:
    """w* = (sum A_i)^-1 sum b_i."""
    with jax.enable_x64(True):
        return np.asarray(optimum(quadratics(name)))


def cautious(f: AbstractProblem):
    """Another 1/λ_i than α_i; λ_i >= 1/α_i, as the rate needs."""
    return f.alpha / (1 + f.beta)


class Row(NamedTuple):
    """`make(N, tau, w0)`; `rounds` are enough for every federation if its method is exact."""

    make: Callable[[int, int, jax.Array], AbstractAlgorithm]
    rounds: int
    conserves: bool = False  # it has a dual residual


ALGORITHMS: dict[str, Row] = {
    "feddcd": Row(lambda N, tau, w: FedDCD(DIRECT), 4500, True),
    "feddcd-model": Row(lambda N, tau, w: FedDCD(DIRECT, start="model"), 4500, True),
    "feddcd-lambda": Row(lambda N, tau, w: FedDCD(DIRECT, weights=cautious), 8500, True),
    "accfeddcd": Row(lambda N, tau, w: AccFedDCD(tau, N, DIRECT), 2000, True),
    "accfeddcd-1": Row(lambda N, tau, w: AccFedDCD(tau, N, DIRECT, sets=1), 1000, True),
    "accfeddcd-model": Row(lambda N, tau, w: AccFedDCD(tau, N, DIRECT, start="model"), 2000, True),
    "pointsaga": Row(lambda N, tau, w: PointSAGA(tau, N, DIRECT), 500, True),
    "pointsaga-rho": Row(lambda N, tau, w: PointSAGA(tau, N, DIRECT, rho=0.5), 500, True),
    "fednewton": Row(lambda N, tau, w: FedNewton(w), 50),
    "fedqn": Row(lambda N, tau, w: FedQN(w), 150, True),
    "fedqn-64": Row(lambda N, tau, w: FedQN(w, bits=64), 150, True),
    "scaffold-1": Row(lambda N, tau, w: Scaffold(SHORT_STEPS, option=1), 500, True),
    "scaffold-2": Row(lambda N, tau, w: Scaffold(FEW_STEPS, option=2), 500, True),
    "fedavg": Row(lambda N, tau, w: FedAvg(FEW_STEPS), 200),
    "fedprox": Row(lambda N, tau, w: FedProx(FEW_STEPS, m=0.1), 200),
    "mbsgd": Row(lambda N, tau, w: MinibatchSGD(), 200),
}
# methods of others: tried by `test_field.py`, by fewer tests of the usual suite than ours
FIELD: dict[str, Row] = {
    "feddyn": Row(lambda N, tau, w: FedDyn(tau, N, DIRECT), 500, True),
    "fedadmm": Row(lambda N, tau, w: FedADMM(DIRECT), 1000, True),
    "fivegcs": Row(lambda N, tau, w: FiveGCS(tau, N, DIRECT), 1000, True),
    "tamuna": Row(lambda N, tau, w: Tamuna(tau=tau, N=N), 1000, True),
    "tamuna-part": Row(lambda N, tau, w: Tamuna(tau=tau, N=N, s=2), 3000, True),
    "scaffnew": Row(lambda N, tau, w: Scaffnew(), 500, True),
    "fednlpp": Row(lambda N, tau, w: FedNLPP(w), 100, True),
    "fednlpp-top": Row(lambda N, tau, w: FedNLPP(w, top=3 if w.size > 1 else 1), 100, True),
    "giant": Row(lambda N, tau, w: Giant(), 500),
    "fedlbfgs": Row(lambda N, tau, w: FedLBFGS(), 100),
    "sdane": Row(lambda N, tau, w: SDANE(DIRECT), 500),
    "accsdane": Row(lambda N, tau, w: AccSDANE(DIRECT), 500),
    "mime": Row(lambda N, tau, w: Mime(FEW_STEPS), 500),
    "feddualavg": Row(lambda N, tau, w: FedDualAvg(), 500),
}
ALL = ALGORITHMS | FIELD
# what they change is local, or numbers alone, or their bits
VARIANTS = (
    *("feddcd-model", "feddcd-lambda", "accfeddcd-model"),
    *("pointsaga-rho", "scaffold-1", "fedqn-64"),
)
EXACT_ALGORITHMS = tuple(
    name for name in ALGORITHMS if catalogue.ALGORITHMS[name.partition("-")[0]].exact
)


class Given(AbstractParticipation):
    """The same clients in every round, and whose uploads arrive."""

    certain: ClassVar[bool] = False
    arrived: jax.Array
    N: int = N
    tau: int = N

    def __call__(self, key) -> Cohort:
        return Cohort(jnp.arange(self.N), jnp.ones(self.N, bool), self.arrived)


class Drawn(AbstractParticipation):
    """Cohorts that were drawn before, one of them by the key: one program, whoever drew them."""

    certain: ClassVar[bool] = False
    asked: jax.Array
    arrived: jax.Array
    N: int = N
    tau: int = N

    def __call__(self, key) -> Cohort:
        row = jax.random.key_data(key)[-1] % len(self.asked)
        return Cohort(jnp.arange(self.N), self.asked[row], self.arrived[row])


def draw(who: AbstractParticipation) -> Drawn:
    """A thousand cohorts of `who`."""
    with jax.enable_x64(True):
        return Drawn(*_drawn(who))


@cache
@eqx.filter_jit
def _drawn(who: AbstractParticipation) -> tuple[jax.Array, jax.Array]:
    cohorts = jax.vmap(who)(jax.random.split(jax.random.key(0), 1000))
    places = jax.vmap(lambda ids, there: jnp.zeros(N, bool).at[ids].set(there))
    return places(cohorts.ids, cohorts.asked), places(cohorts.ids, cohorts.arrived)


class Played(NamedTuple):
    model: np.ndarray
    state: State
    records: Record  # with a leading axis, rounds


def play(
    algorithm: AbstractAlgorithm,
    problem: AbstractProblem,
    participation: AbstractParticipation,
    rounds: int,
    seed: int = 0,
    *,
    w0: jax.Array | None = None,
    side_by_side: bool | None = None,
) -> Played:
    """`rounds` rounds in double precision, from zero unless w0 is given."""
    with jax.enable_x64(True):
        w0 = jnp.zeros(problem.b.shape[-1]) if w0 is None else w0
        fed = federation(algorithm, problem, participation, seed=seed, side_by_side=side_by_side)
        return go_on(fed, start(fed, w0), rounds)


def go_on(fed: Federation, state: State, rounds: int) -> Played:
    pieces, done = [], 0
    while done < rounds:
        now = min(ROOM, rounds - done)
        state, trace, sound = advance(fed, state, jnp.asarray(now, jnp.int32), ROOM)
        if not sound:
            raise ArithmeticError(f"not finite within rounds {done} to {done + now}")
        pieces.append(jax.tree.map(lambda x, now=now: np.asarray(x)[:now], trace))
        done += now
    records = jax.tree.map(lambda *columns: np.concatenate(columns), *pieces)
    return Played(np.asarray(fed.algorithm.model(state.server)), state, records)


@eqx.filter_jit
def total(f: AbstractProblem, w) -> jax.Array:
    """F(w) = sum_i f_i(w)."""
    return jnp.sum(jax.vmap(lambda f: f(w))(f))
