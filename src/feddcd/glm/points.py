"""The sites' answers at one point, added up."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from .certificate import Bound, bound, decrement, inverse, leverage
from .closing import answers
from .sites import Sites


class Point(NamedTuple):
    """The sums at w, in the problem's units; g and H with the penalty."""

    w: np.ndarray
    value: float  # without the penalty
    objective: float
    objective_before: float  # where the sites answered last
    g: np.ndarray
    H: np.ndarray
    site_g: np.ndarray  # N by p, without the penalty
    m: float
    bound: Bound
    rounded: bool  # g is no more than rounding: no step can improve on w


def quadratic(sites: Sites) -> bool:
    return sites.problem.family.smoothness == 1.0


def at(sites: Sites, w: np.ndarray, seen: np.ndarray, H: np.ndarray) -> Point:
    """The sites' answers at w, added up, and the bound that follows."""
    try:
        V = inverse(H)
    except np.linalg.LinAlgError:
        V = np.full(H.shape, np.inf)
    each = answers(sites.problem, jnp.asarray(w), jnp.asarray(seen), jnp.asarray(V))
    total, c = jax.tree.map(np.asarray, tree.total(each)), sites.c
    P = c * np.asarray(sites.problem.penalty).sum(0) * np.ones_like(w)
    g, H = c * total.g + (P * w).reshape(-1), c * total.H + np.diag(P.reshape(-1))
    value = c * float(total.value)
    S = 0.0 if quadratic(sites) else leverage(np.asarray(each.M), np.asarray(each.m))
    size, rounding = decrement(g, H, c * float(total.size) + float(np.max(np.abs(P * w))))
    before = c * float(total.before) + float(np.mean(np.sum(P * seen**2, (1, 2)))) / 2
    return Point(
        w, value, value + float(np.sum(P * w**2)) / 2, before, g, H, c * np.asarray(each.g),
        float(np.max(each.m)), bound(size + rounding, S), size < rounding,
    )  # fmt: skip
