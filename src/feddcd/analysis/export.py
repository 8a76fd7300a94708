"""The fitted model as files that need nothing of this package: CSV, JSON, joblib and text."""

import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from . import names
from .formula import split

FORMAT = 1
LINKS = {
    "gaussian": "identity", "binomial": "logit", "poisson": "log", "multinomial": "base-class logit"
}  # fmt: skip


def write(fit: Any, folder: str | Path) -> list[Path]:
    """Write coefficients.csv, model.json, model.joblib (all in the columns' own units) and
    summary.txt; return their paths."""
    if not hasattr(fit, "table_"):
        raise ValueError("this model is not fitted yet: call fit first")
    model, text = estimator(fit), json.dumps(document(fit), indent=1, allow_nan=False) + "\n"
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("coefficients.csv", "model.json", "model.joblib")]
    fit.original_table_.to_csv(paths[0], index_label="name", lineterminator="\n")
    paths[1].write_text(text, encoding="utf-8", newline="\n")
    joblib.dump(model, paths[2])
    paths.append(folder / "summary.txt")
    paths[-1].write_text(fit.summary() + "\n", encoding="utf-8", newline="\n")
    return paths


def estimator(fit: Any) -> LogisticRegression | LinearRegression | PoissonRegressor:
    """A plain scikit-learn model on the columns of the design matrix.

    It is fitted to two rows or so of zeros, for all that a fit sets beside the coefficients.
    """
    columns = names.design(fit)
    if not columns:
        raise ValueError("a scikit-learn model needs a column, but this one has an intercept only")
    coef, intercept = np.asarray(fit.coef_, float), np.asarray(fit.intercept_, float)
    if fit.family in ("gaussian", "poisson"):
        model = LinearRegression() if fit.family == "gaussian" else PoissonRegressor(alpha=0.0)
        model.fit(_zeros(2, columns), np.ones(2))
        model.coef_, model.intercept_ = coef, float(intercept)
        return model
    classes = np.asarray(fit.classes_) if fit.family == "multinomial" else np.arange(2)
    model = LogisticRegression().fit(_zeros(len(classes), columns), classes)
    model.classes_ = classes  # fit sorts them
    model.coef_, model.intercept_ = np.atleast_2d(coef), np.atleast_1d(intercept)
    if len(classes) > 2:
        model.coef_ = np.vstack([np.zeros(len(columns)), model.coef_])
        model.intercept_ = np.append(0.0, model.intercept_)
    return model


def document(fit: Any) -> dict[str, Any]:
    """The model as plain numbers and words."""
    table = fit.original_table_
    return {
        "format": FORMAT,
        "feddcd": version("feddcd"),
        "family": fit.family,
        "link": LINKS[fit.family],
        "formula": fit.formula,
        "response": names.response(fit),
        "classes": _classes(fit),
        "names": [str(name) for name in table.index],
        "coefficients": table["coef"].tolist(),
        "standard_errors": table["std_err"].tolist(),
        "covariance": np.asarray(fit.original_covariance_, float).tolist(),
        "covariance_kind": fit.covariance,
        "dispersion": float(fit.dispersion_),
        "penalty": _penalty(fit.l2),
        "certified_error": _finite(fit.certified_error_),
        "certified_error_unit": "standard errors; null where nothing is proven",
        "converged": bool(fit.converged_),
        "tol": float(fit.tol),
        "rows": int(fit.n_rows_),
        "rows_dropped": int(fit.n_dropped_),
        "sites": int(fit.n_sites_),
        "exchanges": int(fit.n_exchanges_),
        "design": _design(fit),
        "left_out_of_joblib": _left_out(fit),
    }


def _design(fit: Any) -> dict[str, Any]:
    value = lambda name: _value(name) if names.is_made(fit, name) else f"{name}, a number"
    return {
        "how": "the model takes these columns, in this order; the intercept is its own",
        "columns": [{"name": name, "value": value(name)} for name in names.design(fit)],
    }


def _value(column: str) -> str:
    """How a row of the table that was read gets its number."""
    products = names.factors(column)
    if len(products) > 1:
        return "the product of " + " and ".join(f"({_value(part)})" for part in products)
    found = names.level(column)
    if found is None:
        return f"{column}, a number"
    if found.relative:
        return f"1 where {found.column} is {found.level}, else 0 (also for the reference category)"
    return f"1 where {found.column} is {found.level}, else 0"


def _left_out(fit: Any) -> list[str]:
    """What the joblib model cannot know of a row, in words."""
    offsets = () if fit.formula is None else split(fit.formula).offsets
    if fit.family == "multinomial":
        return []
    how = "multiply its predictions by exp(offset)"
    if fit.family != "poisson":
        how = "add it to the linear predictor" + (
            ", decision_function" if fit.family == "binomial" else ", the prediction"
        )
    told = [
        f"offset {expression}: the model predicts for offset 0; {how}" for expression in offsets
    ]
    return told or [f"an offset given to fit, if any: the model predicts for offset 0; {how}"]


def _classes(fit: Any) -> list[Any] | None:
    """The base class first."""
    if fit.family == "multinomial":
        return [c if isinstance(c, int | float | bool) else str(c) for c in fit.classes_.tolist()]
    return [0, 1] if fit.family == "binomial" else None


def _penalty(l2: Any) -> Any:
    if isinstance(l2, dict):
        return {str(name): float(value) for name, value in l2.items()}
    return np.asarray(l2, float).tolist()


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


def _zeros(rows: int, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(np.zeros((rows, len(columns))), columns=columns)
