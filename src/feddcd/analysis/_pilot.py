"""The first answers of all sites, at w = 0: moments and curvature, and from them a first guess.

Sites that are late may answer elsewhere (`_ahead`). Then what they would have said at w = 0 is
guessed; no proof rests on it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from .._errors import DataError, SpecError
from ._ahead import Course, gather
from ._cost import Log, Talk, visit
from ._dependence import basis, check_dependent, check_zero, column_squares
from ._latest import guess
from ._model import Model, check_outcome, check_rows, check_sums, not_finite
from ._points import Answers, Point, point, scales, total, with_penalty
from ._sums import NONE, Moments, PointQuestion

Look = Callable[[Moments], None]
MANY = 10  # exchanges, in which a step that leads down would have been found


class Pilot(NamedTuple):
    model: Model
    D: np.ndarray
    sums: Moments
    first: Point
    answers: Answers
    basis: np.ndarray  # what the columns were multiplied by, d by d; empty where as they are
    raw: Moments  # of the columns as they are
    own: Mapping[str, np.ndarray]  # by site: its own fit, as `_own` has it
    course: Course | None = None  # how far others have gone while some were missing
    late: frozenset[str] = frozenset()  # those who answered elsewhere: `first` is guessed


def run_pilot(model: Model, log: Log, look: Look = lambda sums: None) -> Talk[Pilot]:
    """The exchange at w = 0, but for parameters beside the columns, with everyone; a column that
    depends on others is refused, and where some nearly do a second exchange asks for them in
    another basis. `look` is shown the first sums and may raise."""
    pilot = yield from _pilot(model, log, None, NONE, look)
    if not np.isfinite(pilot.first.H).all():
        raise not_finite("the Hessian at the start is not finite")
    if model.quadratic and not np.isfinite(pilot.first.value):
        raise not_finite("the sum of squares of the outcome is not finite")
    raw = column_squares(model, pilot.first.H, pilot.D)
    check_zero(model, raw)
    B = NONE if model.loss.extras else basis(pilot.model, raw)
    if B.size:
        pilot = yield from _pilot(model, log, pilot, B, look)
    check_dependent(model, raw, column_squares(model, pilot.first.H, pilot.D), B)
    return pilot


def _pilot(model: Model, log: Log, before: Pilot | None, B: np.ndarray, look: Look) -> Talk[Pilot]:
    zero, none = np.zeros((len(model.names), model.k)), np.zeros(0)
    if model.loss.extras:
        zero[-len(model.loss.extras) :, 0] = model.loss.origin
    asked = PointQuestion(zero, zero, none, np.zeros(model.k), none, np.ones(()), True, B)
    course, late = None, frozenset()
    if before is None:
        answers, course, late = yield from gather(model, log, asked)
    else:
        seen = dict.fromkeys(model.sites, zero)
        answers = yield from visit(model, log, asked, seen, patient=True)
    if len(answers) < len(model.sites):
        raise too_few(log, f"only {len(answers)} of {len(model.sites)} sites have answered")
    sums = total([a.moments for a in answers.values()])  # pyright: ignore
    if before is None:
        look(sums)
    raw = sums if before is None else before.raw
    own = {site: a.own for site, a in answers.items()} if before is None else before.own
    check_sums(model, sums)
    check_rows(model, sums)
    check_outcome(model, sums)
    model, D = with_penalty(model, raw), scales(sums)
    course = None if course is None else course.scaled(D)
    if course is None or not late:
        first = point(model, D, zero, answers)
        log.say(first.objective, np.inf)
    else:
        there = {site: said for site, said in answers.items() if site not in late}
        first = guess(model, D, zero, there, course.remembered())
    return Pilot(model, D, sums, first, answers, B, raw, own, course, late)


def from_first(pilot: Pilot, log: Log) -> Talk[Pilot]:
    """Those who were late are asked at the first point, too: the course has led astray."""
    if not pilot.late:
        return pilot._replace(course=None)
    zero, none = np.zeros_like(pilot.first.w), np.zeros(0)
    null = np.zeros(pilot.model.k)
    asked = PointQuestion(zero, zero, none, null, none, np.ones(()), True, pilot.basis)
    only = pilot.model._replace(sites=tuple(s for s in pilot.model.sites if s in pilot.late))
    seen = dict.fromkeys(only.sites, zero)
    late = yield from visit(only, log, asked, seen, patient=True)
    if len(late) < len(only.sites):
        waiting = len(only.sites) - len(late)
        raise too_few(log, f"{waiting} sites have not answered the second question")
    answers = {**pilot.answers, **late}
    first = point(pilot.model, pilot.D, zero, answers)
    return pilot._replace(first=first, answers=answers, course=None, late=frozenset())


def too_few(log: Log, why: str) -> SpecError:
    return SpecError(
        f"<max_exchanges> is too small: {why}. Use a larger number",
        settings={"max_exchanges": log.limit},
    )


def no_estimate(model: Model, log: Log) -> DataError | SpecError:
    """The error where no point is known at which the loss is smaller than at the first one."""
    if log.exchanges < MANY or any(row["answered"] < row["asked"] for row in log.rows):
        return too_few(log, "no step has made the loss smaller yet")
    return DataError(
        f"feddcd found no coefficients in {log.exchanges} exchanges: no step made the loss "
        f"smaller. Probably the link {model.loss.link!r} does not suit the outcome. For example, "
        "the link 'log' needs a mean above 0. Check the values of the outcome, or give another "
        "<link>",
        settings={"link": None},
    )
