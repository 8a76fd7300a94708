"""A fit as a plain model of scikit-learn, for model.joblib."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._errors import SpecError
from .._extras import needs
from ._result import TableResult

if TYPE_CHECKING:
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor


def estimator(
    result: TableResult,
) -> "LogisticRegression | LinearRegression | PoissonRegressor":
    """A plain scikit-learn model on the columns of the design matrix.

    It is fitted to two rows or so of zeros, for all that a fit sets beside the coefficients.
    """
    with needs("train"):
        from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

    columns = result.columns
    if not columns:
        raise SpecError("a scikit-learn model needs a column, but this model has only an intercept")
    coef, intercept = np.asarray(result.coef, float), np.asarray(result.intercept, float)
    if result.family in ("gaussian", "poisson"):
        model = LinearRegression() if result.family == "gaussian" else PoissonRegressor(alpha=0.0)
        model.fit(_zeros(2, columns), np.ones(2))
        model.coef_, model.intercept_ = coef, float(intercept)
        return model
    classes = np.asarray(result.classes) if result.family == "multinomial" else np.arange(2)
    model = LogisticRegression().fit(_zeros(len(classes), columns), classes)
    model.classes_ = classes  # fit sorts them
    model.coef_, model.intercept_ = np.atleast_2d(coef), np.atleast_1d(intercept)
    if len(classes) > 2:
        model.coef_ = np.vstack([np.zeros(len(columns)), model.coef_])
        model.intercept_ = np.append(0.0, model.intercept_)
    return model


def _zeros(rows: int, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(np.zeros((rows, len(columns))), columns=columns)
