"""What one site alone has: other words for a level, or another coding of the outcome?"""

import numpy as np
import pandas as pd

from .._text import sentence_list
from ..formula import levels_of
from ._values import column

MOST = 5  # levels in a note


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
