"""What a site says of its rows at a point w. It remembers nothing from one question to the next.

Beside value, gradient and Hessian of its loss (without the penalty, in the user's units) these
are two numbers that bound the leverage of its rows,

    M_i = max_j x_j' V x_j,  m_i = max_j |x_j'(w - w_i)|,

V being the inverse of the Hessian that the server remembers, a sum of ∇²f_i(w_i). As
e^{m_i} ∇²f_i(w) >= ∇²f_i(w_i), no leverage at w exceeds e^{max m_i} max M_i. Both are rounded up,
so that they say little about the row they come from. With several classes x_j' is replaced by
(e_k - e_l)' (x) x_j', for all pairs, the base class included.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..losses import LOSSES, Loss
from .protocol import Blocks, Count, Kind, Max, Sum

RESIDUALS = np.linspace(-6, 6, 49)


class DesignRows(NamedTuple):
    """One site's rows, in the user's units."""

    X: np.ndarray
    Y: np.ndarray  # n by k
    s: np.ndarray
    offset: np.ndarray


class PointQuestion(NamedTuple):
    """To one site; `pilot` asks for the moments, too."""

    w: np.ndarray  # d by k
    seen: np.ndarray  # w_i, d by k
    V: np.ndarray  # its upper triangle; empty where nothing is to be bounded
    null: np.ndarray  # the constant model's z, k
    edges: np.ndarray  # between bins of the predicted mean
    scale: np.ndarray  # the square root of the dispersion, as guessed so far
    pilot: bool

    @property
    def reveals(self) -> str:
        return "moments" if self.pilot else "hessian"

    @property
    def parameters(self) -> int:
        return self.w.size


class Moments(NamedTuple):
    """Sums over rows that do not depend on w."""

    n: np.ndarray
    weight: np.ndarray
    x: np.ndarray  # sum s x
    xx: np.ndarray  # sum s x²
    y: np.ndarray  # sum s y
    xy: np.ndarray  # sum s x y', d by k
    o: np.ndarray  # sum s o, sum s o²
    floor: np.ndarray  # of the loss
    constant: np.ndarray  # of the log-likelihood, and sum ln s
    start: np.ndarray  # poisson: the normal equations of its first guess


class Answer(NamedTuple):
    value: np.ndarray
    g: np.ndarray  # p
    H: np.ndarray  # its upper triangle
    size: np.ndarray  # of what cancels in g: sums of absolute values, p
    M: np.ndarray
    m: np.ndarray
    null: np.ndarray  # the constant model's value, gradient and curvature, 1 + k + k²
    bins: np.ndarray  # weight, observed, predicted by bins of the predicted mean
    residuals: np.ndarray  # weight by bins of the residuals
    pearson: np.ndarray  # X²: squared residuals by their variances
    moments: Moments | None


KINDS: dict[str, Kind] = {  # of the parts of an answer: what is done with each
    "value": Sum, "g": Sum, "H": Sum, "size": Sum, "M": partial(Max, grid=1),
    "m": partial(Max, grid=8), "null": Sum, "bins": Sum, "residuals": Sum, "pearson": Sum,
    "moments.n": Count,
    **{f"moments.{name}": Sum for name in Moments._fields[1:]},
}  # fmt: skip


def parts(said: Answer) -> dict[str, np.ndarray]:
    """An answer's arrays by name, in the order of KINDS."""
    own = {name: part for name, part in said._asdict().items() if name != "moments"}
    moments = {} if said.moments is None else said.moments._asdict()
    return own | {f"moments.{name}": part for name, part in moments.items()}


def read_answer(blocks: Blocks) -> Answer:
    """The inverse; TypeError where a part is missing."""
    of = lambda name: name.partition("moments.")[2]
    own = {name: block.value for name, block in blocks.items() if not of(name)}
    moments = {of(name): block.value for name, block in blocks.items() if of(name)}
    return Answer(**own, moments=Moments(**moments) if moments else None)  # pyright: ignore


def answer(rows: DesignRows, family: str, asked: PointQuestion, least: int = 0) -> Answer:
    """Cells of bins with fewer than `least` rows are left empty."""
    X, Y, s, _ = rows
    loss, (d, k) = LOSSES[family], asked.w.shape
    with np.errstate(over="ignore", invalid="ignore"):  # the server sees what is not finite
        z = X @ asked.w + rows.offset[:, None]
        mean = loss.mean(z)
        C = loss.curvature(mean)
        g = X.T @ (s[:, None] * (mean - Y))
        H = hessian(X, s, C)
        M, m = _leverage(X, asked.V, k), np.max(_spread(X @ (asked.w - asked.seen)), initial=0)
        doubt = abs(mean) + abs(Y) + np.diagonal(C, axis1=1, axis2=2) * (abs(X) @ abs(asked.w))
        return Answer(
            value=np.asarray(s @ loss.value(z, Y)),
            g=g.reshape(-1),
            H=H[upper(d * k)],
            size=(abs(X).T @ (s[:, None] * doubt)).reshape(-1),
            M=round_up(M, 1),
            m=round_up(m, 8),
            null=_null(rows, loss, asked.null),
            bins=_bins(rows, mean, asked.edges, least),
            residuals=_residuals(rows, mean, C, asked, least),
            pearson=np.asarray(s @ _pearson(Y, mean, loss.variance(mean))),
            moments=_moments(rows, family) if asked.pilot else None,
        )


def hessian(X: np.ndarray, s: np.ndarray, C: np.ndarray) -> np.ndarray:
    """sum_j s_j C_j (x) x_j x_j', p by p, the class running fastest."""
    d, k = X.shape[1], C.shape[1]
    H = np.empty((d, k, d, k))
    for a in range(k):
        for b in range(a + 1):
            H[:, a, :, b] = X.T @ ((s * C[:, a, b])[:, None] * X)
            H[:, b, :, a] = H[:, a, :, b]
    return H.reshape(d * k, d * k)


def upper(p: int) -> np.ndarray:
    """Where the upper triangle of a matrix is, row by row."""
    return ~np.tri(p, k=-1, dtype=bool)


def square(triangle: np.ndarray, p: int) -> np.ndarray:
    """The symmetric matrix with this upper triangle."""
    H = np.zeros((p, p))
    H[upper(p)] = triangle
    return H + np.triu(H, 1).T


def _leverage(X: np.ndarray, triangle: np.ndarray, k: int) -> float:
    """max over rows, and over pairs k, l, of |(e_k - e_l) (x) x|² in the metric V."""
    d = X.shape[1]
    if triangle.size == 0:
        return np.inf
    V = square(triangle, d * k).reshape(d, k, d, k)
    T = np.zeros((len(X), k + 1, k + 1))  # the base class is the first
    for a in range(k):
        for b in range(k):
            T[:, a + 1, b + 1] = np.sum((X @ V[:, a, :, b]) * X, 1)
    own = np.diagonal(T, axis1=1, axis2=2)
    return float(np.max(own[:, :, None] + own[:, None, :] - T - np.swapaxes(T, 1, 2), initial=0))


def _spread(v: np.ndarray) -> np.ndarray:
    """max over pairs k, l of |v_k - v_l|, the base class at 0 included."""
    return np.maximum(np.max(v, 1), 0) - np.minimum(np.min(v, 1), 0)


def round_up(x: float, steps: int) -> np.ndarray:
    """Rounded up to a power of 2^(1/steps)."""
    if not 0 < x < np.inf:
        return np.asarray(float(x))
    return np.asarray(2.0 ** (np.ceil(np.log2(x) * steps) / steps) * (1 + 1e-12))


def _null(rows: DesignRows, loss: Loss, c: np.ndarray) -> np.ndarray:
    z = c + rows.offset[:, None] + 0 * rows.Y
    mean = loss.mean(z)
    C = np.tensordot(rows.s, loss.curvature(mean), 1)
    value = rows.s @ loss.value(z, rows.Y)
    return np.concatenate([[value], rows.s @ (mean - rows.Y), C.ravel()])


def _pearson(Y: np.ndarray, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    """r'V⁻¹r by row; of classes, sum r²/p over all of them, the base included."""
    r, least = Y - mean, 1e-300
    if r.shape[1] == 1:
        return r[:, 0] ** 2 / np.maximum(V[:, 0, 0], least)
    p = np.column_stack([1 - mean.sum(1), mean])
    return np.sum(np.column_stack([r.sum(1), r]) ** 2 / np.maximum(p, least), 1)


def _bins(rows: DesignRows, mean: np.ndarray, edges: np.ndarray, least: int) -> np.ndarray:
    if not edges.size:
        return np.zeros((3, 0))
    place, size = np.searchsorted(edges, mean[:, 0]), len(edges) + 1
    held = (rows.s, rows.s * rows.Y[:, 0], rows.s * mean[:, 0])
    enough = np.bincount(place, minlength=size) >= least
    return np.stack([np.bincount(place, x, minlength=size) * enough for x in held])


def _residuals(
    rows: DesignRows, mean: np.ndarray, C: np.ndarray, asked: PointQuestion, least: int
) -> np.ndarray:
    if not asked.edges.size:
        return np.zeros(0)
    spread = float(asked.scale) * np.sqrt(np.maximum(C[:, 0, 0], 1e-300))
    r = np.sqrt(rows.s) * (rows.Y - mean)[:, 0] / spread
    place = np.searchsorted(RESIDUALS, np.nan_to_num(r))
    size = len(RESIDUALS) + 1
    enough = np.bincount(place, minlength=size) >= least
    return np.bincount(place, rows.s, minlength=size) * enough


def _moments(rows: DesignRows, family: str) -> Moments:
    X, Y, s, o = rows
    loss = LOSSES[family]
    offsets = np.array([s @ o, s @ o**2])
    likelihood = np.array([np.sum(loss.constant(Y, s)), np.sum(np.log(s))])
    return Moments(
        np.asarray(float(len(s))), np.asarray(s.sum()), s @ X, s @ X**2, s @ Y,
        X.T @ (s[:, None] * Y), offsets, np.asarray(s @ loss.least(Y)), likelihood,
        _reweight(*rows) if family == "poisson" else np.zeros(0),
    )  # fmt: skip


def _reweight(X: np.ndarray, Y: np.ndarray, s: np.ndarray, o: np.ndarray) -> np.ndarray:
    """A site's part of poisson's normal equations: the upper triangle of A, and b."""
    y, exposure = Y[:, 0], np.exp(o)
    mean = (y + exposure * max(s @ y, 0.5) / (s @ exposure)) / 2
    z = np.log(mean) - o + (y - mean) / mean
    A = X.T @ ((s * mean)[:, None] * X)
    return np.concatenate([A[np.triu_indices(len(A))], X.T @ (s * mean * z)])
