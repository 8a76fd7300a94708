"""Categories: columns of words, C(x, ...) with levels and contrasts, cut(x, points)."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from .._text import closest, listed, plural
from ._arguments import bind, flag, number_of, points
from ._habits import CONTRASTS
from ._rows import Kinds, check_number, evaluate, find, label
from ._tree import Argument, Call, Items, Name, Node, Number, Word, short, text_of
from ._variables import CategoryVariable

MOST_LEVELS = 1_000
WRITTEN = ". Add this level to levels=c(...) in the formula, or leave such rows out of the data"


def of_column(
    text: str, column: str, levels: tuple[Any, ...], more: str = "", **coding: Any
) -> CategoryVariable:
    """`more` follows where a value is none of the levels."""

    def codes(frame: Any) -> np.ndarray:
        values = frame[column]
        found = pd.Index(levels, dtype=object).get_indexer(values.astype(object))
        unseen = np.flatnonzero(found < 0)
        if len(unseen):
            value, row = values.iloc[unseen[0]], int(values.index[unseen[0]])
            raise DataError(
                f"{column} has {value!r} <row>, but the fit knows only the levels "
                f"{listed(map(label, levels))}{more}",
                row=row,
                column=column,
                value=value,
            )
        return np.asarray(found)

    return _checked(CategoryVariable(text, column, levels, codes, **coding))


def of_flags(node: Node) -> CategoryVariable:
    codes = lambda frame: _finite_codes(evaluate(node, frame), frame, text_of(node))
    return CategoryVariable(text_of(node), text_of(node), (False, True), codes)


def _finite_codes(values: np.ndarray, frame: Any, text: str) -> np.ndarray:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        told = f"{text} is {values[bad[0]]} <row>, but it must be a finite number"
        raise DataError(told, row=int(frame.index[bad[0]]), column=text)
    return values.astype(int)


def _checked(found: CategoryVariable) -> CategoryVariable:
    count, column = len(found.levels), found.column
    if count < 2:
        there = f"only the level {label(found.levels[0])!r}" if found.levels else "no level"
        told = f"{column} has {there}, so this column cannot be a predictor; leave the column out"
        raise DataError(told, column=column)
    if count > MOST_LEVELS:
        told = (
            f"{column} has {count:,} different values, which are too many for a category; the "
            f"limit is {MOST_LEVELS:,}"
        )
        raise DataError(told, column=column)
    named = [label(level) for level in found.levels]
    if len(set(named)) < count:
        twice = next(name for name in named if named.count(name) > 1)
        raise DataError(f"{column} has two levels with the same text {twice!r}", column=column)
    return found


def category(call: Call, kinds: Kinds) -> CategoryVariable:
    names = ("x", "contrasts", "ref", "levels")
    also = {"reference": "ref", "base": "ref", "contr": "contrasts", "contrast": "contrasts"}
    given = bind(call, names, also)
    if isinstance(given.get("contrasts"), Items):  # factor(x, c('a', 'b'))
        given["levels"] = given.pop("contrasts")
    match given.get("x"):
        case Name(name):
            levels = _levels(call, given, kinds[name].levels)
            found = of_column(text_of(call), name, levels, WRITTEN if "levels" in given else "")
        case Call("cut") as inner if "levels" not in given:
            found = cut(inner, kinds)
            found = CategoryVariable(text_of(call), found.column, found.levels, found.codes)
        case _:
            told = f"{short(call)}: {call.function} needs a column, or cut(x, c(...))"
            raise SpecError(f"formula: {told}")
    kind, base = _contrast(call, given)
    at = 0 if base is None else find(found.levels, base)
    if at is None:
        told = _no_level(base, [label(level) for level in found.levels])
        raise DataError(f"formula: {short(call)}: {told}", column=found.column)
    if base is not None and kind != "treatment":
        raise SpecError(f"formula: {short(call)}: only Treatment can have a reference")
    return CategoryVariable(found.text, found.column, found.levels, found.codes, kind, at)


def _no_level(base: Node | None, levels: list[Any]) -> str:
    if isinstance(base, Name) and base.name in levels:
        return f"write the level in quotes: ref={base.name!r}"
    told = f"{short(base)} is not one of the levels {listed(levels)}"  # pyright: ignore
    return told + (closest(base.text, map(str, levels)) if isinstance(base, Word) else "")


def _levels(call: Call, given: dict[str, Node], agreed: tuple[Any, ...]) -> tuple[Any, ...]:
    """As the data have them, or as they are written down; a number is a level of numbers."""
    if "levels" not in given:
        return agreed
    node = given["levels"]
    written = [item.text if isinstance(item, Word) else number_of(item) for item in _items(node)]
    if not written or None in written or len(set(written)) < len(written):
        told = f"{short(call)}: levels must be different words or numbers, for example c('a', 'b')"
        told += "; words need quotes" if any(isinstance(v, Name) for v in _items(node)) else ""
        raise SpecError(f"formula: {told}")
    return tuple(written)


def _items(node: Node) -> tuple[Node, ...]:
    return tuple(node.items) if isinstance(node, Items) else ()


def _contrast(call: Call, given: dict[str, Node]) -> tuple[str, Node | None]:
    node, ref = given.get("contrasts"), given.get("ref")
    _refuse_counts(call, call.arguments[:2], None)
    _refuse_counts(call, call.arguments[2:], "columns")
    match node:
        case None:
            return "treatment", ref
        case Name(name) if name in CONTRASTS:
            return CONTRASTS[name], ref
        case Word(text) if text in (*CONTRASTS, *CONTRASTS.values()):
            return CONTRASTS.get(text, text), ref
        case Call(function) if function in CONTRASTS:
            _refuse_counts(call, node.arguments, "levels" if function[:6] == "contr." else None)
            inner = bind(node, ("ref",), {"reference": "ref", "base": "ref"})
            return CONTRASTS[function], inner.get("ref", ref)
    told = f"{short(call)}: the contrast must be Treatment('a'), Sum, Helmert or Poly"
    raise SpecError(f"formula: {told}")


def _refuse_counts(call: Call, arguments: Iterable[Argument], counted: str | None) -> None:
    """Numbers that R counts with, where one may expect a level: base=2, contr.treatment(3)."""
    for key, value in arguments:
        told = None
        if key == "base" and isinstance(value, Number):
            told = (
                "in R, base is the number of a level; write the level itself here, for "
                "example ref='a'"
            )
        elif key is None and counted is not None and number_of(value) is not None:
            n = short(value)
            told = f"in R, {n} is the number of {counted}; to make {n} the reference, write ref={n}"
        if told is not None:
            raise SpecError(f"formula: {short(call)}: {told}")


def cut(call: Call, kinds: Kinds) -> CategoryVariable:
    given = bind(call, ("x", "breaks", "labels", "include.lowest", "right"), {"bins": "breaks"})
    x, breaks = given.get("x"), given.get("breaks")
    if x is None or (breaks is not None and not isinstance(breaks, Items)):
        told = "write the cut points as numbers, for example cut(x, c(0, 40, 60, Inf))"
        raise SpecError(f"formula: {short(call)}: {told}")
    check_number(x, kinds)
    at = points(call, breaks, "points", 3, infinite=True)
    right = flag(call, given.get("right"), True)
    lowest = flag(call, given.get("include.lowest"), False)
    levels = _labels(call, given.get("labels"), at, right, lowest)
    text = text_of(call)

    def codes(frame: Any) -> np.ndarray:
        values = evaluate(x, frame)
        found = np.searchsorted(at, values, "left" if right else "right") - 1
        if lowest:
            found = np.where(
                values == (at[0] if right else at[-1]), 0 if right else len(levels) - 1, found
            )
        bad = np.flatnonzero((found < 0) | (found >= len(levels)) | np.isnan(values))
        if len(bad):
            row, value = int(frame.index[bad[0]]), values[bad[0]]
            told = (
                f"{short(x)} is {value:g} <row>, which is outside the cut points of {text}; use "
                "-Inf and Inf as the first and the last cut point to include all values"
            )
            raise DataError(told, row=row, column=text, value=value)
        return found

    return CategoryVariable(text, text, levels, codes)


def _labels(
    call: Call, node: Node | None, at: np.ndarray, right: bool, lowest: bool
) -> tuple[str, ...]:
    """Given, or R's: as few digits as tell the points apart."""
    if isinstance(node, Items) and len(node.items) == len(at) - 1:
        words = [item.text for item in node.items if isinstance(item, Word)]
        if len(set(words)) == len(at) - 1:
            return tuple(words)
    if node is not None:
        told = f"labels must be {plural(len(at) - 1, 'different word')}, one for each interval"
        raise SpecError(f"formula: {short(call)}: {told}")
    digits = next((d for d in range(3, 17) if len({_short(v, d) for v in at}) == len(at)), 17)
    # R's formatC makes all numbers as wide as -Inf, which shows before Inf alone
    wide = np.isneginf(at[0])
    marks = [" Inf" if wide and np.isposinf(v) else _short(v, digits) for v in at]
    named = [f"({a},{b}]" if right else f"[{a},{b})" for a, b in pairwise(marks)]
    if lowest and right:
        named[0] = "[" + named[0][1:]
    elif lowest:
        named[-1] = named[-1][:-1] + "]"
    return tuple(named)


def _short(value: float, digits: int) -> str:
    """As R's formatC: 1.23e+07."""
    if np.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return f"{value:.{digits}g}"
