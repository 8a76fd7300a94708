"""Whether a question is the one that the sums imply, but for rounding on another machine.

    w       |Δw_k|  <= 1e-6 standard errors, sqrt(V_kk); where there is no V, 1e-6 |w_k|
    V       |ΔV_kl| <= 1e-6 sqrt(V_kk V_ll)
    edges   1e-6 of their span; scale, the constant model and the basis 1e-6 of themselves

All else is equal to the last bit.
"""

import numpy as np

from ._sums import PointQuestion, square

CLOSE = 1e-6


def difference(own: PointQuestion, asked: PointQuestion) -> str:
    """Why a question differs from the one that was expected, or nothing."""
    for name, mine in own._asdict().items():
        here, there = np.asarray(mine), np.asarray(getattr(asked, name))
        if here.shape != there.shape or here.dtype != there.dtype:
            return f"the part {name!r} of the question has a wrong shape"
        if here.size == 0 or np.array_equal(here, there):
            continue
        with np.errstate(all="ignore"):
            off, most = np.abs(there - here) if here.dtype == float else 1.0, _allowed(name, own)
            if not np.all(off <= most):
                return f"the part {name!r} of the question disagrees with the sums"
    return ""


def _allowed(name: str, own: PointQuestion) -> np.ndarray | float:
    """How far each entry may be off."""
    p = own.w.size
    se = np.sqrt(np.diag(square(own.V, p))) if own.V.size else None
    match name:
        case "w" | "seen":
            scale = np.abs(own.w) if se is None else se.reshape(own.w.shape)
        case "V" if se is not None:
            scale = np.outer(se, se)[~np.tri(p, k=-1, dtype=bool)]
        case "edges":
            scale = np.ptp(own.edges)
        case "null":
            scale = 1 + np.abs(own.null)
        case "scale":
            scale = np.abs(own.scale)
        case "basis":
            scale = np.abs(own.basis)
        case _:
            scale = 0.0
    return CLOSE * scale
