"""What a site says of its rows at a point w. It remembers nothing from one question to the next.

Beside value, gradient and Hessian of its loss (without the penalty, in the user's units) these
are two numbers that bound the leverage of its rows,

    M_i = max_j x_j' V x_j,  m_i = max_j |x_j'(w - w_i)|,

V being the inverse of the Hessian that the server remembers, a sum of ∇²f_i(w_i). As
e^{m_i} ∇²f_i(w) >= ∇²f_i(w_i), no leverage at w exceeds e^{max m_i} max M_i. Both are rounded up,
so that they say little about the row they come from. With several classes x_j' is replaced by
(e_k - e_l)' (x) x_j', for all pairs, the base class included. Where a family has a c other than 1
(`_proofs`), M_i is the largest c_j² x_j'Vx_j, and m_i at least the largest ln(f_j''(w_i)/f_j''(w)),
so that the same holds. At the pilot H is Fisher's information, which is positive for every family.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ._binning import binned
from ._geometry import Geometry
from ._many import of_many
from .families import OUTSIDE, Family, RowTerms
from .protocol import Blocks, Count, Each, Kind, Max, Sum

NONE = np.zeros(0)


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
    basis: np.ndarray = NONE  # X is multiplied by it, d by d; empty where X stays as it is
    own: np.ndarray = NONE  # columns of the site's own model, d; empty where it is not asked for
    closing: bool = False  # asks for the meat of robust standard errors, too

    @property
    def reveals(self) -> str:
        return "moments" if self.pilot else "hessian"

    def in_basis(self, rows: "DesignRows") -> "DesignRows":
        return rows._replace(X=rows.X @ self.basis) if self.basis.size else rows

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
    start: np.ndarray  # the normal equations of a first guess, if there is one

    @property
    def of_outcome(self) -> tuple[float, ...]:
        """Of weights, outcomes and offsets: the same for the same rows, whatever explains them."""
        each = (self.weight, self.y, self.o)
        return tuple(float(x) for part in each for x in np.ravel(part))


class Answer(NamedTuple):
    value: np.ndarray
    g: np.ndarray  # p
    H: np.ndarray  # its upper triangle
    F: np.ndarray  # Fisher's information, likewise; empty where it is H
    floor: np.ndarray  # of the loss, where it changes with w
    firth: np.ndarray  # the gradient of Firth's penalty by V, p; empty without it
    size: np.ndarray  # of what cancels in g: sums of absolute values, p
    M: np.ndarray
    m: np.ndarray
    null: np.ndarray  # the constant model's value, gradient and curvature, 1 + k + k²
    bins: np.ndarray  # weight, observed, predicted by bins of the predicted mean
    residuals: np.ndarray  # weight by bins of the residuals
    pearson: np.ndarray  # X²: squared residuals by their variances
    moments: Moments | None
    own: np.ndarray = NONE  # as `_own` has it
    meat: np.ndarray | None = None  # its upper triangle, as `_robust` has it
    clusters: np.ndarray | None = None


KINDS: dict[str, Kind] = {  # of the parts of an answer: what is done with each
    "value": Sum, "g": Sum, "H": Sum, "F": Sum, "floor": Sum, "firth": Sum, "size": Sum,
    "M": partial(Max, grid=1), "m": partial(Max, grid=8), "null": Sum, "bins": Sum,
    "residuals": Sum, "pearson": Sum, "own": Each, "meat": Sum, "clusters": Count,
    "moments.n": Count, **{f"moments.{name}": Sum for name in Moments._fields[1:]},
}  # fmt: skip


def parts(said: Answer) -> dict[str, np.ndarray]:
    """An answer's arrays by name, in the order of KINDS."""
    given = {name: part for name, part in said._asdict().items() if part is not None}
    moments = {} if said.moments is None else given.pop("moments")._asdict()
    return given | {f"moments.{name}": part for name, part in moments.items()}


def read_answer(blocks: Blocks) -> Answer:
    """The inverse; TypeError where a part is missing."""
    of = lambda name: name.partition("moments.")[2]
    own = {name: block.value for name, block in blocks.items() if not of(name)}
    moments = {of(name): block.value for name, block in blocks.items() if of(name)}
    return Answer(**own, moments=Moments(**moments) if moments else None)  # pyright: ignore


def answer(
    rows: DesignRows,
    family: Family,
    asked: PointQuestion,
    least: int = 0,
    k: int = 0,
    before: Sequence[PointQuestion] = (),
    grouped: np.ndarray | None = None,
) -> Answer:
    """Cells of bins with fewer than `least` rows are left empty. From k = 2 on, bounds and changes
    of bins since the questions `before` speak of k rows at least."""
    bins, residuals = binned(rows, family, [*(before if k > 1 else ()), asked], least, k, grouped)
    rows = asked.in_basis(rows)
    Y, s, p = rows.Y, rows.s, asked.w.size
    with np.errstate(all="ignore"):  # the server sees what is not finite
        place = asked.w.shape[0] - len(family.extras)
        geometry = family.geometry(rows, place)
        steady = family if family.at is None else family.at(asked.w, place)
        z = geometry.z(asked.w)
        at, mean = family.terms(z, Y), family.mean(z)
        C, weight = at.curvature, s[:, None, None]
        F = None if family.expected is None else geometry.hessian(weight * family.expected(z))
        H = F if asked.pilot and F is not None else geometry.hessian(weight * C)
        doubt = at.size + np.diagonal(C, axis1=1, axis2=2) * geometry.size(asked.w)
        M, m = (
            of_many(_leverage(geometry, family, z, Y, asked), k, min(4.0, k)),
            _moved(geometry, family, at, asked, Y, k),
        )
        return Answer(
            value=np.asarray(s @ at.value),
            g=geometry.gradient(s[:, None] * at.slope),
            H=H[upper(p)],
            F=np.zeros(0) if F is None else F[upper(p)],
            floor=np.zeros(0) if family.floor is None else s @ family.floor(Y, asked.w, place),
            firth=_firth(rows, asked.V, mean, C) if family.firth else np.zeros(0),
            size=geometry.gradient(s[:, None] * abs(doubt), absolute=True),
            M=round_up(M, 1),
            m=round_up(m, 8),
            null=_null(rows, steady, asked.null),
            bins=bins,
            residuals=residuals,
            pearson=_finite(float(s @ pearson(Y, mean, steady.variance(mean)))),
            moments=_moments(rows, family) if asked.pilot else None,
        )


def _finite(x: float) -> np.ndarray:
    """Where a row has no mean there is no residual either: finite, for it has to travel."""
    return np.asarray(x if abs(x) < OUTSIDE else OUTSIDE)


def upper(p: int) -> np.ndarray:
    """Where the upper triangle of a matrix is, row by row."""
    return ~np.tri(p, k=-1, dtype=bool)


def square(triangle: np.ndarray, p: int) -> np.ndarray:
    """The symmetric matrix with this upper triangle."""
    H = np.zeros((p, p))
    H[upper(p)] = triangle
    return H + np.triu(H, 1).T


def _leverage(
    geometry: Geometry, family: Family, z: np.ndarray, Y: np.ndarray, asked: PointQuestion
) -> np.ndarray:
    """M, with the family's c, by row: c² x'Vx."""
    if asked.V.size == 0:
        return np.full(1, np.inf)
    c = np.ones_like(z) if family.bend is None else family.bend(z, Y)
    return geometry.leverage(square(asked.V, asked.w.size), c)


def _moved(
    geometry: Geometry, family: Family, at: RowTerms, asked: PointQuestion, Y: np.ndarray, k: int
) -> float:
    """m; where c changes with z, the largest ln of f'' there by f'' here, if that is more."""
    m = of_many(geometry.moved(asked.w - asked.seen), k, min(2.0, np.sqrt(k)))
    if family.bend is None or asked.pilot:
        return m
    then, now = (
        np.diagonal(x.curvature, axis1=1, axis2=2)
        for x in (family.terms(geometry.z(asked.seen), Y), at)
    )
    ratio = np.where(then > 0, np.log(then / now), 0.0)
    return float(np.max(np.nan_to_num(ratio, nan=np.inf), initial=m))


def round_up(x: float, steps: int) -> np.ndarray:
    """Rounded up to a power of 2^(1/steps)."""
    if not 0 < x < np.inf:
        return np.asarray(float(x))
    return np.asarray(2.0 ** (np.ceil(np.log2(x) * steps) / steps) * (1 + 1e-12))


def _firth(rows: DesignRows, V: np.ndarray, mean: np.ndarray, C: np.ndarray) -> np.ndarray:
    """sum_j h_j (1/2 - p_j) x_j, h_j = s_j p_j (1 - p_j) x_j'Vx_j being the leverage of a row if V
    is the inverse of the Hessian of all rows at the same point."""
    X, p = rows.X, rows.X.shape[1]
    if V.size == 0:
        return np.zeros(p)
    h = rows.s * C[:, 0, 0] * np.sum((X @ square(V, p)) * X, 1)
    return X.T @ (h * (0.5 - mean[:, 0]))


def _null(rows: DesignRows, family: Family, c: np.ndarray) -> np.ndarray:
    s, (value, slope, C, _) = rows.s, family.terms(c + rows.offset[:, None] + 0 * rows.Y, rows.Y)
    return np.concatenate([[s @ value], s @ slope, np.tensordot(s, C, 1).ravel()])


def pearson(Y: np.ndarray, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    """r'V⁻¹r by row; of classes, sum r²/p over all of them, the base included."""
    r, least = Y - mean, 1e-300
    if r.shape[1] == 1:
        return r[:, 0] ** 2 / np.maximum(V[:, 0, 0], least)
    p = np.column_stack([1 - mean.sum(1), mean])
    return np.sum(np.column_stack([r.sum(1), r]) ** 2 / np.maximum(p, least), 1)


def _moments(rows: DesignRows, family: Family) -> Moments:
    X, Y, s, o = rows
    offsets = np.array([s @ o, s @ o**2])
    likelihood = np.array([np.sum(family.constant(Y, s)), np.sum(np.log(s))])
    return Moments(
        np.asarray(float(len(s))), np.asarray(s.sum()), s @ X, s @ X**2, s @ Y,
        X.T @ (s[:, None] * Y), offsets, np.asarray(s @ family.least(Y)), likelihood,
        family.start(rows),
    )  # fmt: skip
