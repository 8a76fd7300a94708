"""What value, gradient, Hessian and bounds of a loss over rows must obey at one point.

With r a row's residual and V its variance, Pearson's X² = sum s r²/V and F Fisher's information:
g'F⁻¹g <= X² (Cauchy-Schwarz). The largest move m of a row's z, when w moves by v, has
v'Gv / W <= m² <= v'Gv / s_min, G being sum s x x' and s_min the least weight; leverages likewise.
"""

import numpy as np

from ._sums import Answer, PointQuestion, square
from ._trust_moments import CLOSE, Known, bordered, positive, refuse
from .families import SHARES

BEYOND = 1e280  # a loss of a row without a mean for its z
ROUNDING = 1e-9  # of what is summed
LOOSE = 1e4  # times what is likely
# beyond these a bound of sums alone is inf, as its grid ends there
MOST_LEVERAGE, MOST_MOVED = 2.0**40, 2.0**25
TINY = 1e-9  # of leverages and moves, which matter near 1
HALF_STEP, WHOLE_STEP = 2 ** (1 / 8), 2.0  # by which m and M are rounded up
FIXED = ("HC0", "HC1", "cluster")  # no leverages enter the sums of these


def check_point(
    known: Known, asked: PointQuestion, said: Answer, H: np.ndarray, covariance: str
) -> None:
    model = known.model
    convex = not model.loss.unproven or model.loss.firth
    F = square(said.F, model.p) if said.F.size else H
    own = lambda A: np.sqrt(np.abs(np.diag(A)))
    refuse(not positive(F, own(F)), "the site's information matrix is not positive semidefinite")
    refuse(
        (convex or asked.pilot) and not positive(H, own(H)),
        "the site's curvature (second derivatives of the loss) is not positive semidefinite",
    )
    refuse(
        asked.pilot and said.F.size and not np.array_equal(F, H),
        "the site's curvature and information matrix must be equal in this answer, but differ",
    )
    refuse(float(said.pearson) < 0, "the site's sum of squared residuals is below zero")
    _check_value(known, said)
    if known.plain:
        _check_gradient(known, asked, said, H, F)
    _check_size(known, asked, said, H, F)
    _check_leverage(known, asked, said, H)
    _check_moved(known, asked, said)
    _check_bins(known, asked, said)
    _check_null(known, asked, said)
    if said.firth.size:
        _check_firth(known, asked, said, H)
    if asked.closing:
        _check_meat(known, said, F, covariance)


def _check_value(known: Known, said: Answer) -> None:
    value, W = float(said.value), known.W
    floor = float(said.floor) if said.floor.size else float(known.moments.floor)
    slack = ROUNDING * (abs(value) + abs(floor) + W)
    if known.plain or said.floor.size:
        refuse(value < floor - slack, "the site's loss is below the smallest possible loss")
    if known.model.quadratic:
        refuse(
            abs(2 * value - float(said.pearson)) > slack,
            "the site's loss and its residuals contradict each other",
        )


def _check_gradient(
    known: Known, asked: PointQuestion, said: Answer, H: np.ndarray, F: np.ndarray
) -> None:
    model, m, W, g = known.model, known.moments, known.W, said.g
    if float(said.value) >= BEYOND:
        return
    slack = (ROUNDING * np.max(said.size / np.where(known.rms > 0, known.rms, 1.0))) ** 2
    least = float(said.pearson) * (1 + CLOSE) + slack
    told = "the gradient is too large for the curvature and the residuals that the site sent"
    refuse(not bordered(F, g, least), told)
    if not model.loss.canonical:
        return
    rounding = ROUNDING * (said.size + W)
    if model.family in SHARES or model.family == "multinomial":
        refuse(np.abs(g) > known.rms * np.sqrt(W) + rounding, told)
        _check_curvature(known, H)
    if model.family == "poisson" and model.intercept is not None and known.raw:
        same = np.abs(H[model.intercept] - g - m.xy[:, 0]) <= CLOSE * (
            said.size + np.abs(m.xy[:, 0])
        )
        refuse(not same.all(), "the site's curvature and its counts contradict each other")
    if model.intercept is not None and known.raw and not model.quadratic:
        at = slice(model.intercept * model.k, (model.intercept + 1) * model.k)
        low, high = -m.y - rounding[at], W - m.y + rounding[at]
        wrong = (g[at] < low) | ((g[at] > high) & (model.family != "poisson"))
        refuse(wrong, "the site's predictions are not possible for its rows")


def _check_curvature(known: Known, H: np.ndarray) -> None:
    """H <= sum s (C (x) xx'), C being the most that a row's curvature can be."""
    k = known.model.k
    C = np.eye(k) / 4 if k == 1 else (np.eye(k) - np.ones((k, k)) / (k + 1)) / 2
    told = "the curvature that the site sent is too large for the columns of the site"
    if known.gram is None:
        refuse(np.diag(H) > known.rms**2 * C[0, 0] * (1 + CLOSE), told)
    else:
        most = np.kron(known.gram, C)
        refuse(not positive(most - H, np.sqrt(np.diag(most))), told)


def _check_size(
    known: Known, asked: PointQuestion, said: Answer, H: np.ndarray, F: np.ndarray
) -> None:
    """What cancels in the gradient: not below it, and not beyond what there is to cancel."""
    told = "the site's bound on rounding errors is not possible for its rows"
    refuse(said.size < 0, told)
    if not known.plain or float(said.value) >= BEYOND:
        return
    refuse(said.size < np.abs(said.g) * (1 - CLOSE), told)
    m, root = known.moments, known.rms
    bend, w = np.sqrt(np.abs(np.diag(H)) + np.abs(np.diag(F))), np.abs(asked.w.reshape(-1))
    outcomes = np.repeat(np.sqrt(m.xx), known.model.k) * (np.sqrt(known.W) + np.abs(m.y).max())
    likely = outcomes + bend * (bend @ w + np.sqrt(abs(float(said.pearson)) + known.W))
    likely += root * (root @ w + np.sqrt(2 * abs(float(said.value))))
    refuse(said.size > LOOSE * likely + 1e-290, told)


def _check_leverage(known: Known, asked: PointQuestion, said: Answer, H: np.ndarray) -> None:
    """The largest of rows is at least their mean, and no more than their sum."""
    M, model = float(said.M), known.model
    told = "the site's bound on leverages is not possible for its rows"
    refuse(M < 0, told)
    if not asked.V.size:
        refuse(np.inf != M, told)
        return
    refuse(np.inf == M and model.loss.bend is None, told)
    if not known.plain or model.loss.bend is not None:
        return
    d, k, W = len(model.names), model.k, known.W
    V = square(asked.V, model.p).reshape(d, k, d, k)
    sums = [_row_sum(known, V[:, a, :, a]) for a in range(k)]
    pairs = [
        _row_sum(known, V[:, a, :, a] + V[:, b, :, b] - V[:, a, :, b] - V[:, b, :, a])
        for a in range(k)
        for b in range(a)
    ]
    least, most = max(low for low, _ in sums + pairs), max(high for _, high in sums + pairs)
    refuse(least / W * (1 - CLOSE) - 1e-300 > M, told)
    refuse(WHOLE_STEP * most / known.least_weight * (1 + CLOSE) + TINY < M, told)


def _row_sum(known: Known, V: np.ndarray) -> tuple[float, float]:
    """sum s x'Vx, exactly or between two numbers."""
    m = known.moments
    if known.gram is not None:
        both = float(np.sum(V * known.gram))
        return both, both
    size = np.sqrt(np.maximum(np.diag(V), 0) * m.xx)
    return float(m.x @ V @ m.x) / known.W, float(size.sum()) ** 2


def _check_moved(known: Known, asked: PointQuestion, said: Answer) -> None:
    m, told = (
        float(said.m),
        "the site's bound on how much predictions change is not possible for the site's rows",
    )
    refuse(m < 0, told)
    if not known.plain:
        return
    low, high = moves(known, asked.w - asked.seen)
    refuse(m < low * (1 - CLOSE) - 1e-14, told)
    if known.model.loss.bend is None:
        refuse(min(m, MOST_MOVED) > HALF_STEP * high * (1 + CLOSE) + TINY, told)


def moves(known: Known, v: np.ndarray) -> tuple[float, float]:
    """Between which the largest move of a row's z lies when w moves by v, d by k."""
    m, G, W = known.moments, known.gram, known.W
    size = np.sqrt(m.xx) @ np.abs(v)
    if G is None:
        low = np.abs(m.x @ v) / W
    else:
        squares = np.maximum(np.sum((G @ v) * v, 0), 0)
        # where moves cancel, rounding is all that is left of a small square
        low = np.sqrt(np.maximum(squares - CLOSE * size**2, 0) / W)
    return float(low.max(initial=0)), 2 * float(size.max(initial=0)) / np.sqrt(known.least_weight)


def _check_bins(known: Known, asked: PointQuestion, said: Answer) -> None:
    if not asked.edges.size:
        return
    W, family, (weight, observed, predicted) = known.W, known.model.family, said.bins
    told, slack = "the site's counts of rows by prediction contradict its other sums", CLOSE * W
    refuse((weight < 0) | (weight.sum() > W + slack), told)
    refuse((said.residuals < 0) | (said.residuals.sum() > W + slack), told)
    share = family in SHARES
    # a mean beyond 1, of a link that allows it, is in the last bin
    first, last = (
        (0.0, 1.0 if known.model.loss.canonical else np.inf) if share else (-np.inf, np.inf)
    )
    ends = np.append(first, asked.edges), np.append(asked.edges, last)
    low, high = (np.where(weight > 0, end * np.maximum(weight, 1e-300), 0.0) for end in ends)
    size = slack * (1 + np.abs(asked.edges).max()) + CLOSE * np.abs(predicted)
    refuse((predicted < low - size) | (predicted > high + size), told)
    if share:
        refuse((observed < 0) | (observed > weight + slack), told)
        refuse(observed.sum() > known.moments.y[0] + slack, told)
    if family in ("poisson", "quasipoisson"):
        refuse((observed < 0) | (observed.sum() > known.moments.y[0] * (1 + CLOSE)), told)


def _check_null(known: Known, asked: PointQuestion, said: Answer) -> None:
    """The model without columns: without an offset, all of it follows from the mean outcome."""
    model, W, k, m = known.model, known.W, known.model.k, known.moments
    if not known.plain:
        return
    value, slope, C = float(said.null[0]), said.null[1 : 1 + k], said.null[1 + k :].reshape(k, k)
    told = "the site's loss for a model without columns contradicts the outcomes of the site"
    convex = not model.loss.unproven
    refuse(convex and not positive(C, np.sqrt(np.abs(np.diag(C)))), told)
    slack = ROUNDING * (abs(value) + abs(float(m.floor)) + W)
    refuse(value < float(m.floor) - slack, told)
    if value >= BEYOND or known.offset:
        return
    mean = m.y[None] / W
    at = model.loss.terms(asked.null[None] + 0 * mean, mean)
    size = CLOSE * (W * (1 + np.abs(at.size).max()) + np.abs(m.y).sum())
    refuse(np.abs(slope - W * at.slope[0]) > size, told)
    refuse(np.abs(C - W * at.curvature[0]) > CLOSE * (np.abs(C).max() + W + size), told)
    if not model.quadratic and model.loss.like != "gaussian":
        wrong = abs(value - W * float(at.value[0])) > CLOSE * (abs(value) + W + size)
        refuse(wrong, told)


def _check_firth(known: Known, asked: PointQuestion, said: Answer, H: np.ndarray) -> None:
    """No more than half of all leverages times the largest entry of a column."""
    most = 0.0 if not asked.V.size else abs(float(np.sum(square(asked.V, len(H)) * H)))
    bound = most * known.rms / np.sqrt(known.least_weight) / 2
    refuse(
        np.abs(said.firth) > bound * (1 + CLOSE),
        "the site's gradient of Firth's penalty is too large",
    )


def _check_meat(known: Known, said: Answer, F: np.ndarray, kind: str) -> None:
    meat, n = square(_there(said.meat), len(F)), float(known.moments.n)
    clusters = float(_there(said.clusters))
    most = n if kind == "cluster" else 0.0
    whole = clusters == np.floor(clusters) and (kind == "cluster") <= clusters <= most
    refuse(not whole, "the site's number of clusters is not possible for its rows")
    told = "the site's sums for robust standard errors are not possible for its rows"
    refuse(not positive(meat, np.sqrt(np.abs(np.diag(meat)))), told)
    parts = clusters if kind == "cluster" else n
    slack = (ROUNDING * said.size) ** 2
    refuse(not bordered(meat * parts + np.diag(slack), said.g, 1.0 + CLOSE), told)
    if kind in FIXED and known.plain and float(said.value) < BEYOND:
        likely = np.diag(F) * float(said.pearson) * (1 + CLOSE) + slack
        refuse(np.diag(meat) > likely, told)


def _there(part: np.ndarray | None) -> np.ndarray:
    return np.zeros(0) if part is None else part
