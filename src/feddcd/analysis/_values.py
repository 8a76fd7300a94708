"""Values of a column: numbers, finite, not mixed with words; errors name the row."""

import numbers
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._errors import DataError
from .._text import DECIMAL, number_note, plural, sentence_list
from ..formula import Formula

NO_PREDICTOR = "so this column cannot be a predictor; leave the column out"
WEIGHT = {"sample_weight": None}  # a setting that messages name
FILL_IN = "Fill in the site, or remove these rows"
MANY_LEVELS = 30  # a column of words with more may be one of numbers
WORD = re.compile(r"[\w.]+")
CORRECT = "Correct the value, or leave out the row"
LOG = re.compile(r"(log|log10|log2)\(([\w.]+)\)")


def is_number(values: pd.Series) -> np.ndarray:
    """Which values are numbers, or words that read as one."""
    return np.asarray(pd.notna(pd.to_numeric(values, errors="coerce")), bool)


def numbers_of(values: pd.Series, name: str) -> np.ndarray:
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind in "mMc":
        told = (
            f"{name} must be a column of numbers, but has the type {values.dtype}. Change the "
            "column to numbers. If the column is a category, use a formula"
        )
        raise DataError(told, column=name, settings=WEIGHT)
    try:
        if not isinstance(values.dtype, pd.StringDtype):
            return values.to_numpy(float, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    bad = values.notna() & ~is_number(values)
    raise _not_a_number(name, values.loc[bad if bad.any() else values.notna()])


def check_mixed(frame: pd.DataFrame, names: tuple[str, ...]) -> None:
    """A column of numbers with a few words in it would become hundreds of categories."""
    for name in names:
        values = column(frame, name).dropna()
        if is_mixed(values):
            raise _not_a_number(name, values.loc[~is_number(values)])


def is_mixed(values: pd.Series) -> bool:
    """Whether at least half of the values are numbers, and the others words."""
    there = values.dropna()
    words = values.dtype.kind in "OTU" and not isinstance(values.dtype, pd.CategoricalDtype)
    return words and len(there) > 0 and bool(0.5 <= is_number(there).mean() < 1)


def check_finite(
    X: np.ndarray, names: Sequence[str], rows: np.ndarray, frame: pd.DataFrame | None = None
) -> None:
    """With `frame`, the columns that the numbers were made of are named, too."""
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, at = bad[0]
        name, value = names[int(at)], X[row, at]
        made_of = "" if frame is None else _made_of(name, frame, int(row))
        remedy = _remedy(name, float(value)) if made_of else CORRECT
        told = f"{name} is {value} <row>{made_of}, but it must be a finite number. {remedy}"
        raise DataError(told, row=int(rows[row]), column=name, value=value)


def offset_name(formula: Formula | None) -> str:
    """As the formula has it, for a message."""
    terms = () if formula is None else formula.offsets
    return f"offset({' + '.join(terms)})" if terms else "offset"


def _made_of(name: str, frame: pd.DataFrame, row: int) -> str:
    """', where days is 0': the columns in the text of a term, and their values."""
    words = [word for word in dict.fromkeys(WORD.findall(name)) if word != name]
    values = [(word, frame[word].iloc[row]) for word in words if word in frame.columns]
    told = [f"{word} is {v:g}" for word, v in values if isinstance(v, numbers.Real)]
    return f", where {sentence_list(told)}" if told else ""


def _remedy(name: str, value: float) -> str:
    """The logarithm of a measured 0 can be another one; an offset has to stay what it is."""
    found = LOG.search(name)
    if found is None or value != -np.inf or name.startswith("offset"):
        return CORRECT
    log, of = found.groups()
    others = f"{log}({of} + 0.5)" + (f" or log1p({of})" if log == "log" else "")
    return f"Correct the value, leave out the row, or write for example {others} in the formula"


def label(y: pd.Series) -> str:
    return "y" if y.name is None else str(y.name)


def _not_a_number(name: str, values: pd.Series) -> DataError:
    value = values.iloc[0]
    told = f"{name} must be numbers, got {value!r} <row>{number_note(value)}"
    row, settings = int(values.index[0]), WEIGHT | DECIMAL
    return DataError(told, row=row, column=name, value=value, settings=settings)


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name]  # pyright: ignore


def told_of_many(name: str, levels: int) -> str:
    return (
        f"{name!r} has words, so it is a category with {levels:,} levels. If {name!r} should be a "
        "column of numbers, write only numbers into it"
    )


def many_levels(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Notes of columns of words that one may have meant as numbers."""
    words = [name for name in names if frame[name].dtype.kind in "OTU"]
    counts = {name: int(column(frame, name).nunique()) for name in words}
    return [told_of_many(name, n) for name, n in counts.items() if n > MANY_LEVELS]


def check_spelling(
    column: str, levels: Iterable[Any], what: str = "level", values: pd.Series | None = None
) -> None:
    """One level that is written in two ways would be two. With `values`, whose index has the rows'
    numbers, the message names the row."""
    ways: dict[str, list[str]] = {}
    for level in dict.fromkeys(map(str, levels)):
        ways.setdefault(level.strip().casefold(), []).append(level)
    unlike = next((found for found in ways.values() if len(found) > 1), None)
    if unlike is None:
        return
    row, written = None, [repr(way) for way in unlike]
    if values is not None:  # the rarer one is more often the mistake
        texts = np.asarray(values.astype(str))
        rare = min(range(len(unlike)), key=lambda k: (np.sum(texts == unlike[k]), -k))
        row = int(values.index[texts == unlike[rare]][0])
        written[rare] += " (first <row>)"
    many, which = ("two", "The two") if len(unlike) == 2 else (str(len(unlike)), "These")
    raise DataError(
        f"one {what} of {column!r} is written in {many} ways, {sentence_list(written)}. {which} "
        "words differ only by spaces, or by small and capital letters. Write the "
        f"{what} in one way in all rows",
        row=row, column=column,
    )  # fmt: skip


def codes_within(cluster: np.ndarray | None, part: np.ndarray) -> np.ndarray | None:
    """Clusters of these rows, counted again."""
    return None if cluster is None else np.unique(cluster[part], return_inverse=True)[1]


def complete(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """The rows with a value in all columns over which the plan's set of rows was founded."""
    whole = np.asarray(frame[columns].notna().all(axis=1), bool)
    if not whole.any():
        raise DataError("no row has values in all columns that the plan lists under 'complete'")
    return whole


def complete_rows(frame: pd.DataFrame, response: Any, missing: str) -> np.ndarray:
    """The rows without a hole, all of them if a missing value is an error."""
    holes = frame.isna()
    if missing == "error" and holes.to_numpy().any():
        row, column = np.argwhere(holes.to_numpy())[0]
        name = {"(y)": response or "y", "(offset)": "offset"}.get(*2 * (frame.columns[column],))
        told = f"{name!r} has no value <row>; to leave out such rows, give <missing>"
        raise DataError(told, row=int(row), column=name, settings={"missing": "drop"})
    whole = ~np.any(holes.to_numpy(), axis=1)
    if not whole.any():
        worst = holes.sum().idxmax()
        rows = plural(int(np.sum(holes[worst])), "row")
        raise DataError(f"no row has values in all columns; {worst!r} has no value in {rows}")
    return np.asarray(whole)


def whole_rows(frame: pd.DataFrame, columns: list[str]) -> tuple[pd.DataFrame, np.ndarray | None]:
    """These rows, and their places; None: all of them, as nothing is asked for."""
    if not columns:
        return frame, None
    places = np.flatnonzero(complete(frame, columns))
    return frame.iloc[places].reset_index(drop=True), places
