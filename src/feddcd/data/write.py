"""Rows as a file that `read_site` reads, every digit kept."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse


def write_rows(folder: Path, X: Any, y: np.ndarray) -> dict[str, str]:
    """data.svm for a sparse X, data.csv otherwise; what a site has to say of it."""
    if sparse.issparse(X):
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, y, str(folder / "data.svm"), zero_based=False)
        return {"data": "data.svm"}
    import pandas as pd

    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table["label"] = y
    table.to_csv(folder / "data.csv", index=False, float_format="%.17g")
    return {"data": "data.csv", "label": "label"}
