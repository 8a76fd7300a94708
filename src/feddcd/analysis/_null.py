"""The best model without columns, which the null deviance is counted from.

Without an intercept that is the offset alone, as in R. With one it is one number c per class: the
loss f(c) of all rows is asked for on the way, at one c in each exchange. Without an offset the
first c is the optimum. Beside an offset c moves in safe steps: as |f'''| <= f'' (every row moves
by as much as c), with δ = |f'|/f'' the optimum is at least ln(1 + δ) and at most -ln(1 - δ) away,

    f''((1 + δ) ln(1 + δ) - δ)  <=  f(c) - min f  <=  f''(δ + (1 - δ) ln(1 - δ)).

The exchanges give bounds: the optimum is between two places, min f between two
numbers. Links for which that does not hold take Newton's steps, halved until f falls.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ._model import Model
from ._sums import Answer, Moments

CLOSE = 1e-10  # of the null deviance: all digits that are printed, and some
FAR = 0.5  # δ above which the steps are not yet Newton's
HUGE = 1e150  # δ of rows with means that overflow
SLOW = 0.1  # of the interval: a shorter step from afar is replaced by half of it


class NullModel(NamedTuple):
    c: np.ndarray  # where it is asked for next, k
    least: float = -np.inf  # of f: its minimum is between
    most: float = np.inf
    below: float = -np.inf  # the optimum is above this c
    above: float = np.inf
    moved: float = 0.0  # by the last step
    known: bool = False

    @property
    def value(self) -> float:
        return (self.least + self.most) / 2 if self.least > -np.inf else self.most


def first_null(model: Model, sums: Moments, answers: Mapping[str, Answer]) -> NullModel:
    """From the pilot, which asked at c = 0."""
    zero = np.zeros(model.k)
    if model.intercept is None:
        value = float(_total(answers)[0])
        return NullModel(zero, value, value, known=True)
    with np.errstate(all="ignore"):
        guess = model.loss.inverse(sums.y / sums.weight)
    if float(sums.o[1]) == 0:
        value = _without_offset(model, sums, guess)
        return (
            NullModel(guess, value, value, known=True) if np.isfinite(value) else NullModel(guess)
        )
    if model.k > 1:
        return NullModel(guess)
    if not _is_bounded(model):
        return NullModel(guess - sums.o[0] / sums.weight)
    return next_null(model, sums, answers, NullModel(zero))


def _without_offset(model: Model, sums: Moments, c: np.ndarray) -> float:
    """All rows have one z, and the loss is A(z) - <y, z>: sums of weights and outcomes give it.
    nan where it is another loss."""
    if not model.loss.canonical or model.quadratic:
        return np.nan
    with np.errstate(all="ignore"):
        at = model.loss.terms(c[None], (sums.y / sums.weight)[None])
    return float(sums.weight * at.value[0])


def next_null(
    model: Model, sums: Moments, answers: Mapping[str, Answer], null: NullModel
) -> NullModel:
    """What follows from the answers at null.c, and where to ask next."""
    if model.loss.at is not None:
        null = NullModel(null.c)  # of another theta, what was known before does not hold
    if null.known:
        return null
    each, k = _total(answers), model.k
    if not np.all(np.isfinite(each)):
        return null  # where a site could not send its numbers, nothing is known
    value, g, H = float(each[0]), each[1 : 1 + k], each[1 + k :].reshape(k, k)
    if k > 1 or model.quadratic:
        value -= float(g @ np.linalg.lstsq(H, g, rcond=None)[0]) / 2
        return null._replace(least=value, most=value, known=True)
    search = _search if _is_bounded(model) else _descend
    return search(null, value, float(g[0]), float(H[0, 0]), float(sums.floor))


def _is_bounded(model: Model) -> bool:
    """Whether the bounds above hold."""
    return not model.loss.unproven and model.loss.bend is None


def _total(answers: Mapping[str, Answer]) -> np.ndarray:
    return np.sum([a.null for a in answers.values()], 0)


def _search(null: NullModel, value: float, g: float, H: float, floor: float) -> NullModel:
    c, delta = float(null.c[0]), abs(g) / max(H, 1e-300)
    if not delta < HUGE:
        return null  # the bounds below would be no numbers
    gain = H * ((1 + delta) * np.log1p(delta) - delta)
    room = H * (delta + (1 - delta) * np.log1p(-delta)) if delta < 1 else np.inf
    least, most = max(null.least, value - room), min(null.most, value - gain)
    below, above = (c, null.above) if g < 0 else (null.below, c)
    moved = _step(null, g, delta, below, above)
    rounding = np.finfo(float).eps * (abs(value) + abs(floor))
    known = most - least <= max(CLOSE * abs(most - floor), 8 * rounding) or moved == 0
    least = min(least, most)  # where rounding has put them upside down
    return NullModel(np.array([c + moved]), least, most, below, above, moved, bool(known))


def _descend(null: NullModel, value: float, g: float, H: float, floor: float) -> NullModel:
    c = float(null.c[0])
    if not value <= null.most + 1e-12 * abs(null.most):
        back = null.moved / 2
        return null._replace(c=np.array([c - back]), moved=back, known=abs(back) < 1e-14)
    moved = -g / H if H > 0 else -float(np.sign(g))
    gain = max(-g * moved / 2, 0.0)
    known = gain <= CLOSE * abs(value - floor) and H > 0
    return null._replace(
        c=np.array([c + moved]), least=value - 2 * gain, most=value, moved=moved, known=known
    )


def _step(null: NullModel, g: float, delta: float, below: float, above: float) -> float:
    """From afar at least twice the last step, until the optimum is between two places; then
    within them, and by half of them where Newton's would creep."""
    c, sign = float(null.c[0]), -np.sign(g)
    # too large means grow like e^c, so that the far end is right; too small ones want the near end
    size = float(np.log1p(delta) if g < 0 else -np.log1p(-min(delta, 1 - 1e-12)))
    if not (np.isfinite(below) and np.isfinite(above)):
        size = max(size, 2 * abs(null.moved)) if delta > FAR else size
        return float(sign * min(size, 1e6))
    inside = below < c + sign * size < above
    if not inside or (delta > FAR and size < SLOW * (above - below)):
        return (below + above) / 2 - c
    return float(sign * size)
