"""Least squares with a squared penalty."""

import numpy as np

from ..losses import RIDGE
from ._base import AbstractRegressor


class FederatedRidge(AbstractRegressor):
    """scikit-learn's `Ridge`: sum_j s_j (y_j - x_j'w - b)² + alpha |w|², over sites.

    `l2` in place of alpha is the penalty of the mean, (1/S) sum_j s_j (...)²/2 + (l2/2)|w|² with
    S = sum_j s_j; of this, `tol` is the certified gap at which the fit stops.
    """

    def fit(self, X, y, groups=None, sample_weight=None):
        """`groups` says whose each row is; without it there are `n_clients` even random parts."""
        X, y = self._take_in(X, y, y_numeric=True)
        s = self._weights(sample_weight, X)
        l2 = self._penalty("alpha", 1.0, lambda alpha: alpha / s.sum())
        y = y.astype(float)
        middle = s @ y / s.sum() if self.fit_intercept else 0.0
        size = float(np.sqrt(s @ (y - middle) ** 2 / s.sum())) or 1.0
        w, b = self._train(
            X, ((y - middle) / size)[:, None], s, groups, l2=l2, link=RIDGE, unit=size**2
        )
        self.coef_, self.intercept_ = size * w[:, 0], float(size * b[0] + middle)
        return self

    def predict(self, X) -> np.ndarray:
        return self._linear(X)[:, 0]
