"""Words and numbers for people: names that were meant, lists, counts with nouns, sizes."""

import difflib
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

NONE = "–"
LIMITED = re.compile(r"[<>≤≥]=?\s?[+-]?[\d.,]*\d")
COMMA = re.compile(r"[+-]?\d+,\d+")
DECIMAL = {"decimal": ","}  # a setting that `number_note` names
LIMIT = (
    ", which is a limit and not a number. Replace such values by numbers. All sites must use the "
    "same rule, for example half of the limit"
)
FORMULA = re.compile(r"(^|[;\t])(?=[=+\-@\t])")  # a comma is not the separator everywhere
NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?")
HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, formats, surrogates, ends of lines


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' and the list of what there is."""
    known = list(known)
    if not known:
        return "; there is nothing to choose from"
    names = ", ".join(sorted(known))
    close = closest(name, known)
    return f"{close} Known names: {names}" if close else f"; known names: {names}"


def closest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' or nothing."""
    known = list(known)
    same = [one for one in known if one.casefold() == name.casefold()]
    first = [one for one in known if one.casefold().startswith(f"{name.casefold()}-")]
    close = same[:1] or first or difflib.get_close_matches(name, known, 1)
    close = close or _begun(name, known)[:1]
    return f"; did you mean {_any_of(close)}?" if close else ""


def _begun(name: str, known: list[str]) -> list[str]:
    """A long name of which only the beginning was written, and nearly right."""
    same = [one for one in known if len(name) >= 3 and one[:3].lower() == name[:3].lower()]
    return difflib.get_close_matches(name, same, 1, cutoff=0.4)


def meant(name: str, known: Iterable[str], most: int = 1) -> str:
    """'did you mean ...? ' with up to this many names, or nothing."""
    known = list(known)
    same = [one for one in known if one.casefold() == name.casefold()]
    close = same[:most] or difflib.get_close_matches(name, known, n=most)
    return f"did you mean {_any_of(close)}? " if close else ""


def _any_of(names: Sequence[str]) -> str:
    """'a', 'b' or 'c'"""
    *most, last = map(repr, names)
    return f"{', '.join(most)}{' or ' * bool(most)}{last}"


def listed(values: Iterable[Any], most: int = 20) -> str:
    """Names in quotes and numbers without, at most this many."""
    shown = [repr(str(v)) if isinstance(v, str) else f"{v:.12g}" for v in values]
    more = [f"and {len(shown) - most} more"] if len(shown) > most else []
    return ", ".join(shown[:most] + more)


def printable(text: str) -> str:
    """One line, without what moves the cursor, changes colours or turns the direction of writing:
    names and reasons come from other people, who make no line of their own."""
    if text.isprintable():
        return text
    plain = lambda c: c == "\t" or unicodedata.category(c) not in HARMFUL
    return "".join(c if plain(c) else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same of a text with lines of our own."""
    return "\n".join(map(printable, text.split("\n")))


def spreadsheet_cell(text: str) -> str:
    """A word as a spreadsheet can be shown it: it takes what begins with = for a formula."""
    return text if NUMBER.fullmatch(text) else FORMULA.sub(r"\1'", text)


def plural(number: int, noun: str, many: str = "") -> str:
    """2 runs; `many` where the plural is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def sentence_list(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count(value: float, noun: str = "") -> str:
    """6366 -> 6,366; with a noun in the right number. A median may be a half: 13.5."""
    half = value % 1 == 0.5  # nan of what is not finite
    text = f"{value:,.{int(half)}f}" if math.isfinite(value) else NONE
    return f"{text} {noun}{'' if value == 1 else 's'}" if noun else text


def percent(value: float) -> str:
    return f"{100 * value:.2f} %" if math.isfinite(value) else NONE


def whole_percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def fixed(value: float, digits: int) -> str:
    """1234.5 -> 1,234.50; a number of another size in scientific form."""
    if not math.isfinite(value):
        return _not_finite(value)
    small = value != 0 and abs(value) < 10.0**-digits
    return scientific(value) if small or abs(value) >= 1e7 else f"{value:,.{digits}f}"


def tiny(value: float) -> str:
    """A gap: 2.1e-05 -> 2.1e-5; what rounding hides is not claimed."""
    if not math.isfinite(value):
        return _not_finite(value)
    if value < 1e-15:
        return "< 1e-15"
    return f"{value:.2g}" if 0.01 <= value < 1000 else scientific(value)


def number(value: float, digits: int = 4) -> str:
    """Significant digits; a minus that is as wide as a plus, but 1e-6 as it is typed."""
    if not math.isfinite(value):
        return NONE if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.replace('-', '−')}e{int(exponent)}"
    whole = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(digits - 1 - whole, 0)}f}".replace("-", "−")


def trim(value: float, digits: int) -> str:
    """The same without zeros at the end."""
    text, e, exponent = number(value, digits).partition("e")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + e + exponent


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
    if not math.isfinite(value):
        return _not_finite(value)
    if value <= 1e-15:
        return "1e-15"
    rounded = _two_digits_up(value)
    if 1e-6 <= value < 1e7:
        return format(rounded.normalize(), "f")
    mantissa, _, exponent = f"{rounded.normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def tiny_bound(value: float) -> str:
    """A proven gap, as `tiny` writes it, but never rounded down."""
    known = math.isfinite(value) and value > 0
    return tiny(float(_two_digits_up(value)) if known else value)


def _two_digits_up(value: float) -> Decimal:
    return Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(value)))


def size(count: float) -> str:
    """Bytes: 12345 -> 12.3 kB."""
    if not math.isfinite(count):
        return NONE
    for unit, letters in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {letters}"
    return f"{count:,.0f} byte{'' if count == 1 else 's'}"


def seconds(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    if value < 120:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def _not_finite(value: float) -> str:
    return NONE if math.isnan(value) else str(value)


def scientific(value: float) -> str:
    """1e-05 -> 1e-5, with one decimal where there is one."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def reason_in(error: BaseException) -> str:
    """What a network error says to people, without numbers of the system and places in its code."""
    told = str(error) or type(error).__name__
    return re.sub(r"\[(Errno|SSL)[^\]]*\] | \(_ssl\.c:\d+\)", "", told)


def spoken(seconds: float) -> str:
    """A length of time: seconds, or hours or days where they are many."""
    for unit, name in ((86400, "days"), (3600, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:g} s"


def number_note(value: Any) -> str:
    """What a message adds about a value such as '<0.5' or '71,5'; it may name <decimal>."""
    text = str(value).strip()
    if COMMA.fullmatch(text):
        return f". Write {text.replace(',', '.')}, or read the file with <decimal>"
    return LIMIT if LIMITED.fullmatch(text) else ""


def other_columns(names: list[str], used: tuple[str, ...]) -> str:
    """What is wrong with the columns of X beside those of the fit."""
    more, less = [c for c in names if c not in used], [c for c in used if c not in names]
    if not (found := more or less):
        return "the columns of X are in another order than in the fit; use the order of the fit"
    what, it = ("column", "it") if len(found) == 1 else ("columns", "them")
    named = f"the {what} {', '.join(map(repr, found[:5]))}{', ...' if len(found) > 5 else ''}"
    if more:
        return f"X has {named}, but the model was fitted without {it}"
    return f"X does not have {named}, but the model was fitted with {it}"
