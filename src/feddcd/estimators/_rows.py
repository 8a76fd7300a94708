"""All rows of a fit, the site of each row, and the same rows as the clients' stacked problems."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse
from sklearn.utils import column_or_1d

from .._errors import SpecError
from .._text import plural
from ..losses import Loss
from ..problems import FAMILIES, AbstractDesign, Linear, Regression, stack_rows

SMALL = 2**20  # entries up to which a sparse matrix is made dense
CURVED = 5  # see for_duals


class EstimatorRows(NamedTuple):
    """minimise  sum_j s_j loss(x_j'w + b, y_j) + (l2/2)|w|²,  sum_j s_j = 1."""

    X: np.ndarray | scipy.sparse.csr_array
    Y: np.ndarray  # n by k
    s: np.ndarray
    l2: float
    link: Loss
    intercept: bool
    parts: Sequence[np.ndarray]  # each client's rows

    @property
    def shape(self) -> tuple[int, int]:
        """Of w, b as its last row if there is one."""
        return self.X.shape[1] + self.intercept, self.Y.shape[1]  # pyright: ignore


def split(groups: Any, n: int, n_clients: int, random: np.random.RandomState) -> list[np.ndarray]:
    """Each client's rows: by the labels given, or even parts at random, none of them empty."""
    if groups is None:
        order = random.permutation(n)
        return np.array_split(order, min(n_clients, n))
    groups = column_or_1d(groups)
    if len(groups) != n:
        raise SpecError(f"'groups' has length {len(groups)}, but X has {plural(n, 'row')}")
    try:
        labels, code = np.unique(groups, return_inverse=True)
    except TypeError:
        raise SpecError(
            "'groups' has labels that cannot be sorted together, such as 1 and 'a'"
        ) from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise SpecError("'groups' contains NaN: every row needs a site")
    if len(labels) < 2:
        raise SpecError(
            f"'groups' has the value {labels[0]!s} in every row, but a federation needs at least "
            "two sites"
        )
    order = np.argsort(code, kind="stable")
    return np.split(order, np.cumsum(np.bincount(code))[:-1])


class Stacked(NamedTuple):
    """Clients' problems on (x - center)·scale, with a last column for the intercept."""

    problem: Linear | Regression  # what the clients minimise, leading axis N
    truth: Regression  # the objective itself, the intercept free
    center: np.ndarray
    scale: np.ndarray  # of the intercept and the padding, too
    intercept: bool

    def inside(self, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The problem's parameters from the model's."""
        rows = np.zeros((len(self.scale), len(b)))
        rows[: len(w)] = w
        if self.intercept:
            rows[len(w)] = b + self.center @ w
        return rows / self.scale[:, None]

    def outside(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The model from the problem's parameters; without an intercept, b = 0."""
        d, rows = len(self.center), rows * self.scale[:, None]
        b = rows[d] if self.intercept else np.zeros(rows.shape[1])
        return rows[:d], b - self.center @ rows[:d]


def for_newton(rows: EstimatorRows) -> Stacked:
    """Columns in units of their deviation; padded, so that few shapes are compiled."""
    center, X = _centred(rows)
    norms = np.sqrt(rows.s @ _squares(X))
    norms = np.maximum(norms, 1e-12 * norms.max()) if norms.any() else np.ones_like(norms)
    X = _with_column(_scaled(X, 1 / norms), rows.intercept, 1.0)
    d, n, sparse = rows.shape[0], max(map(len, rows.parts)), scipy.sparse.issparse(X)
    width = d if sparse else _bucket(d, 16 if rows.shape[1] > 1 else 32)
    X = X if sparse else np.pad(X, ((0, 0), (0, width - d)))
    scale = np.append(1 / norms, np.ones(width - len(norms)))
    penalty = np.append(rows.l2 / norms**2, np.ones(width - len(norms)))
    problem = _regression(rows, _tall(X, rows.parts, n if sparse else _bucket(n, 32)), penalty)
    return Stacked(problem, problem, center, scale, rows.intercept)


def for_duals(rows: EstimatorRows, curvature: float) -> Stacked:
    """Every coordinate is penalised alike, as dual methods need: the intercept's column is B, so
    that its penalty is (l2/B²)b²/2. This is below the curvature given, and below l2/|x̄|², which
    is left of it when w follows: so the penalty's centre need not be moved often."""
    center, X = _centred(rows)
    B = np.sqrt(max(1.0, CURVED * rows.l2 / curvature, np.sum((rows.s @ X) ** 2)))
    (d, k), N, put = rows.shape, len(rows.parts), jax.device_put
    design = stack_rows(_with_column(X, rows.intercept, B), rows.parts, np.float64)
    truth = _regression(rows, design, np.full(d, rows.l2))
    problem = Linear(
        X=design, Y=truth.Y, s=truth.s, family=truth.family, mu=put(np.full(N, rows.l2)),
        rows=truth.rows, loss_alpha=truth.loss_alpha, loss_beta=truth.loss_beta,
        q=put(np.zeros((N, d, k))),
    )  # fmt: skip
    scale = np.append(np.ones(len(center)), [B] * rows.intercept)
    return Stacked(problem, truth, center, scale, rows.intercept)


def _centred(rows: EstimatorRows):
    """x̄ and X - x̄; sparse matrices, and models without an intercept, stay as they are."""
    if scipy.sparse.issparse(rows.X) or not rows.intercept:
        return np.zeros(rows.X.shape[1]), rows.X  # pyright: ignore
    center = rows.s @ rows.X
    return center, rows.X - center


def _regression(rows: EstimatorRows, X: AbstractDesign, penalty: np.ndarray) -> Regression:
    """The objective; the penalty of the intercept's column is left out."""
    N, n, k = len(rows.parts), X.shape[0], rows.Y.shape[1]
    put = jax.device_put  # compiles nothing, unlike jnp.asarray
    if rows.intercept:
        penalty[rows.shape[0] - 1] = 0.0
    Y, s = np.zeros((N, n, k)), np.zeros((N, n))
    for i, part in enumerate(rows.parts):
        Y[i, : len(part)], s[i, : len(part)] = rows.Y[part], N * rows.s[part]
    return Regression(
        X=X,
        Y=put(Y),
        s=put(s),
        family=FAMILIES[rows.link.family],
        mu=put(np.zeros(N)),
        rows=put(np.array([len(part) for part in rows.parts])),
        loss_alpha=put(np.zeros(N)),
        loss_beta=put(np.full(N, np.inf)),
        offset=put(np.zeros((N, n, 1))),
        penalty=put(np.tile(penalty[:, None], (N, 1, 1))),
    )


def _tall(X, parts: Sequence[np.ndarray], n: int) -> AbstractDesign:
    """The clients' rows, each with at least n of them."""
    if scipy.sparse.issparse(X):
        return stack_rows(X, parts, np.float64)
    X = np.vstack([X, np.zeros((1, X.shape[1]))])
    padded = [np.append(part, np.full(n - len(part), len(X) - 1)) for part in parts]
    return stack_rows(X, padded, np.float64)


def _squares(X):
    return X.multiply(X) if scipy.sparse.issparse(X) else X**2


def _scaled(X, scale: np.ndarray):
    if not scipy.sparse.issparse(X):
        return X * scale
    X = X @ scipy.sparse.diags_array(scale)
    return X.toarray() if np.prod(X.shape) <= SMALL else X


def _with_column(X, wanted: bool, value: float):
    if not wanted:
        return X
    column = np.full((X.shape[0], 1), value)
    if scipy.sparse.issparse(X):
        return scipy.sparse.csr_array(scipy.sparse.hstack([X, column]))
    return np.hstack([X, column])


def _bucket(n: int, least: int) -> int:
    """The next of few sizes: powers of two, and from 8 least on, eighths of them."""
    power = max(least, 1 << (n - 1).bit_length())
    step = power if power <= 8 * least else power // 16
    return -(-n // step) * step
