"""Rows by bins of what was predicted, and of residuals, added up over sites."""

import numpy as np
import pandas as pd

from ._binning import RESIDUALS
from ._model import Model
from ._newton import Estimate


def bin_tables(model: Model, estimate: Estimate) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Rows by bins of the predicted mean, and by bins of Pearson's residuals."""
    each = list(estimate.answers.values())
    if each[0].bins.shape[1] == 0:
        return None, None
    first, last = (0, 1) if model.family == "binomial" else (-np.inf, np.inf)
    weight, observed, predicted = np.sum([a.bins for a in each], 0)
    values = {"weight": weight, "observed": observed, "predicted": predicted}
    by_mean = _bins(np.array([first, *estimate.edges, last]), values)
    if model.family == "binomial":
        return by_mean, None
    rest = {"weight": np.sum([a.residuals for a in each], 0)}
    return by_mean, _bins(np.array([-np.inf, *RESIDUALS, np.inf]), rest)


def _bins(edges: np.ndarray, values: dict[str, np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], **values})
