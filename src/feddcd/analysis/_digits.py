"""Numbers with the digits that are proven: those that both ends of an interval round to.

With e the certified error (in standard errors) and q the log of the factor by which the standard
error SE itself may still change, the optimum has its coefficient in w ± e SE, its standard error
in SE e^{±q}, hence its statistic between the products of (w/SE ± e) and e^{±q}, p between those
of the ends, and its interval's ends in w ± e SE - t SE e^{±q} and w ± e SE + t SE e^{±q}.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

UNKNOWN = "?"  # no digit is proven


class Range(NamedTuple):
    low: float
    high: float

    def map(self, f: Callable[[float], float]) -> "Range":
        """By a function that rises or falls."""
        return Range(*sorted((f(self.low), f(self.high))))


def about(value: float, doubt: float) -> Range:
    return Range(value - doubt, value + doubt)


def coefficient(w: float, std_err: float, e: float) -> Range:
    return about(w, e * std_err)


def standard_error(std_err: float, q: float) -> Range:
    return Range(std_err * math.exp(-q), std_err * _exp(q))


def statistic(w: float, std_err: float, e: float, q: float) -> Range:
    z = w / std_err if std_err > 0 else math.nan
    ends = [(z + side * e) * factor for side in (-1, 1) for factor in (math.exp(-q), _exp(q))]
    return Range(min(ends), max(ends))


def p_value(statistic: Range, tail: Callable[[float], float]) -> Range:
    """`tail` is the chance of a statistic beyond ±x."""
    far = max(abs(statistic.low), abs(statistic.high))
    near = 0.0 if statistic.low <= 0 <= statistic.high else min(map(abs, statistic))
    return Range(tail(far), tail(near))


def limit(w: float, std_err: float, t: float, e: float, q: float) -> Range:
    """Of the interval's end w + t SE; t is negative for the lower one."""
    near, far = sorted((t * std_err * math.exp(-q), t * std_err * _exp(q)))
    return Range(w - e * std_err + near, w + e * std_err + far)


def agreed(given: Range, forms: Iterable[Callable[[float], str]]) -> str:
    """In the first of the forms, from many digits to few, in which both ends are the same."""
    if math.isfinite(given.low) and math.isfinite(given.high):
        for form in forms:
            if (text := form(given.low)) == form(given.high):
                return text
    return UNKNOWN


def significant(given: Range, digits: int = 4, unit: float = 0.0) -> str:
    """At most this many significant digits; a number far below the unit (its standard error, say)
    of which none is proven is 0 to its places."""
    form = lambda count: lambda x: _zero(f"{x:#.{count}g}".rstrip("."))
    text = agreed(given, map(form, range(digits, 0, -1)))
    if text != UNKNOWN or not 0 < unit < math.inf:
        return text
    text = decimals(given, max(0, math.ceil(-math.log10(unit)) + 1))
    return text if text == UNKNOWN or float(text) == 0 else UNKNOWN


def decimals(given: Range, places: int = 3) -> str:
    """At most this many places after the point."""
    form = lambda count: lambda x: _zero(f"{x:.{count}f}")
    return agreed(given, map(form, range(places, -1, -1)))


def probability(given: Range) -> str:
    return "<0.001" if given.high < 0.001 else decimals(given, 3)


def _zero(text: str) -> str:
    """Without the sign of a number that is 0 in all its places."""
    return text[1:] if text.startswith("-") and float(text) == 0 else text


def _exp(q: float) -> float:
    return math.exp(q) if q < 700 else math.inf
