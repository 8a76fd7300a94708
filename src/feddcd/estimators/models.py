"""The three models: logistic regression here, least squares and counts from their own file."""

from typing import Any, Self

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._errors import SpecError
from ..losses import LOGISTIC, SOFTMAX
from ._base import AbstractFederated
from ._regressors import FederatedPoissonRegressor as FederatedPoissonRegressor
from ._regressors import FederatedRidge as FederatedRidge


class FederatedLogisticRegression(ClassifierMixin, AbstractFederated):
    r"""The `LogisticRegression` of scikit-learn, over sites and with a proof.

    It minimises this objective, with the loss of each row j, its weight $s_j$, the coefficients w
    and the intercept b:

    $$
    C \sum_j s_j \, \text{loss}_j(w, b) + \tfrac12 \lVert w \rVert^2
    $$

    With $S = \sum_j s_j$, the mean objective is this one divided by C S. Its penalty is
    $\text{l2} = 1 / (C S)$. The fit stops when the certified gap of the mean objective is at most
    `tol`. Two classes have one column of coefficients together; with more classes, each class has
    its own column.

    Args:
        C: The inverse of the penalty, above 0, as in scikit-learn.
        l2: The penalty of the mean objective, above 0, in place of `C`.
        fit_intercept: Whether the model has an intercept. It has no penalty.
        class_weight: None, "balanced", or a dict with a weight for each class, as in scikit-learn.
        algorithm: "fednewton" (up to 2,000 parameters), "pointsaga", "feddcd", "accfeddcd", or
            "auto": "fednewton" for up to 256 parameters, "pointsaga" for more.
        n_clients: Without `groups`, the number of parts of the rows, at least 2.
        tau: Clients in a round, at least 2. If not given: all for "fednewton", a quarter of them
            for the other methods.
        tol: The largest certified gap, above 0, in the unit of the mean objective.
        max_rounds: After this number of rounds the fit stops and warns.
        random_state: The seed of all random numbers, as in scikit-learn.

    Attributes:
        coef_: The coefficients, one row for two classes, else one for each class.
        intercept_: The intercept, one for each row of `coef_`.
        classes_: The classes, sorted.
        certified_gap_: The proven gap of this fit.
        n_rounds_: The rounds that the fit needed.
        n_uploads_: The uploads of all clients.
        bytes_up_: The bytes that the clients sent, also for certificates.
        history_: A `History` with one row for each round.

    Examples:
        >>> X, y = rows[["age", "crp"]] / 50, rows["death"]
        >>> fit = feddcd.FederatedLogisticRegression(C=0.1).fit(X, y, groups=rows["hospital"])
        >>> fit.coef_.round(2).tolist()
        [[1.62, -0.14]]
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

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the rows of all sites, in this process.

        Args:
            X: A matrix with a row for each patient, dense or sparse.
            y: The class of each row.
            groups: The site of each row. Without it, feddcd divides the rows at random into
                `n_clients` equal parts.
            sample_weight: A weight of each row, at least 0. If not given: 1.

        Returns:
            This estimator, with the attributes of a fit.

        Raises:
            SpecError: A setting is wrong, or the rows cannot be used: they have one class alone.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["death"]
            >>> fit = feddcd.FederatedLogisticRegression().fit(X, y, groups=rows["hospital"])
            >>> fit.certified_gap_ <= fit.tol
            True
        """
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

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Args:
            X: Rows with the columns of the fit, dense or sparse.

        Returns:
            One class for each row.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["death"]
            >>> fit = feddcd.FederatedLogisticRegression().fit(X, y)
            >>> fit.predict(X.head(3)).tolist()
            [0, 1, 0]
        """
        z = self._linear(X)
        code = (z[:, 0] > 0).astype(int) if z.shape[1] == 1 else np.argmax(z, 1)
        return self.classes_[code]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class.

        Args:
            X: Rows with the columns of the fit, dense or sparse.

        Returns:
            One row for each row of X, one column for each class of `classes_`.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["death"]
            >>> fit = feddcd.FederatedLogisticRegression().fit(X, y)
            >>> fit.predict_proba(X.head(3)).shape
            (3, 2)
        """
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
                f"y must have at least two classes, but it has only the class {self.classes_[0]!s}"
            )
        if self.class_weight is not None:
            each = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=s
            )
            s = s * each[code]
        absent = np.bincount(code, s) <= 0
        if absent.any():
            raise SpecError(
                f"all rows of the class {self.classes_[absent][0]!s} have the weight 0; each class "
                "needs a row with a weight above 0"
            )
        return s
