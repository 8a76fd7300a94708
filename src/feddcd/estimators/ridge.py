"""Least squares with a squared penalty."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from ..losses import RIDGE
from ._base import AbstractFederated


class FederatedRidge(RegressorMixin, AbstractFederated):
    """scikit-learn's `Ridge`: sum_j s_j (y_j - x_j'w - b)² + alpha |w|², over sites.

    `l2` in place of alpha is the penalty of the mean, (1/S) sum_j s_j (...)²/2 + (l2/2)|w|² with
    S = sum_j s_j; of this, `tol` is the certified gap at which the fit stops.
    """

    coef_: np.ndarray
    intercept_: float

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l2: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        n_clients: int = 10,
        tau: int | None = None,
        tol: float = 1e-6,
        max_rounds: int = 1000,
        random_state: Any = None,
    ):
        self.alpha, self.l2, self.fit_intercept = alpha, l2, fit_intercept
        self.algorithm, self.n_clients, self.tau = algorithm, n_clients, tau
        self.tol, self.max_rounds, self.random_state = tol, max_rounds, random_state

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
