"""Ordered classes with proportional odds, as MASS::polr: logit P(y <= class k) = ζ_k - x'β.

The thresholds ζ are parameters beside the columns, and there is no intercept. With a = ζ_y - x'β,
b = ζ_{y-1} - x'β and t = a - b a row's loss is a sum of losses of one predictor each,

    -ln(F(a) - F(b)) = ln(1 + e^-a) + ln(1 + e^b) - ln(1 - e^-t),

the first and the last class having one of the first two alone. Each is convex and has a c as in
`_proofs`: 1 for the first two, that of `gap` for the third. Standard errors come from the observed
Hessian, as polr's do.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ._geometry import Arms
from ._proofs import gap, gap_bend
from .families import OUTSIDE, Family, RowTerms, family_of

Array = np.ndarray


def ordered(classes: Sequence[Any]) -> Family:
    """Y holds the place of the class, from 0 on."""
    K = max(len(classes), 2)
    names = tuple(f"{a}|{b}" for a, b in itertools.pairwise(classes))

    def terms(z: Array, Y: Array) -> RowTerms:
        upper, lower, both = _used(Y, K)
        (a, b, t), ok = z.T, ~both | (z[:, 2] > 0)
        own = gap(np.where(both & ok, t, 1.0))
        value = upper * np.logaddexp(0, -a) + lower * np.logaddexp(0, b) + both * own.value
        slope = np.column_stack([-(upper * expit(-a)), lower * expit(b), both * own.slope])
        C = np.zeros((len(z), 3, 3))
        C[:, 0, 0], C[:, 1, 1] = upper * expit(a) * expit(-a), lower * expit(b) * expit(-b)
        C[:, 2, 2] = both * own.curvature
        return RowTerms(np.where(ok, value, OUTSIDE), slope * ok[:, None], C, abs(slope))

    def bend(z: Array, Y: Array) -> Array:
        upper, lower, both = _used(Y, K)
        c = both * gap_bend(np.where(both & (z[:, 2] > 0), z[:, 2], 1.0))
        return np.column_stack([upper, lower, c]).astype(float)

    def geometry(rows: Any, place: int) -> Arms:
        upper, lower, _ = _used(rows.Y, K)
        up, low = -rows.X, -rows.X
        at, each = rows.Y[:, 0].astype(int), np.arange(len(up))
        up[each[upper], place + at[upper]] += 1
        low[each[lower], place + at[lower] - 1] += 1
        offset = np.column_stack([-rows.offset, -rows.offset, 0 * rows.offset])
        return Arms((up, low, up - low), offset)

    return family_of("multinomial")._replace(
        name="ordinal", like="ordinal", terms=terms, mean=lambda z: 0 * z[:, :1],
        variance=lambda mean: np.ones((len(mean), 1, 1)), inverse=lambda mean: mean,
        at=lambda w, place: family_of("gaussian"),  # of a null model that nobody is shown
        bend=bend, geometry=geometry,
        extras=names, origin=tuple(logit(np.arange(1, K) / K).tolist()), bare=True,
    )  # fmt: skip


def probabilities(z: Array, thresholds: Array) -> Array:
    """Of every class, from z = x'β."""
    below = expit(thresholds[None] - z[:, None])
    edge = np.ones((len(z), 1))
    return np.diff(np.hstack([0 * edge, below, edge]), axis=1)


def _used(Y: Array, K: int) -> tuple[Array, Array, Array]:
    """Whether a row has a threshold above it, one below it, and both."""
    upper, lower = Y[:, 0] < K - 1, Y[:, 0] > 0
    return upper, lower, upper & lower
