"""Contrasts: linear combinations of coefficients, by weights or as text.

    contrast = side ["=" side]            race[T.other] - race[T.white] = 0
    side     = [sign] part {sign part}    2 * age + 0.5
    part     = number ["*" name] | name

A name is a row of the table, as it is printed, or stands in backticks. Nothing is evaluated.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import SpecError
from .._text import listed, meant
from ._inference import reference
from .plan import check_level, is_real

if TYPE_CHECKING:
    from ._result import TableResult

NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
LONGEST = 2000


class Contrast(NamedTuple):
    """weights'w is held against a number."""

    weights: dict[str, float]
    against: float


def contrasts(result: "TableResult", wanted: Any, level: float | None = None) -> pd.DataFrame:
    """One row for each that is wanted: a text, weights by name, or a list of such. The level is
    that of the table, and the coefficients are in the units of the columns."""
    level = result.level if level is None else level
    check_level("level", level)
    each = wanted if isinstance(wanted, list | tuple) else [wanted]
    labels = [str(name) for name in result.table.index]
    rows = {}
    for one in each:
        contrast = parse(one, labels) if isinstance(one, str) else _weights(one, labels)
        rows[one.strip() if isinstance(one, str) else _text(contrast)] = _row(
            result, contrast, level
        )
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("contrast")


def _row(result: "TableResult", contrast: Contrast, level: float) -> dict[str, float]:
    names, by = list(contrast.weights), reference(result)
    a = np.array(list(contrast.weights.values()))
    estimate = float(a @ result.original_table["coef"].loc[names].to_numpy())
    V = result.original_covariance.loc[names, names].to_numpy()
    std_err = float(np.sqrt(max(a @ V @ a, 0.0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.float64(estimate - contrast.against) / std_err
    half = by.within(level) * std_err
    ends = {"ci_low": estimate - half, "ci_high": estimate + half}
    row = {
        "estimate": estimate, "against": contrast.against, "std_err": std_err,
        by.name: float(value), "p": by.tail(float(value)), **ends,
    }  # fmt: skip
    if result.ratio is None:
        return row
    names = ("ratio", "ratio_low", "ratio_high")
    return row | dict(zip(names, np.exp([estimate, *ends.values()]).tolist(), strict=True))


def _weights(wanted: Any, labels: Sequence[str]) -> Contrast:
    if not isinstance(wanted, Mapping):
        raise SpecError(
            "a contrast must be a text such as 'a - b = 0', or a dict with a weight for each "
            f"coefficient; got {wanted!r}"
        )
    for name, weight in wanted.items():
        if name not in labels:
            raise _unknown(str(name), labels)
        if not (is_real(weight) and np.isfinite(weight)):
            raise SpecError(f"the weight of {name!r} must be a finite number, got {weight!r}")
    return _checked(Contrast({str(k): float(v) for k, v in wanted.items()}, 0.0), str(wanted))


def _checked(contrast: Contrast, text: str) -> Contrast:
    weights = {name: weight for name, weight in contrast.weights.items() if weight != 0}
    if not weights:
        raise SpecError(f"the contrast {text!r} names no coefficient")
    if not np.all(np.isfinite([*weights.values(), contrast.against])):
        raise SpecError(f"the contrast {text!r} has a number that is too large")
    return Contrast(weights, contrast.against)


def _text(contrast: Contrast) -> str:
    said = [f"{weight:+g} * {name}" for name, weight in contrast.weights.items()]
    return " ".join(said).replace("+1 * ", "+ ").replace("-1 * ", "- ").removeprefix("+ ")


def parse(text: str, labels: Sequence[str]) -> Contrast:
    """Of names that are rows of the table; SpecError says where it cannot be read."""
    if len(text) > LONGEST:
        raise SpecError(f"a contrast may have at most {LONGEST} characters, but has {len(text)}")
    weights: dict[str, float] = {}
    at, side, constant = _space(text, 0), 1.0, 0.0
    while True:
        sign, at = _sign(text, at)
        factor, name, at = _part(text, at, labels)
        if name is None:
            constant += side * sign * factor
        else:
            weights[name] = weights.get(name, 0.0) + side * sign * factor
        if at == len(text):
            return _checked(Contrast(weights, 0.0 - constant), text)
        if text[at] == "=" and side > 0:
            side, at = -1.0, _space(text, at + 1)
        elif text[at] not in "+-":
            raise _odd(text, at, labels)


def _sign(text: str, at: int) -> tuple[float, int]:
    if text[at : at + 1] in ("+", "-"):
        return (1.0 if text[at] == "+" else -1.0), _space(text, at + 1)
    return 1.0, at


def _part(text: str, at: int, labels: Sequence[str]) -> tuple[float, str | None, int]:
    name, end = _name(text, at, labels)
    if name is not None:
        return 1.0, name, end
    number = NUMBER.match(text, at)
    if number is None:
        raise _odd(text, at, labels)
    end = _space(text, number.end())
    if text[end : end + 1] != "*":
        return float(number[0]), None, end
    start = _space(text, end + 1)
    name, end = _name(text, start, labels)
    if name is None:
        raise _odd(text, start, labels)
    return float(number[0]), name, end


def _name(text: str, at: int, labels: Sequence[str]) -> tuple[str | None, int]:
    """The longest row of the table that stands here, whole; or one in backticks."""
    whole = lambda end: re.match(r"[\w.\[(:]", text[end:]) is None
    spelt = [(spelling, n) for n in labels if n for spelling in (n, f"`{n}`")]
    fits = [s for s in spelt if text.startswith(s[0], at) and whole(at + len(s[0]))]
    if not fits:
        return None, at
    spelling, name = max(fits, key=lambda s: len(s[0]))
    return name, _space(text, at + len(spelling))


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _odd(text: str, at: int, labels: Sequence[str]) -> SpecError:
    rest = (text[at:].split() or [""])[0]
    place = repr(rest) if rest else "its end"
    hint = f"; {close}" if (close := meant(rest, labels)) else ". "
    return SpecError(
        f"the contrast {text!r} cannot be read at {place}{hint}Write a contrast "
        f"for example as '2 * a - b = 0'. The coefficients are {listed(labels, 12)}"
    )


def _unknown(name: str, labels: Sequence[str]) -> SpecError:
    hint = meant(name, labels)
    return SpecError(
        f"there is no coefficient {name!r}; {hint}the coefficients are {listed(labels, 12)}"
    )
