"""Families and links: R says what the numbers are, and its call stands beside each."""

import numpy as np
import pytest

from feddcd.analysis._sums import DesignRows, PointQuestion, answer

NONE = np.zeros(0)


@pytest.mark.parametrize(
    ("family", "Y", "expected"),
    [
        ("gaussian", [[3.0], [5.0]], 3.0**2 + 2 * 5.0**2),
        ("binomial", [[1.0], [0.0]], 0.25 / 0.25 + 2 * 0.25 / 0.25),
        ("poisson", [[3.0], [0.0]], 2.0**2 / 1 + 2 * 1.0 / 1),
        # (1 - 1/3)² 3 + 2 (1/3)² 3 = 2 for every row, whichever its class
        ("multinomial", [[1.0, 0.0], [0.0, 0.0]], 2.0 + 2 * 2.0),
    ],
)
def test_pearsons_sum_of_squares(family, Y, expected):
    """At w = 0, where all means are 0, 1/2, 1 or 1/3; the second row has weight 2."""
    Y = np.array(Y)
    k = Y.shape[1]
    rows = DesignRows(np.ones((2, 1)), Y, np.array([1.0, 2.0]), np.zeros(2))
    zero = np.zeros((1, k))
    asked = PointQuestion(zero, zero, NONE, np.zeros(k), NONE, np.ones(()), False)
    np.testing.assert_allclose(answer(rows, family, asked).pearson, expected)
