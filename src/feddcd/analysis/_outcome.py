"""An outcome of two words: which of them counts as 1, the event."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError
from .._text import listed, sentence_list
from ..formula import is_numeric, label, levels_of


class Outcome(NamedTuple):
    """The two values of a binary outcome."""

    other: Any  # counts as 0
    event: Any  # counts as 1


def words_of(y: pd.Series, event: Any = None) -> list[Any] | None:
    """The values of an outcome that is no number, or of which one was chosen as the event."""
    return None if event is None and is_numeric(y) else levels_of(y)


def outcome_of(name: str, words: Sequence[Any], event: Any) -> Outcome:
    """The second in order is the event, as in R, if none was chosen."""
    shown = [label(word) for word in words]
    if len(words) != 2:
        if len(words) == 1:
            told = (
                f"the outcome {name!r} is {shown[0]!r} in every row, but family binomial needs two "
                "values"
            )
        else:
            told = (
                f"the outcome {name!r} has {len(words)} different values, {listed(shown, 5)}, but "
                f"<family> needs two{unlike_case(words)}"
            )
        raise DataError(told, column=name, settings={"family": "binomial"})
    if event is None:
        return Outcome(*words)
    chosen = [word for word in words if _same(word, event)]
    if not chosen:
        told = (
            f"<event> is not possible, because {name!r} has only the values {shown[0]!r} and "
            f"{shown[1]!r}. Give one of these values"
        )
        raise DataError(told, column=name, settings={"event": event})
    (other,) = [word for word in words if not _same(word, event)]
    return Outcome(other, chosen[0])


def unlike_case(words: Sequence[Any]) -> str:
    """Which words differ by case or spaces alone, as an end of a message; or nothing."""
    shown = [label(word) for word in words]
    key = lambda word: word.strip().casefold()
    same = [a for a in shown if any(a != b and key(a) == key(b) for b in shown)]
    if not same:
        return ""
    words = sentence_list([repr(a) for a in same])
    same = f"{words} differ only by spaces, or by small and capital letters"
    return f". {same}: write each word in one way in all rows"


def coded(y: pd.Series, outcome: Sequence[Any]) -> np.ndarray:
    """1 where the event is; nan where it is neither."""
    values = y.astype(object)
    is_event, is_other = (np.asarray(values == word, bool) for word in (outcome[1], outcome[0]))
    return np.where(is_event, 1.0, np.where(is_other, 0.0, np.nan))


def _same(word: Any, event: Any) -> bool:
    """A command line and a file hold words where data may hold numbers."""
    return (
        label(word).casefold() == label(event).casefold()
        if _is_flag(word)
        else (label(word) == label(event))
    )


def _is_flag(word: Any) -> bool:
    return isinstance(word, bool | np.bool)
