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


class PredictedRows(NamedTuple):
    """Of the rows that have all values: their design matrix and linear predictors; and which of
    all rows these are."""

    matrix: np.ndarray
    z: np.ndarray
    whole: np.ndarray


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
        _, z, whole = self.rows(X, offset, groups, sites)
        mean = self._mean(z)
        found = np.full((len(whole), *mean.shape[1:]), np.nan)
        found[whole] = mean
        return found

    def _mean(self, z: np.ndarray) -> np.ndarray:
        if self.thresholds is not None:
            return probabilities(z[:, 0], self.thresholds)
        mean = family_of(self.family, self.link or None).mean(z)
        if self.family == "multinomial":
            return np.hstack([1 - mean.sum(1, keepdims=True), mean])
        return mean[:, 0]

    def rows(self, X: Any, offset: Any, groups: Any, sites: np.ndarray) -> PredictedRows:
        if self.design is None:
            raise SpecError("this result cannot predict, because it does not contain the formula")
        frame = as_frame(X, need_names=self.formula is not None)
        lacking = [c for c in self.design.used if c not in frame.columns]
        if lacking and self.formula is not None:
            raise DataError(f"X has no column {lacking[0]!r}, which the formula needs")
        o, group = pick(frame, offset, "offset"), self._group(frame, groups)
        used = frame[[c for c in self.design.used if c in frame.columns]]
        given = [each for each in (o, group) if each is not None]
        whole = pd.concat([used, *given], axis=1).notna().all(axis=1).to_numpy(bool)
        frame = frame.loc[whole]  # its index has the places of the rows
        matrix = self.design.matrix(frame)
        check_finite(matrix, self.design.names, np.flatnonzero(whole))
        apart = {*self.left_out, *([] if self.thresholds is None else [INTERCEPT])}
        matrix = matrix[:, [name not in apart for name in self.design.names]]
        o = 0 if o is None else numbers_of(o.loc[whole], "offset")
        if group is not None:
            matrix = np.hstack([matrix, self._site_columns(group.loc[whole], sites)])
        z = matrix @ self.w + (o + self.design.offset(frame))[:, None]
        return PredictedRows(matrix, z, whole)

    def _group(self, frame: pd.DataFrame, groups: Any) -> pd.Series | None:
        """The site of each row, where the model needs it."""
        if not self.effects:
            return None
        groups = self.group if groups is None else groups
        if groups is None:
            raise SpecError(
                "the model has site effects, so the argument 'groups' must name the site of each "
                "row"
            )
        return pick(frame, groups, "groups")

    def _site_columns(self, group: pd.Series, sites: np.ndarray) -> np.ndarray:
        site = np.asarray(group)
        unseen = [v for v in pd.unique(pd.Series(site)) if v not in sites]
        if unseen:
            raise DataError(
                f"the site {unseen[0]!r} was not part of the fit, so the model cannot predict its "
                "rows"
            )
        code = np.array([list(sites).index(v) for v in site])
        return effect_columns(list(sites), code, self.effects)
