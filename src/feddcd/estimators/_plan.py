"""Which method, with whom, and what its messages weigh."""

from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._errors import SpecError
from .._types import Params
from ..algorithms import AbstractAlgorithm, AccFedDCD, FedDCD, FedNewton, PointSAGA
from ..algorithms.fednewton import MAX_PARAMETERS
from ..measure import Measure
from ..participation import Everyone, UniformSubset
from ..problems import FAMILIES, Dense, Linear
from ..runs.run import message_sizes
from ..simulator.simulate import Federation, federation
from ._rows import Rows, Stacked

ALGORITHMS = ("auto", "fednewton", "pointsaga", "feddcd", "accfeddcd")
NEWTON_UP_TO = 256  # parameters for which "auto" is fednewton


class Plan(NamedTuple):
    algorithm: str
    tau: int
    tol: float
    max_rounds: int
    seed: int

    @property
    def newton(self) -> bool:
        return self.algorithm == "fednewton"


def plan(rows: Rows, algorithm: str, tau: int | None, **rest) -> Plan:
    """Newton's method with everyone where its matrices are small, Point-SAGA otherwise."""
    N, p = len(rows.parts), int(np.prod(rows.shape))
    name = ("fednewton" if p <= NEWTON_UP_TO else "pointsaga") if algorithm == "auto" else algorithm
    if name == "fednewton" and p > MAX_PARAMETERS:
        raise SpecError(
            f"fednewton keeps a {p} x {p} matrix per client; it takes at most "
            f"{MAX_PARAMETERS} parameters: use pointsaga"
        )
    usual = N if name == "fednewton" else max(2, -(-N // 4))
    return Plan(name, usual if tau is None else tau, **rest)


def federated(stacked: Stacked, plan: Plan, w: Params, N: int) -> Federation:
    """What the engine runs; the objective it records has a free intercept."""
    who = Everyone(N) if plan.tau == N else UniformSubset(N, plan.tau)
    fed = federation(
        _algorithm(plan.algorithm, w, plan.tau, N), stacked.problem, who, seed=plan.seed
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
