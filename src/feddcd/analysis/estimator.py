"""The estimator: settings in, a regression table out."""

import dataclasses
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from .._errors import SpecError
from .._text import plural
from ..formula import INTERCEPT
from ._fitting import fitted
from ._inference import SITES, likelihood_ratio, term_of
from ._parameters import BaseEstimator, ConvergenceWarning
from ._result import TableResult, result_of
from ._schema import narrowed, prepare
from .plan import ModelSettings, check_cluster, check_simulation
from .protocol import Again
from .table import CompleteRows, Roles, read


class FederatedGLM(BaseEstimator):
    """The generalised linear model of all sites' rows, without pooling them.

    minimise  sum_j s_j loss(x_j'w + o_j, y_j) + sum_k l2_k w_k²/2

    Row j has the weight s_j, the columns x_j, the offset o_j and the outcome y_j. feddcd uses
    Newton's method on sums over sites (or Point-SAGA, if Hessians are large). The fit stops when
    each coefficient is proven to be within `tol` standard errors of its optimum. If there is no
    proof, `unproven_` says why, and the fit stops when Newton's steps are small.

    Families and their links are in docs/glm.md: gaussian, binomial (0 and 1; two words, of which
    `event` counts as 1; or shares with sample_weight = trials), poisson, multinomial (the first
    class is the base), gamma and others. The intercept and the site effects have no penalty, unless
    l2 names them. Weights are R's prior weights: a gaussian row of weight 2 is one row with half
    the variance. `standardize` gives coefficients (and penalties) for one standard deviation of a
    column, about its mean. The intervals have the level `level`. With answers="sum", feddcd uses
    only sums over all sites, as in a federation of three sites or more. The setting
    algorithm="auto" uses `latency` (seconds for each exchange) and `bandwidth` (bytes per second).
    """

    result_: TableResult  # all that a fit found; the attributes that end in _ are its fields

    def __init__(
        self,
        family: str = "binomial",
        formula: str | None = None,
        link: str | None = None,
        firth: bool = False,
        theta: float | None = None,
        classes: Sequence[Any] | None = None,
        l2: Any = 0.0,
        tol: float = 1e-6,
        algorithm: str = "auto",
        site_effects: str = "none",
        covariance: str = "model",
        missing: str = "drop",
        standardize: bool = False,
        level: float = 0.95,
        max_exchanges: int = 50,
        absent: float = 0.0,
        random_state: int = 0,
        latency: float = 0.1,
        bandwidth: float = 1e7,
        event: Any = None,
        answers: str | None = None,
        verbose: bool = False,
    ):
        self.family, self.formula, self.link, self.theta = family, formula, link, theta
        self.firth, self.classes, self.l2, self.tol = firth, classes, l2, tol
        self.algorithm, self.site_effects, self.covariance = algorithm, site_effects, covariance
        self.missing, self.standardize, self.max_exchanges = missing, standardize, max_exchanges
        self.level, self.absent, self.random_state = level, absent, random_state
        self.latency, self.bandwidth, self.verbose = latency, bandwidth, verbose
        self.event, self.answers = event, answers

    @classmethod
    def of(cls, result: TableResult) -> "FederatedGLM":
        """The estimator of a result that came from elsewhere, as from a federation."""
        names = cls().get_params()
        values = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
        return cls(**{k: v for k, v in values.items() if k in names})._store(result)

    def settings(self) -> ModelSettings:
        """The parameters, checked; those of the simulation apart."""
        check_simulation(self.absent, self.random_state)
        names = [f.name for f in dataclasses.fields(ModelSettings)]
        return ModelSettings(**{name: getattr(self, name) for name in names})

    def fit(self, X, y=None, groups=None, sample_weight=None, offset=None, cluster=None):
        """X is a matrix, or a DataFrame with the columns of the formula. `groups` says which site
        each row belongs to: an array, or the name of a column. (sample_weight, offset and cluster
        may be names of columns, too.) With a formula and without groups, all rows are one site.
        With covariance="cluster" each site is a cluster, or each value of `cluster` at a site."""
        settings, roles = self.settings(), Roles(y, groups, sample_weight, offset, cluster)
        self.fit_rows(read(X, roles, settings.formula, settings.missing))
        if not self.result_.converged:
            warnings.warn(
                f"the certificate does not reach tol={self.tol:g} within "
                f"{plural(self.result_.n_exchanges, 'exchange')}: it proves only "
                f"certified_error_={self.result_.certified_error:.3g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_rows(self, rows: CompleteRows) -> "FederatedGLM":
        """From a table that was read and checked."""
        settings = self.settings()
        check_cluster(settings.covariance, rows.roles.cluster)
        if settings.family == "multinomial" and rows.roles.offset is not None:
            raise SpecError("an offset has no meaning for family='multinomial'")
        prepared = prepare(rows, settings)
        while True:
            try:
                result = fitted(settings, prepared, self.absent, self.random_state, self.verbose)
                break
            except Again as again:
                prepared = narrowed(prepared, again.cohort)
        group = rows.roles.group if isinstance(rows.roles.group, str) else None
        predictor = result.predictor._replace(design=rows.design, group=group)  # pyright: ignore
        result = result.with_sites(Counter(str(site) for site in rows.lacking))
        more = {"sites": prepared.labels, "predictor": predictor}
        return self._store(dataclasses.replace(result, **more))

    def test_rows(self, rows: CompleteRows) -> pd.DataFrame:
        """The likelihood-ratio test of each term: a fit without it, of the same rows."""
        whole = result_of(self)

        def without(term: str) -> TableResult:
            settings: dict[str, Any] = self.get_params() | {"verbose": False}
            again = type(self)(**settings)
            if term == SITES:
                return again.set_params(site_effects="none").fit_rows(rows).result_
            there = [c for c in whole.columns if term_of(whole, c) != term]
            keep = [j for j, name in enumerate(rows.names) if name in (INTERCEPT, *there)]
            if not keep:
                raise SpecError(
                    f"without {term} the model has no column and no intercept, so there is "
                    "nothing to fit"
                )
            names = [rows.names[j] for j in keep]
            return again.fit_rows(rows._replace(X=rows.X[:, keep], names=names)).result_

        return likelihood_ratio(whole, without)

    def predict(self, X, offset=None, groups=None, interval: float | None = None) -> Any:
        """The mean response; for multinomial one column for each class. `groups` matters only with
        site effects. With `interval`, such as 0.95, the result is a frame: mean, low, high."""
        return result_of(self).predict(X, offset, groups, interval)

    def test(self) -> pd.DataFrame:
        """Wald's test of each term, from the covariance of the table."""
        return result_of(self).test()

    def compare(self, other: "FederatedGLM | TableResult") -> pd.DataFrame:
        """The likelihood-ratio test of two nested models of the same rows."""
        return result_of(self).compare(other)

    def contrast(self, wanted: Any, level: float | None = None) -> pd.DataFrame:
        """Of combinations of coefficients: "a - 2 * b = 0", {"a": 1, "b": -2}, or a list."""
        return result_of(self).contrast(wanted, level)

    def vif(self) -> pd.DataFrame:
        """Variance inflation factors, generalised for terms of several columns."""
        return result_of(self).vif()

    def summary(self) -> str:
        return result_of(self).summary()

    def to_latex(self) -> str:
        """The table for a paper: a tabular that needs \\usepackage{booktabs}."""
        return result_of(self).to_latex()

    def to_markdown(self) -> str:
        """The table for notes and web pages, with its notes as sentences below it."""
        return result_of(self).to_markdown()

    def _store(self, result: TableResult) -> "FederatedGLM":
        self.result_ = result
        for name, value in result.attributes().items():
            setattr(self, name, value)
        return self
