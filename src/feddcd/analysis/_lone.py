"""Levels of a category that one site alone has: other words for what other sites have, too?"""

import numpy as np
import pandas as pd

from .._text import sentence_list
from ._values import column

MOST = 5  # levels in a note


def lone_levels(frame: pd.DataFrame, name: str, sites: np.ndarray) -> str:
    """A note on the levels of a column of words that occur at one site only; or nothing."""
    values = column(frame, name)
    if values.dtype.kind in "biuf" or len(set(sites)) < 2:
        return ""
    where = pd.Series(sites, values.index).groupby(values, observed=True)
    only = where.first()[where.nunique() == 1]
    if only.empty:
        return ""
    at = only.iloc[0]
    those = [repr(str(level)) for level, site in only.items() if site == at]
    more = "" if len(those) == len(only) else ", and other levels only at other sites"
    return (
        f"{name} has {sentence_list(those[:MOST])} only at {at}{more}. If other sites have other "
        "words for the same level, use the same words at all sites"
    )
