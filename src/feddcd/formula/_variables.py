"""The variables of a model, as R calls them, and the columns that they become."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._errors import DataError
from ._coding import Coding, contrasts, full
from ._rows import evaluate, label
from ._tree import Node, short


class Part(NamedTuple):
    """One factor of a column of the design."""

    text: str  # the variable, as the formula has it
    mark: str = ""  # [T.white]
    column: str | None = None  # of the table, if it is about a category
    level: str | None = None  # of that category; None where it is about all of them
    reference: str | None = None  # the level that it is compared with
    coding: str = "number"  # number, basis, full, treatment, sum, helmert or poly

    @property
    def name(self) -> str:
        return self.text + self.mark


class Variable(Protocol):
    @property
    def is_category(self) -> bool: ...
    def count(self, contrast: bool) -> int: ...  # of columns, without making them
    def parts(self, contrast: bool) -> tuple[Part, ...]: ...
    def values(self, frame: Any, contrast: bool) -> np.ndarray: ...


@dataclass(frozen=True)
class NumberVariable:
    text: str
    node: Node
    is_category = False

    def count(self, contrast: bool) -> int:
        return 1

    def parts(self, contrast: bool) -> tuple[Part, ...]:
        return (Part(self.text),)

    def values(self, frame: Any, contrast: bool) -> np.ndarray:
        return evaluate(self.node, frame)[:, None]


@dataclass(frozen=True)
class BasisVariable:
    """Several columns of one number: splines and powers."""

    text: str
    node: Node
    width: int
    make: Callable[[np.ndarray], np.ndarray]
    is_category = False

    def count(self, contrast: bool) -> int:
        return self.width

    def parts(self, contrast: bool) -> tuple[Part, ...]:
        return tuple(Part(self.text, f"[{k + 1}]", coding="basis") for k in range(self.width))

    def values(self, frame: Any, contrast: bool) -> np.ndarray:
        x = evaluate(self.node, frame)
        bad = np.flatnonzero(~np.isfinite(x))
        if len(bad):
            told = f"{short(self.node)} is {x[bad[0]]} <row>, but it must be a finite number"
            raise DataError(told, row=int(frame.index[bad[0]]), column=self.text, value=x[bad[0]])
        return self.make(x)


@dataclass(frozen=True)
class CategoryVariable:
    text: str
    column: str  # what it is called in words: a column of the table, mostly
    levels: tuple[Any, ...]
    codes: Callable[[Any], np.ndarray]  # of the rows of a frame
    contrast: str = "treatment"
    reference: int = 0
    is_category = True

    def count(self, contrast: bool) -> int:
        return len(self.levels) - contrast

    def parts(self, contrast: bool) -> tuple[Part, ...]:
        coding, kind = self._coding(contrast), self.contrast if contrast else "full"
        base = None if coding.reference is None else label(coding.reference)
        return tuple(
            Part(self.text, mark, self.column, None if v is None else label(v), base, kind)
            for mark, v in zip(coding.marks, coding.levels, strict=True)
        )

    def values(self, frame: Any, contrast: bool) -> np.ndarray:
        return self._coding(contrast).matrix[self.codes(frame)]

    def weights(self, sums: np.ndarray, total: float, contrast: bool) -> np.ndarray:
        """Of the rows of each level, from the sums of its columns and the weight of all rows."""
        if not contrast:
            return sums
        whole = np.column_stack([np.ones(len(self.levels)), self._contrasts.matrix])
        return np.linalg.solve(whole.T, [total, *sums])

    def _coding(self, contrast: bool) -> Coding:
        return self._contrasts if contrast else self._full

    @cached_property
    def _contrasts(self) -> Coding:
        return contrasts(self.levels, self.contrast, self.reference)

    @cached_property
    def _full(self) -> Coding:
        return full(self.levels)
