"""What a regression found: one frozen object, which summary, export, report and estimator take."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from .._errors import SpecError
from ..formula import INTERCEPT, DesignColumn, label, read_formula
from ._coefficients import Statistic
from ._contrast import contrasts
from ._cost import Choice
from ._inference import compare, is_constant, of_sites, vif, wald
from ._influence import Hinge, hinge
from ._intervals import with_intervals
from ._measures import LinearFit, overdispersed
from ._outcome import Outcome
from ._predictor import Predictor
from ._printed import AbstractPrinted, PrintedTable
from .families import ratio_of

SETTINGS = (
    "family", "link", "firth", "formula", "l2", "tol", "covariance", "standardize", "site_effects",
    "level",
)  # fmt: skip


class Coefficient(NamedTuple):
    label: str  # as in the table
    column: str  # of the design matrix
    label_of_class: str | None  # of a multinomial model


@dataclass(frozen=True)
class TableResult(AbstractPrinted):
    """Of `FederatedGLM`'s attributes those that end in _, without it; `covariance_matrix` is its
    `covariance_`. The first nine are settings; `unproven` says why no error is certified."""

    family: str
    link: str
    firth: bool
    formula: str | None
    l2: Any
    tol: float
    covariance: str
    standardize: bool
    site_effects: str
    level: float  # of the intervals
    table: pd.DataFrame  # standardised, if that was asked for
    covariance_matrix: pd.DataFrame
    original_table: pd.DataFrame  # in the columns' own units
    original_covariance: pd.DataFrame
    n_rows: int
    n_dropped: int
    n_sites: int
    n_clusters: int  # 0 where standard errors are not by cluster
    deviance: float
    null_deviance: float
    df_residual: int
    df_null: int
    dispersion: float
    log_likelihood: float
    aic: float
    bic: float
    pearson: float  # X²
    linear: LinearFit | None  # of a gaussian model with its usual link
    doubts: Mapping[str, float]  # how far numbers may still be off, as `_digits` has them
    grouped: bool  # the weights are not all 1
    certified_error: float
    unproven: str
    theta: float | None  # of a negative binomial, with a standard error where it is estimated
    theta_se: float | None
    converged: bool
    rounded: bool  # no exchange could bring more than rounding takes away
    history: pd.DataFrame
    choice: Choice
    site_table: pd.DataFrame | None  # by coefficient and site: its own fit
    site_counts: pd.DataFrame
    bins: pd.DataFrame | None
    residual_bins: pd.DataFrame | None
    n_exchanges: int
    n_uploads: int
    bytes_up: int
    bytes_down: int
    coef: np.ndarray
    intercept: np.ndarray | float
    classes: np.ndarray | None
    sites: np.ndarray
    row_sums: tuple[float, ...]  # of weights, outcomes and offsets: the same for the same rows
    predictor: Predictor | None = field(default=None, repr=False)
    left_out: tuple[str, ...] = ()  # columns of cells without a row, or that others determine
    # by category: its levels, as they were declared, that no row has
    empty_levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spread: pd.Series | None = None  # standard deviations; nan for columns of 0 and 1
    codebook: Mapping[str, Any] = field(default_factory=dict)  # where one was agreed
    refused: Mapping[str, str] = field(default_factory=dict)  # by site: why it takes no part
    apart: bool = False  # a coordinator read each site's answers: nothing of it is proven later
    pooled: bool = False  # all rows were in this process: nothing is true of a federation
    answers: str = "each"  # as used; "sum": nothing but sums over the sites was known
    outcome: Outcome | None = None  # of two words: the other, and the event that counts as 1
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # tables that were asked for
    uncounted: bool = False  # a Poisson outcome is no whole number: it has no likelihood
    # by coefficient and site: its change without the site, in standard errors, by one step
    leave_one_out: pd.DataFrame | None = None

    @property
    def hinge(self) -> Hinge | None:
        """The site without which a coefficient would change most; None where it is not known."""
        return hinge(self.leave_one_out, of_sites(self))

    @property
    def terms(self) -> list[str]:
        """Of the formula; the intercept is none."""
        design = None if self.predictor is None else self.predictor.design
        found = () if design is None or self.formula is None else design.columns
        return list(dict.fromkeys(c.term for c in found if c.name != INTERCEPT))

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of a table that the formula needs; the outcome apart."""
        design = None if self.predictor is None else self.predictor.design
        return () if design is None else design.used

    @property
    def response(self) -> str | None:
        """The left side of the formula."""
        return None if self.formula is None else read_formula(self.formula).response

    @property
    def ratio(self) -> str | None:
        """What e^coefficient is called, where it means anything."""
        return ratio_of(self.family, self.link)

    @property
    def event(self) -> str | None:
        """What counts as 1, where the outcome is of two words."""
        return None if self.outcome is None else label(self.outcome.event)

    @property
    def statistic(self) -> Statistic:
        """t where the table has it, else z."""
        return Statistic("t", self.df_residual) if "t" in self.table else Statistic("z", np.inf)

    @property
    def overdispersed(self) -> bool:
        return overdispersed(self.family, self.pearson, self.df_residual, self.grouped)

    @property
    def references(self) -> dict[str, str]:
        """By column of categories: the level that the others are compared with."""
        design = None if self.predictor is None else self.predictor.design
        parts = [part for column in design.columns for part in column.parts] if design else []
        return {p.column: p.reference for p in parts if p.column and p.reference is not None}

    @property
    def coefficients(self) -> list[Coefficient]:
        """Every row of the table, in its order."""
        labels = [str(label) for label in self.table.index]
        if self.classes is None or self.family != "multinomial":
            return [Coefficient(label, label, None) for label in labels]
        each = np.repeat(self.classes[1:].astype(str), len(labels) // (len(self.classes) - 1))
        pairs = zip(labels, each.tolist(), strict=True)
        return [Coefficient(label, label.removeprefix(f"{c}: "), c) for label, c in pairs]

    @property
    def thresholds(self) -> list[str]:
        """The last rows of an ordinal table, which stand for an intercept."""
        if self.family != "ordinal" or self.classes is None:
            return []
        return [str(label) for label in self.table.index[1 - len(self.classes) :]]

    @property
    def columns(self) -> list[str]:
        """Of the design matrix, without the intercept."""
        apart = {INTERCEPT, *self.thresholds}
        return [c for c in dict.fromkeys(c.column for c in self.coefficients) if c not in apart]

    def has_ratio(self, c: Coefficient) -> bool:
        """e^intercept, and that of what stands in for it, are no ratios of two groups."""
        return self.ratio is not None and not is_constant(self, c.column)

    def is_of_site(self, column: str) -> bool:
        return self.site_effects == "fixed" and column.startswith("site[")

    def made_of(self, column: str) -> DesignColumn | None:
        """What a formula made it of; None for others, which mean what they say."""
        design = None if self.predictor is None else self.predictor.design
        known = {c.name: c for c in design.columns} if design and self.formula else {}
        return known.get(column)

    def predict(
        self, X: Any, offset: Any = None, groups: Any = None, interval: float | None = None
    ) -> Any:
        """The mean response; for multinomial one column per class. `groups` only matters with
        site effects. With `interval`, such as 0.95, a frame: mean, low, high."""
        if self.predictor is None:
            raise SpecError("this result cannot predict, because it does not contain the formula")
        if interval is None:
            return self.predictor.predict(X, offset, groups, self.sites)
        found = with_intervals(self, self.predictor.rows(X, offset, groups, self.sites), interval)
        return found.set_axis(X.index) if isinstance(X, pd.DataFrame) else found

    def test(self) -> pd.DataFrame:
        """Wald's test of each term, from the covariance of the table."""
        return wald(self)

    def compare(self, other: "TableResult | Fitted") -> pd.DataFrame:
        """The likelihood-ratio test of two nested models of the same rows."""
        return compare(self, result_of(other))

    def contrast(self, wanted: Any, level: float | None = None) -> pd.DataFrame:
        """Of combinations of coefficients: "a - 2 * b = 0", {"a": 1, "b": -2}, or a list."""
        return contrasts(self, wanted, level)

    def vif(self) -> pd.DataFrame:
        """Variance inflation factors, generalised for terms of several columns."""
        return vif(self)

    def summary(self, width: int | None = None) -> str:
        """The table as text; `width` is the number of letters in a line of the terminal."""
        from ._summary import summary

        return summary(self, width)

    def printed(self) -> PrintedTable:
        from .report import journal_table

        return journal_table(self)

    @property
    def least_dropped(self) -> str:
        """Words before the rows that were left out: in sums a site does not tell a small number."""
        return "at least " if self.answers == "sum" else ""

    @property
    def rows_dropped(self) -> str:
        if self.answers == "sum" and not self.n_dropped:
            return "none or few"
        return f"{self.least_dropped}{self.n_dropped:,}"

    def with_sites(
        self,
        dropped: Mapping[str, int],
        refused: Mapping[str, str] | None = None,
        apart: bool = False,
    ) -> "TableResult":
        """With the rows that each site left out, and why sites are not part of it."""
        unknown = -1 if self.answers == "sum" else 0
        missing = [int(dropped.get(str(site), unknown)) for site in self.site_counts.index]
        counts, total = self.site_counts.assign(missing=missing), sum(dropped.values())
        return dataclasses.replace(
            self, n_dropped=total, site_counts=counts, refused=dict(refused or {}), apart=apart
        )

    def facts(self) -> dict[str, Any]:
        return {"certified_error": self.certified_error, "converged": bool(self.converged)}

    def attributes(self) -> dict[str, Any]:
        """As an estimator has them."""
        names = {f.name: f"{f.name}_" for f in dataclasses.fields(self) if f.name not in SETTINGS}
        names["covariance_matrix"] = "covariance_"
        del names["predictor"]
        if self.classes is None:
            del names["classes"]
        return {attribute: getattr(self, name) for name, attribute in names.items()}

    def write(self, folder: Path) -> Iterator[Path]:
        """All that a fit leaves behind, each as it is done; the report last."""
        from . import export, report  # with scikit-learn

        folder.mkdir(parents=True, exist_ok=True)
        history = folder / "history.csv"
        self.history.to_csv(history, index=False, lineterminator="\n")
        yield history
        yield from export.write(self, folder)
        yield report.write(self, folder / "report.html")


class Fitted(Protocol):
    """An estimator, or what stands for one."""

    @property
    def result_(self) -> TableResult: ...
    def summary(self) -> str: ...


def result_of(fit: TableResult | Fitted) -> TableResult:
    """Of an estimator, or the result itself."""
    if isinstance(fit, TableResult):
        return fit
    if not hasattr(fit, "result_"):
        raise SpecError(f"this {type(fit).__name__} is not fitted yet: call fit first")
    return fit.result_
