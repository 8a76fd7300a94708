"""Means with intervals, as R's predict(se.fit = TRUE) gives them: made on the scale of the linear
predictor z = x'w with the standard error sqrt(x'Cx), and carried over to the mean."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._errors import SpecError
from ._inference import reference
from ._predictor import PredictedRows
from .families import family_of
from .plan import check_level

if TYPE_CHECKING:
    from ._result import TableResult


def with_intervals(result: "TableResult", given: PredictedRows, level: Any) -> pd.DataFrame:
    """Mean, low, high; of linear models row_low and row_high, too, between which the outcome of
    one new row of weight 1 lies. All are nan for a row without a value."""
    check_level("interval", level)
    if result.classes is not None:
        raise SpecError(
            "for an outcome of several classes, feddcd predicts probabilities, but no intervals "
            "for them: leave out <interval>",
            settings={"interval": None},
        )
    loss, factor = family_of(result.family, result.link), reference(result).within(float(level))
    rows, z, whole = given
    V = result.original_covariance.to_numpy()
    variance = np.sum((rows @ V) * rows, 1)
    half = factor * np.sqrt(np.maximum(variance, 0))
    ends = np.stack([loss.mean(z[:, :1] + side * half[:, None])[:, 0] for side in (-1, 1)])
    columns = {"mean": loss.mean(z)[:, 0], "low": ends.min(0), "high": ends.max(0)}
    if loss.quadratic:
        wide = factor * np.sqrt(np.maximum(variance, 0) + result.dispersion)
        columns |= {"row_low": z[:, 0] - wide, "row_high": z[:, 0] + wide}
    return pd.DataFrame(columns, index=np.flatnonzero(whole)).reindex(range(len(whole)))
