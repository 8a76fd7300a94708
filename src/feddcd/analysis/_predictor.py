"""From rows of a frame to the mean response."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from ..formula import INTERCEPT
from ._model import effect_columns
from ._ordinal import probabilities
from ._values import check_finite, numbers_of
from .families import family_of
from .table import Design, as_frame, pick


class Predictor(NamedTuple):
    """What it needs of a fit."""

    family: str
    formula: str | None
    w: np.ndarray  # d by k, user's units
    design: Design | None  # None where the columns are not known
    effects: int  # columns at the end that stand for sites
    group: str | None = None  # the column of the sites, where it had a name
    link: str = ""
    left_out: tuple[str, ...] = ()  # columns of the design that w has no row for
    thresholds: np.ndarray | None = None  # of an ordinal model

    def predict(self, X: Any, offset: Any, groups: Any, sites: np.ndarray) -> np.ndarray:
        _, z = self.rows(X, offset, groups, sites)
        if self.thresholds is not None:
            return probabilities(z[:, 0], self.thresholds)
        mean = family_of(self.family, self.link or None).mean(z)
        if self.family == "multinomial":
            return np.hstack([1 - mean.sum(1, keepdims=True), mean])
        return mean[:, 0]

    def rows(
        self, X: Any, offset: Any, groups: Any, sites: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of the design matrix, and their linear predictors."""
        if self.design is None:
            raise SpecError("this result cannot predict, because it does not contain the formula")
        frame = as_frame(X, need_names=self.formula is not None)
        lacking = [c for c in self.design.used if c not in frame.columns]
        if lacking and self.formula is not None:
            raise DataError(f"X has no column {lacking[0]!r}, which the formula needs")
        matrix = self.design.matrix(frame)
        check_finite(matrix, self.design.names, np.arange(len(frame)))
        apart = {*self.left_out, *([] if self.thresholds is None else [INTERCEPT])}
        matrix = matrix[:, [name not in apart for name in self.design.names]]
        o = pick(frame, offset, "offset")
        o = 0 if o is None else numbers_of(o, "offset")
        if self.effects:
            matrix = np.hstack([matrix, self._site_columns(frame, groups, sites)])
        return matrix, matrix @ self.w + (o + self.design.offset(frame))[:, None]

    def _site_columns(self, frame: pd.DataFrame, groups: Any, sites: np.ndarray) -> np.ndarray:
        groups = self.group if groups is None else groups
        if groups is None:
            raise SpecError(
                "the model has site effects, so the argument groups must name the site of each row"
            )
        site = np.asarray(pick(frame, groups, "groups"))
        unseen = [v for v in pd.unique(pd.Series(site)) if v not in sites]
        if unseen:
            raise DataError(f"the site {unseen[0]!r} was not part of the fit")
        code = np.array([list(sites).index(v) for v in site])
        return effect_columns(list(sites), code, self.effects)
