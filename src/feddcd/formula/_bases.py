"""Several columns of one number: splines with written knots, and powers."""

from collections.abc import Callable

import numpy as np

from .._errors import SpecError
from . import _splines
from ._arguments import bind, flag, points, whole
from ._rows import Kinds, check_number
from ._tree import Call, Items, Node, short, text_of
from ._variables import BasisVariable

MOST_DEGREE = 20
Columns = tuple[int, Callable[[np.ndarray], np.ndarray]]  # how many, and how they are made


def basis(call: Call, kinds: Kinds) -> BasisVariable:
    make = {"bs": _bs, "ns": _ns, "rcs": _rcs, "poly": _powers}[call.function]
    x = call.arguments[0].value if call.arguments and call.arguments[0].key in (None, "x") else None
    if x is None:
        raise SpecError(
            f"formula: {short(call)}: the first argument of {call.function} must be a column"
        )
    check_number(x, kinds)
    width, function = make(call)
    return BasisVariable(text_of(call), x, width, function)


def _knots(call: Call, given: dict[str, Node], least: int) -> tuple[np.ndarray, np.ndarray]:
    if "df" in given or "Boundary.knots" not in given:
        f = call.function
        told = (
            f"write the knots as numbers, for example {f}(x, knots=c(30, 50), Boundary.knots=c(20, "
            "80)). Without these numbers, R computes the knots from all rows, but no site has all "
            "rows"
        )
        raise SpecError(f"formula: {short(call)}: {told}")
    bounds = points(call, given["Boundary.knots"], "Boundary.knots", 2)
    node = given.get("knots")
    knots = np.zeros(0) if node is None else points(call, node, "knots", least)
    if len(bounds) != 2 or (len(knots) and not bounds[0] < knots[0] <= knots[-1] < bounds[1]):
        told = "Boundary.knots must be two numbers, and all knots must be between these numbers"
        raise SpecError(f"formula: {short(call)}: {told}")
    return knots, bounds


def _bs(call: Call) -> Columns:
    given = bind(call, ("x", "df", "knots", "degree", "intercept", "Boundary.knots"))
    knots, bounds = _knots(call, given, 1)
    degree = whole(call, given.get("degree"), "degree", 3, MOST_DEGREE)
    constant = flag(call, given.get("intercept"), False)
    width = len(knots) + degree + constant
    return width, lambda x: _splines.bs(x, knots, degree, bounds, constant)


def _ns(call: Call) -> Columns:
    given = bind(call, ("x", "df", "knots", "intercept", "Boundary.knots"))
    knots, bounds = _knots(call, given, 1)
    constant = flag(call, given.get("intercept"), False)
    return len(knots) + 1 + constant, lambda x: _splines.ns(x, knots, bounds, constant)


def _rcs(call: Call) -> Columns:
    given = bind(call, ("x", "knots"), {"parms": "knots"})
    if not isinstance(given.get("knots"), Items):
        told = (
            "write at least 3 knots as numbers, for example rcs(x, c(20, 40, 60)). Without these "
            "numbers, R computes the knots from all rows, but no site has all rows"
        )
        raise SpecError(f"formula: {short(call)}: {told}")
    knots = points(call, given["knots"], "knots", 3)
    return len(knots) - 1, lambda x: _splines.rcs(x, knots)


def _powers(call: Call) -> Columns:
    given = bind(call, ("x", "degree", "coefs", "raw"))
    degree = whole(call, given.get("degree"), "degree", 1, MOST_DEGREE)
    if not flag(call, given.get("raw"), False):
        told = (
            f"write poly(x, {degree}, raw=TRUE). Without raw=TRUE, R computes the columns "
            "from all rows, but no site has all rows"
        )
        raise SpecError(f"formula: {short(call)}: {told}")
    return degree, lambda x: x[:, None] ** np.arange(1, degree + 1)
