"""The losses of `feddcd.problems` once more in NumPy, which compiles nothing for a new shape.

loss(z, y) = A(z) - <y, z> up to a constant; rows of z have k columns.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit, logsumexp, softmax, xlogy

Array = np.ndarray


def _no_least(Y: Array) -> Array:
    return np.zeros(len(Y))


def _no_constant(Y: Array, s: Array) -> Array:
    return np.zeros(len(Y))


class Loss(NamedTuple):
    family: str  # its name in `problems.FAMILIES`
    value: Callable[[Array, Array], Array]  # every row's loss at z, y
    mean: Callable[[Array], Array]  # ∇A(z), n by k
    curvature: Callable[[Array], Array]  # ∇²A(z) by row, from the means: n by k by k
    hessian: Callable[[Array, Array], Array]  # sum_j s_j ∇²A(z_j), from the means and s
    bend: Callable[[Array], Array]  # by row: |∇²A v| <= bend max|v_k - v_l| (max|v| if k = 1)
    inverse: Callable[[Array], Array]  # of the mean, for one row
    quadratic: bool = False
    least: Callable[[Array], Array] = _no_least  # by row: what the deviance is counted from
    constant: Callable[[Array, Array], Array] = _no_constant  # log-likelihood + s loss, by row

    def variance(self, mean: Array) -> Array:
        """Of a row's outcome at its mean, n by k by k: the curvature, the link being canonical."""
        return self.curvature(mean)

    def constant_model(self, mean: Array) -> tuple[Array, float]:
        """The best model without features, and the least curvature of its intercept."""
        H = self.hessian(mean[None], np.ones(1))
        return self.inverse(mean), float(np.linalg.eigvalsh(H)[int(len(mean) > 1)])


def _softmax_hessian(p: Array, s: Array) -> Array:
    return np.diag(s @ p) - p.T @ (s[:, None] * p)


def _softmax_curvature(p: Array) -> Array:
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


def _softmax_bend(p: Array) -> Array:
    """|∇²A| <= 1/2, and v less its midrange is no longer than sqrt(k)/2 times its spread."""
    return np.full(len(p), np.sqrt(p.shape[1]) / 4)


def _with_base(z: Array) -> Array:
    return np.concatenate([np.zeros_like(z[:, :1]), z], 1)


def _shares(Y: Array, s: Array) -> Array:
    """The binomial coefficients of shares y of s trials."""
    y = Y[:, 0]
    return gammaln(s + 1) - gammaln(s * y + 1) - gammaln(s * (1 - y) + 1)


LOGISTIC = Loss(
    "logistic",
    value=lambda z, y: (np.logaddexp(0, z) - y * z)[:, 0],
    mean=expit,
    curvature=lambda p: (p * (1 - p))[:, :, None],
    hessian=lambda p, s: np.atleast_2d(s @ (p * (1 - p))),
    bend=lambda p: np.full(len(p), 0.25),
    inverse=logit,
    least=lambda Y: -xlogy(Y[:, 0], Y[:, 0]) - xlogy(1 - Y[:, 0], 1 - Y[:, 0]),
    constant=_shares,
)
SOFTMAX = Loss(
    "softmax",
    value=lambda z, y: logsumexp(z, axis=1) - np.sum(y * z, 1),
    mean=lambda z: softmax(z, axis=1),
    curvature=_softmax_curvature,
    hessian=_softmax_hessian,
    bend=_softmax_bend,
    inverse=lambda p: np.log(p) - np.mean(np.log(p)),
)
# z = 0 stands for the first class, which has no column
BASE_SOFTMAX = SOFTMAX._replace(
    value=lambda z, y: np.logaddexp.reduce(_with_base(z), axis=1) - np.sum(y * z, 1),
    mean=lambda z: softmax(_with_base(z), axis=1)[:, 1:],
    inverse=lambda p: np.log(p / (1 - p.sum())),
)
RIDGE = Loss(
    "ridge",
    value=lambda z, y: np.sum((z - y) ** 2, 1) / 2,
    mean=lambda z: z,
    curvature=lambda p: np.ones_like(p)[:, :, None],
    hessian=lambda p, s: np.array([[s.sum()]]),
    bend=lambda p: np.ones(len(p)),
    inverse=lambda p: p,
    quadratic=True,
)
# beyond 700 exp would overflow: such a z is far from any optimum, and its loss stays enormous
POISSON = Loss(
    "poisson",
    value=lambda z, y: (np.exp(np.minimum(z, 700.0)) - y * z)[:, 0],
    mean=lambda z: np.exp(np.minimum(z, 700.0)),
    curvature=lambda p: p[:, :, None],
    hessian=lambda p, s: np.atleast_2d(s @ p),
    bend=lambda p: p[:, 0],
    inverse=np.log,
    least=lambda Y: Y[:, 0] - xlogy(Y[:, 0], Y[:, 0]),
    constant=lambda Y, s: -s * gammaln(Y[:, 0] + 1),
)

LOSSES = {  # by the family of a regression table
    "gaussian": RIDGE,
    "binomial": LOGISTIC,
    "poisson": POISSON,
    "multinomial": BASE_SOFTMAX,
}
