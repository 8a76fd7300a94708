"""Numbers that every site caps and rounds before anything else looks at them.

The codebook says how, so it is public and the same at all sites, and each row is changed by itself:

    capped    y = min(max(x, low), high)
    rounded   z = low + step floor((y - low) / step + 1/2), and again at most high

With no low end the multiples of `step` are counted from 0. A value in the middle goes up: R's round
would send it to the even multiple, and values that nobody joined would stay alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from .._errors import SpecError

NONE = "none"  # in place of an end that a cap does not have
LARGEST = 1e15  # beyond, a double has no room for steps
FINEST = 1e-9
EXACT = 2.0**52  # steps: of more, a double does not hold the number
WIDEST = 1000  # places of whole numbers that somebody may try one by one
FEW = 4  # rows for each different value, in a column that is not of whole numbers
STEPS = (1, 2, 5)
MOST_OTHERS = 12  # columns by which one is divided
FEWEST = 16  # values that are left, so that rules take the column as a category


class Capping(NamedTuple):
    """As the codebook has it; either may be absent."""

    cap: tuple[Any, ...] | None = None
    step: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        low, high = self.cap or (NONE, NONE)
        return -math.inf if low == NONE else low, math.inf if high == NONE else high

    @property
    def words(self) -> str:
        """What was done to a column: `was capped to 18..90 and rounded to steps of 5`."""
        low, high = self.ends
        caps = [] if self.cap is None else [f"capped to {low:.15g}..{high:.15g}"]
        if NONE in (self.cap or ()):
            one = f"at least {low:.15g}" if high == math.inf else f"at most {high:.15g}"
            caps = [f"capped to {one}"]
        steps = [] if self.step is None else [f"rounded to steps of {self.step:.15g}"]
        return f"was {' and '.join(caps + steps)}"

    def of(self, x: np.ndarray) -> np.ndarray:
        """The column, with nan where it is nan."""
        low, high = self.ends
        y = np.clip(np.asarray(x, float), low, high)
        if self.step is None:
            return y
        start = low if math.isfinite(low) else 0.0
        with np.errstate(all="ignore"):
            steps = np.floor((y - start) / self.step + 0.5)
            # as decimals are written: 0.3, not 3 times 0.1
            rounded = np.round(start + self.step * steps, _decimals(self.step, start))
        return np.clip(np.where(abs(steps) < EXACT, rounded, y), low, high)

    def plain(self) -> dict[str, Any]:
        cap = {} if self.cap is None else {"cap": list(self.cap)}
        return cap | ({} if self.step is None else {"step": self.step})


def _decimals(*numbers: float) -> int:
    exponents = (Decimal(repr(x)).as_tuple().exponent for x in numbers)
    return max(0, *(-int(e) for e in exponents))


def cappings(columns: Mapping[str, Any]) -> dict[str, Capping]:
    """By name, of plain settings of columns; those that have neither are left out."""
    found = {
        name: Capping(None if each.get("cap") is None else tuple(each["cap"]), each.get("step"))
        for name, each in columns.items()
    }
    return {name: capping for name, capping in found.items() if capping != Capping()}


def notes(codebook: Mapping[str, Any]) -> list[str]:
    """For readers of a result, of a codebook in plain values: a sentence for each column."""
    found = cappings(codebook.get("columns", {})) if codebook else {}
    return [f"{name} {capping.words} at every site." for name, capping in found.items()]


def check_capping(kind: str, made: Mapping[str, Any]) -> None:
    """Of the settings of a column: refuses what no site could do."""
    for name in ("cap", "step"):
        if name in made and kind not in ("number", "integer"):
            raise SpecError(f"{name} is only for numbers, not for type = {kind!r}")
    if "cap" in made:
        _check_cap(kind, made["cap"], made.get("range"))
    if "step" in made:
        _check_step(kind, made["step"], made.get("cap"))


def is_real(value: Any) -> bool:
    """A finite number that a double can hold: text from outside may have any digits."""
    return type(value) in (int, float) and abs(value) <= 1e300


def _check_cap(kind: str, cap: Any, limits: Any) -> None:
    form = 'cap = [18, 90], or without a low end as in cap = ["none", 90]'
    right = lambda v: v == NONE if isinstance(v, str) else is_real(v) and abs(v) <= LARGEST
    if not isinstance(cap, tuple) or len(cap) != 2 or not all(map(right, cap)):
        raise SpecError(f"cap must be [low, high], as in {form}; got {_shown(cap)}")
    low, high = Capping(cap).ends
    if cap == (NONE, NONE):
        raise SpecError("both ends of cap are 'none', so cap changes nothing: leave out cap")
    if not low < high:
        raise SpecError(f"cap needs low < high, as in {form}; got {_shown(cap)}")
    if kind == "integer" and any(v != int(v) for v in cap if v != NONE):
        raise SpecError(f"type = 'integer' needs whole numbers in cap, got {_shown(cap)}")
    if limits and (-math.inf < low < limits[0] or limits[1] < high < math.inf):
        raise SpecError(
            f"both ends of cap must be inside range = {_shown(limits)}, because no value is "
            f"outside of the range; got cap = {_shown(cap)}"
        )


def _check_step(kind: str, step: Any, cap: Any) -> None:
    if isinstance(step, str):
        raise SpecError(f"step must be a number, but {step!r} is a text: write it without quotes")
    if not is_real(step) or not FINEST <= step <= LARGEST:
        raise SpecError(
            f"step must be a number from {FINEST:g} to {LARGEST:g}, as in step = 5; "
            f"got {_shown(step)}"
        )
    if kind == "integer" and step != int(step):
        raise SpecError(f"type = 'integer' needs a whole number as step, got {step!r}")
    low, high = Capping(cap).ends
    if step > high - low:
        raise SpecError(
            f"step = {step!r} is larger than the distance between the two ends of cap = "
            f"{_shown(cap)}"
        )


def _shown(value: Any) -> str:
    return f"{list(value) if isinstance(value, tuple) else value!r}"[:80]


def is_guessable(x: np.ndarray) -> bool:
    """Whether others can list the values that a column may have, as ages in years: then sums reveal
    how many rows have each. A column of two values has rules of its own."""
    values = np.unique(x)
    if len(values) < 3 or not np.all(np.isfinite(values)):
        return False
    whole = bool(np.all(values == np.rint(values)))
    return (whole and values[-1] - values[0] < WIDEST) or FEW * len(values) <= len(x)


def by_others(tables: Sequence[Any], name: str) -> list[list[np.ndarray]]:
    """A column of data frames, as it is in each, and then by each column of two values beside it: a
    model of one such outcome reveals how many rows of each class have each value."""
    here = [table for table in tables if name in table.columns]
    two = lambda other: all(
        other in table.columns and table[other].nunique() == 2 for table in here
    )
    names = [other for other in (here[0].columns if here else ()) if other != name and two(other)]
    parts = [[table[name].dropna().to_numpy(float) for table in here]]
    for other in names[:MOST_OTHERS]:
        known = [table[[name, other]].dropna() for table in here]
        parts.append(
            [rows[name].to_numpy(float)[(rows[other] == value).to_numpy(bool)]
             for rows in known for value in rows[other].unique()]
        )  # fmt: skip
    return parts


def proposals(parts: Sequence[Sequence[np.ndarray]], k: int) -> list[Capping]:
    """Caps and steps for a column with which each of its values has k rows or more. The first is
    the one to propose: it holds for most of the parts of `by_others`, and has the most values."""
    found = dict.fromkeys(each for columns in parts for each in _fitting(columns, k))
    whole = [each for each in found if _fits(each, parts[0], k)]
    left = lambda each: len(np.unique(each.of(np.concatenate(parts[0]))))
    rank = lambda each: (sum(_fits(each, own, k) for own in parts), left(each))
    return sorted(whole, key=rank, reverse=True)


def proposal(columns: Sequence[np.ndarray], k: int) -> Capping | None:
    """The narrowest steps with which each value has k rows or more in every one of the columns;
    None where there are none."""
    return next(_fitting(columns, k), None)


def _fitting(columns: Sequence[np.ndarray], k: int) -> Iterator[Capping]:
    """From narrow steps to wide ones. Both ends are round numbers, not the value of somebody. Few
    values are left, so that a site's rules can look at each of their combinations."""
    if not columns or min(map(len, columns)) < 2 * k:
        return
    columns = [np.sort(x) for x in columns]
    values = np.unique(np.concatenate(columns))
    unit = 1.0 if np.all(values == np.rint(values)) else float(np.diff(values).min())
    least, most = max(x[k - 1] for x in columns), min(x[-k] for x in columns)
    size = unit
    while size <= max(most - least, unit):
        for step in (size * each for each in STEPS):
            low, high = math.ceil(least / step) * step, math.floor(most / step) * step
            low, high, step = (_tidy(v) for v in (low, high, step))
            if not low < high:
                return
            found = Capping((low, high), None if step == unit else step)
            if (high - low) / step < FEWEST and _fits(found, columns, k):
                yield found
        size *= 10


def _fits(capping: Capping, columns: Sequence[np.ndarray], k: int) -> bool:
    counts = (np.unique(capping.of(x), return_counts=True)[1] for x in columns)
    return all(each.size and int(each.min()) >= k for each in counts)


def _tidy(x: float) -> float:
    """As a person writes it: 20, not 20.0, and 0.3."""
    x = float(f"{x:.12g}")
    return int(x) if x.is_integer() else x
