"""The fields of one column, which are text, as numbers, as true and false, or as words.

Missing is an empty field, NA and what the user names; in a column of numbers NaN as well. A column
that a person would not want as words (dates, shares with a percent sign, numbers of which one
cannot say how they are meant) stays words with a doubt, told where somebody uses the column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError
from .._text import LIMIT

MISSING = ("", "NA")
TRUTH = {"true": True, "false": False}
HOLES = ("none", "null", "n/a", "na", "nan", "n.a.", "#n/a", "#null!", "#div/0!", "#value!", "-",
         "--", ".", "?", "missing", "unknown", "nil", "<na>", "k.a.")  # fmt: skip
DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}\.\d{1,2}\.\d{2,4}|\d{1,2}/\d{1,2}/\d{2,4}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}:\d{2}(:\d{2})?"
)
SIGNS = re.compile(r"[€$£¥<>≤≥~±]\s?[+-]?[\d.,]*\d|[+-]?\d[\d.,]*\s?[%‰€$£¥]")
MEASURED = re.compile(r"[+-]?\d[\d.,]*\s?([^\W\d_][^\d\s]*)")  # 71 y, 80kg, 3 mg/l
FEW = 12  # levels such as '5 mg' that may be a category
INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)  # refused later, with its place
AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
GAP = "' \u00a0\u202f’"
BIG, SHORT = 2**63, 18  # whole numbers of 64 bits, and so few digits that they fit
DIGITS = 300  # more are beyond any float
LONGEST = 400  # letters; what is longer is no number and no date, and no pattern looks at it
BARE = {".": re.compile(r"[0-9+\-.eE]*"), ",": re.compile(r"[0-9+\-,eE]*")}  # plain numbers
ENOUGH = 1000  # different fields of a column, to see its decimal sign


def _forms(point: str, comma: str) -> tuple[re.Pattern[str], ...]:
    """Plain numbers, those in groups of three, and those that show which sign is the point."""
    p, c = re.escape(point), re.escape(comma)
    plain = rf"[+-]?(?:\d+(?:{p}\d*)?|{p}\d+)(?:[eE][+-]?\d+)?"
    grouped = rf"[+-]?[1-9]\d{{0,2}}(?:(?:{c}\d{{3}})+|(?:[{GAP}]\d{{3}})+)(?:{p}\d*)?"
    sure = rf"[+-]?(?:\d+{p}\d*|{p}\d+)(?:[eE][+-]?\d+)?|[+-]?[1-9]\d{{0,2}}(?:{c}\d{{3}})+{p}\d*"
    sure = rf"(?:{sure}|[+-]?[1-9]\d{{0,2}}(?:{c}\d{{3}}){{2,}})"
    return tuple(re.compile(form, re.ASCII) for form in (plain, grouped, sure))


FORMS = {".": _forms(".", ","), ",": _forms(",", ".")}
PLAIN, GROUPED, SURE = range(3)


class Notation(NamedTuple):
    """How numbers are written: their decimal sign, and the signs that may mean thousands as well
    as decimals, so that 1,234 is not understood; and whether a person gave the sign."""

    sign: str = "."
    doubtful: str = ""
    chosen: bool = False


class CellColumn(NamedTuple):
    values: Any  # an array of numbers or booleans, or a list of words and None
    grouped: bool = False  # numbers with thousands separators
    doubt: DataError | None = None  # why it should not be used as it is


def is_number(text: str, sign: str = ".") -> bool:
    text = text.strip()
    return any(fits(form, text) for form in (*FORMS[sign][:SURE], INFINITE))


def fits(form: re.Pattern[str], text: str) -> bool:
    """Whether all of the text has this form; a long one has none, however long the look."""
    return len(text) <= LONGEST and form.fullmatch(text) is not None


def find_notation(columns: Sequence[Sequence[str]], sep: str) -> Notation:
    """A semicolon comes with decimal commas, unless the numbers show that it does not."""
    if sep != ";" and not any("," in "".join(cells) for cells in columns):
        return Notation()
    seen = {sign for cells in columns for sign in _hints(dict.fromkeys(cells))}
    if sep == ";":
        sign = "," if "," in seen else "."
        return Notation(sign, {0: ".,", 1: "", 2: "."}[len(seen)])
    return Notation(",") if seen == {","} else Notation(".", "" if seen == {"."} else ",")


def _hints(cells: Collection[str]) -> set[str]:
    """The decimal signs that the numbers of a column show beyond doubt."""
    found, like = set(), 0
    cells = list(islice(cells, ENOUGH))
    for cell in map(str.strip, cells):
        sure = {sign for sign, forms in FORMS.items() if fits(forms[SURE], cell)}
        own = set() if fits(AMBIGUOUS, cell) else sure
        found |= own
        like += bool(sure) or cell.isdecimal() or cell in MISSING
    return found if 2 * like >= len(cells) else set()


def words(cells: Sequence[str], missing: Collection[str]) -> CellColumn:
    """As they are, in Unicode's composed form: an umlaut has two spellings that look alike."""
    if not all(map(str.isascii, set(cells))):
        cells = [unicodedata.normalize("NFC", cell) for cell in cells]
    return CellColumn([None if cell.strip() in missing else cell for cell in cells])


def spelt(cells: Iterable[str], missing: Collection[str]) -> set[str]:
    """The words for missing, and all other ways to write those of them that are numbers: who
    names -9 means -9.0 as well."""
    numbers = {float(word) for word in missing if is_number(word)}
    if not numbers:
        return {*missing}
    same = lambda cell: any_number(cell) and float(cell.strip().replace(",", ".")) in numbers
    return {*missing, *(cell.strip() for cell in {*cells} if _is_plain(cell) and same(cell))}


def _is_plain(cell: str) -> bool:
    return any(fits(forms[PLAIN], cell.strip()) for forms in FORMS.values())


def zeros_lost(cells: Iterable[str]) -> bool:
    """Whether numbers begin with a zero that a number does not have: 01 becomes 1."""
    return any(len(c) > 1 and c[0] == "0" and c.isdecimal() for c in map(str.strip, cells))


def typed(name: str, cells: Sequence[str], missing: Collection[str], point: Notation) -> CellColumn:
    """Numbers or booleans if all fields are, else words."""
    missing = spelt(cells, missing)
    quick = None if point.doubtful else _plain_numbers(cells, set(missing), point.sign)
    if quick is not None:
        return CellColumn(quick)
    kinds = {cell: None for cell in cells if cell.strip() not in missing}  # as they come
    lower = {kind.strip().lower() for kind in kinds}
    if lower and lower <= TRUTH.keys():
        return CellColumn(_boolean([TRUTH.get(cell.strip().lower()) for cell in cells]))
    if "NaN" in kinds and all(map(any_number, kinds.keys() - {"NaN"})):
        missing = {*missing, "NaN"}
        del kinds["NaN"]
    numbers = _numbers(kinds, point)
    if numbers is not None:
        grouped = any(fits(FORMS[point.sign][GROUPED], kind.strip()) for kind in kinds)
        return CellColumn(_array([numbers.get(cell) for cell in cells]), grouped)
    doubt = _doubt(name, cells, [*kinds], point)
    if doubt is not None:
        doubt.row = next(row for row, cell in enumerate(cells) if cell == doubt.value)
    return words(cells, missing)._replace(doubt=doubt)


def _plain_numbers(cells: Sequence[str], missing: set[str], sign: str) -> np.ndarray | None:
    """A column as most are, without a look at each field; None where that does not do."""
    whole = missing.isdisjoint(cells)
    kept = cells if whole else [cell for cell in cells if cell not in missing]
    text = "".join(kept)
    if not kept or not BARE[sign].fullmatch(text) or max(map(len, kept)) > LONGEST:
        return None
    try:
        if whole and not any(mark in text for mark in ".,eE"):
            fits = max(map(len, kept)) <= SHORT
            return np.array(list(map(int, kept)), np.int64) if fits else None
        kept = "\n".join(kept).replace(",", ".").split("\n") if sign == "," else kept
        numbers = np.array(list(map(float, kept)))
    except ValueError:
        return None
    if whole:
        return numbers
    values = np.full(len(cells), np.nan)
    values[[cell not in missing for cell in cells]] = numbers
    return values


def _numbers(kinds: Collection[str], point: Notation) -> dict[str, int | float] | None:
    """What each field means, or None where one is no number, or one of which nobody knows."""
    if any(_is_doubtful(kind, point) for kind in kinds):
        return None
    if not all(is_number(kind, point.sign) for kind in kinds):
        return None
    comma = "." if point.sign == "," else ","
    signs = str.maketrans({point.sign: "."} | dict.fromkeys(f"{comma}{GAP}", ""))
    return {kind: _whole(kind.translate(signs)) for kind in kinds}


def _is_doubtful(kind: str, point: Notation) -> bool:
    return fits(AMBIGUOUS, kind) and any(sign in kind for sign in point.doubtful)


def any_number(text: str) -> bool:
    return is_number(text) or is_number(text, ",")


def _whole(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdecimal() and len(text) < DIGITS else float(text)


def _array(numbers: list[int | float | None]) -> np.ndarray:
    """Whole numbers stay whole where none is missing."""
    whole = bool(numbers) and all(type(n) is int and -BIG <= n < BIG for n in numbers)
    if whole:
        return np.array(numbers, np.int64)
    return np.array([np.nan if number is None else float(number) for number in numbers])


def _boolean(values: list[bool | None]) -> np.ndarray:
    return np.array(values, object if None in values else bool)


def _doubt(
    name: str, cells: Sequence[str], kinds: Sequence[str], point: Notation
) -> DataError | None:
    """Why words should not be taken for categories, or nothing; with the first of such values."""
    told = lambda value, why, **settings: DataError(
        f"column {name!r} has {value!r} <row>{why}", column=name, value=value, settings=settings
    )
    unsure = [kind for kind in kinds if _is_doubtful(kind, point)]
    if unsure and all(map(any_number, kinds)):
        value = unsure[0]
        both = f"{re.sub('[.,]', '', value)} or {value.replace(',', '.')}"
        why = f", which may mean {both}: set <decimal> to the decimal sign of this file"
        return told(value, why, decimal=None)
    if all(fits(DATE, kind.strip()) for kind in kinds):
        why = (
            ", which is a date or a time. Change such values to numbers, for example days or years"
        )
        return told(kinds[0], why)
    signs = [kind for kind in kinds if fits(SIGNS, kind.strip())]
    numbers = {kind for kind in kinds if is_number(kind, point.sign)}
    if signs and 2 * (len(signs) + len(numbers)) > len(kinds):
        return told(signs[0], _without_signs(signs[0].strip()))
    if all(map(any_number, kinds)):
        other = next(kind for kind in kinds if kind not in numbers)
        remedy = f"write all numbers with {point.sign!r} as decimal sign"
        if point.chosen:
            return told(other, f", but <decimal> is given: {remedy}", decimal=point.sign)
        own = any(point.sign in kind for kind in numbers)
        where = "other numbers of this column" if own else "other columns"
        why = f", but in {where} the decimal sign is {point.sign!r}: {remedy}"
        sign = "," if point.sign == "." else "."
        if other.count(sign) == 1 and point.sign not in other:
            why += f", here {other.strip().replace(sign, point.sign)}"
        if not own:
            why += f". If {sign!r} is the decimal sign of all columns that you use, give <decimal> "
            why += "instead"
        return told(other, why, decimal=sign)
    if letters := _letters(kinds):
        why = (
            f": each value of this column is a number with {letters!r} behind it. If this is a "
            f"column of numbers, write them without {letters!r}. If the column is a category with "
            f"{len(kinds)} levels, write a codebook with type = 'category'"
        )
        return told(kinds[0], why)
    return _mixed(told, cells, kinds, numbers)


def _without_signs(value: str) -> str:
    """What to write in place of such a number."""
    if value[0] in "<>≤≥":
        return LIMIT
    if value[-1] in "%‰":
        how = "write 45% as 0.45 or as 45, in the same way at every site"
        return f": write numbers without other characters ({how})"
    return ": write numbers without other characters, in the same way at every site"


def _letters(kinds: Collection[str]) -> str:
    """What stands behind each number of many, as the y of '71 y'; a few may well be categories."""
    found = [MEASURED.fullmatch(kind.strip()) for kind in kinds if len(kind) <= LONGEST]
    if len(kinds) <= FEW or len(found) < len(kinds) or not all(found):
        return ""
    units = {match[1] for match in found if match}
    return units.pop() if len(units) == 1 else ""


def _mixed(told: Any, cells: Sequence[str], kinds: Any, numbers: set[str]) -> DataError | None:
    """A column of numbers with a few words in it would become hundreds of categories."""
    there, rest = {*kinds}, [kind for kind in kinds if kind not in numbers]
    holes = [kind for kind in rest if kind.strip().lower() in HOLES]
    most = 2 * sum(cell in numbers for cell in cells) >= sum(cell in there for cell in cells)
    if not numbers or not (most or holes == rest):
        return None
    why = (
        ", but other values of this column are numbers: correct this value. If "
        f"{rest[0]!r} means a missing value, give <na>. If the column is a category, write a "
        "codebook with type = 'category'"
    )
    return told(rest[0], why, na=rest[0])
