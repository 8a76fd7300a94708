"""Training by Point-SAGA, for models with a large Hessian; the table's closing exchange follows.

It runs on the simulator of the core: rows are stacked, columns divided by D, and the objective by
c = (sum of weights) / N.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from ..algorithms import PointSAGA
from ..participation import Available, Everyone
from ..problems import FAMILIES, BaseSoftmax, Regression, stack_rows
from ..simulator.simulate import advance, federation, start
from ..solvers import NewtonCG, Tolerance
from ._cost import Log
from ._first_steps import first_steps
from ._pilot import Pilot
from ._points import gram
from ._sums import DesignRows

LOSS = {
    "gaussian": FAMILIES["ridge"],
    "binomial": FAMILIES["logistic"],
    "poisson": FAMILIES["poisson"],
    "multinomial": BaseSoftmax(),
}
SOLVED = 1e-9


def pointsaga(
    sites: Mapping[str, DesignRows], pilot: Pilot, rounds: int, log: Log, absent: float, seed: int
) -> np.ndarray:
    """w after this number of rounds, in the user's units; the log counts them beside exchanges."""
    with jax.enable_x64(True):
        problem, N = stack(sites, pilot), len(sites)
        who = Available(N, 1 - absent) if absent else Everyone(N)
        tau = max(round(N * (1 - absent)), 1)
        solver = NewtonCG(stop=Tolerance(SOLVED), space="parameters")
        algorithm = PointSAGA(tau, N, solver, rho(pilot, tau))
        fed = federation(algorithm, problem, who, seed=seed)
        G = gram(pilot.model, pilot.D, pilot.first)
        w = first_steps(pilot.model, pilot.D, pilot.sums, G, pilot.first, None)[0]
        state = start(fed, jnp.asarray(w))
        # from the first round on with its proximal term: a site alone may have no minimiser
        state = state._replace(server=state.server._replace(t=jnp.ones((), jnp.int32)))
        state, records, _ = advance(fed, state, jnp.asarray(rounds, jnp.int32), rounds)
        log.trained(np.asarray(records.arrived).tolist(), pilot.first.w.size)
        return np.asarray(algorithm.model(state.server)) / pilot.D[:, None]


def rho(pilot: Pilot, tau: int) -> float:
    """The method's formula, with the curvature of the pilot: the mean site's largest, and the
    smallest of the mean."""
    N, c = len(pilot.answers), float(pilot.sums.weight) / len(pilot.answers)
    values = np.linalg.eigvalsh(pilot.first.H) / (c * N)
    n, L, alpha = N / tau, float(values[-1]), float(max(values[0], 1e-9 * values[-1]))
    return 2 * L * n / (np.sqrt((n - 1) ** 2 + 4 * n * L / alpha) - (n - 1))


def stack(sites: Mapping[str, DesignRows], pilot: Pilot) -> Regression:
    model, D, N = pilot.model, pilot.D, len(sites)
    ends = np.cumsum([len(rows.s) for rows in sites.values()])
    parts = [np.arange(end - len(r.s), end) for end, r in zip(ends, sites.values(), strict=True)]
    n, c = max(map(len, parts)), float(pilot.sums.weight) / N
    Y, s, offset = np.zeros((N, n, model.k)), np.zeros((N, n)), np.zeros((N, n, 1))
    for i, rows in enumerate(sites.values()):
        count = len(rows.s)
        Y[i, :count], s[i, :count], offset[i, :count, 0] = rows.Y, rows.s / c, rows.offset
    penalty = model.penalty / D**2 / (c * N)
    X = np.concatenate([r.X for r in sites.values()])
    X = X @ pilot.basis if pilot.basis.size else X
    return Regression(
        X=stack_rows(X / D, parts, np.float64),
        Y=jnp.asarray(Y),
        s=jnp.asarray(s),
        family=LOSS[model.family],
        mu=jnp.zeros(N),
        rows=jnp.asarray([len(part) for part in parts]),
        loss_alpha=jnp.zeros(N),
        loss_beta=jnp.full(N, jnp.inf),
        offset=jnp.asarray(offset),
        penalty=jnp.asarray(np.tile(penalty[:, None], (N, 1, 1))),
    )
