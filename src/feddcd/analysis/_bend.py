"""A step that knows how the curvature changes.

Newton's step q from w falls short where the curvature falls on the way, and goes too far where it
grows. The last move v, which ended at w, shows the change: with H before and now, T = ∇³f[v] is
about ΔH. With q = av + u,

    g + Hs + ∇³f[s, s]/2 = 0,  s = q - H⁻¹(a²Tv + 2aTu)/2,

but for ∇³f[u, u], of which nothing is known. The gradients at both ends tell Tv more exactly than
ΔH does: with b = -v, which leads from w back,

    Tv = 6(g_before - g - Hb) - 2(H_before - H)b,

in which the fourth derivative cancels. From the pilot the move is long, and ΔH is more than T, as
curvature falls most at first; that makes up for ∇³f[u, u], as long as the step goes on (a > 0).
"""

import numpy as np

from ._points import Point, solve
from .families import Family

MOST = 0.5  # of |q|², in the metric H, that the correction may have


class Separated(Exception):
    """The direction in which the likelihood keeps rising, d by k."""

    def __init__(self, direction: np.ndarray):
        self.direction = direction


def next_step(
    now: Point, before: Point | None, begun: bool, exact: bool, loss: Family
) -> np.ndarray:
    """In the shape of w: Newton's, and what the last move tells of the third derivative; `exact`:
    all sites have answered at both its ends."""
    try:
        q = -solve(now.H, now.g)
    except np.linalg.LinAlgError:
        return _scored(now).reshape(now.w.shape)
    if loss.firth and before is not None and begun and exact:
        return secant(now, before, q).reshape(now.w.shape)
    known = exact if begun else loss.expected is None  # else H is guessed, or the information
    if before is not None and known:
        q = bent(now, before, q, begun=begun, gradients=exact)
    return q.reshape(now.w.shape)


def _scored(now: Point) -> np.ndarray:
    """Where the loss is not convex: a step by Fisher's information, which is positive."""
    if now.F is now.H:
        raise Separated(now.w)
    try:
        return -solve(now.F, now.g)
    except np.linalg.LinAlgError:
        raise Separated(now.w) from None


def secant(now: Point, before: Point, q: np.ndarray) -> np.ndarray:
    """Newton's step by H with the curvature of Firth's penalty along the last move v, which is
    (g - g_before)'v: where a row has the leverage 1, H has only half of it, and steps by H alone go
    to and fro for ever."""
    v, y = (now.w - before.w).reshape(-1), now.g - before.g
    Hv, curved = now.H @ v, float(v @ y)
    size = float(v @ Hv)
    if not (0 < size < np.inf and curved > 0.1 * size):
        return q
    return -solve(now.H - np.outer(Hv, Hv) / size + np.outer(y, y) / curved, now.g)


@np.errstate(over="ignore", invalid="ignore")
def bent(now: Point, before: Point, q: np.ndarray, begun: bool, gradients: bool) -> np.ndarray:
    """`begun`: before is not the pilot; `gradients`: they belong to the Hessians."""
    change, v = now.H - before.H, (now.w - before.w).reshape(-1)
    size = float(v @ now.H @ v)
    a = float(q @ now.H @ v) / size if size > 0 else 0.0
    if a == 0 or not (begun or a > 0):
        return q
    third = change @ v
    if begun and gradients:
        third = 6 * (before.g - now.g + now.H @ v) - 2 * third
    correction = -solve(now.H, a * a * third + 2 * a * change @ (q - a * v)) / 2
    own, other = float(correction @ now.H @ correction), float(q @ now.H @ q)
    if not (own > 0 and np.all(np.isfinite([own, other]))):
        return q
    return q + correction * min(1.0, np.sqrt(MOST * other / own))
