"""What sites said at the points they were asked at, and what absent ones would say now.

Sites that are missing at w were last heard at some v. Their quadratic models there are right to
second order. What these leave out, the sites show that were heard at v and are there now: by how
much their own models are off. So the absent are guessed in two parts,

    the models of the absent + Σ a_s (answer of s at w - model of s),

with weights a_s such that the sum of the models of those that are there is nearly that of the
absent. In all models the curvature changes on the way as it did where it is known. From w = 0 the
way is long, and yes/no outcomes have a better model there (`_normal`). Nothing is proven by a
guess: it chooses the next point, and when to wait for everyone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from ._model import Model
from ._normal import has_normal, normal
from ._points import Answers, Point, penalties, point
from ._sums import Answer, PointQuestion, square
from .families import OUTSIDE

SUMMED = ("value", "g", "H")
LEAST = 0.7  # of a curvature, that a guess from other sites may leave of it
EVEN = 1.0  # how much weights are drawn to equal ones
FAR = 6.0  # a decrement, from which on it is guessed well enough to be believed
KEPT = 5  # answers of a site: the latest, and that of the pilot


class Latest(NamedTuple):
    """An answer of a site, and where it was given (in units of D)."""

    w: np.ndarray
    answer: Answer
    asked: PointQuestion | None = None
    metric: np.ndarray | None = None  # the matrix that the question's V is the inverse of


Past = Mapping[str, tuple[Latest, ...]]  # by site, the latest first


class _Seen(NamedTuple):
    """Weighted sums over sites that were heard both then and now."""

    then: Answer
    now: Answer
    size: float  # the trace of the Hessian, then
    ratio: float  # of the traces, now and then


def remember(
    past: Past,
    w: np.ndarray,
    answers: Answers,
    asked: PointQuestion | None = None,
    metric: np.ndarray | None = None,
) -> Past:
    told = {site: Latest(w, answer, asked, metric) for site, answer in answers.items()}
    return {
        site: (told[site], *own[: KEPT - 2], *own[-1:]) if site in told else own
        for site, own in past.items()
    }


def said_at(past: Past, w: np.ndarray) -> dict[str, Answer]:
    """By site, of those that have answered there."""
    each = {site: _at(own, w) for site, own in past.items()}
    return {site: said for site, said in each.items() if said is not None}


def add_up(model: Model, D: np.ndarray, past: Past) -> np.ndarray:
    """The sum of the sites' latest Hessians, with the penalty, in units of D."""
    E = np.repeat(D, model.k)
    H = np.sum([own[0].answer.H for own in past.values()], 0)
    return square(H, model.p) / np.outer(E, E) + np.diag(penalties(model, D))


def guess(model: Model, D: np.ndarray, w: np.ndarray, answers: Answers, past: Past) -> Point:
    """At w, in units of D, from those that are there and guesses of the others. Where the Hessians
    of those that are there take too much away, as of a level that few sites have, the absent ones'
    own stay as they are, but for their size."""
    each = (_completed(model, D, w, answers, past, bold) for bold in (True, False))
    bold, safe = (point(model, D, w, complete) for complete in each)
    try:
        least = eigh(bold.H, safe.H, eigvals_only=True, subset_by_index=(0, 0))[0]
    except (np.linalg.LinAlgError, ValueError):
        return safe
    return bold if least >= LEAST else safe


def is_astray(now: Point, before: Point | None) -> bool:
    """Whether a guess is of no use, or worse than the point before by its value and much worse by
    its decrement: near the optimum, both are guessed less exactly than they differ. Far from it a
    decrement that has grown is enough: then the value is guessed from too far away."""
    if not (now.objective < OUTSIDE and now.bound.decrement < np.inf):
        return True
    if before is None:
        return False
    worse = not now.objective < before.objective + before.bound.decrement**2 / 2
    size, old = now.bound.decrement, before.bound.decrement
    return (worse and size > 2 * old) or (size > FAR and size > 1.3 * old)


def _completed(
    model: Model, D: np.ndarray, w: np.ndarray, answers: Answers, past: Past, bold: bool
) -> dict[str, Answer]:
    found, groups = dict(answers), {}
    for site in model.sites:
        if site not in answers:
            groups.setdefault(past[site][0].w.tobytes(), []).append(site)
    for sites in groups.values():
        then = {site: past[site][0] for site in sites}
        place = then[sites[0]].w
        v = ((w - place) / D[:, None]).reshape(-1)
        each = [(now, _at(past[other], place)) for other, now in answers.items()]
        pairs = [(a, b) for a, b in each if b is not None]
        absent = {site: own.answer for site, own in then.items()}
        if not place.any() and all(has_normal(model, each) for each in absent.values()):
            found |= _from_first(absent, pairs, v, D, bold)
            continue
        seen = _seen(pairs, list(absent.values()), D, len(v))
        found |= {site: _moved(each, v, seen, D, bold) for site, each in absent.items()}
    return found


def _from_first(
    absent: Answers,
    pairs: Sequence[tuple[Answer, Answer]],
    w: np.ndarray,
    D: np.ndarray,
    bold: bool,
) -> dict[str, Answer]:
    """Of sites that were heard at w = 0 alone: `_normal` is their model, and that of the others."""
    here = {site: normal(each, w) for site, each in absent.items()}
    if pairs:
        then, p = [each for _, each in pairs], len(w)
        weights = _weights(then, list(absent.values()), D, p)
        size = float(weights @ [_size(each.H, D, p) for each in then])
        there = [normal(each, w) for each in then]
        for n in SUMMED if bold and size > 0 else ("value", "g") if size > 0 else ():
            off = [getattr(now, n) - each[n] for (now, _), each in zip(pairs, there, strict=True)]
            error = np.tensordot(weights, off, 1) / size
            for site, each in absent.items():
                here[site][n] = here[site][n] + _size(each.H, D, p) * error
    return {site: each._replace(**here[site]) for site, each in absent.items()}


def _at(own: Sequence[Latest], w: np.ndarray) -> Answer | None:
    return next((each.answer for each in own if np.array_equal(each.w, w)), None)


def _seen(
    pairs: Sequence[tuple[Answer, Answer]], absent: Sequence[Answer], D: np.ndarray, p: int
) -> _Seen | None:
    if not pairs:
        return None
    weights = _weights([then for _, then in pairs], absent, D, p)
    now, then = (_weighed(each, weights) for each in zip(*pairs, strict=True))
    one, other = _size(now.H, D, p), _size(then.H, D, p)
    known = 0 < one < np.inf and 0 < other < np.inf
    return _Seen(then, now, other, one / other) if known else None


def _weighed(each: Sequence[Answer], weights: np.ndarray) -> Answer:
    sums = {n: np.tensordot(weights, [getattr(a, n) for a in each], 1) for n in SUMMED}
    return each[0]._replace(**sums)


def _weights(
    there: Sequence[Answer], absent: Sequence[Answer], D: np.ndarray, p: int
) -> np.ndarray:
    """Equal ones, in proportion to the curvature, and what gradients and diagonals that differ
    change: the least squares of both."""
    E = np.repeat(D, p // len(D))
    diagonals = [np.diag(square(a.H, p)) / E**2 for a in (*there, *absent)]
    unit = np.sqrt(np.maximum(np.sum(diagonals, 0), 1e-300))
    rows = np.array([np.concatenate([a.g / E / unit, h / unit]) for a, h in
                     zip((*there, *absent), diagonals, strict=True)])  # fmt: skip
    F, b, sizes = rows[: len(there)].T, rows[len(there) :].sum(0), np.sum(diagonals, 1)
    even = np.full(len(there), sizes[len(there) :].sum() / max(sizes[: len(there)].sum(), 1e-300))
    K = F @ F.T
    drawn = K + (EVEN * np.trace(K) / len(K) + 1e-300) * np.eye(len(K))
    return np.maximum(even + F.T @ np.linalg.solve(drawn, b - F @ even), 0.0)


def _moved(then: Answer, v: np.ndarray, seen: _Seen | None, D: np.ndarray, bold: bool) -> Answer:
    p = len(v)
    if seen is None:
        return then._replace(**_along(then, v, 1.0))
    share = _size(then.H, D, p) / seen.size
    here, there = (_along(each, v, seen.ratio) for each in (then, seen.then))
    parts = SUMMED if bold else ("value", "g")
    corrected = {n: here[n] + share * (getattr(seen.now, n) - there[n]) for n in parts}
    return then._replace(**here | corrected)


def _along(then: Answer, v: np.ndarray, ratio: float) -> dict[str, np.ndarray]:
    """A quadratic model moved by v; its curvature changes to that ratio, exponentially."""
    p, x = len(v), float(np.log(ratio))
    once = np.expm1(x) / x if abs(x) > 1e-4 else 1 + x / 2
    twice = 2 * (np.expm1(x) - x) / x**2 if abs(x) > 1e-4 else 1 + x / 3
    bend = square(then.H, p) @ v
    value = np.asarray(then.value + then.g @ v + twice * (bend @ v) / 2)
    return {"value": value, "g": then.g + once * bend, "H": ratio * then.H}


def _size(H: np.ndarray, D: np.ndarray, p: int) -> float:
    return float(np.sum(np.diag(square(H, p)).reshape(len(D), -1) / D[:, None] ** 2))
