"""Steps that know how the curvature changes, and where the first of them begins."""

import numpy as np
import pytest

from feddcd.analysis._bend import MOST, bent
from feddcd.analysis._first_steps import between
from feddcd.analysis._points import Bound, Point

A = np.array([[3.0, 0.4], [0.4, 1.0]])


def made(w, slope=0.05, fourth=0.02):
    """f = w'Aw/2 - 1'w + slope Σw³ + fourth Σw⁴, and its third derivative at w."""
    g = A @ w - 1 + 3 * slope * w**2 + 4 * fourth * w**3
    H = A + np.diag(6 * slope * w + 12 * fourth * w**2)
    value = float(w @ A @ w / 2 - w.sum() + slope * np.sum(w**3) + fourth * np.sum(w**4))
    third = 6 * slope + 24 * fourth * w
    point = Point(w[:, None], value, value, g, H, H, 0.0, Bound(0.1, 0.1, 0.1), 0.0, False)
    return point, third


@pytest.mark.parametrize("ahead", [1, -1])
def test_along_the_last_move_the_third_derivative_is_exact(ahead):
    """Of a polynomial of the fourth degree; q is set to lie along the move."""
    w = np.array([0.4, -0.3])
    now, third = made(w)
    q = 0.2 * np.array([1.0, 2.0])
    before, _ = made(w - ahead * 3 * q)
    found = bent(now, before, q, begun=True, gradients=True)
    np.testing.assert_allclose(found, q - np.linalg.solve(now.H, third * q**2) / 2, rtol=1e-9)
    rougher = bent(now, before, q, begun=True, gradients=False)
    assert not np.allclose(rougher, found, rtol=1e-3)


def test_a_correction_is_shortened_not_dropped():
    now, _ = made(np.array([0.4, -0.3]))
    before, _ = made(np.array([-2.0, 1.0]), slope=4.0)
    q = 0.5 * (now.w - before.w).reshape(-1)
    change = bent(now, before, q, begun=True, gradients=False) - q
    assert change @ now.H @ change == pytest.approx(MOST * (q @ now.H @ q))


def test_from_the_pilot_only_a_step_that_goes_on_is_bent():
    now, before = made(np.array([0.4, -0.3]))[0], made(np.zeros(2))[0]
    q = 0.1 * now.w.reshape(-1)
    np.testing.assert_array_equal(bent(now, before, -q, begun=False, gradients=True), -q)
    assert not np.allclose(bent(now, before, q, begun=False, gradients=True), q)
    np.testing.assert_array_equal(bent(now, now, q, begun=True, gradients=True), q)


def test_the_first_guess_has_the_geometric_mean_of_two_lengths():
    near = np.array([[1.0], [2.0]])
    np.testing.assert_allclose(between(near, 9 * near, A), 3 * near)
    np.testing.assert_allclose(between(near, near, A), near)
    np.testing.assert_array_equal(between(0 * near, near, A), 0 * near)
    np.testing.assert_array_equal(between(near, near * np.inf, A), near)
