"""What the theorems promise: contraction per round, rounds to an accuracy, and the lower bound.

Rounds are the paper's: one of AccFedDCD has two cohorts, so 2 τ uploads. An accuracy ε is
relative, E error_t <= ε error_0, where error is

    FedDCD, AccFedDCD    the dual gap G(y) - G*, with |w_i - w*|² <= 2 (G(y) - G*)/(N α) on average
    Point-SAGA           |x - x*|² + (1/(α β)) mean_i |g_i - ∇f_i(x*)|², from the first round on
    lower bound          F(w) - F* on the worst-case chain
"""

from ._lower import LowerBound, lower_bound, lower_bound_as_printed
from ._table import Prediction, predictions
from ._upper import (
    Acceleration,
    InexactSettings,
    Rate,
    acceleration,
    accfeddcd,
    feddcd,
    inexact_feddcd,
    inexact_settings,
    pointsaga,
    pointsaga_rho,
)

__all__ = [
    "Acceleration",
    "InexactSettings",
    "LowerBound",
    "Prediction",
    "Rate",
    "acceleration",
    "accfeddcd",
    "feddcd",
    "inexact_feddcd",
    "inexact_settings",
    "lower_bound",
    "lower_bound_as_printed",
    "pointsaga",
    "pointsaga_rho",
    "predictions",
]
