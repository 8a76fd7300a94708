"""Two models of numbers: least squares with a penalty, and counts."""

from typing import Any, Self

import numpy as np
from sklearn.metrics import d2_tweedie_score

from .._errors import SpecError
from ..losses import POISSON, RIDGE
from ._base import AbstractRegressor


class FederatedRidge(AbstractRegressor):
    r"""The `Ridge` of scikit-learn, over sites and with a proof.

    It minimises this objective, where row j has the weight $s_j$:

    $$
    \sum_j s_j (y_j - x_j^\top w - b)^2 + \text{alpha} \lVert w \rVert^2
    $$

    With $S = \sum_j s_j$, the mean objective is this one divided by 2 S, so its penalty is
    $\text{l2} = \text{alpha} / S$. The fit stops when the certified gap of the mean objective is
    at most `tol`, in the unit of the square of y.

    Args:
        alpha: The penalty, above 0, as in scikit-learn.
        l2: The penalty of the mean objective, above 0, in place of `alpha`.
        fit_intercept: Whether the model has an intercept. It has no penalty.
        algorithm: "fednewton" (up to 2,000 parameters), "pointsaga", "feddcd", "accfeddcd", or
            "auto": "fednewton" for up to 256 parameters, "pointsaga" for more.
        n_clients: Without `groups`, the number of parts of the rows, at least 2.
        tau: Clients in a round, at least 2. If not given: all for "fednewton", a quarter of them
            for the other methods.
        tol: The largest certified gap, above 0, in the unit of the mean objective.
        max_rounds: After this number of rounds the fit stops and warns.
        random_state: The seed of all random numbers, as in scikit-learn.

    Attributes:
        coef_: The coefficients.
        intercept_: The intercept.
        certified_gap_: The proven gap of this fit.
        n_rounds_: The rounds that the fit needed.
        n_uploads_: The uploads of all clients.
        bytes_up_: The bytes that the clients sent, also for certificates.
        history_: A `History` with one row for each round.

    Examples:
        >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
        >>> fit = feddcd.FederatedRidge(alpha=1).fit(X, y, groups=rows["hospital"])
        >>> fit.coef_.round(1).tolist()
        [3.3, -0.3]
    """

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the rows of all sites, in this process.

        Args:
            X: A matrix with a row for each patient, dense or sparse.
            y: The outcome of each row.
            groups: The site of each row. Without it, feddcd divides the rows at random into
                `n_clients` equal parts.
            sample_weight: A weight of each row, at least 0. If not given: 1.

        Returns:
            This estimator, with the attributes of a fit.

        Raises:
            SpecError: A setting is wrong, or the rows cannot be used.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
            >>> fit = feddcd.FederatedRidge().fit(X, y, groups=rows["hospital"])
            >>> fit.certified_gap_ <= fit.tol
            True
        """
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

    def predict(self, X: Any) -> np.ndarray:
        """The expected outcome of each row.

        Args:
            X: Rows with the columns of the fit, dense or sparse.

        Returns:
            One number for each row.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
            >>> fit = feddcd.FederatedRidge().fit(X, y)
            >>> fit.predict(X.head(3)).shape
            (3,)
        """
        return self._linear(X)[:, 0]


class FederatedPoissonRegressor(AbstractRegressor):
    r"""The `PoissonRegressor` of scikit-learn, over sites and with a proof.

    It minimises half the mean deviance and a penalty:

    $$
    \tfrac12 \, \text{mean deviance} + \tfrac12 \, \text{alpha} \lVert w \rVert^2
    $$

    Here alpha is already the penalty of a mean objective, so `l2` is another name for alpha. The
    fit stops when the certified gap of this objective is at most `tol`.

    Args:
        alpha: The penalty, above 0, as in scikit-learn.
        l2: The penalty of the mean objective, above 0, in place of `alpha`.
        fit_intercept: Whether the model has an intercept. It has no penalty.
        algorithm: "fednewton" (up to 2,000 parameters), "pointsaga", "feddcd", "accfeddcd", or
            "auto": "fednewton" for up to 256 parameters, "pointsaga" for more.
        n_clients: Without `groups`, the number of parts of the rows, at least 2.
        tau: Clients in a round, at least 2. If not given: all for "fednewton", a quarter of them
            for the other methods.
        tol: The largest certified gap, above 0, in the unit of the mean objective.
        max_rounds: After this number of rounds the fit stops and warns.
        random_state: The seed of all random numbers, as in scikit-learn.

    Attributes:
        coef_: The coefficients.
        intercept_: The intercept.
        certified_gap_: The proven gap of this fit.
        n_rounds_: The rounds that the fit needed.
        n_uploads_: The uploads of all clients.
        bytes_up_: The bytes that the clients sent, also for certificates.
        history_: A `History` with one row for each round.

    Examples:
        >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
        >>> fit = feddcd.FederatedPoissonRegressor(alpha=0.01).fit(X, y, groups=rows["hospital"])
        >>> fit.coef_.round(1).tolist()
        [1.1, -0.1]
    """

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the rows of all sites, in this process.

        Args:
            X: A matrix with a row for each patient, dense or sparse.
            y: The count, at least 0, of each row.
            groups: The site of each row. Without it, feddcd divides the rows at random into
                `n_clients` equal parts.
            sample_weight: A weight of each row, at least 0. If not given: 1.

        Returns:
            This estimator, with the attributes of a fit.

        Raises:
            SpecError: A setting is wrong, or the rows cannot be used: a count is negative.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
            >>> fit = feddcd.FederatedPoissonRegressor().fit(X, y, groups=rows["hospital"])
            >>> fit.certified_gap_ <= fit.tol
            True
        """
        X, y = self._take_in(X, y, y_numeric=True)
        s = self._weights(sample_weight, X)
        l2 = self._penalty("alpha", 1.0, lambda alpha: alpha)
        if y.min() < 0:
            row = int(np.argmin(y))
            raise SpecError(f"y must contain counts (numbers >= 0), but row {row} has {y[row]}")
        if self.fit_intercept and not s @ y > 0:
            raise SpecError(
                "y is 0 in every row with a weight above 0, so no finite intercept fits these rows"
            )
        w, b = self._train(X, y.astype(float)[:, None], s, groups, l2=l2, link=POISSON)
        self.coef_, self.intercept_ = w[:, 0], float(b[0])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The expected count of each row.

        Args:
            X: Rows with the columns of the fit, dense or sparse.

        Returns:
            One number above 0 for each row.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
            >>> fit = feddcd.FederatedPoissonRegressor().fit(X, y)
            >>> fit.predict(X.head(3)).shape
            (3,)
        """
        return np.exp(self._linear(X)[:, 0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the share of the deviance that the model explains.

        Args:
            X: Rows with the columns of the fit, dense or sparse.
            y: The count of each row.
            sample_weight: A weight of each row, at least 0. If not given: 1.

        Returns:
            A number of at most 1. It is 0 for a model that knows only the mean.

        Examples:
            >>> X, y = rows[["age", "crp"]] / 50, rows["visits"]
            >>> fit = feddcd.FederatedPoissonRegressor().fit(X, y)
            >>> 0 < fit.score(X, y) < 1
            True
        """
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
