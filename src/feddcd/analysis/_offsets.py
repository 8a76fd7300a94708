"""Offsets of another scale: a time in place of its logarithm, for example.

What is known of the offset o over all sites is sum s, sum s o and sum s o², which the first answers
have.
"""

import math
from collections.abc import Sequence

from .._errors import DataError
from ..formula import read_formula
from ._dependence import Constant
from ._model import Model
from ._result import TableResult
from ._sums import Moments
from .plan import ModelSettings, RegressionPlan

SCALES = {  # by link: what exp(offset) multiplies, or which scale is that of the linear predictor
    "log": "the mean of a row is multiplied by exp(offset)",
    "logit": "the odds of a row are multiplied by exp(offset)",
    "cloglog": "the hazard of a row is multiplied by exp(offset)",
    "probit": "an offset of 3 or more makes a probability almost 1",
    "cauchit": "an offset of 100 or more makes a probability almost 1",
}
LARGEST = 100.0  # on average: exp(100) persons or years are in no study
WIDEST = 50.0  # standard deviations: rows that differ by factors of e^100
UNUSUAL = 4.0  # likewise, where a model can be fitted: factors of e^8
CONSTANT = 1e-9  # of a column's square: what rounding can make of no variance


def check_offset(settings: ModelSettings, sums: Moments, link: str) -> None:
    """Refuses an offset with which nothing can be computed."""
    mean, sd = _spread(float(sums.weight), float(sums.o[0]), float(sums.o[1]))
    if link not in SCALES or (abs(mean) <= LARGEST and sd <= WIDEST):
        return
    name = _named(settings)
    raise DataError(
        f"the offset{f' {name!r}' if name else ''} is too large: it is {mean:.3g} on average, with "
        f"a standard deviation of {sd:.3g}. With the link {link!r}, {SCALES[link]}. "
        f"{_remedy(name)}"
    )


def check_weights(
    settings: ModelSettings, firsts: Sequence[Moments], model: Model, error: DataError
) -> None:
    """Refuses the offset in place of a column, where the column has more than one value, and only
    the weights of the rows, which the offset gives them, have hidden the others;
    `firsts` holds the first sums, if there are any."""
    name, link = str(error.column), model.loss.link
    if not firsts or link not in SCALES or name not in model.names:
        return
    sums = firsts[0]
    if not _varies(sums, model.names.index(name)):
        return
    _, sd = _spread(float(sums.weight), float(sums.o[0]), float(sums.o[1]))
    if sd <= UNUSUAL and not (sd > 0 and isinstance(error, Constant)):
        return
    offset = _named(settings)
    raise DataError(
        f"the offset{f' {offset!r}' if offset else ''} differs too much between rows: its standard "
        f"deviation is {sd:.3g}. With the link {link!r}, {SCALES[link]}. So a few rows outweigh "
        f"all other rows, and feddcd cannot compute the effect of the column {name!r}. "
        f"{_remedy(offset)}"
    ) from error


def _varies(sums: Moments, at: int) -> bool:
    """Whether a column has two values in rows that count, which its sums without offset tell."""
    weight, x, xx = (float(part) for part in (sums.weight, sums.x[at], sums.xx[at]))
    return weight > 0 and xx - x**2 / weight > CONSTANT * xx


def unusual_offset(result: TableResult, remedy: bool = True) -> str:
    """A caution where a model was fitted, or nothing."""
    if result.link not in SCALES or len(result.row_sums or ()) != 4:  # one outcome
        return ""
    weight, _, o, squares = result.row_sums
    sd = _spread(weight, o, squares)[1]
    if sd <= UNUSUAL:
        return ""
    return (
        f"The offset differs much between rows (its standard deviation is {sd:.3g}). With the link "
        f"{result.link!r}, {SCALES[result.link]}.{f' {_remedy(str())}.' if remedy else ''}"
    )


def _spread(weight: float, o: float, squares: float) -> tuple[float, float]:
    """Mean and standard deviation; without loss that matters, for these are rough bounds."""
    mean = o / weight if weight > 0 else 0.0
    return mean, math.sqrt(max(squares / weight - mean**2, 0.0)) if weight > 0 else 0.0


def _named(settings: ModelSettings) -> str:
    """As the formula or the plan has it; an array has no name."""
    own = () if settings.formula is None else read_formula(settings.formula).offsets
    column = settings.offset if isinstance(settings, RegressionPlan) else None
    names = [*own, *([column] if column else [])]
    return names[0] if len(names) == 1 else ""


def _remedy(name: str) -> str:
    what = repr(name) if name else "the offset"
    logs = f"If {what} is a time or a number of persons, use its logarithm: write "
    if name:
        return f"{logs}offset(log({name})) in the formula"
    return (
        f'{logs}offset(log(COLUMN)) in the formula, or --offset "log(COLUMN)", where COLUMN is the '
        "column of the offset"
    )
