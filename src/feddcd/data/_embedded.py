"""The small data sets that come with scikit-learn, each with a fixed 80/20 split."""

from __future__ import annotations

import numpy as np

from feddcd.data._dataset import Dataset

EMBEDDED = {
    "digits": "1,797 x 64, handwritten digits 8 x 8, 10 classes, pixels / 16",
    "breast-cancer": "569 x 30, tumour measurements, 2 classes, standardised columns",
    "wine": "178 x 13, chemical analysis of wines, 3 classes, standardised columns",
}
SPLIT_SEED = 0


def load_embedded(name: str) -> Dataset:
    """The named set; columns are scaled by the training rows alone."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    read = getattr(datasets, f"load_{name.replace('-', '_')}")
    X, y = read(return_X_y=True)
    rows, held_out = train_test_split(
        np.arange(len(y)), test_size=0.2, stratify=y, random_state=SPLIT_SEED
    )
    if name == "digits":
        shift, scale = 0.0, 16.0
    else:
        shift, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
    X = (X - shift) / scale
    return Dataset(name, X[rows], y[rows]).with_test(X[held_out], y[held_out])
