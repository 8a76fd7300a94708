"""The estimator: settings in, a regression table out."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from . import diagnose, settings, statistics
from .columns import as_frame, check_finite, pick
from .columns import numbers as to_numbers
from .families import LOSS, Targets, targets
from .frame import INTERCEPT, Table, read
from .points import Point
from .sites import Rows, Sites, stacked
from .start import first_guess, has_pilot
from .summary import summary
from .training import Course, Separated, train


class FederatedGLM(BaseEstimator):
    """The generalised linear model of all sites' rows, without pooling them.

    minimise  sum_j s_j loss(x_j'w + o_j, y_j) + sum_k l2_k w_k²/2

    by Newton's method on sums over sites, until no coefficient is further than `tol` standard
    errors from its optimum, which is proven. Families: gaussian, binomial (0 and 1, or shares
    with sample_weight = trials), poisson, multinomial (the first class is the base). The
    intercept and the site effects are not penalised unless named in l2. Weights are R's prior
    weights: a gaussian row of weight 2 is one row of half the variance.
    """

    def __init__(
        self,
        family: str = "binomial",
        formula: str | None = None,
        l2: Any = 0.0,
        tol: float = 0.01,
        algorithm: str = "auto",
        site_effects: str = "none",
        covariance: str = "model",
        missing: str = "drop",
        max_exchanges: int = 50,
        absent: float = 0.0,
        random_state: int = 0,
    ):
        self.family, self.formula, self.l2, self.tol = family, formula, l2, tol
        self.algorithm, self.site_effects, self.covariance = algorithm, site_effects, covariance
        self.missing, self.max_exchanges = missing, max_exchanges
        self.absent, self.random_state = absent, random_state

    def fit(self, X, y=None, groups=None, sample_weight=None, offset=None) -> "FederatedGLM":
        """X is a matrix, or a DataFrame that the formula speaks of; groups says whose each row is,
        by an array or the name of a column (sample_weight and offset may be named, too)."""
        settings.check(self.get_params(deep=False))
        has_offset = offset is not None or "offset(" in str(self.formula)
        if self.family == "multinomial" and has_offset:
            raise ValueError("an offset has no meaning for family='multinomial'")
        data = read(X, y, groups, sample_weight, offset, self.formula, self.missing)
        rows, names, coded = self._rows(data)
        with jax.enable_x64(True):
            self._fit(rows, names, coded)
        self.n_rows_, self.n_dropped_, self.n_sites_ = len(rows.Y), data.dropped, len(rows.parts)
        self._design, self._group_name = data.design, groups if isinstance(groups, str) else None
        if not self.converged_:
            warnings.warn(
                f"not certified to tol={self.tol:g} within {self.n_exchanges_} exchanges: "
                f"certified_error_={self.certified_error_:.3g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X, offset=None, groups=None) -> np.ndarray:
        """The mean response; for multinomial one column per class. `groups` only matters with
        site effects."""
        if not hasattr(self, "table_"):
            raise ValueError("this FederatedGLM is not fitted yet: call fit first")
        frame = as_frame(X, need_names=self.formula is not None)
        lacking = [c for c in self._design.used if c not in frame.columns]
        if lacking and self.formula is not None:
            raise ValueError(f"X has no column {lacking[0]!r}, which the formula needs")
        whole = self._design.matrix(frame)
        check_finite(whole, np.arange(len(frame)))
        matrix = whole.to_numpy(float)
        o = pick(frame, offset, "offset")
        o = 0 if o is None else to_numbers(o, "offset")
        if self.site_effects == "fixed":
            matrix = np.hstack([matrix, self._effects(frame, groups)])
        z = matrix @ self._w + (o + self._design.offset(frame))[:, None]
        with jax.enable_x64(True):
            mean = np.asarray(LOSS[self.family].mean(jnp.asarray(z)))
        if self.family == "multinomial":
            return np.hstack([1 - mean.sum(1, keepdims=True), mean])
        return mean[:, 0]

    def summary(self) -> str:
        if not hasattr(self, "table_"):
            raise ValueError("this FederatedGLM is not fitted yet: call fit first")
        return summary(self)

    def _rows(self, data: Table) -> tuple[Rows, list[str], Targets]:
        self.sites_, code = _labels(data.site)
        if len(self.sites_) < 2:
            raise ValueError(f"groups has one value only, {self.sites_[0]!s}: need two sites")
        coded = targets(self.family, data.y, data.weight)
        s = np.ones(len(code)) if data.weight is None else data.weight
        X, names, effects = data.X, list(data.names), 0
        if self.site_effects == "fixed":
            self._first = 1 if INTERCEPT in names else 0
            labels = self.sites_[self._first :]
            X, effects = (
                np.hstack([X, np.eye(len(self.sites_))[code][:, self._first :]]),
                len(labels),
            )
            names += [f"site[{label}]" for label in labels]
        P = settings.penalties(self.l2, names, effects)
        p = len(names) * coded.Y.shape[1]
        if len(s) <= p and self.family == "gaussian":
            raise ValueError(f"{p} coefficients need more than {p} rows, got {len(s)}")
        diagnose.check_collinear(X, s, P, names)
        parts = [np.flatnonzero(code == i) for i in range(len(self.sites_))]
        return Rows(self.family, X, coded.Y, s, data.offset, parts, P), names, coded

    def _fit(self, rows: Rows, names: list[str], coded: Targets) -> None:
        sites = stacked(rows)
        k = rows.Y.shape[1]
        p = len(names) * k
        at = names.index(INTERCEPT) if INTERCEPT in names else None

        def guess(there):
            w, good = first_guess(rows, sites.D, at, there)
            return w, has_pilot(self.family, at) + (not good)

        judge = lambda point: statistics.error(point, self._covariance(point, sites, rows))
        extra = k * (k + 1) + 4 + (p * (p + 1) // 2) * (self.covariance == "cluster")
        try:
            course = train(
                sites, guess, judge, tol=self.tol, absent=self.absent, seed=self.random_state,
                limit=self.max_exchanges, extra=extra,
            )  # fmt: skip
        except Separated as found:
            message = diagnose.separation(found.direction, names, self.family)
            raise ValueError(message) from None
        self._store(course, sites, rows, names, coded)

    def _covariance(self, point: Point, sites: Sites, rows: Rows) -> np.ndarray:
        return statistics.covariance(point, sites, rows, self.covariance)

    def _store(self, course: Course, sites: Sites, rows: Rows, names: list[str], coded: Targets):
        point, self._w = course.point, sites.coefficients(course.point.w)
        d, k = self._w.shape
        scale = np.repeat(sites.unit / sites.D, k)
        order = np.arange(d * k).reshape(d, k).T.ravel()  # class by class
        cov = (self._covariance(point, sites, rows) * np.outer(scale, scale))[order][:, order]
        labels = names
        if coded.classes is not None:
            labels = [f"{c}: {name}" for c in coded.classes[1:] for name in names]
        self.covariance_ = pd.DataFrame(cov, labels, labels)
        self.table_ = statistics.table(self._w.T.ravel(), np.sqrt(np.diag(cov)), labels)
        self._split(names, coded.classes)
        fit = statistics.fit(point, sites, rows, course.exchanges)
        self.deviance_, self.null_deviance_, self.dispersion_ = fit[:3]
        self.log_likelihood_, self.aic_ = fit[3:]
        self.n_exchanges_, self.n_uploads_ = course.exchanges, course.uploads
        self.bytes_up_, self.converged_ = course.bytes_up, course.converged
        self.certified_error_ = course.error

    def _split(self, names: list[str], classes: np.ndarray | None) -> None:
        """Intercept and the other coefficients; one row per class for several."""
        intercept = np.array([name == INTERCEPT for name in names])
        rest, first = self._w[~intercept], self._w[intercept].sum(0)
        if classes is None:
            self.coef_, self.intercept_ = rest[:, 0], float(first[0])
        else:
            self.coef_, self.intercept_, self.classes_ = rest.T, first, classes

    def _effects(self, frame: pd.DataFrame, groups) -> np.ndarray:
        groups = self._group_name if groups is None else groups
        if groups is None:
            raise ValueError("the model has site effects: say in groups which site each row is of")
        site = np.asarray(pick(frame, groups, "groups"))
        unseen = [v for v in pd.unique(pd.Series(site)) if v not in self.sites_]
        if unseen:
            raise ValueError(f"the site {unseen[0]!r} was not there in the fit")
        code = np.array([list(self.sites_).index(v) for v in site])
        return np.eye(len(self.sites_))[code][:, self._first :]


def _labels(site: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        return np.unique(site, return_inverse=True)
    except TypeError:
        raise ValueError("groups mixes numbers and words; name the sites in one way") from None
