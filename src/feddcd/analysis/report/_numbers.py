"""Numbers as a reader wants them."""

import math
from decimal import ROUND_CEILING, Context

NONE = "–"


def count(value: float, noun: str = "") -> str:
    """6366 -> 6,366; with a noun in the right number."""
    text = f"{value:,.0f}" if math.isfinite(value) else NONE
    return f"{text} {noun}{'' if value == 1 else 's'}" if noun else text


def number(value: float, digits: int = 4) -> str:
    """Significant digits; a minus that is as wide as a plus."""
    if not math.isfinite(value):
        return NONE if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    whole = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(digits - 1 - whole, 0)}f}".replace("-", "−")


def trimmed(value: float, digits: int) -> str:
    """The same without zeros at the end."""
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def ratio(log: float, digits: int = 3) -> str:
    """exp(log): near 1 with as many decimals as its distance from 1 needs."""
    if log > 700:
        return "more than 1e300"
    value = math.exp(log)
    away = abs(value - 1)
    if 0 < away < 0.1:
        return f"{value:.{min(1 - math.floor(math.log10(away)), 9)}f}"
    return number(value, digits)


def probability(value: float) -> str:
    return NONE if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def upper(value: float) -> str:
    """Two digits, never rounded down: for what is proven."""
    if value <= 1e-15:
        return "1e-15"
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    if value >= 1e-6:
        return format(rounded.normalize(), "f")
    mantissa, _, exponent = f"{rounded.normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def size(count: float) -> str:
    """Bytes: 12345 -> 12.3 kB."""
    if not math.isfinite(count):
        return NONE
    for unit, letters in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {letters}"
    return f"{count:,.0f} bytes"


def seconds(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    if value < 120:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"
