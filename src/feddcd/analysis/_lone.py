"""Values that look like mistakes: words of one site alone, another coding of the outcome."""

from typing import Any

import numpy as np
import pandas as pd

from .._errors import DataError
from .._text import sentence_list
from ..formula import levels_of
from ._values import column, label, numbers_of
from .table import CompleteRows

MOST = 5  # levels in a note
NEARLY_ALL = 0.9  # of the rows: then another value looks like a mistake


def lone_levels(frame: pd.DataFrame, name: str, sites: np.ndarray) -> str:
    """A note on the levels of a column of words that occur at one site only; or nothing."""
    values = column(frame, name)
    if values.dtype.kind in "biuf" or len(set(sites)) < 2:
        return ""
    where = pd.Series(sites, values.index).groupby(values, observed=True)
    only: pd.Series = where.first()[where.nunique() == 1]  # pyright: ignore
    if only.empty:
        return ""
    at = only.iloc[0]
    those = [repr(str(level)) for level, site in only.items() if site == at]
    more = "" if len(those) == len(only) else ". Some other levels, too, exist at only one site"
    one = len(those) == 1
    return (
        f"the level{'' if one else 's'} {sentence_list(those[:MOST])} of the column {name!r} "
        f"exist{'s' if one else ''} only at {at}{more}. If other sites have other words for the "
        "same level, use the same words at all sites"
    )


def unlike_codes(name: str, values: pd.Series, sites: np.ndarray | None) -> str:
    """Where each site has an outcome of two values, but not all the same two: which sites have
    which; or nothing."""
    if sites is None:
        return ""
    codes: dict[tuple[str, ...], list[str]] = {}
    for site, own in values.groupby(np.asarray(sites)):
        found = tuple(repr(v) if isinstance(v, str) else f"{v:g}" for v in levels_of(own))
        codes.setdefault(found, []).append(str(site))
    if len(codes) < 2 or any(len(found) != 2 for found in codes):
        return ""
    usual = sorted(codes, key=lambda found: -len(codes[found]))
    told = [f"{sentence_list(found)} at {sentence_list(codes[found])}" for found in usual[:MOST]]
    return (
        f"the outcome {name!r} does not have the same two values at all sites: {'; '.join(told)}. "
        "Use the same two values at all sites"
    )


def shares_alone(rows: CompleteRows) -> str:
    """Why an outcome of shares needs a weight; or nothing."""
    values = numbers_of(rows.y, label(rows.y))
    each = np.unique(values[values % 1 != 0])
    if rows.weight is not None or not len(each):
        return ""
    return (
        f"the outcome {label(rows.y)!r} has shares such as {each[len(each) // 2]:g}: give the "
        "column with the number of trials as --weight, or use --family gaussian"
    )


def check_binary(rows: CompleteRows) -> None:
    """Refuses numbers that are not of a binomial outcome, and says what to do."""
    name, values = label(rows.y), numbers_of(rows.y, label(rows.y))
    beyond = np.flatnonzero((values < 0) | (values > 1))
    if not len(beyond) or not np.isfinite(values).all():
        return
    low, high, row = values.min(), values.max(), int(beyond[0])
    settings: dict[str, Any] = {"family": "binomial"}
    fields: dict[str, Any] = {"column": name, "settings": settings}
    if len(np.unique(values)) == 2:
        settings["event"] = int(high) if high % 1 == 0 else float(high)
        told = (
            f"the outcome {name!r} has the two values {low:g} and {high:g}, but <family> needs 0 "
            f"and 1. If {high:g} means the event, add <event>"
        )
    elif told := unlike_codes(name, rows.y, rows.site):
        pass
    elif np.isin(values, (0, 1)).mean() >= NEARLY_ALL:
        fields |= {"row": int(rows.y.index[row]), "value": values[row]}
        told = (
            f"the outcome {name!r} has the value {values[row]:g} <row>, but nearly all other "
            "values are 0 or 1. If this value is a mistake, correct it. <family> needs 0 and 1"
        )
    else:
        told = (
            f"the outcome {name!r} has values from {low:g} to {high:g}, but <family> needs 0 and "
            "1. Use gaussian for an outcome of any numbers, poisson for counts, multinomial for "
            "classes"
        )
    raise DataError(told, **fields)
