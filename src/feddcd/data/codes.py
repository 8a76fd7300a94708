"""Numbers that stand for a missing value, as -999 for an age that nobody knows."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from .._text import plural

if TYPE_CHECKING:
    import pandas as pd

FAR = 3.0  # times the next largest number


def missing_codes(frame: "pd.DataFrame", names: Iterable[str]) -> Iterator[str]:
    """A note for each such column: its least or greatest number has only nines and no neighbour."""
    for name in names:
        if name not in frame.columns or frame[name].dtype.kind not in "iuf":
            continue
        values = np.asarray(frame[name].dropna(), float)
        for code in () if not values.size else (values.min(), values.max()):
            rest = values[values != code]
            if rest.size and _is_code(code, rest):
                where, least = ("below", 0) if code < 0 else ("above", rest.max())
                yield (
                    f"the column {name!r} is {code:g} in {plural(values.size - rest.size, 'row')}, "
                    f"and no other value of this column is {where} {least:g}. If {code:g} means a "
                    f"missing value, give --na {code:g}"
                )


def _is_code(code: float, rest: np.ndarray) -> bool:
    if not re.fullmatch(r"-9+|9{3,}", f"{code:.12g}"):
        return False
    return rest.min() >= 0 if code < 0 else bool(rest.max() < code / FAR)
