"""To which place the numbers of one row are rounded, so that they go together."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from .._text import ratio
from ._digits import UNKNOWN, Range, agreed

DIGITS = 3  # of a standard error
MOST = 6  # decimals of a number below 0.001
EXACT = 9  # digits behind the first of any number
MANY = 1e5  # larger ratios keep their own digits
WIDE = 100.0  # times the lower end of an interval of ratios
FAR = 700.0  # beyond it exp overflows
FINEST = 9  # decimals of a ratio
LISTED = 3  # decimals of most ratios in a list of effects, and at most
FORMS = [lambda x, n=n: ratio(x, n) for n in (3, 2, 1)]


class Places(NamedTuple):
    """To which place the numbers of a row are rounded, in decimals; and their common power of ten,
    where this number of decimals would be hard to read."""

    decimals: int
    power: int | None = None

    @property
    def least(self) -> float:
        """The smallest number that is not shown as 0."""
        return 10.0 ** -(self.decimals if self.power is not None else max(self.decimals, 0))

    def text(self, x: float) -> str:
        if self.power is None:
            return f"{x:,.{max(self.decimals, 0)}f}".replace("-", "−")
        digits = max(self.decimals + self.power, 0)
        return f"{x / 10.0**self.power:.{digits}f}".replace("-", "−") + f"e{self.power}"


def places_of(std_err: float, size: float) -> Places:
    """The third digit of the standard error; `size` is the largest number of the row."""
    decimals = DIGITS - 1 - math.floor(math.log10(std_err))
    power = math.floor(math.log10(max(size, std_err)))
    if (power < -3 and decimals > MOST) or power > EXACT:
        return Places(min(decimals, EXACT - power), power)
    return Places(min(decimals, EXACT - power))


def places_of_ratio(std_err: float, log: float, low: float, high: float) -> Places:
    """The second digit of the standard error at the lower end, or more where an end of the interval
    would look like 1; `log`, `low` and `high` are logarithms."""
    return Places(max(_of_error(std_err, log, low), _beside_one(low, high)))


def _of_error(std_err: float, log: float, low: float) -> int:
    of = lambda x, digits: digits - 1 - math.floor(math.log10(std_err * x))
    least, factor = (math.exp(max(min(x, FAR), -FAR)) for x in (low, log))
    return max(min(of(least, 2), of(factor, 4), FINEST), 0)


def _beside_one(*logs: float) -> int:
    """Decimals with which none of the ratios looks like 1, unless it is 1 to all decimals."""
    away = [abs(math.expm1(x)) for x in logs if -FAR < x < FAR]
    return max((math.ceil(-math.log10(x)) for x in away if x >= 10.0**-FINEST), default=0)


def ratios(log: float, low: float, high: float, listed: int | None = None) -> list[str]:
    """A ratio and its interval to one place, or each with three digits where it is wide; `listed`
    are the decimals of the list in which it stands."""
    each = log, low, high
    if not _in_places(*each):
        return [ratio(x) for x in each]
    std_err = (high - low) / 4
    places = places_of_ratio(std_err, log, low, high)
    if listed is not None:
        least = max(_of_error(std_err, log, low) - 1, _beside_one(low, high))
        places = Places(max(listed, least))
    return [places.text(math.exp(x)) if math.exp(x) >= places.least else ratio(x) for x in each]


def decimals_of_list(rows: Iterable[tuple[float, float, float]]) -> int:
    """Those of the ratio that is known best, but at most LISTED: a ratio that would lose its
    interval by them has more."""
    known = [row for row in rows if _in_places(*row)]
    own = [places_of_ratio((high - low) / 4, log, low, high) for log, low, high in known]
    return min(max((places.decimals for places in own), default=0), LISTED)


def _in_places(log: float, low: float, high: float) -> bool:
    return 0 < high - low < math.log(WIDE) and high < math.log(MANY)


def proven_ratios(log: Range, low: Range, high: Range, std_err: float) -> list[str]:
    """Of a table: a ratio and its interval to one place, as far as the digits are proven, or each
    with three digits where it is wide."""
    each = log, low, high
    found = [agreed(x, FORMS) for x in each]
    if not 0 < std_err < math.inf or not high.low - low.high < math.log(WIDE):
        return found
    places = places_of_ratio(std_err, log.low, low.low, high.high)
    return [_proven(x, text, places) for x, text in zip(each, found, strict=True)]


def _proven(given: Range, text: str, places: Places) -> str:
    factor = given.map(lambda x: math.exp(min(x, FAR)))
    return text if factor.high >= MANY else fixed(factor, text, places)


def fixed(given: Range, text: str, places: Places) -> str:
    """The number to this place if that is proven and shows it, or as it is."""
    size = max(abs(given.low), abs(given.high))
    if text == UNKNOWN or not places.least <= size:
        return text
    fewer = [places._replace(decimals=places.decimals - k) for k in range(DIGITS)]
    return agreed(given, [each.text for each in fewer]).replace(UNKNOWN, text)
