"""How levels become columns: the contrasts of R."""

from typing import Any, NamedTuple

import numpy as np

from .._errors import SpecError
from ._rows import label

MOST_POLY = 95  # R's limit, too


class Coding(NamedTuple):
    """A row for each level, and a mark for each column."""

    matrix: np.ndarray
    marks: tuple[str, ...]
    levels: tuple[Any, ...]  # that a column is about; None where it is about all of them
    reference: Any = None


def full(levels: tuple[Any, ...]) -> Coding:
    return Coding(np.eye(len(levels)), tuple(f"[{label(v)}]" for v in levels), levels)


def contrasts(levels: tuple[Any, ...], kind: str, reference: int) -> Coding:
    n = len(levels)
    if kind == "treatment":
        rest = [i for i in range(n) if i != reference]
        named = tuple(levels[i] for i in rest)
        marks = tuple(f"[T.{label(v)}]" for v in named)
        return Coding(np.eye(n)[:, rest], marks, named, levels[reference])
    if kind == "sum":
        matrix = np.vstack([np.eye(n - 1), -np.ones(n - 1)])
        return Coding(matrix, tuple(f"[S.{label(v)}]" for v in levels[:-1]), levels[:-1])
    if kind == "helmert":
        matrix = -np.triu(np.ones((n, n - 1)))
        matrix[np.arange(1, n), np.arange(n - 1)] = np.arange(1, n)
        matrix[np.tril_indices(n, -2, n - 1)] = 0
        return Coding(matrix, tuple(f"[H.{label(v)}]" for v in levels[1:]), levels[1:])
    return _poly(n)


def _poly(n: int) -> Coding:
    """Orthogonal polynomials in the place of a level."""
    if n > MOST_POLY:
        raise SpecError(f"formula: Poly works with at most {MOST_POLY} levels, got {n}")
    x = np.arange(n) - (n - 1) / 2
    Q, R = np.linalg.qr(np.vander(x, n, increasing=True))
    marks = tuple({1: "[.L]", 2: "[.Q]", 3: "[.C]"}.get(k, f"[^{k}]") for k in range(1, n))
    return Coding((Q * np.sign(np.diag(R)))[:, 1:], marks, (None,) * (n - 1))
