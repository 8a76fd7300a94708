"""Newton's method over sites that need not all be there, to a proven distance from the optimum.

The first answers of all sites give moments and curvature, and from them a first guess. Then, while
some sites are missing, the server guesses what they would say (`_latest`) and goes on; a point that
is good enough by such a guess is held until all have answered. Where all have, the bound of
`_points` holds, and the step takes the third derivative along the last move into account (`_bend`).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ._bend import Separated, next_step
from ._cost import Log, Talk, visit
from ._first_steps import first_steps
from ._latest import Latest, Past, add_up, guess, is_astray, remember, said_at
from ._model import Model
from ._null import NullModel, first_null, next_null
from ._pilot import Pilot, from_first, no_estimate
from ._points import (
    Answers,
    Bound,
    Point,
    dispersion,
    edges,
    gram,
    penalties,
    point,
    upper_inverse,
    with_floor,
)
from ._sums import Moments, PointQuestion
from ._together import expected, is_provable, is_sharp, together, widest
from .families import OUTSIDE, Family

STALLS = 5  # points in a row without progress that mean separation
CLOSE = 0.7  # of the tolerance: a point guessed to be that good is held until all have answered
NEAR = 1.0  # of the tolerance: likewise, if one more step from it would prove that much
MOVES = 8  # points in a row at which some were missing; from then on every point is held
LAST = 12  # exchanges that are left: enough to hold a point or two


class Estimate(NamedTuple):
    model: Model
    point: Point
    error: float
    converged: bool
    answers: Answers  # at the point
    D: np.ndarray
    sums: Moments
    null: NullModel
    edges: np.ndarray


class _State(NamedTuple):
    anchor: np.ndarray  # the last point that was kept
    step: np.ndarray  # from there
    t: float  # the share of it that is tried
    past: Past
    best: Point | None  # at the anchor, where all have answered
    begun: bool = False  # the anchor is not the pilot's
    patient: bool = False  # the next point is held until all have answered
    hold: bool = False  # and so is every other
    stalls: int = 0
    guess: Point | None = None  # at the anchor, where some were missing
    moves: int = 0
    other: tuple[np.ndarray, ...] = ()  # steps to try when this one fails

    @property
    def trial(self) -> np.ndarray:
        return self.anchor + self.t * self.step


Judge = Callable[[Model, Point, Moments], float]


def newton(
    pilot: Pilot,
    judge: Judge,
    tol: float,
    log: Log,
    start: np.ndarray | None,
    hold: bool,
    leap: bool = False,
) -> Talk[Estimate]:
    """`judge` gives the certified error in standard errors; `start` (user's units) replaces the
    first guess; `hold` waits at every point until all have answered; `leap` allows to end at a
    point that nobody was asked at."""
    state = None if start is not None else _caught_up(pilot, hold)
    if state is None:
        pilot = yield from from_first(pilot, log)
    model, D, sums, first = pilot.model, pilot.D, pilot.sums, pilot.first
    G, null, done = gram(model, D, first), first_null(model, sums, pilot.answers), None
    state = state or _begin(pilot, start, hold)
    while not log.over:
        H = state.best.H if state.best is not None else add_up(model, D, state.past)
        asked = _question(model, D, sums, state, H)._replace(null=null.c, basis=pilot.basis)
        asked = asked._replace(edges=edges(model, sums, G, asked.w))
        at = {site: state.past[site][0].w / D[:, None] for site in model.sites}
        here = _Here(pilot, state, asked, H, judge, tol, leap, null)
        answers = yield from visit(model, log, asked, at, state.patient, here.enough(log))
        past, whole = here.past(answers), len(answers) == len(model.sites)
        if not whole and (end := here.end(answers)) is not None:
            return (yield from _finish_null(end, asked, at, log))
        if not whole:
            state = _move(pilot, state, answers, past)
            continue
        now, null = point(model, D, state.trial, answers), next_null(model, sums, answers, null)
        far = not _lower(now, first) or now.bound.decrement > first.bound.decrement
        if far and state.best is None:  # guesses have led nowhere
            log.say(now.objective, np.inf)
            pilot = yield from from_first(pilot, log)
            first, state = pilot.first, _begin(pilot, start, True)
            continue
        if not _lower(now, state.best):
            log.say(now.objective, np.inf if done is None else done.error)
            state = _shorten(state)
            continue
        if model.loss.firth:  # its gradient needs the Hessian of this point
            asked = asked._replace(V=upper_inverse(now.H, D, model.k))
            answers = yield from visit(model, log, asked, at, patient=True)
            if len(answers) < len(model.sites):
                break
            now = point(model, D, state.trial, answers)
        error = judge(model, now, sums) if now.bound.decrement < np.inf else np.inf
        if error > tol and (end := here.end(answers)) is not None:
            return (yield from _finish_null(end, asked, at, log))
        shown = np.nan if model.loss.unproven else error
        sums = with_floor(sums, answers)
        done = Estimate(model, now, shown, error <= tol, answers, D, sums, null, asked.edges)
        if now.rounded and error == np.inf:
            raise Separated(now.w)
        if error <= tol or now.rounded:
            return (yield from _finish_null(done, asked, at, log))
        log.say(now.objective, shown)
        state = _arrive(state, now, past, log.left == 1, model.loss)
    if done is None:
        raise no_estimate(model, log)
    return done._replace(null=null)


def _finish_null(done: Estimate, asked: PointQuestion, at: Mapping, log: Log) -> Talk[Estimate]:
    """The same point again, for the sake of the model without columns: rarely needed."""
    model, null = done.model, done.null
    log.say(done.point.objective, done.error)
    while not (null.known or log.over):
        again = asked._replace(null=null.c)
        answers = yield from visit(model, log, again, at, patient=True)
        if len(answers) == len(model.sites):
            null = next_null(model, done.sums, answers, null)
            log.say(done.point.objective, done.error)
    return done._replace(null=null)


def _begin(pilot: Pilot, start: np.ndarray | None, hold: bool) -> _State:
    model, D, first = pilot.model, pilot.D, pilot.first
    steps = first_steps(model, D, pilot.sums, gram(model, D, first), first, start)
    seen = {site: (Latest(first.w, pilot.answers[site]),) for site in model.sites}
    return _State(first.w, steps[0], 1.0, seen, first, False, hold, hold, other=steps[1:])


def _caught_up(pilot: Pilot, hold: bool) -> _State | None:
    """From where the others have gone while some were missing, unless that was astray."""
    model, D, course = pilot.model, pilot.D, pilot.course
    if course is None or not course.answers:
        return None
    past, at = course.remembered(), course.before
    now = guess(model, D, course.trial, course.answers, past)
    before = guess(model, D, at, said_at(past, at), past)
    if is_astray(now, before):
        return None
    step = next_step(now, before, course.begun, False, model.loss)
    return _State(course.trial, step, 1.0, past, None, True, hold, hold, guess=now)


def _question(
    model: Model, D: np.ndarray, sums: Moments, state: _State, H: np.ndarray
) -> PointQuestion:
    """But for the constant model and the bins."""
    w, none, step = state.trial / D[:, None], np.zeros(0), state.t * state.step.reshape(-1)
    V = upper_inverse(H, D, model.k)
    if model.loss.expected is not None and not state.begun:
        V = none  # the pilot's H is no Hessian, so that nothing follows from it
    scale = 1.0
    if model.quadratic and state.best is not None:
        penalty = float(penalties(model, D) @ state.trial.reshape(-1) ** 2) / 2
        left = state.best.objective + float(step @ state.best.g + step @ H @ step / 2) - penalty
        scale = np.sqrt(max(dispersion(model, left, sums), 1e-300))
    return PointQuestion(w, w, V, none, none, np.asarray(scale), False)


class _Here(NamedTuple):
    """What is made of the answers at the state's point."""

    pilot: Pilot
    state: _State
    asked: PointQuestion
    H: np.ndarray  # of which the question has the inverse
    judge: Judge
    tol: float
    leap: bool
    null: NullModel

    def past(self, answers: Answers) -> Past:
        metric = self.H if self.asked.V.size else None
        return remember(self.state.past, self.state.trial, answers, self.asked, metric)

    def end(self, answers: Answers) -> Estimate | None:
        """Where these and the answers before, at points near by, prove enough."""
        model, D, sums = self.pilot.model, self.pilot.D, self.pilot.sums
        if not self.leap:
            return None
        found = together(model, D, self.past(answers), self.state.trial, not self.null.known)
        if found is None or not is_sharp(found[0].bound, self.tol):
            return None
        now, each = found
        error = self.judge(model, now, sums)
        if not error <= self.tol:
            return None
        null = next_null(model, sums, each, self.null)
        return Estimate(model, now, error, True, each, D, sums, null, self.asked.edges)

    def enough(self, log: Log) -> Callable[[Answers], bool]:
        """Whether those that have answered are enough to go on, as the point is not the last, or
        to end."""

        def enough(answers: Answers) -> bool:
            if self.end(answers) is not None:
                return True
            model, D, state = self.pilot.model, self.pilot.D, self.state
            if log.left <= LAST:
                return False
            now = guess(model, D, state.trial, answers, state.past)
            size = now.bound.decrement
            if size == np.inf:
                return True
            ends = {CLOSE: Bound(size, 0.0, size)}
            if self.leap and is_provable(model.loss):
                latest = {site: own[0] for site, own in self.past(answers).items()}
                S = max(widest(model, D, now.H, latest).values())
                ends[NEAR] = expected(size, S)
            last = (
                self.judge(model, now._replace(bound=each), self.pilot.sums) <= share * self.tol
                and is_sharp(each, self.tol)
                for share, each in ends.items()
            )
            return not (any(last) or now.rounded)

        return enough


def _move(pilot: Pilot, state: _State, answers: Answers, past: Past) -> _State:
    """Some sites are missing: what they would say is guessed.

    Where that leads astray, everyone is waited for, at the last point that was kept."""
    trial, hold = state.trial, state.moves + 1 >= MOVES
    now = guess(pilot.model, pilot.D, trial, answers, state.past)
    before = state.best
    if before is None:  # by what is known now
        there = said_at(past, state.anchor)
        before = guess(pilot.model, pilot.D, state.anchor, there, past)
    if is_astray(now, before):
        back = state._replace(t=0.0) if state.best is None else _shorten(state)
        return back._replace(patient=True)
    step, t = next_step(now, before, state.begun, False, pilot.model.loss), min(1.0, 2 * state.t)
    rest = (state.stalls, now, state.moves + 1)
    return _State(trial, step, t, past, None, True, hold, hold, *rest)


def _lower(now: Point, best: Point | None) -> bool:
    slack = 0.0 if best is None else 1e-10 * abs(best.objective)
    return bool(now.objective < OUTSIDE) and (
        best is None or now.objective <= best.objective + slack
    )


def _shorten(state: _State) -> _State:
    """The next of the first steps, or half of this one."""
    if state.other:
        return state._replace(step=state.other[0], t=1.0, other=state.other[1:])
    return state._replace(t=state.t / 2)


def _arrive(state: _State, now: Point, past: Past, last: bool, loss: Family) -> _State:
    stalls = state.stalls + 1 if _stalled(now) and not loss.firth else 0
    if stalls == STALLS or (stalls >= 2 and last):
        raise Separated(now.w - state.anchor)
    before, exact = state.best or state.guess, state.best is not None
    step = next_step(now, before, state.begun, exact, loss)
    t = min(1.0, 2 * state.t) if state.t > 0 else 1.0
    return _State(now.w, step, t, past, now, True, state.hold, state.hold, stalls)


def _stalled(point: Point) -> bool:
    """Near by its decrement, yet moving on in large steps: the optimum is at infinity."""
    x = point.bound.decrement * point.bound.S
    return point.m > 0.3 and point.bound.decrement <= 1 and not x < 0.5
