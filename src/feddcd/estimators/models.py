"""The three models: logistic regression, least squares with a penalty, and counts."""

from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._errors import SpecError
from ..losses import LOGISTIC, POISSON, RIDGE, SOFTMAX
from ._base import AbstractFederated, AbstractRegressor


class FederatedLogisticRegression(ClassifierMixin, AbstractFederated):
    """scikit-learn's `LogisticRegression`: C sum_j s_j loss_j(w, b) + |w|²/2, over sites.

    Row j has the weight s_j, and S = sum_j s_j. You can give `l2` instead of C: it is the penalty
    of the mean objective, (1/S) sum_j s_j loss_j + (l2/2)|w|². The fit stops when the certified gap
    of this mean objective is at most `tol`. Two classes have one column of coefficients together;
    with more classes, each class has its own column.
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray

    def __init__(
        self,
        C: float = 1.0,
        *,
        l2: float | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        algorithm: str = "auto",
        n_clients: int = 10,
        tau: int | None = None,
        tol: float = 1e-6,
        max_rounds: int = 1000,
        random_state: Any = None,
    ):
        self.C, self.l2, self.fit_intercept, self.class_weight = C, l2, fit_intercept, class_weight
        self.algorithm, self.n_clients, self.tau = algorithm, n_clients, tau
        self.tol, self.max_rounds, self.random_state = tol, max_rounds, random_state

    def fit(self, X, y, groups=None, sample_weight=None):
        """`groups` says which site each row belongs to. Without `groups`, feddcd divides the rows
        at random into `n_clients` equal parts."""
        X, y = self._take_in(X, y)
        check_classification_targets(y)
        self.classes_, code = np.unique(y, return_inverse=True)
        s = self._class_weights(self._weights(sample_weight, X), y, code)
        l2 = self._penalty("C", 1.0, lambda C: 1 / (C * s.sum()))
        binary = len(self.classes_) == 2
        Y = code[:, None].astype(float) if binary else np.eye(len(self.classes_))[code]
        w, b = self._train(X, Y, s, groups, l2=l2, link=LOGISTIC if binary else SOFTMAX)
        self.coef_, self.intercept_ = w.T, b if binary else b - np.mean(b)
        return self

    def decision_function(self, X) -> np.ndarray:
        z = self._linear(X)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X) -> np.ndarray:
        z = self._linear(X)
        code = (z[:, 0] > 0).astype(int) if z.shape[1] == 1 else np.argmax(z, 1)
        return self.classes_[code]

    def predict_proba(self, X) -> np.ndarray:
        z = self._linear(X)
        return np.hstack([expit(-z), expit(z)]) if z.shape[1] == 1 else softmax(z, axis=1)

    def predict_log_proba(self, X) -> np.ndarray:
        z = self._linear(X)
        z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
        return log_softmax(z, axis=1)

    def _class_weights(self, s: np.ndarray, y: np.ndarray, code: np.ndarray) -> np.ndarray:
        """Row weights times those of their classes, all of which need some."""
        if len(self.classes_) < 2:
            raise SpecError(
                f"y must have two classes, but it has only the class {self.classes_[0]!s}"
            )
        if self.class_weight is not None:
            each = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=s
            )
            s = s * each[code]
        absent = np.bincount(code, s) <= 0
        if absent.any():
            raise SpecError(f"the class {self.classes_[absent][0]!s} has no weight in any row")
        return s


class FederatedRidge(AbstractRegressor):
    """scikit-learn's `Ridge`: sum_j s_j (y_j - x_j'w - b)² + alpha |w|², over sites.

    Row j has the weight s_j, and S = sum_j s_j. You can give `l2` instead of alpha: it is the
    penalty of the mean objective, (1/S) sum_j s_j (...)²/2 + (l2/2)|w|². The fit stops when the
    certified gap of this mean objective is at most `tol`.
    """

    def fit(self, X, y, groups=None, sample_weight=None):
        """`groups` says which site each row belongs to. Without `groups`, feddcd divides the rows
        at random into `n_clients` equal parts."""
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


class FederatedPoissonRegressor(AbstractRegressor):
    """scikit-learn's `PoissonRegressor`: half the mean deviance + (alpha/2)|w|², over sites.

    Its alpha is already the penalty of the mean objective, so `l2` is another name for alpha. The
    fit stops when the certified gap of this objective is at most `tol`.
    """

    def fit(self, X, y, groups=None, sample_weight=None):
        """`groups` says which site each row belongs to. Without `groups`, feddcd divides the rows
        at random into `n_clients` equal parts."""
        X, y = self._take_in(X, y, y_numeric=True)
        s = self._weights(sample_weight, X)
        l2 = self._penalty("alpha", 1.0, lambda alpha: alpha)
        if y.min() < 0:
            row = int(np.argmin(y))
            raise SpecError(f"y must contain counts (numbers >= 0), but row {row} has {y[row]}")
        if self.fit_intercept and not s @ y > 0:
            raise SpecError(
                "y is 0 in every row that has a weight, so no finite intercept fits these rows"
            )
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
