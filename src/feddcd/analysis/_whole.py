"""Counts that are no whole numbers: a Poisson model of them has coefficients, but no likelihood.

R warns and gives an AIC of Inf. Of sites only sums are known: a sum of whole numbers is whole, so
that these sums show most such outcomes, and rows on this machine show all.
"""

import dataclasses
import math

import numpy as np

from ._result import TableResult

CLOSE = 1e-7  # of a sum: what its rounding can be


def counted(result: TableResult, y: np.ndarray | None = None) -> TableResult:
    """The result, without a likelihood if the outcomes y, or else their sum, are not whole."""
    if result.family != "poisson":
        return result
    values = _sum_of(result) if y is None else np.asarray(y, float)
    if np.all(np.abs(values - np.round(values)) <= CLOSE * np.maximum(values, 1.0)):
        return result
    none = dict.fromkeys(("log_likelihood", "aic", "bic"), math.nan)
    return dataclasses.replace(result, **none, uncounted=True)


def _sum_of(result: TableResult) -> np.ndarray:
    """Nothing where weights are in it."""
    return np.array([] if result.grouped else result.row_sums[1:2])


def uncounted(result: TableResult, remedy: bool = True) -> str:
    """A note, or nothing."""
    if not result.uncounted:
        return ""
    more = " Family quasipoisson gives the same coefficients, and suits such an outcome."
    return (
        f"{result.response or 'The outcome'} has values that are not whole numbers, so a Poisson "
        f"model has no likelihood and no AIC.{more if remedy else ''}"
    )
