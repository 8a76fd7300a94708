"""What the other sites of a sum have added, as one of them can tell: the sum less its own part.

Whoever owns a site can let it send any numbers, also a made-up table less what the others sent: the
sum is then that table, and so is every question that follows. But then the sum lacks what an honest
site knows to be in it. So each site holds the rest against what rows could have given.
"""

from collections.abc import Mapping

import numpy as np

from ..sums.layout import Layout
from ._sums import square

SLACK = 1e-8  # of the whole: far above what rounding makes of nothing
CURVED = ("H", "F")  # upper triangles of what is positive semidefinite over any rows


def impossible(
    sums: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray], layout: Layout
) -> str:
    """Why no rows elsewhere can have given the rest, or nothing."""
    kinds = {slot.name: slot.kind for slot in layout.slots}
    told = [name for name, kind in kinds.items() if kind != "max"]
    if not all(np.all(np.isfinite(sums[name])) for name in told):
        return ""  # a site could not tell its numbers: nothing follows from them
    rest = {name: np.asarray(sums[name], float) - np.asarray(own[name], float) for name in told}
    for name in told:
        if kinds[name] == "count" and np.any(rest[name] < 0):
            return f"a count below zero ({name})"
    return _moments(rest, sums) or _curvature(rest, sums)


def _moments(rest: Mapping[str, np.ndarray], sums: Mapping[str, np.ndarray]) -> str:
    if "moments.weight" not in rest:
        return ""
    weight, x, xx = (rest[f"moments.{name}"] for name in ("weight", "x", "xx"))
    slack = SLACK * np.maximum(np.abs(sums["moments.xx"]), 0)
    if weight < -SLACK * abs(float(sums["moments.weight"])) or np.any(xx < -slack):
        return "a sum of weights or of squares that is below zero"
    if np.any(x**2 > (xx + slack) * (weight + SLACK * abs(float(sums["moments.weight"])))):
        return "a sum of a column that is too large for the sum of squares of this column"
    return ""


def _curvature(rest: Mapping[str, np.ndarray], sums: Mapping[str, np.ndarray]) -> str:
    """Of the information where a site sends it, as a Hessian need not be positive then."""
    known = [name for name in CURVED if name in rest and rest[name].size]
    if not known:
        return ""
    name = known[-1]
    p = int((np.sqrt(8 * rest[name].size + 1) - 1) / 2)
    whole, left = square(np.asarray(sums[name], float), p), square(rest[name], p)
    size = np.sqrt(np.maximum(np.diag(whole), 0))
    size = np.where(size > 0, size, 1.0)
    least = np.linalg.eigvalsh(left / np.outer(size, size))[0]
    return "a curvature below zero" if least < -SLACK * p else ""
