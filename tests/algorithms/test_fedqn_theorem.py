"""What docs/fedqn.md says is proved, and what is not, by examples in numbers."""

import jax.numpy as jnp
import numpy as np
import pytest

from feddcd.algorithms import _guard as guards


def shortened(q: float, theta: float) -> float:
    return (1 - theta * (1 - np.sqrt(q))) ** 2


def test_a_shortened_step_breaks_the_line_on_random_cohorts():
    """Ten sites of w²/2, A = 1 and no penalty: q = 1/2, and the whole step ends at the optimum."""
    p, pi, q, theta = np.full(10, 0.1), 0.3, 0.5, 0.5
    w = np.eye(10)[0]  # one site used the last point, 1
    delta, old = w**2, 1.0
    x = old + theta * (p @ w - p @ w - old)
    before = p / pi @ delta
    after = p / pi @ ((1 - pi) * delta + pi * x**2)
    assert (before, after) == (pytest.approx(1 / 3), pytest.approx(0.4833, abs=1e-4))
    assert x**2 > shortened(q, theta) * (p @ delta)  # the lemma
    assert x**2 <= shortened(q, theta) * delta.max()  # line 1


@pytest.mark.parametrize("theta", [0.1, 0.5, 1.0])
def test_a_shortened_step_keeps_the_line_on_any_order(theta):
    """Quadratics in five dimensions, two of six sites in a round; A is the largest curvature."""
    random = np.random.default_rng(0)
    roots = random.standard_normal((6, 8, 5))
    H = np.einsum("kni,knj->kij", roots, roots) / 8
    top = np.linalg.eigvalsh(H).max()
    q = 1 / (1 + np.linalg.eigvalsh(H.mean(0)).min() / top)
    optimum = random.standard_normal(5)
    w, x = random.standard_normal((6, 5)), random.standard_normal(5)
    w[0] = x
    for _ in range(60):
        g = np.einsum("kij,kj->ki", H, w - optimum)
        most = np.sum((w - optimum) ** 2, 1).max()
        x = x + theta * (w.mean(0) - g.mean(0) / top - x)
        assert np.sum((x - optimum) ** 2) <= shortened(q, theta) * most * (1 + 1e-9)
        w[random.choice(6, 2, replace=False)] = x


def test_the_guard_lets_pass_what_breaks_the_condition():
    """A ratio of 1.9 with c = 1; and of e^w from 0 to -2 a `b` below the true curvature."""
    after = guards.judged(guards.new_guard(np.float32), jnp.float32(1.9))
    assert (float(after.c), float(after.troubles)) == (1.0, 0.0)
    w, x = 0.0, -2.0
    true = np.exp(x) - np.exp(w) - np.exp(w) * (x - w)
    b = (np.exp(x) - np.exp(w)) * (x - w) / 2
    assert (round(true, 2), round(b, 2)) == (1.14, 0.86)
