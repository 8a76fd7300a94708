"""The fitted model as files that need nothing of this package: CSV, JSON, joblib, text, LaTeX and
Markdown."""

import json
import math
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._text import printable, spreadsheet_cell
from ..data.capping import cappings
from ..formula import Part, read_formula
from . import _more
from ._as_scikit_learn import estimator
from ._result import Fitted, TableResult, result_of

FORMAT = 1
JOBLIB = {"gaussian": "identity", "binomial": "logit", "poisson": "log", "multinomial": "logit"}

BASE_CLASS = "base-class logit"
NO_JOBLIB = (
    "model.joblib is not written, because scikit-learn is not installed: "
    "pip install 'feddcd[train]'"
)


def write(fit: TableResult | Fitted, folder: str | Path) -> list[Path]:
    """Write the files of a fit, which other programs can read without feddcd.

    These are coefficients.csv, model.json, summary.txt, the tables that were asked for, and the
    table for a paper (coefficients.tex, coefficients.md). If scikit-learn is installed and has such
    a model, there is also model.joblib, in the units of the columns.

    Args:
        fit: A fitted `FederatedGLM`, or its `result_`.
        folder: Where to write; feddcd makes the folder and replaces files of these names.

    Returns:
        The paths of the files, in the order in which they were written.

    Raises:
        SpecError: There was no fit yet.

    Examples:
        >>> from feddcd.analysis import export
        >>> fit = feddcd.FederatedGLM("binomial", "death ~ age").fit(rows, groups="hospital")
        >>> [path.name for path in export.write(fit, "tables")][:2]
        ['coefficients.csv', 'model.json']
    """
    result = result_of(fit)
    text = json.dumps(document(result), indent=1, allow_nan=False) + "\n"
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("coefficients.csv", "model.json", "summary.txt")]
    _write_csv(result.original_table.rename_axis("name"), paths[0])
    paths[1].write_text(text, encoding="utf-8", newline="\n")
    paths[2].write_text(fit.summary() + "\n", encoding="utf-8", newline="\n")
    if _has_joblib(result) and find_spec("sklearn"):  # which need not be installed
        import joblib

        paths.insert(2, folder / "model.joblib")
        joblib.dump(estimator(result), paths[2])
    for name, table in result.more.items():
        paths.append(folder / f"{name}.csv")
        _write_csv(table, paths[-1])
    return [*paths, *result.write_printed(folder, "coefficients")]


def without_joblib(result: TableResult | Path) -> str:
    """Why there is no model.joblib although there could be one, in words, or nothing; of a result,
    or of a folder that has its files."""
    if find_spec("sklearn"):
        return ""
    if not isinstance(result, Path):
        fits = _has_joblib(result)
    else:
        told = json.loads((result / "model.json").read_text("utf-8"))
        links = (JOBLIB.get(told["family"]), BASE_CLASS)
        fits = told["link"] in links and bool(told["design"]["columns"])
        fits = fits and not (result / "model.joblib").exists()
    return NO_JOBLIB if fits else ""


def _has_joblib(result: TableResult) -> bool:
    """scikit-learn has no model of an intercept alone."""
    return bool(result.columns) and JOBLIB.get(result.family) == result.link


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    """Names as a spreadsheet can be shown them."""
    names = [spreadsheet_cell(printable(str(name))) for name in table.index]
    table.set_axis(names).to_csv(path, index_label=table.index.name, lineterminator="\n")


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """The same of all words in a table, and of the names of its columns."""
    plain = lambda value: spreadsheet_cell(printable(value)) if isinstance(value, str) else value
    return table.map(plain).rename(columns=plain)


def document(result: TableResult) -> dict[str, Any]:
    """The model as plain numbers and words."""
    table = result.original_table
    return {
        "format": FORMAT,
        "feddcd": version("feddcd"),
        "family": result.family,
        "link": BASE_CLASS if result.family == "multinomial" else result.link,
        "formula": result.formula,
        "response": result.response,
        "classes": _classes(result),
        "event": result.event,
        "references": result.references,
        **_capped(result),
        "left_out": list(result.left_out),
        "empty_levels": {name: list(levels) for name, levels in result.empty_levels.items()},
        "names": [str(name) for name in table.index],
        "coefficients": table["coef"].tolist(),
        "standard_errors": table["std_err"].tolist(),
        "statistic": result.statistic.name,
        "level": float(result.level),
        "intervals": table[["ci_low", "ci_high"]].to_numpy(float).tolist(),
        "ratio": result.ratio,
        "ratios": _ratios(result),
        "covariance": np.asarray(result.original_covariance, float).tolist(),
        "covariance_kind": result.covariance,
        "dispersion": float(result.dispersion),
        "theta": result.theta,
        "theta_standard_error": result.theta_se,
        "fit": _fit(result),
        "penalty": _penalty(result.l2),
        "certified_error": _finite(result.certified_error),
        "certified_error_unit": "in standard errors; null where nothing is proven",
        "converged": bool(result.converged),
        "tol": float(result.tol),
        "rows": int(result.n_rows),
        "rows_dropped": int(result.n_dropped),
        "sites": int(result.n_sites),
        "clusters": int(result.n_clusters) or None,
        **_more.document(result.more),
        "site_counts": _by_site(result),
        "sites_refused": dict(result.refused),
        "answers": result.answers,
        "leave_one_site_out": _without(result),
        "exchanges": int(result.n_exchanges),
        "design": _design(result),
        "left_out_of_joblib": _left_out(result),
    }


def _capped(result: TableResult) -> dict[str, Any]:
    """By column, what every site did to its values: so has who predicts. Older models lack it."""
    found = cappings(result.codebook.get("columns", {}))
    return {"capped": {name: each.plain() for name, each in found.items()}} if found else {}


def _by_site(result: TableResult) -> dict[str, Any]:
    plain = result.site_counts.astype(object).to_dict("index")
    return {str(site): row for site, row in plain.items()}


def _without(result: TableResult) -> dict[str, Any] | None:
    """On which site the table depends most; null where only sums over all sites are known."""
    if result.leave_one_out is None or result.hinge is None:
        return None
    site, name, change = result.hinge
    by_site = {
        str(site): [_finite(x) for x in result.leave_one_out[site]]
        for site in result.leave_one_out.columns
    }
    return {
        "unit": (
            "in standard errors, computed with one Newton step; null where the rows of "
            "the other sites do not determine the coefficient"
        ),
        "largest": {"site": site, "name": name, "change": _finite(change)},
        "changes": by_site,
    }


def _ratios(result: TableResult) -> list[list[float | None]] | None:
    """Of every row: the ratio and its interval; null where it is too large for a number."""
    if result.ratio is None:
        return None
    values = result.original_table[["ratio", "ratio_low", "ratio_high"]].to_numpy(float)
    return [[_finite(x) for x in row] for row in values]


def _fit(result: TableResult) -> dict[str, Any]:
    names = ("deviance", "null_deviance", "log_likelihood", "aic", "bic", "pearson")
    values: dict[str, Any] = {name: _finite(getattr(result, name)) for name in names}
    values |= {"df_residual": int(result.df_residual), "df_null": int(result.df_null)}
    if result.linear is not None:
        sigma, r2, adjusted, f, f_df, f_p = result.linear
        values |= {
            "residual_standard_error": _finite(sigma), "r_squared": _finite(r2),
            "adjusted_r_squared": _finite(adjusted), "f": _finite(f), "f_df": list(f_df),
            "f_p": _finite(f_p),
        }  # fmt: skip
    return values


def _design(result: TableResult) -> dict[str, Any]:
    return {
        "how": "the model needs these columns in this order; it adds the intercept itself",
        "columns": [{"name": name, "value": _value(result, name)} for name in result.columns],
    }


def _value(result: TableResult, column: str) -> str:
    """How a row of the table that was read gets its number."""
    if result.is_of_site(column):
        return f"1 where the site is {column.removeprefix('site[').removesuffix(']')!r}, else 0"
    made = result.made_of(column)
    if made is None:
        return f"{column}, a number"
    told = [_part(part) for part in made.parts]
    return told[0] if len(told) == 1 else "the product of " + " and ".join(f"({t})" for t in told)


def _part(part: Part) -> str:
    if part.coding == "treatment":
        where = f"1 where {part.column!r} is '{part.level}'"
        return f"{where}, else 0 (also for '{part.reference}')"
    if part.coding == "full":
        return f"1 where {part.column!r} is '{part.level}', else 0"
    if part.column is not None:
        return f"the contrast {part.mark} of {part.column} ({part.coding})"
    return f"{part.name}, a number"


def _left_out(result: TableResult) -> list[str]:
    """What the joblib model cannot know of a row, in words."""
    offsets = () if result.formula is None else read_formula(result.formula).offsets
    if result.family == "multinomial" or not _has_joblib(result):
        return []
    how = "multiply each prediction by exp(offset)"
    if result.family != "poisson":
        to = "the result of decision_function" if result.family == "binomial" else "each prediction"
        how = f"add the offset to {to}"
    told = f"model.joblib predicts with the offset 0; for another offset, {how}"
    left = [f"the offset {expression}: {told}" for expression in offsets]
    return left or [f"an offset, if the fit had one: {told}"]


def _classes(result: TableResult) -> list[Any] | None:
    """The base class first, the event of a binary outcome last."""
    plain = lambda c: c if isinstance(c, int | float | bool) else str(c)
    if result.classes is not None:
        return [plain(c) for c in result.classes.tolist()]
    if result.outcome is not None:
        return [plain(c) for c in result.outcome]
    return [0, 1] if result.family == "binomial" else None


def _penalty(l2: Any) -> Any:
    if isinstance(l2, dict):
        return {str(name): float(value) for name, value in l2.items()}
    return np.asarray(l2, float).tolist()


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
