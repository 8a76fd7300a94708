"""Whether a site's answers at two points can be of one function.

If no row's z moves by more than m between them, v apart, curvature changes by no more than e^m
(`_points`). So with c = v'Hv at the first of them

    c (e^-m + m - 1)/m²  <=  f(w + v) - f(w) - g'v  <=  c (e^m - m - 1)/m²

and g(w + v) - g(w) = Kv, K lying between (1 - e^-m)/m H and (e^m - 1)/m H. Where less is known of
curvature, a convex loss still lies above its tangents.
"""

from typing import NamedTuple, Protocol

import numpy as np

from ._sums import Answer, PointQuestion
from ._trust_curves import BEYOND, ROUNDING, moves
from ._trust_moments import CLOSE, Known, positive, refuse

FINE = 1e-12  # of single terms
UNIT = 4 * float(np.finfo(float).eps)
FAR = 15.0  # moves beyond which Hessians are not compared


class Spoken(Protocol):
    """A site's answer at a point."""

    @property
    def asked(self) -> PointQuestion: ...
    @property
    def answer(self) -> Answer: ...
    @property
    def H(self) -> np.ndarray: ...


class Bends(NamedTuple):
    """Of a move m: what the second and the first derivative along it are between."""

    value: tuple[float, float]
    slope: tuple[float, float]


def bends(m: float) -> Bends:
    if m < 1e-4:  # as series, which do not cancel
        return Bends((0.5 - m / 6, 0.5 + m / 5), (1 - m / 2, 1 + 0.51 * m))
    low, high = np.expm1(-m), np.expm1(min(m, 700.0))
    return Bends(((low + m) / m**2, (high - m) / m**2), (-low / m, high / m))


def check_pair(known: Known, then: Spoken, now: Spoken) -> None:
    """Whether the answers at two points are of one function."""
    model, v = known.model, (now.asked.w - then.asked.w).reshape(-1)
    f, g = then.answer, now.answer
    if max(float(f.value), float(g.value)) >= BEYOND:
        return
    still = not v.any()
    if not still and (not known.plain or (model.loss.unproven and not model.loss.firth)):
        return
    sizes = f.size + g.size
    slack = ROUNDING * (abs(f.value) + abs(g.value) + sizes @ np.abs(v) + known.W)
    # far away z is large where the loss is small, and is known to its own last digits
    far = np.abs(then.asked.w) + np.abs(now.asked.w)
    slack += FINE * np.sqrt(known.W) * float(known.rms @ far.reshape(-1))
    one = float(g.value - f.value - f.g @ v)
    other = float(f.value - g.value + g.g @ v)
    told = "the site's losses and gradients at two points contradict each other"
    refuse(min(one, other) < -slack, told)
    m = 0.0 if still or model.quadratic else _move(known, then, now)
    true = then.asked.pilot is False or model.loss.expected is None
    if m == np.inf or not true or (model.loss.bend is not None and not still):
        return
    _check_bend(known, m, then, now, (one, other), float(slack))


def _move(known: Known, then: Spoken, now: Spoken) -> float:
    """How far a row's z can have moved: as its rows allow, and as the site says."""
    v = now.asked.w - then.asked.w
    spread = 1.0 if known.model.k == 1 else 2.0
    most = moves(known, v)[1] / 2 * spread
    if np.array_equal(now.asked.seen, then.asked.w):
        most = min(most, float(now.answer.m))
    return most if most < 300 else np.inf


def _check_bend(
    known: Known, m: float, then: Spoken, now: Spoken, found: tuple[float, float], slack: float
) -> None:
    v = (now.asked.w - then.asked.w).reshape(-1)
    blind = UNIT * known.W * m * m  # less than a unit of a row's curvature is not seen
    told = "the site's curvature at two points contradicts the site's loss"
    (low, high), (least, most) = bends(m)
    for H, bend in ((then.H, found[0]), (now.H, found[1])):
        c = float(v @ H @ v)
        most_bend = high * (c + blind) * (1 + CLOSE) + slack
        refuse(not low * c * (1 - CLOSE) - slack <= bend <= most_bend, told)
    middle, half = (least + most) / 2, (most - least) / 2
    rounding = ROUNDING * (then.answer.size + now.answer.size)
    r, c = now.answer.g - then.answer.g - middle * (then.H @ v), float(v @ then.H @ v)
    scale = np.sqrt(np.maximum(np.diag(then.H), 0) + UNIT * known.rms**2)
    reach = (half + CLOSE) * np.sqrt(max(c, 0.0) + blind)
    told = "the change of the site's gradient contradicts the site's curvature"
    far = CLOSE * np.abs(then.H) @ np.abs(v)
    refuse(np.abs(r) > scale * reach * (1 + CLOSE) + rounding + far, told)
    if m > FAR:  # curvature may vanish within rounding
        return
    grown, size = np.exp(m) * (1 + CLOSE), np.sqrt(np.abs(np.diag(then.H)))
    told = "the site's curvature changes by more than the site's rows allow"
    refuse(not positive(grown * now.H - then.H, np.sqrt(grown * np.abs(np.diag(now.H)))), told)
    refuse(not positive(grown * then.H - now.H, np.sqrt(grown) * size), told)
