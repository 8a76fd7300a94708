"""Which columns predict some outcomes perfectly, so that a model has no finite estimate.

A column of 0 and 1 is known from the first sums: with sum x = sum x², its rows by 0 and 1 and by
outcome are sum x y and the like. Where one of these cells is empty the column alone does it. What
sums do not show is named by the direction in which the likelihood keeps rising, in which columns
can be that are not needed for it.
"""

import numpy as np

from .._errors import Above, DataError
from .._text import sentence_list
from ..formula import INTERCEPT
from ._bend import Separated
from ._cost import Talk
from ._model import Model, not_finite
from ._newton import Estimate
from ._pilot import Pilot
from ._sums import Moments
from ._values import MANY_LEVELS, told_of_many
from .families import COUNTS, THETA

MOST = 8  # columns in a message
CLOSE = 1e-9  # of the weight of all rows: what rounding can leave of an empty cell


def explained(pilot: Pilot, talk: Talk[Estimate]) -> Talk[Estimate]:
    """The same, with an error in words where no finite estimate exists."""
    try:
        return (yield from talk)
    except Separated as lost:
        raise separation(lost.direction, pilot.model, pilot.raw) from None


def separation(direction: np.ndarray, model: Model, sums: Moments) -> DataError:
    """The error for a likelihood that keeps rising along a direction (d by k, scaled). A penalty
    is no remedy for site effects, as it leaves them free."""
    names = model.names
    size = np.abs(direction).max(1)
    if len(size) > 1:  # a constant tells no outcomes apart
        size = np.where([name == INTERCEPT for name in names], 0.0, size)
    heavy = [int(j) for j in np.argsort(-size) if size[j] > 0.1 * size.max()]
    if not heavy:
        return not_finite("rounding errors are larger than the steps of the fit")
    if names[heavy[0]] == THETA:
        told = (
            "the counts do not vary more than in a poisson model, so theta has no finite estimate"
        )
        raise DataError(f"{told}; give <family>", settings={"family": "poisson"})
    alone = _alone(model, sums)
    chosen = sorted(alone, key=lambda j: -size[j]) or heavy
    remedy, settings = _remedy(model, chosen, bool(alone))
    what = "counts of 0" if model.family in COUNTS else "outcomes"
    return DataError(
        f"separation: {_named(model, chosen, bool(alone))} some {what} perfectly, so there is no "
        f"finite estimate; {remedy}{_of_many_levels(model, chosen)}",
        settings=settings,
    )


def _of_many_levels(model: Model, chosen: list[int]) -> str:
    """A category with so many levels may be a number that was written with words."""
    term, *others = {model.names[j].partition("[T.")[0] for j in chosen}
    columns = [name for name in model.names if name.startswith(f"{term}[T.")]
    if others or "(" in term or len(columns) < MANY_LEVELS:
        return ""
    return f". {told_of_many(term, len(columns) + 1)}"


def _named(model: Model, chosen: list[int], alone: bool) -> str:
    told = [model.names[j] for j in chosen[:MOST]]
    if len(told) == 1:
        return f"{told[0]} predicts"
    if alone:
        return f"each of the columns {sentence_list(told)} predicts"
    return f"one or more of the columns {', '.join(told)} predict"


def _remedy(model: Model, chosen: list[int], alone: bool) -> tuple[str, dict]:
    one = len(chosen) == 1
    if any(j >= len(model.names) - model.effects for j in chosen):
        these = "this site, merge it" if one else "these sites, merge them"
        return f"leave out {these} with other sites, or give <site_effects>", {
            "site_effects": "none"
        }
    these = "this column" if one else "these columns" if alone else "the columns that do so"
    penalty = "give <firth> or <l2>" if model.family == "binomial" else "give <l2>"
    settings = {"firth": True, "l2": Above(0)}
    return f"leave out {these}, merge levels, or {penalty}", settings


def _alone(model: Model, sums: Moments) -> list[int]:
    """Columns of 0 and 1, without a penalty, with an empty cell."""
    like = model.loss.like
    if model.loss.bare or like not in ("binomial", "multinomial", "poisson", "negative_binomial"):
        return []
    whole, d = float(sums.weight), len(sums.x)
    least = max(CLOSE * whole, 4 * model.rounding)
    y = np.atleast_1d(sums.y)
    ones = sums.xy.reshape(d, -1)  # of y, in the rows with x = 1
    cells, rest = [ones], [y - ones]
    if like not in COUNTS:  # of the other outcome, or of the first class
        cells.append((sums.x - ones.sum(1))[:, None])
        rest.append((whole - y.sum() - sums.x + ones.sum(1))[:, None])
    if model.intercept is not None:
        cells += rest
    empty = (np.hstack(cells) <= least).any(1)
    known = np.abs(sums.xx - sums.x) <= least
    both = (sums.x > least) & (sums.x < whole - least)
    free = (model.penalty[:d] == 0) & np.array([name != INTERCEPT for name in model.names[:d]])
    return [int(j) for j in np.flatnonzero(empty & known & both & free)]
