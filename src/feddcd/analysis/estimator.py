"""The estimator: settings in, a regression table out."""

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from .._errors import SpecError
from .._text import plural, upper
from ..formula import INTERCEPT
from ._fitting import by_line, fitted, hide, show
from ._inference import SITES, likelihood_ratio, term_of
from ._parameters import BaseEstimator, ConvergenceWarning
from ._result import TableResult, result_of
from ._schema import narrowed, prepare
from ._whole import counted
from .plan import ModelSettings, check_cluster, check_simulation
from .protocol import Again
from .table import CompleteRows, Roles, read

NO_ROW = "no row has values in all columns of the model"


class FederatedGLM(BaseEstimator):
    r"""The regression table of all sites' rows, without pooling them.

    It minimises the loss of all rows, with a penalty for each coefficient:

    $$
    \sum_j s_j \, \text{loss}(x_j^\top w + o_j, y_j) + \sum_k \tfrac12 \text{l2}_k w_k^2
    $$

    Row j has the weight $s_j$, the columns $x_j$, the offset $o_j$ and the outcome $y_j$; w has the
    coefficients. feddcd uses Newton's method on sums over sites (or Point-SAGA, if Hessians are
    large). The fit stops when each coefficient is proven to be within `tol` standard errors of its
    optimum. If there is no proof, `unproven_` says why, and the fit stops when Newton's steps are
    small. The page on the regression table explains families, formulas and results.

    Args:
        family: The distribution of the outcome, such as "gaussian", "binomial", "poisson",
            "gamma", "negative_binomial", "ordinal" or "multinomial" (the first class is the base).
        formula: As in R, such as "y ~ a + C(b)". Without a formula, `fit(X, y)` uses all columns.
        link: How the mean follows from the linear predictor, such as "logit" or "log". If not
            given: the first link of the family, as in R.
        firth: Firth's penalty, for separated outcomes; only for binomial with the link logit.
        theta: The parameter of "negative_binomial", above 0. If not given: feddcd estimates it.
        classes: The classes of the outcome in their order: for "ordinal" the lowest first, for
            "multinomial" the base first. If not given: sorted.
        l2: The penalty of the coefficients, at least 0: one number, a list, or a dict by name.
            The intercept and the site effects have no penalty, unless a dict names them.
        tol: The largest proven error of a coefficient, in its standard errors, above 0.
        algorithm: "newton", "pointsaga", or "auto": the one that needs fewer seconds.
        site_effects: "none", or "fixed": one intercept for each site.
        covariance: Of the standard errors: "model"; robust "HC0", "HC1", "HC2", "HC3"; "cluster".
        missing: Rows with a missing value: "drop" leaves them out, "error" refuses them.
        standardize: Whether coefficients and penalties are for one standard deviation of a column.
        level: The level of the intervals, from 0.5 to 0.9999.
        max_exchanges: After this number of exchanges, at least 2, the fit stops and warns.
        absent: In this simulation, the share of the sites that miss an exchange: from 0 to below 1.
        random_state: The seed that decides which sites are absent, a whole number >= 0.
        latency: Seconds that one exchange takes on the network; "auto" uses it.
        bandwidth: Bytes per second of the network; "auto" uses it.
        event: For a binomial outcome of two words: the one that counts as 1 (the second in order).
        answers: "sum" uses only sums over all sites, as a federation of three or more sites does;
            "each" (also if not given) uses the sums of each site.
        verbose: Whether each exchange prints a line.

    Attributes:
        table_: A data frame with a row for each coefficient, as the printed table has it.
        covariance_: The covariance of the coefficients.
        certified_error_: The largest possible error of a coefficient, in standard errors.
        converged_: Whether this error is at most `tol`.
        result_: All results in one object; its fields are attributes with a _ at the end, too.

    Examples:
        >>> fit = feddcd.FederatedGLM("binomial", "death ~ age + C(sex)")
        >>> print(fit.fit(rows, groups="hospital").table_["coef"].round(3).to_string())
        Intercept     -4.274
        age            0.055
        C(sex)[T.m]    0.076
        >>> fit.certified_error_ < 1e-6
        True
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        cluster: Any = None,
    ) -> "FederatedGLM":
        """Fit the model to the rows of all sites, in this process.

        Args:
            X: A data frame with the columns of the formula; without a formula, a matrix.
            y: Without a formula, the outcome of each row.
            groups: The site of each row: an array, or the name of a column. Without it, a model
                with a formula has one site.
            sample_weight: A weight of each row, at least 0, as R's prior weights: an array, or the
                name of a column. A gaussian row of weight 2 is one row with half the variance.
            offset: What is added to the linear predictor: an array, or the name of a column.
            cluster: With covariance="cluster", the cluster of each row: an array, or the name of
                a column. If not given: each site is one cluster.

        Returns:
            This estimator, with the attributes of a fit.

        Raises:
            SpecError: A setting has a wrong value.
            DataError: The rows cannot be used, or there is no finite estimate; the message says
                why, with the column and the row.

        Examples:
            >>> X, y = rows[["age", "crp"]], rows["death"]
            >>> fit = feddcd.FederatedGLM("binomial").fit(X, y, groups=rows["hospital"])
            >>> fit.n_sites_
            4
        """
        settings, roles = self.settings(), Roles(y, groups, sample_weight, offset, cluster)
        self.fit_rows(read(X, roles, settings.formula, settings.missing))
        if not self.result_.converged:
            warnings.warn(
                f"the certificate does not reach tol={self.tol:g} within "
                f"{plural(self.result_.n_exchanges, 'exchange')}: it proves only "
                f"certified_error_={upper(self.result_.certified_error)}; raise max_exchanges",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_rows(
        self, rows: CompleteRows, tell: Callable[[str], None] | None = None
    ) -> "FederatedGLM":
        """From a table that was read and checked; `tell` hears a line for each exchange."""
        watch = by_line(tell or (show if self.verbose else hide))
        settings = self.settings()
        check_cluster(settings.covariance, rows.roles.cluster)
        if settings.family == "multinomial" and rows.roles.offset is not None:
            raise SpecError("an offset has no meaning for family='multinomial'")
        prepared = prepare(rows, settings)
        while True:
            try:
                result = fitted(settings, prepared, self.absent, self.random_state, watch)
                break
            except Again as again:
                prepared = narrowed(prepared, again.cohort)
        group = rows.roles.group if isinstance(rows.roles.group, str) else None
        predictor = result.predictor._replace(design=rows.design, group=group)  # pyright: ignore
        result = counted(result, rows.y.to_numpy())
        dropped, there = Counter(str(site) for site in rows.lacking), set(map(str, prepared.labels))
        gone = {s: f"{s}: {NO_ROW}" for s in dropped if s not in there}
        result = result.with_sites(dropped, gone)
        more = {"sites": prepared.labels, "predictor": predictor, "pooled": True}
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

    def predict(
        self, X: Any, offset: Any = None, groups: Any = None, interval: float | None = None
    ) -> Any:
        """The mean outcome of each row.

        Args:
            X: Rows with the columns of the fit.
            offset: What is added to the linear predictor. A formula's own offset needs none.
            groups: The site of each row; it matters only with site effects.
            interval: The level of an interval of the mean, from 0.5 to 0.9999.

        Returns:
            An array; for "multinomial" and "ordinal" with one column for each class. With
                `interval`, a data frame: mean, low, high. nan where a row lacks a value, as in R.

        Raises:
            SpecError: There was no fit yet.
            DataError: The rows lack a column of the fit.

        Examples:
            >>> fit = feddcd.FederatedGLM("binomial", "death ~ age").fit(rows, groups="hospital")
            >>> fit.predict(rows.head(2)).shape, list(fit.predict(rows, interval=0.95))
            ((2,), ['mean', 'low', 'high'])
        """
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
        """The table as text.

        Returns:
            Many lines, as `feddcd glm` prints them.

        Examples:
            >>> fit = feddcd.FederatedGLM("binomial", "death ~ age").fit(rows, groups="hospital")
            >>> print(fit.summary())
                                  Federated generalised linear model
            ...
            age                 0.05548   0.005816      9.539     <0.001    0.04408    0.06688
            ...
        """
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
