"""The families' losses in NumPy: a site answers without compiling anything.

loss(z, y) = A(z) - <y, z> up to a constant, mean = A'(z), curvature = A''(z); for several classes
z = 0 stands for the first.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

Array = np.ndarray


class Loss(NamedTuple):
    value: Callable[[Array, Array], Array]  # z, y (n by k) -> n
    mean: Callable[[Array], Array]  # z -> n by k
    curvature: Callable[[Array], Array]  # mean -> n by k by k
    quadratic: bool = False


def _with_base(z: Array) -> Array:
    return np.concatenate([np.zeros_like(z[:, :1]), z], 1)


def _classes(p: Array) -> Array:
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


LOSSES = {
    "gaussian": Loss(
        lambda z, y: (z - y)[:, 0] ** 2 / 2,
        lambda z: z,
        lambda mean: np.ones_like(mean)[:, :, None],
        quadratic=True,
    ),
    "binomial": Loss(
        lambda z, y: (np.logaddexp(0, z) - y * z)[:, 0],
        expit,
        lambda mean: (mean * (1 - mean))[:, :, None],
    ),
    "poisson": Loss(
        lambda z, y: (np.exp(z) - y * z)[:, 0],
        np.exp,
        lambda mean: mean[:, :, None],
    ),
    "multinomial": Loss(
        lambda z, y: np.logaddexp.reduce(_with_base(z), axis=1) - np.sum(y * z, 1),
        lambda z: softmax(_with_base(z), axis=1)[:, 1:],
        _classes,
    ),
}
