"""Formulas: `y ~ a + C(b) + offset(log(t))`, read with formulaic, which knows no offset()."""

import re
import warnings
from typing import NamedTuple

import formulaic
import numpy as np
import pandas as pd
from formulaic.errors import FormulaicError

from .._errors import DataError, SpecError

INTERCEPT = "Intercept"  # as formulaic names it
CONTEXT = {"np": np}
DOT = re.compile(r"(?<![\w.)`])\.(?![\w.(])")
OFFSET = re.compile(r"(?<![\w.])offset\s*\(")
LEVEL = re.compile(
    r"(?:C\((?P<a>[^,()]+)(?:,.*)?\)|(?P<b>[^\[\]():]+))\[(?P<t>T\.)?(?P<level>.+)\]"
)


class NoColumn(DataError):
    """A formula names what is not a column."""


class FormulaParts(NamedTuple):
    response: str
    right: str  # without its offset terms
    offsets: tuple[str, ...]


class Level(NamedTuple):
    column: str
    level: str
    relative: bool  # to a reference category, which has no column of its own


class FormulaDesign(NamedTuple):
    """How rows of a frame become rows of X, as learned from the frame of the fit."""

    spec: formulaic.ModelSpec
    offsets: tuple[str, ...]
    used: tuple[str, ...]  # columns of the frame

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        self._check_levels(frame)
        return _evaluate(lambda: self.spec.get_model_matrix(frame, context=CONTEXT), frame)

    def offset(self, frame: pd.DataFrame) -> np.ndarray:
        return sum((number(e, frame) for e in self.offsets), np.zeros(len(frame)))

    def levels(self) -> dict[str, list]:
        """By factor: its categories."""
        states = {factor: state for factor, (_, state) in self.spec.encoder_state.items()}
        return {f: list(s["categories"]) for f, s in states.items() if s.get("categories")}

    def _check_levels(self, frame: pd.DataFrame) -> None:
        for factor, levels in self.levels().items():
            for name in tokens(factor, frame):
                unseen = np.flatnonzero(~frame[name].isin(levels))
                if len(unseen):
                    value = frame[name].iloc[unseen[0]]
                    raise DataError(
                        f"{name} has {value!r} <row>, a category that the fit has not seen; "
                        f"it knows {', '.join(map(repr, levels))}",
                        row=int(unseen[0]),
                        column=name,
                        value=value,
                    )


def split(formula: str) -> FormulaParts:
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise SpecError(f"a formula looks like 'y ~ x1 + x2', got {formula!r}")
    response, right = (side.strip() for side in formula.split("~"))
    if not response or not right:
        side = "left" if not response else "right"
        raise SpecError(f"nothing stands {side} of ~ in the formula {formula!r}")
    offsets = []
    while match := OFFSET.search(right):
        end = _closing(right, match.end(), formula)
        offsets.append(right[match.end() : end].strip())
        right = _without(right, match.start(), end + 1, formula)
    if "|" in right or DOT.search(re.sub(r"`[^`]*`", "", right)):
        raise SpecError(f"| and . are not known in the formula {formula!r}: name the columns")
    if "" in offsets:
        raise SpecError(f"offset() is empty in the formula {formula!r}")
    return FormulaParts(response, right or "1", tuple(offsets))


def learn(parts: FormulaParts, frame: pd.DataFrame) -> tuple[FormulaDesign, pd.DataFrame]:
    """The terms and their matrix on the rows of the fit."""
    make = lambda: formulaic.model_matrix(parts.right, frame, context=CONTEXT, na_action="ignore")
    X = _evaluate(make, frame)
    if X.shape[1] == 0:
        raise SpecError("the formula has no column and no intercept: there is nothing to fit")
    stateful = list(X.model_spec.transform_state)  # pyright: ignore
    if stateful:
        raise SpecError(
            f"formula: {stateful[0]} looks at all rows at once, which no site can; give the "
            "columns as they are (standardize=True puts them in standard deviations)"
        )
    used = tokens(" ".join([parts.right, *parts.offsets]), frame)
    return FormulaDesign(X.model_spec, parts.offsets, used), X  # pyright: ignore


def number(expression: str, frame: pd.DataFrame) -> np.ndarray:
    """One column of numbers from an expression."""
    make = lambda: formulaic.model_matrix(
        "0 + {" + expression + "}", frame, context=CONTEXT, na_action="ignore"
    )
    X = _evaluate(make, frame)
    if X.shape[1] != 1:
        raise SpecError(f"{expression!r} is not one column of numbers, but {list(X.columns)}")
    return X.iloc[:, 0].to_numpy(float)


def tokens(text: str, frame: pd.DataFrame) -> tuple[str, ...]:
    """The columns of the frame that a formula speaks of."""
    spoken = words(text)
    return tuple(str(c) for c in frame.columns if str(c) in spoken)


def words(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text)) | set(re.findall(r"[^\W\d]\w*", text))


def level(column: str) -> Level | None:
    """`C(sex)[T.m]` is sex = m against the reference; None for a column of numbers."""
    match = LEVEL.fullmatch(column)
    if match is None or len(factors(column)) > 1:
        return None
    name = (match["a"] or match["b"]).strip()
    return Level(name, match["level"], match["t"] is not None)


def factors(column: str) -> list[str]:
    """`a:C(b)[T.x]` is a product of two; a colon within brackets does not divide."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(column):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == ":" and depth == 0:
            parts.append(column[start:at])
            start = at + 1
    return [*parts, column[start:]]


def _evaluate(make, frame: pd.DataFrame) -> pd.DataFrame:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # log(0) and the like are refused with their row
            return make()
    except FormulaicError as error:
        message = re.sub(r"\x1b\[[\d;]*m|[⧛⧚]", "", str(error)).replace("\n", " ")
        columns = ", ".join(map(str, frame.columns[:30]))
        kind = NoColumn if isinstance(error.__cause__, NameError) else SpecError
        raise kind(f"formula: {message.strip()} (columns: {columns})") from None


def _closing(text: str, start: int, formula: str) -> int:
    """Where the bracket that was opened before `start` is closed."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise SpecError(f"offset( is not closed in the formula {formula!r}")


def _without(text: str, start: int, end: int, formula: str) -> str:
    """The sum without the term between start and end."""
    before, after = text[:start].rstrip(), text[end:].lstrip()
    if (before and before[-1] != "+") or (after and after[0] not in "+-"):
        raise SpecError(f"offset() must be a term of its own in the formula {formula!r}")
    if before:
        return f"{before[:-1].rstrip()} {after}".strip()
    return after.removeprefix("+").strip()
