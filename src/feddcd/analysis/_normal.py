"""A site that was heard at w = 0 alone: what it would say far from there.

Binary outcomes with the logit link, no offset. At w = 0 a site tells its moments, and all products
of its columns. Its rows' z = x'w are taken as normal, z = w'μ + s t with s² = w'Cw and t standard
normal. With A(z) = ln(1 + e^z), u = Cw/s and means over t, which are sums over a few t,

    f = W E[A] - w'xy,  g = W(E[A']μ + E[A't]u) - xy,
    H = W(E[A''(μ + tu)(μ + tu)'] + E[A't](C - uu')/s),

which are the derivatives of f: it is convex, and so H is positive.
The quadratic model at w = 0 takes means for ½ + z/4, which is below 0 and above 1 where z is large.
"""

import numpy as np
from scipy.special import expit

from ._model import Model
from ._sums import Answer, square, upper

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
LEAST = 1e-6  # of s, where nothing changes any more


def has_normal(model: Model, answer: Answer) -> bool:
    """Whether the above can be had from an answer at w = 0."""
    moments = answer.moments
    return model.loss.fits and moments is not None and not np.any(moments.o)


def normal(answer: Answer, w: np.ndarray) -> dict[str, np.ndarray]:
    """Value, gradient and Hessian at w, in the user's units, from the answer at 0."""
    moments = answer.moments
    if moments is None:
        raise ValueError("the answer has no moments")
    p, W, xy = len(w), float(moments.weight), moments.xy[:, 0]
    mean = moments.x / W
    C = 4 * square(answer.H, p) / W - np.outer(mean, mean)
    s = max(float(np.sqrt(max(float(w @ C @ w), 0.0))), LEAST)
    u = C @ w / s
    z = float(mean @ w) + s * _NODES
    slope = expit(z)
    moves = mean + np.outer(_NODES, u)
    H = moves.T @ ((_WEIGHTS * slope * (1 - slope))[:, None] * moves)
    H += float(_WEIGHTS @ (slope * _NODES)) / s * (C - np.outer(u, u))
    value = np.asarray(W * float(_WEIGHTS @ np.logaddexp(0, z)) - float(w @ xy))
    return {"value": value, "g": W * (_WEIGHTS * slope) @ moves - xy, "H": W * H[upper(p)]}
