"""What sites said last, which stands for them while they are missing."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ._model import Model
from ._points import Answers, penalties
from ._sums import Answer, square

STABLE = 8.0  # the largest ratio of a site's bend and its quadratic guess, as in FedNewton


class Latest(NamedTuple):
    """A site's latest answer, and where it was given (in units of D)."""

    w: np.ndarray
    answer: Answer


def is_stable(answers: Answers, latest: Mapping[str, Latest], w: np.ndarray, D: np.ndarray) -> bool:
    """Whether the sites' f bend between w and where they were last as their curvature says."""
    bend = guess = 0.0
    for site, now in answers.items():
        then = latest[site]
        v, p = ((then.w - w) / D[:, None]).reshape(-1), w.size
        bend += float(then.answer.value - now.value - now.g @ v)
        guess += float(v @ square(now.H, p) @ v) / 2
    slack = 1e-9 * (1 + abs(bend))
    return bool(bend <= STABLE * guess + slack and guess <= STABLE * bend + slack)


def add_up(model: Model, D, latest: Mapping[str, Latest]) -> tuple[np.ndarray, np.ndarray]:
    """H and b of the sum of the sites' quadratic models w'Hw/2 - b'w, with the penalty."""
    E, p = np.repeat(D, model.k), model.p
    H, b = np.diag(penalties(model, D)), np.zeros(p)
    for w, answer in latest.values():
        own = square(answer.H, p) / np.outer(E, E)
        H, b = H + own, b + own @ w.reshape(-1) - answer.g / E
    return H, b
