"""What follows from a finished table: tests of terms and of nested models, and VIFs.

All come from the coefficients and their covariance, or from two deviances: no row is looked at.

    Wald    b'C⁻¹b of the coefficients b of a term with covariance C
    LR      the fall of the deviance, by the dispersion, from a model to one with more columns

Both are χ² with the term's degrees of freedom q; where the dispersion is estimated, a q-th of them
is F with q and the residual degrees of freedom. VIFs are Fox and Monette's.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from .._errors import SpecError
from ..formula import INTERCEPT, Part
from .families import family_of

if TYPE_CHECKING:
    from ._result import TableResult

SINGULAR = 1e-10  # the least eigenvalue of a correlation matrix that can be inverted
SITES = "site effects"


class Reference(NamedTuple):
    """What a coefficient by its standard error is held against: t with the residual degrees of
    freedom where the dispersion is estimated, else the normal distribution (df is inf)."""

    df: float

    @property
    def name(self) -> str:
        return "z" if self.df == np.inf else "t"

    @property
    def several(self) -> str:
        return "chi2" if self.df == np.inf else "F"

    def tail(self, x: float) -> float:
        """The chance of a value beyond ±x."""
        return float(2 * (ndtr(-abs(x)) if self.df == np.inf else stdtr(self.df, -abs(x))))

    def within(self, level: float) -> float:
        """This share of all values is between minus this number and this number."""
        upper = (1 + level) / 2
        return float(ndtri(upper) if self.df == np.inf else stdtrit(self.df, upper))

    def test(self, q: int, chi2: float) -> dict[str, float]:
        """A row of a table of tests."""
        if self.df == np.inf:
            return {"df": q, "chi2": chi2, "p": float(chdtrc(q, chi2))}
        return {"df": q, "F": chi2 / q, "p": float(fdtrc(q, self.df, chi2 / q))}


def reference(result: "TableResult") -> Reference:
    estimated = family_of(result.family, result.link).dispersed
    return Reference(float(result.df_residual) if estimated else np.inf)


def term_of(result: "TableResult", column: str) -> str | None:
    """`a:b[T.x]` is of the term a:b; without a formula each column is one. The intercept is of
    none, nor is a parameter that no column has, as a threshold."""
    if column == INTERCEPT:
        return None
    if result.is_of_site(column):
        return SITES
    if result.formula is None:
        return column
    made = result.made_of(column)
    return None if made is None else made.term


def terms(result: "TableResult") -> dict[str, list[int]]:
    """The rows of the table that belong to each; the intercept is none."""
    found: dict[str, list[int]] = {}
    for at, coefficient in enumerate(result.coefficients):
        term = term_of(result, coefficient.column)
        if term is not None:
            found.setdefault(term, []).append(at)
    return found


def dropped(result: "TableResult") -> dict[str, list[int]]:
    """The terms that a model can do without, as R's drop1 has them: those in no larger one. A
    factor that stands in for the intercept stays, too."""
    found, columns = terms(result), [c.column for c in result.coefficients]
    first = {term: columns[at[0]] for term, at in found.items()}
    variables = {term: {part.text for part in _parts(result, first[term])} for term in found}
    inside = {a for a in found for b in found if variables[a] and variables[a] < variables[b]}
    if INTERCEPT not in columns:
        inside |= {term for term in found if is_full(result, first[term])}
    return {term: at for term, at in found.items() if term not in inside}


def _parts(result: "TableResult", column: str) -> tuple[Part, ...]:
    made = result.made_of(column)
    return () if made is None else made.parts


def is_full(result: "TableResult", column: str) -> bool:
    codings = {part.coding for part in _parts(result, column)}
    return codings == {"full"} or result.is_of_site(column)


def is_constant(result: "TableResult", column: str) -> bool:
    """The intercept, a threshold, or what stands in for an intercept: a level of a category with
    all of its levels, or a site."""
    if column in (INTERCEPT, *result.thresholds):
        return True
    whole = all(c.column != INTERCEPT for c in result.coefficients)
    return whole and is_full(result, column)


def of_sites(result: "TableResult") -> dict[str, bool]:
    """By label, whether a coefficient is that of a single site, as the intercept is beside effects
    of the other sites."""
    own = lambda c: result.is_of_site(c.column) or is_constant(result, c.column)
    return {c.label: result.site_effects == "fixed" and own(c) for c in result.coefficients}


def wald(result: "TableResult") -> pd.DataFrame:
    """One row per term that can be dropped; nan where clusters are too few to tell."""
    b, V = result.table["coef"].to_numpy(), result.covariance_matrix.to_numpy()
    by, rows = reference(result), {}
    for term, at in dropped(result).items():
        rows[term] = by.test(len(at), _square(b[at], V[np.ix_(at, at)]))
    return _tests(rows, by)


def _square(b: np.ndarray, V: np.ndarray) -> float:
    """b'V⁻¹b."""
    size = np.sqrt(np.diag(V))
    R = V / np.outer(size, size)
    if not np.linalg.eigvalsh(R)[0] > SINGULAR:
        return np.nan
    return float((b / size) @ np.linalg.solve(R, b / size))


def _tests(rows: Mapping[str, Mapping[str, float]], by: Reference) -> pd.DataFrame:
    table = pd.DataFrame.from_dict(dict(rows), orient="index", columns=["df", by.several, "p"])
    return table.astype({"df": int}).rename_axis("term")


def likelihood_ratio(whole: "TableResult", without: Callable[[str], "TableResult"]) -> pd.DataFrame:
    """As `wald`, from a fit without each of the terms, on the same rows."""
    by = reference(whole)
    return _tests({term: _ratio(without(term), whole) for term in dropped(whole)}, by)


def compare(one: "TableResult", other: "TableResult") -> pd.DataFrame:
    """The smaller model first, and what the larger one gains; refused unless it is nested."""
    small, large = sorted((one, other), key=lambda result: len(result.table))
    gained = _ratio(small, large)
    names = [str(small.formula), str(large.formula)]
    if names[0] == names[1]:
        names = ["smaller", "larger"]
    table = pd.DataFrame(
        {
            "df_residual": [small.df_residual, large.df_residual],
            "deviance": [small.deviance, large.deviance],
            **{name: [np.nan, value] for name, value in gained.items()},
        },
        index=pd.Index(names, name="model"),
    )
    return table


def _ratio(small: "TableResult", large: "TableResult") -> dict[str, float]:
    check_pair(small, large)
    q = len(large.table) - len(small.table)
    fall = max(small.deviance - large.deviance, 0.0) / large.dispersion
    if large.theta_se is not None:  # each model has a theta of its own, as in R's anova.negbin
        fall = max(2 * (large.log_likelihood - small.log_likelihood), 0.0)
    return reference(large).test(q, fall)


def check_pair(small: "TableResult", large: "TableResult") -> None:
    """Refuses models of other rows, or of which one does not hold the other."""
    for name in ("family", "link", "response", "classes", "sites"):
        a, b = getattr(small, name), getattr(large, name)
        if not np.array_equal(np.asarray(a, object), np.asarray(b, object)):
            same = "outcome" if name == "response" else name
            raise SpecError(f"feddcd compares only models with the same {same}; got {a} and {b}")
    same = lambda a, b: np.allclose(a, b, rtol=1e-8, atol=0)
    if small.n_rows != large.n_rows:
        raise SpecError(
            f"the models use different numbers of rows, {small.n_rows} and {large.n_rows}. Before "
            "both fits, leave out the rows that lack a value in any column of the larger model"
        )
    if not same(small.row_sums, large.row_sums):
        raise SpecError(
            "the models do not have the same outcomes, weights and offsets; fit both models to "
            "the same data"
        )
    lacking = [str(name) for name in small.table.index if name not in large.table.index]
    if lacking or len(small.table) == len(large.table):
        raise SpecError(
            f"the models are not nested: the smaller model has {lacking[0]!r}, but the larger "
            "model does not have it"
            if lacking
            else "the two models have the same columns, but the larger model must have more columns"
        )
    for result in (small, large):
        _check_likelihood(result)


def _check_likelihood(result: "TableResult") -> None:
    l2 = list(result.l2.values()) if isinstance(result.l2, Mapping) else result.l2
    if np.any(np.asarray(l2)) or result.firth:
        raise SpecError(
            "a likelihood-ratio test needs two models without a penalty: fit both with <l2>, and "
            "without <firth>",
            settings={"l2": 0, "firth": None},
        )
    if result.covariance != "model":
        told = (
            "a likelihood-ratio test needs the usual standard errors: fit with "
            "<covariance>, or use Wald's test"
        )
        raise SpecError(told, settings={"covariance": "model"})
    if not result.converged:
        raise SpecError(
            "the certificate of one model does not reach <tol>; allow more exchanges",
            settings={"tol": result.tol},
        )


def vif(result: "TableResult") -> pd.DataFrame:
    """Generalised variance inflation factors, as R's car::vif gives them: with R the correlation of
    the coefficients but for the intercept, det(R of the term) det(R of the rest) / det(R)."""
    if result.classes is not None:
        told = "for an outcome of several classes, feddcd computes no variance inflation factors"
        raise SpecError(told)
    if result.covariance != "model":
        told = "variance inflation factors need the usual standard errors: fit with <covariance>"
        raise SpecError(told, settings={"covariance": "model"})
    found = terms(result)
    if len(found) < 2:
        raise SpecError("variance inflation factors need a model with at least two terms")
    at = [i for rows in found.values() for i in rows]
    V = result.covariance_matrix.to_numpy()[np.ix_(at, at)]
    R = V / np.sqrt(np.outer(np.diag(V), np.diag(V)))
    logdet = lambda keep: np.linalg.slogdet(R[np.ix_(keep, keep)])[1]
    rows = {}
    for term, own in found.items():
        inside = np.isin(at, own)
        gvif = float(np.exp(logdet(inside) + logdet(~inside) - np.linalg.slogdet(R)[1]))
        rows[term] = {"df": len(own), "gvif": gvif, "gvif_per_df": gvif ** (1 / (2 * len(own)))}
    return pd.DataFrame.from_dict(rows, orient="index").astype({"df": int}).rename_axis("term")
