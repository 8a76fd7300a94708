"""The estimator: settings in, a regression table out."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..losses import LOSSES
from . import settings
from .choose import Link
from .columns import as_frame, check_finite, pick
from .columns import numbers as to_numbers
from .frame import INTERCEPT, read
from .job import Job, Outcome, regression
from .local import converse
from .prepare import Prepared, effect_columns, prepare
from .summary import summary

MUCH = 1e9  # multiplications a site and exchange, below which threads cost more than they save


class FederatedGLM(BaseEstimator):
    """The generalised linear model of all sites' rows, without pooling them.

    minimise  sum_j s_j loss(x_j'w + o_j, y_j) + sum_k l2_k w_k²/2

    by Newton's method on sums over sites (or Point-SAGA, where Hessians are large), until no
    coefficient is further than `tol` standard errors from its optimum, which is proven. Families:
    gaussian, binomial (0 and 1, or shares with sample_weight = trials), poisson, multinomial (the
    first class is the base). The intercept and the site effects are not penalised unless named in
    l2. Weights are R's prior weights: a gaussian row of weight 2 is one row of half the variance.
    `standardize` gives coefficients (and penalties) per standard deviation of a column, about its
    mean. `latency` (seconds an exchange) and `bandwidth` (bytes a second) help algorithm="auto".
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
        standardize: bool = False,
        max_exchanges: int = 50,
        absent: float = 0.0,
        random_state: int = 0,
        latency: float = 0.1,
        bandwidth: float = 1e7,
        verbose: bool = False,
    ):
        self.family, self.formula, self.l2, self.tol = family, formula, l2, tol
        self.algorithm, self.site_effects, self.covariance = algorithm, site_effects, covariance
        self.missing, self.standardize, self.max_exchanges = missing, standardize, max_exchanges
        self.absent, self.random_state = absent, random_state
        self.latency, self.bandwidth, self.verbose = latency, bandwidth, verbose

    def fit(self, X, y=None, groups=None, sample_weight=None, offset=None) -> "FederatedGLM":
        """X is a matrix, or a DataFrame that the formula speaks of; groups says whose each row is,
        by an array or the name of a column (sample_weight and offset may be named, too)."""
        settings.check(self.get_params(deep=False))
        has_offset = offset is not None or "offset(" in str(self.formula)
        if self.family == "multinomial" and has_offset:
            raise ValueError("an offset has no meaning for family='multinomial'")
        data = read(X, y, groups, sample_weight, offset, self.formula, self.missing)
        fixed = self.site_effects == "fixed"
        ready = prepare(data, self.family, self.l2, fixed, self.standardize)
        job = self._job(ready)
        self.sites_, self._effects = ready.labels, ready.model.effects
        self._store(self._fitted(job, ready), job, data.dropped)
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
        self._check_fitted()
        frame = as_frame(X, need_names=self.formula is not None)
        lacking = [c for c in self._design.used if c not in frame.columns]
        if lacking and self.formula is not None:
            raise ValueError(f"X has no column {lacking[0]!r}, which the formula needs")
        whole = self._design.matrix(frame)
        check_finite(whole, np.arange(len(frame)))
        matrix = whole.to_numpy(float)
        o = pick(frame, offset, "offset")
        o = 0 if o is None else to_numbers(o, "offset")
        if self._effects:
            matrix = np.hstack([matrix, self._site_columns(frame, groups)])
        mean = LOSSES[self.family].mean(
            matrix @ self._w + (o + self._design.offset(frame))[:, None]
        )
        if self.family == "multinomial":
            return np.hstack([1 - mean.sum(1, keepdims=True), mean])
        return mean[:, 0]

    def summary(self) -> str:
        self._check_fitted()
        return summary(self)

    def _check_fitted(self) -> None:
        if not hasattr(self, "table_"):
            raise ValueError("this FederatedGLM is not fitted yet: call fit first")

    def _job(self, ready: Prepared) -> Job:
        link = Link(self.latency, self.bandwidth)
        watch = printed if self.verbose else (lambda row: None)
        return Job(
            ready.model, ready.classes, self.tol, self.max_exchanges, self.covariance,
            self.standardize, link, self.algorithm, self.absent, watch,
        )  # fmt: skip

    def _fitted(self, job: Job, ready: Prepared) -> Outcome:
        def saga(known, rounds, log):
            from .pointsaga import pointsaga  # JAX is for this alone

            return pointsaga(ready.sites, known, rounds, log, self.absent, self.random_state)

        largest = max(len(rows.s) for rows in ready.sites.values())
        threads = 1 if largest * job.model.p**2 < MUCH else None
        with threadpool_limits(threads, user_api="blas"):
            talk = regression(job, saga)
            return converse(talk, ready.sites, self.family, self.absent, self.random_state)

    def _store(self, said: Outcome, job: Job, dropped: int) -> None:
        """What a fit leaves behind."""
        self._w, (self.table_, self.covariance_) = said.w, said.shown
        self.original_table_, self.original_covariance_ = said.original
        self.n_rows_, self.n_dropped_, self.n_sites_ = said.rows, dropped, len(job.model.sites)
        self.deviance_, self.null_deviance_, self.dispersion_ = said.fit[:3]
        self.log_likelihood_, self.aic_ = said.fit[3:]
        self.certified_error_, self.converged_ = said.error, said.converged
        self.history_, self.choice_, self.site_table_ = said.history, said.choice, said.by_site
        self.bins_, self.residual_bins_ = said.bins, said.residuals
        last = said.history.iloc[-1]
        self.n_exchanges_, self.n_uploads_ = int(last["exchange"]), int(last["uploads"])
        self.bytes_up_, self.bytes_down_ = int(last["bytes_up"]), int(last["bytes_down"])
        intercept = np.array([name == INTERCEPT for name in job.model.names])
        rest, first = said.w[~intercept], said.w[intercept].sum(0)
        if job.classes is None:
            self.coef_, self.intercept_ = rest[:, 0], float(first[0])
        else:
            self.coef_, self.intercept_ = rest.T, first
            self.classes_ = np.array(job.classes)

    def _site_columns(self, frame: pd.DataFrame, groups) -> np.ndarray:
        groups = self._group_name if groups is None else groups
        if groups is None:
            raise ValueError("the model has site effects: say in groups which site each row is of")
        site = np.asarray(pick(frame, groups, "groups"))
        unseen = [v for v in pd.unique(pd.Series(site)) if v not in self.sites_]
        if unseen:
            raise ValueError(f"the site {unseen[0]!r} was not there in the fit")
        code = np.array([list(self.sites_).index(v) for v in site])
        return effect_columns(self.sites_, code, self._effects)


def printed(row: dict[str, Any]) -> None:
    """One line for each exchange whose outcome is known."""
    if np.isfinite(row["objective"]):
        print(
            f"exchange {row['exchange']}: {row['answered']} of {row['asked']} sites answered, "
            f"objective {row['objective']:.6g}, certified error {row['certified_error']:.2g} s.e.",
            flush=True,
        )
