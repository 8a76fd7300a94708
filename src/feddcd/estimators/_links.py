"""The losses of `feddcd.problems` once more in NumPy, which compiles nothing for a new shape."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, logsumexp, softmax

Array = np.ndarray


class Link(NamedTuple):
    """loss(z) = A(z) - <y, z> (+ const), rows of z having k columns."""

    family: str  # its name in `problems.FAMILIES`
    value: Callable[[Array, Array], Array]  # every row's loss at z, y
    mean: Callable[[Array], Array]  # ∇A(z)
    hessian: Callable[[Array, Array], Array]  # sum_j s_j ∇²A(z_j), from the means and s
    bend: Callable[[Array], Array]  # by row: |∇²A v| <= bend max|v_k - v_l| (max|v| if k = 1)
    inverse: Callable[[Array], Array]  # of the mean, for one row
    quadratic: bool = False

    def constant(self, mean: Array) -> tuple[Array, float]:
        """The best model without features, and the least curvature of its intercept."""
        H = self.hessian(mean[None], np.ones(1))
        return self.inverse(mean), float(np.linalg.eigvalsh(H)[int(len(mean) > 1)])


def _softmax_hessian(p: Array, s: Array) -> Array:
    return np.diag(s @ p) - p.T @ (s[:, None] * p)


LOGISTIC = Link(
    "logistic",
    value=lambda z, y: (np.logaddexp(0, z) - y * z)[:, 0],
    mean=expit,
    hessian=lambda p, s: np.atleast_2d(s @ (p * (1 - p))),
    bend=lambda p: np.full(len(p), 0.25),
    inverse=logit,
)
# |∇²A| <= 1/2, and v less its midrange is no longer than sqrt(k)/2 times its spread
SOFTMAX = Link(
    "softmax",
    value=lambda z, y: logsumexp(z, axis=1) - np.sum(y * z, 1),
    mean=lambda z: softmax(z, axis=1),
    hessian=_softmax_hessian,
    bend=lambda p: np.full(len(p), np.sqrt(p.shape[1]) / 4),
    inverse=lambda p: np.log(p) - np.mean(np.log(p)),
)
RIDGE = Link(
    "ridge",
    value=lambda z, y: np.sum((z - y) ** 2, 1) / 2,
    mean=lambda z: z,
    hessian=lambda p, s: np.array([[s.sum()]]),
    bend=lambda p: np.ones(len(p)),
    inverse=lambda p: p,
    quadratic=True,
)
POISSON = Link(
    "poisson",
    value=lambda z, y: (np.exp(np.minimum(z, 700.0)) - y * z)[:, 0],
    mean=lambda z: np.exp(np.minimum(z, 700.0)),
    hessian=lambda p, s: np.atleast_2d(s @ p),
    bend=lambda p: p[:, 0],
    inverse=np.log,
)
