"""Logistic regression: one column for two classes, one per class for more."""

from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._errors import SpecError
from ..losses import LOGISTIC, SOFTMAX
from ._base import AbstractFederated


class FederatedLogisticRegression(ClassifierMixin, AbstractFederated):
    """scikit-learn's `LogisticRegression`: C sum_j s_j loss_j(w, b) + |w|²/2, over sites.

    `l2` in place of C is the penalty of the mean, (1/S) sum_j s_j loss_j + (l2/2)|w|² with
    S = sum_j s_j; of this, `tol` is the certified gap at which the fit stops.
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
        """`groups` says whose each row is; without it there are `n_clients` even random parts."""
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
            raise SpecError(f"need two classes, got one class only: {self.classes_[0]!s}")
        if self.class_weight is not None:
            each = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=s
            )
            s = s * each[code]
        absent = np.bincount(code, s) <= 0
        if absent.any():
            raise SpecError(f"the class {self.classes_[absent][0]!s} has no weight in any row")
        return s
