"""To which place the numbers of one row are rounded, so that they go together."""

import math
from typing import NamedTuple

from ..._text import ratio

DIGITS = 3  # of a standard error
MOST = 6  # decimals of a number below 0.001
EXACT = 9  # digits behind the first of any number
MANY = 1e5  # larger ratios keep their own digits
WIDE = 100.0  # times the lower end of an interval of ratios
FAR = 700.0  # beyond it exp overflows


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


def places_of_ratio(std_err: float, log: float, low: float) -> Places:
    """The second digit of the standard error at the lower end; `log` and `low` are logarithms."""
    of = lambda x, digits: digits - 1 - math.floor(math.log10(std_err * x))
    least, factor = (math.exp(max(min(x, FAR), -FAR)) for x in (low, log))
    return Places(max(min(of(least, 2), of(factor, 4), MOST + 3), 0))


def ratios(log: float, low: float, high: float) -> list[str]:
    """A ratio and its interval to one place, or each with three digits where it is wide."""
    each = log, low, high
    if not 0 < high - low < math.log(WIDE) or not high < math.log(MANY):
        return [ratio(x) for x in each]
    places = places_of_ratio((high - low) / 4, log, low)
    return [places.text(math.exp(x)) if math.exp(x) >= places.least else ratio(x) for x in each]
