"""The settings of a model, checked, and the penalty of each coefficient."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..losses import LOSSES
from .frame import INTERCEPT

CHOICES = {
    "family": tuple(LOSSES),
    "algorithm": ("auto", "newton", "pointsaga"),
    "site_effects": ("none", "fixed"),
    "covariance": ("model", "cluster"),
    "missing": ("drop", "error"),
}


def check(settings: Mapping[str, Any]) -> None:
    """All but l2, which needs the names of the coefficients."""
    for name, choices in CHOICES.items():
        if settings[name] not in choices:
            raise ValueError(f"need {name} in {', '.join(choices)}; got {settings[name]!r}")
    tol, absent = settings["tol"], settings["absent"]
    if not (_real(tol) and 0 < tol < np.inf):
        raise ValueError(f"need a finite tol > 0, in standard errors; got tol={tol!r}")
    if not (_real(absent) and 0 <= absent < 1):
        raise ValueError(f"need 0 <= absent < 1, got absent={absent!r}")
    for name in ("latency", "bandwidth"):
        if not (_real(settings[name]) and 0 < settings[name] < np.inf):
            raise ValueError(f"need a finite {name} > 0, got {name}={settings[name]!r}")
    if not isinstance(settings["standardize"], bool):
        raise ValueError(f"standardize is True or False, got {settings['standardize']!r}")
    for name, least in (("max_exchanges", 2), ("random_state", 0)):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(f"need a whole number {name} >= {least}, got {value!r}")


def penalties(l2: Any, names: Sequence[str], effects: int) -> np.ndarray:
    """P_k for every column: l2 for all but the intercept and the last `effects`, which stand for
    the sites; or by name; or one for each."""
    free = np.array([name != INTERCEPT for name in names])
    free[len(names) - effects :] = False
    if isinstance(l2, Mapping):
        return _by_name(l2, names)
    try:
        P = np.asarray(l2, float)
    except (TypeError, ValueError):
        raise ValueError(f"l2 must be a number, a dict or an array, got {l2!r}") from None
    if P.shape == (free.sum(),):
        P = _spread(P, free)
    elif P.ndim:
        raise ValueError(
            f"l2 has shape {P.shape}; it needs one value for each of the {free.sum()} "
            f"coefficients beside the intercept"
        )
    return _sound(np.where(free, P, 0.0), names)


def _spread(P: np.ndarray, free: np.ndarray) -> np.ndarray:
    full = np.zeros(len(free))
    full[free] = P
    return full


def _by_name(l2: Mapping, names: Sequence[str]) -> np.ndarray:
    unknown = [name for name in l2 if name not in names]
    if unknown:
        raise ValueError(f"l2: no coefficient {unknown[0]!r}; there are {', '.join(names[:30])}")
    if INTERCEPT in l2 and l2[INTERCEPT] != 0:
        raise ValueError("the intercept is never penalised; leave it out of l2")
    wrong = [name for name, value in l2.items() if not _real(value)]
    if wrong:
        raise ValueError(f"l2 of {wrong[0]} must be a number, got {l2[wrong[0]]!r}")
    return _sound(np.array([float(l2.get(name, 0.0)) for name in names]), names)


def _sound(P: np.ndarray, names: Sequence[str]) -> np.ndarray:
    bad = np.flatnonzero(~(np.isfinite(P) & (P >= 0)))
    if len(bad):
        raise ValueError(f"need a finite l2 >= 0, got {P[bad[0]]:g} for {names[bad[0]]}")
    return P


def _real(x: Any) -> bool:
    return isinstance(x, numbers.Real) and not isinstance(x, bool)
