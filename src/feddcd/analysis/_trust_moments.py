"""What sums over rows that do not depend on w must obey: counts, means and squares, and the pilot.

With s > 0 the weights of the rows, W their sum: (sum s x)² <= W sum s x² (Cauchy-Schwarz). Columns
of 0 and 1 are their own squares, a column of ones sums to W. The loss at its best mean is concave
in y, so that its sum is at most W times that of the mean outcome (Jensen). At w = 0 without an
offset all rows have one curvature, which gives sum s x x', and the loss is affine in y.
"""

from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError
from ..formula import FormulaDesign, label, read_formula
from ._model import Model
from ._sums import Answer, Moments, square
from .families import CLASSED, COUNTS, POSITIVE, SHARES
from .plan import RegressionPlan
from .protocol import Agreement, ColumnsOffer

MOST_ROWS = 10**9
MOST_WEIGHT = 1e7  # of a row, on average
CLOSE = 1e-7  # of what is summed: how far equal sums may be apart by rounding
CODED = ("treatment", "full")  # columns of 0 and 1


class Known(NamedTuple):
    """What follows from a site's pilot, and from the plan."""

    model: Model
    moments: Moments
    design: FormulaDesign | None
    weighted: bool
    offset: bool
    raw: bool  # the columns are as they are, not in another basis
    gram: np.ndarray | None  # sum s x x', d by d, where the pilot tells it

    @staticmethod
    def of(
        model: Model, plan: RegressionPlan, design: Any, moments: Moments, H: Any, raw: bool
    ) -> "Known":
        """H is the curvature at the first point; None where the site was asked elsewhere."""
        formula = read_formula(plan.formula)
        weighted = plan.weight is not None or formula.is_counts
        offset = plan.offset is not None or bool(formula.offsets)
        known = Known(model, moments, design, weighted, offset, raw, None)
        return known._replace(gram=_gram(known, H))

    @property
    def plain(self) -> bool:
        """No parameters beside the columns."""
        return not self.model.loss.extras

    @property
    def W(self) -> float:
        return float(self.moments.weight)

    @property
    def rms(self) -> np.ndarray:
        """The root of sum s x², by coefficient."""
        return np.repeat(np.sqrt(np.maximum(self.moments.xx, 0)), self.model.k)

    @property
    def least_weight(self) -> float:
        """Of a row: exactly, or so that one in 10^9 is still allowed."""
        return 1.0 if not self.weighted else self.W / float(self.moments.n) * 1e-9


def refuse(wrong: Any, what: str) -> None:
    if np.any(wrong):
        raise DataError(what)


def positive(A: np.ndarray, size: np.ndarray) -> bool:
    """Whether A is positive semidefinite but for rounding, entries being of size_i size_j."""
    if not (np.isfinite(A).all() and np.isfinite(size).all()):
        return False
    scale = np.where(size > 0, size, 1.0)
    R = A / scale[:, None] / scale
    R = (R + R.T) / 2
    R.flat[:: len(R) + 1] += CLOSE
    try:
        np.linalg.cholesky(R)
    except np.linalg.LinAlgError:
        return False
    return True


def bordered(A: np.ndarray, b: np.ndarray, c: float) -> bool:
    """b'A⁻¹b <= c: the matrix with A, b and c is positive."""
    size = np.sqrt(np.append(np.diag(A), max(c, 0.0)))
    return positive(np.block([[A, b[:, None]], [b[None], np.array([[c]])]]), size)


def _gram(known: Known, H: np.ndarray | None) -> np.ndarray | None:
    """From the curvature at w = 0, which is that of every row without an offset."""
    if H is None or not known.plain or (known.offset and not known.model.quadratic):
        return None
    C, d, k = _first_curvature(known.model), len(known.model.names), known.model.k
    return H.reshape(d, k, d, k)[:, 0, :, 0] / C[0, 0]


def _first_curvature(model: Model) -> np.ndarray:
    """Of a row at z = 0, k by k."""
    z = np.zeros((1, model.k))
    with np.errstate(all="ignore"):
        if model.loss.expected is not None:
            return model.loss.expected(z)[0]
        return model.loss.terms(z, z).curvature[0]


def check_moments(known: Known, said: Answer, H: np.ndarray, own: np.ndarray | None) -> None:
    """`own` is 1 for the site's own effect, where sites have some."""
    m, W = known.moments, known.W
    n, xx = float(m.n), m.xx
    told = f"the number of rows is not a whole number from 1 to {MOST_ROWS:,}"
    refuse(not 1 <= n == np.floor(n) <= MOST_ROWS, told)
    refuse(not (0 < W <= MOST_WEIGHT * n), "the weights are not possible for these rows")
    refuse(not known.weighted and n != W, "the sum of weights is not the number of rows")
    refuse(xx < 0, "a sum of squares of a column is below zero")
    refuse(m.x**2 > W * xx * (1 + CLOSE), "a column's sum of squares is too small for its sum")
    _check_columns(known, own)
    _check_outcome(known)
    _check_offset(known)
    _check_constants(known)
    _check_start(known)
    if known.plain:
        _check_pilot(known, said, H)


def _check_columns(known: Known, own: np.ndarray | None) -> None:
    m, W, model = known.moments, known.W, known.model
    if not known.raw:
        return
    ones = [] if model.intercept is None else [model.intercept]
    for j in ones:
        refuse(_apart([m.x[j], m.xx[j]], W, W), "the intercept's column of ones has a wrong sum")
    if own is not None:
        at = slice(len(own) - model.effects - len(model.loss.extras), len(own))
        wrong = _apart(m.x[at], own[at] * W, W) | _apart(m.xx[at], own[at] * W, W)
        refuse(wrong, "a column that says from which site a row comes has a wrong sum")
    for columns in _coded(known).values():
        x = m.x[columns]
        refuse(_apart(m.xx[columns], x, W), "a 0/1 column and its squares have different sums")
        refuse((x < 0) | (x > W * (1 + CLOSE)), "one level has more rows than the site has")
        refuse(x.sum() > W * (1 + CLOSE), "the levels of a column have more rows than the site has")
        whole = np.abs(x - np.round(x)) <= CLOSE * W
        refuse(not known.weighted and not whole.all(), "a count of rows is not a whole number")


def _coded(known: Known) -> dict[str, list[int]]:
    """Places of the columns of 0 and 1, by term: at most one of a term is 1 in a row."""
    found: dict[str, list[int]] = {}
    place = {name: j for j, name in enumerate(known.model.names)}
    for column in known.design.columns if known.design else ():
        coded = column.parts and all(part.coding in CODED for part in column.parts)
        if coded and column.name in place:
            found.setdefault(column.term, []).append(place[column.name])
    return found


def _apart(one: Any, other: Any, size: Any) -> np.ndarray:
    return ~(np.abs(np.subtract(one, other)) <= CLOSE * np.maximum(size, 1e-300))


def _check_outcome(known: Known) -> None:
    m, W, model = known.moments, known.W, known.model
    y, family = m.y, model.family
    if family in SHARES or family == "multinomial":
        refuse((y < 0) | (y.sum() > W * (1 + CLOSE)), "the sum of outcomes is not possible")
        if not known.weighted:
            refuse(np.abs(y - np.round(y)) > CLOSE * W, "the sum of outcomes is not a whole number")
    if family in COUNTS:
        refuse(y < 0, "the outcomes are counts, but their sum is below zero")
    if family in POSITIVE:
        refuse(y <= 0, "the sum of outcomes is not above zero")
    if family in CLASSED and family != "multinomial":
        most = len(model.loss.extras) * W
        refuse((y < 0) | (y > most * (1 + CLOSE)), "the sum of class numbers is not possible")
    at = model.intercept
    if at is not None and known.raw:
        size = np.abs(m.xy[at]) + np.abs(y) + W
        refuse(_apart(m.xy[at], y, size), "two sums of the outcome differ, but must be equal")
    if family in SHARES or family == "multinomial":  # y² <= y
        most = np.sqrt(m.xx[:, None] * np.maximum(y, 0)) * (1 + CLOSE)
        refuse(np.abs(m.xy) > most, "a sum of a column times the outcome is too large")


def _check_offset(known: Known) -> None:
    o = known.moments.o
    refuse(not known.offset and o.any(), "the site sent an offset, but the plan has none")
    wrong = o[1] < 0 or o[0] ** 2 > known.W * o[1] * (1 + CLOSE)
    refuse(wrong, "the sum of squares of the offset is too small for its sum")


def _check_constants(known: Known) -> None:
    """Of the loss and of the likelihood, which deviance and AIC are counted from."""
    m, W, loss = known.moments, known.W, known.model.loss
    if not known.plain:
        return
    mean = np.maximum(m.y / W, 1e-300)[None]
    most, size = W * float(loss.least(mean)[0]), W * (1 + np.abs(np.log(mean)).max())
    size += abs(most) + float(np.abs(m.y).sum())
    what = "the smallest possible loss contradicts the sum of outcomes"
    refuse(float(m.floor) > most + CLOSE * size, what)
    one = known.model.family in SHARES or known.model.family in ("multinomial", "gaussian")
    refuse(one and float(m.floor) < -CLOSE * size, what)
    refuse(one and not known.weighted and abs(float(m.floor)) > CLOSE * size, what)
    whole = known.model.family in COUNTS and loss.like == "poisson" and not known.weighted
    Y = max(float(m.y[0]), 1.0)
    if whole:  # no count is above their sum
        refuse(float(m.floor) < Y - Y * np.log(Y) - CLOSE * size - 1, what)
    likelihood, logs = map(float, m.constant)
    told = "the constants of the log-likelihood contradict the outcomes or the weights"
    n = float(m.n)
    refuse(logs > n * np.log(W / n) + CLOSE * n * (1 + abs(np.log(W / n))), told)
    refuse(not known.weighted and abs(logs) > CLOSE * n, told)
    if known.model.family in SHARES:
        most = W * np.log(2) if known.weighted else 0.0
        refuse(not -CLOSE * W <= likelihood <= most + CLOSE * W, told)
    elif known.model.family in POSITIVE:
        refuse(likelihood > W * float(np.log(mean[0, 0])) + CLOSE * size, told)
    elif loss.like == "poisson":
        refuse(likelihood > 0.13 * W, told)
        refuse(whole and likelihood < -Y * np.log(Y) - 1, told)
    elif known.model.family in ("gaussian", "multinomial"):
        refuse(likelihood != 0, told)


def _check_start(known: Known) -> None:
    start, d = known.moments.start, len(known.model.names)
    if start.size:
        A = square(start[: d * (d + 1) // 2], d)
        possible = positive(A, np.sqrt(np.abs(np.diag(A))))
        refuse(not possible, "the sums for the first guess are not possible")


def _check_pilot(known: Known, said: Answer, H: np.ndarray) -> None:
    """At w = 0, where there is no offset, moments tell value, gradient and curvature."""
    m, W, model, G = known.moments, known.W, known.model, known.gram
    if G is None:
        return
    d, k, loss = len(model.names), model.k, model.loss
    root = np.sqrt(m.xx)
    what = "the curvature at the start disagrees with the sums of columns"
    refuse(_apart(np.diag(G), m.xx, m.xx), what)
    C, size = _first_curvature(model), np.repeat(root, k)
    refuse(_apart(H, np.kron(G, C), np.outer(size, size) * np.abs(C).max()), what)
    refuse(not bordered(G, m.x, W), "a sum of products of columns is too large")
    if model.intercept is not None and known.raw:
        refuse(_apart(G[model.intercept], m.x, np.sqrt(W) * root), what)
    if loss.canonical and not known.offset:
        zero = np.zeros((1, k))
        at, scale = loss.terms(zero, zero), np.abs(m.xy) + root[:, None] * np.sqrt(W)
        g = m.x[:, None] * loss.mean(zero) - m.xy
        told = "the gradient at the start disagrees with the sums of outcomes"
        refuse(_apart(said.g.reshape(d, k), g, scale), told)
        if not model.quadratic:
            wrong = _apart(said.value, W * at.value[0], W)
            refuse(wrong, "the loss at the start disagrees with the sum of weights")
    if model.quadratic:  # the squares that no w can take away are not below zero
        refuse(not bordered(G, said.g, 2 * float(said.value)), "the outcomes are not possible")


def check_again(before: Moments, now: Moments, basis: np.ndarray) -> None:
    """The same rows in another basis."""
    for name in ("n", "weight", "y", "o", "floor", "constant"):
        one, other = getattr(before, name), getattr(now, name)
        size = np.abs(one).max(initial=0) + np.abs(other).max(initial=0)
        refuse(_apart(one, other, size), "the sums contradict an earlier answer")
    mixed = np.abs(basis).T
    size = mixed @ np.sqrt(before.xx * float(before.weight))
    refuse(_apart(basis.T @ before.x, now.x, size), "sums of columns contradict an earlier answer")
    size = mixed @ (np.abs(before.xy) + np.sqrt(before.xx)[:, None])
    refuse(_apart(basis.T @ before.xy, now.xy, size), "outcomes contradict an earlier answer")


def check_offer(known: Known, offer: ColumnsOffer, plan: RegressionPlan, cohort: Agreement) -> None:
    """A level or a class that it offered is in some of its rows, and no other is."""
    m, W = known.moments, known.W
    if known.weighted:
        return  # a row may have no weight
    place = {name: j for j, name in enumerate(known.model.names)}
    for column in known.design.columns if known.design else ():
        if len(column.parts) != 1 or column.name not in place:
            continue
        (part,) = column.parts
        if part.coding not in CODED or part.column in plan.levels or part.level is None:
            continue
        if part.column not in cohort.levels:
            continue
        offered = part.level in map(label, offer.levels.get(part.column, ()))
        there = m.x[place[column.name]] > 0
        told = f"the site named a level of {part.column!r}, but no row has this level"
        refuse(offered and not there, told)
        refuse(there and not offered, f"{part.column!r} has a level that the site did not name")
    if known.model.family == "multinomial" and plan.classes is None:
        offered = [c in (offer.classes or ()) for c in cohort.classes or ()]
        there = np.append(W - m.y.sum(), m.y) > CLOSE * W
        refuse(there != np.array(offered), "the site's sums show other classes than the site named")
