"""What the three estimators share: settings checked, rows taken in, results kept."""

import numbers
import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore
    check_is_fitted,
    validate_data,
)

from .._errors import SpecError
from .._text import upper
from ..history import History
from ..losses import Loss
from ._rows import EstimatorRows, split
from ._training import ALGORITHMS, make_schedule, train


class AbstractFederated(BaseEstimator):
    """A linear model over sites; `tol` is the certified gap of the mean objective, in its unit."""

    fit_intercept: bool
    algorithm: str
    n_clients: int
    tau: int | None
    tol: float
    max_rounds: int
    random_state: Any
    l2: float | None

    n_features_in_: int
    n_rounds_: int
    n_uploads_: int
    bytes_up_: int
    certified_gap_: float
    history_: History

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _take_in(self, X, y, **options) -> tuple[Any, np.ndarray]:
        self._check()
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2, **options
        )
        return _canonical(X), np.asarray(y)

    def _weights(self, sample_weight, X) -> np.ndarray:
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            raise SpecError("Sample weights must contain at least one non-zero number.")
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _penalty(self, name: str, default: float, to_l2) -> float:
        """l2 as given, or from C or alpha; both cannot be meant."""
        value = getattr(self, name)
        _positive(name, value)
        if self.l2 is None:
            return float(to_l2(value))
        _positive("l2", self.l2)
        if value != default:
            raise SpecError(f"give either {name} or l2, not both; got {name}={value}, l2={self.l2}")
        return float(self.l2)

    def _train(self, X, Y, s, groups, *, l2: float, link: Loss, unit: float = 1.0):
        """w, d by k, and b; the objective is `unit` times that of the rows given."""
        random = check_random_state(self.random_state)
        parts = split(groups, len(Y), self.n_clients, random)
        rows = EstimatorRows(X, Y, s / s.sum(), l2, link, bool(self.fit_intercept), parts)
        chosen = make_schedule(
            rows, self.algorithm, self.tau, tol=self.tol / unit, max_rounds=self.max_rounds,
            seed=int(random.randint(2**31 - 1)),
        )  # fmt: skip
        path = train(rows, chosen)
        self.history_ = _in_unit(path.history, unit)
        self.certified_gap_ = path.gap * unit
        self.n_rounds_ = self.history_.rounds
        self.n_uploads_ = int(self.history_["uploads"][-1])
        self.bytes_up_ = int(self.history_["bytes_up"][-1])
        if self.certified_gap_ > self.tol:
            warnings.warn(
                f"{chosen.algorithm} did not reach tol={self.tol:g} within "
                f"max_rounds={self.max_rounds} rounds. The certificate proves only that the gap is "
                f"at most certified_gap_={upper(self.certified_gap_)}. Use a larger max_rounds",
                ConvergenceWarning,
                stacklevel=3,
            )
        return path.w, path.b

    def _linear(self, X) -> np.ndarray:
        """X w + b, with a column per row of coef_."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X @ np.atleast_2d(self.coef_).T + self.intercept_  # pyright: ignore

    def _check(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise SpecError(
                f"algorithm must be one of {', '.join(ALGORITHMS)}, because these methods "
                f"reach the optimum; got {self.algorithm!r}"
            )
        _positive("tol", self.tol)
        _whole("n_clients", self.n_clients, 2)
        _whole("max_rounds", self.max_rounds, 1)
        if self.tau is not None:
            _whole("tau", self.tau, 2)


class AbstractRegressor(RegressorMixin, AbstractFederated):
    """One column of numbers to predict; `alpha` is the penalty in scikit-learn's own unit."""

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


def _positive(name: str, value: Any) -> None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (real and 0 < float(value) < np.inf):
        raise SpecError(f"{name} must be a finite number above 0, got {name}={value!r}")


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise SpecError(f"{name} must be a whole number >= {least}, got {name}={value!r}")


def _canonical(X):
    if not scipy.sparse.issparse(X):
        return X
    X = scipy.sparse.csr_array(X, copy=not X.has_canonical_format)
    X.sum_duplicates()
    return X


def _in_unit(history: History, unit: float) -> History:
    scaled = ("objective", "lower_bound", "certified_gap")
    return History({c: v * unit if c in scaled else v for c, v in history.items()})
