"""Splines with written knots: the columns of R's splines::bs and ns, and of rms::rcs."""

import numpy as np


def bs(
    x: np.ndarray, knots: np.ndarray, degree: int, bounds: np.ndarray, intercept: bool
) -> np.ndarray:
    """Beyond the bounds the last polynomials go on, as in R."""
    basis = _basis(x, knots, degree, bounds)
    return basis if intercept else basis[:, 1:]


def ns(x: np.ndarray, knots: np.ndarray, bounds: np.ndarray, intercept: bool) -> np.ndarray:
    """Cubic, and straight beyond the bounds: the second derivatives are 0 there."""
    low, high = bounds
    inside = np.clip(x, low, high)
    basis, slope = _basis(inside, knots, 3, bounds), _basis(inside, knots, 3, bounds, 1)
    basis = basis + slope * (x - inside)[:, None]
    ends = _basis(bounds, knots, 3, bounds, 2)
    if not intercept:
        basis, ends = basis[:, 1:], ends[:, 1:]
    Q, _ = np.linalg.qr(ends.T, mode="complete")
    # not by BLAS, which rounds one row alone in another way than many rows
    return np.stack([_combined(basis, weights) for weights in Q[:, 2:].T], 1)


def _combined(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total = columns[:, 0] * weights[0]
    for column, weight in zip(columns.T[1:], weights[1:], strict=True):
        total = total + column * weight
    return total


def rcs(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Harrell's restricted cubic spline: x, then truncated cubes over (last - first knot)²."""
    first, before, last = knots[0], knots[-2], knots[-1]
    cube = lambda t: np.maximum(x - t, 0) ** 3
    columns = [x]
    for t in knots[:-2]:
        left, right = (last - t) / (last - before), (before - t) / (last - before)
        columns.append((cube(t) - left * cube(before) + right * cube(last)) / (last - first) ** 2)
    return np.stack(columns, 1)


def _basis(
    x: np.ndarray, knots: np.ndarray, degree: int, bounds: np.ndarray, derivative: int = 0
) -> np.ndarray:
    from scipy.interpolate import BSpline  # a third of a second, and few formulas have splines

    low, high = bounds
    t = np.concatenate([[low] * (degree + 1), knots, [high] * (degree + 1)])
    spline = BSpline(t, np.eye(len(t) - degree - 1), degree)
    return spline(x, nu=derivative)
