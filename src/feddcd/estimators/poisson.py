"""Counts with the log link."""

import numpy as np
from sklearn.metrics import d2_tweedie_score

from .._errors import SpecError
from ..losses import POISSON
from ._base import AbstractRegressor


class FederatedPoissonRegressor(AbstractRegressor):
    """scikit-learn's `PoissonRegressor`: half the mean deviance + (alpha/2)|w|², over sites.

    Its alpha is the penalty of the mean already, so `l2` is another name for it. `tol` is the
    certified gap of this objective at which the fit stops.
    """

    def fit(self, X, y, groups=None, sample_weight=None):
        """`groups` says whose each row is; without it there are `n_clients` even random parts."""
        X, y = self._take_in(X, y, y_numeric=True)
        s = self._weights(sample_weight, X)
        l2 = self._penalty("alpha", 1.0, lambda alpha: alpha)
        if y.min() < 0:
            row = int(np.argmin(y))
            raise SpecError(f"y must be a count, >= 0; got {y[row]} at row {row}")
        if self.fit_intercept and not s @ y > 0:
            raise SpecError("y is 0 in every row that has weight: no finite intercept fits it")
        w, b = self._train(X, y.astype(float)[:, None], s, groups, l2=l2, link=POISSON)
        self.coef_, self.intercept_ = w[:, 0], float(b[0])
        return self

    def predict(self, X) -> np.ndarray:
        """The expected counts."""
        return np.exp(self._linear(X)[:, 0])

    def score(self, X, y, sample_weight=None) -> float:
        """D², the share of the deviance explained."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
