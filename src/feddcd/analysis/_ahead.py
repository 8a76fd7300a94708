"""While some sites have not yet answered the first question, the others go on.

Until all have, those that have are asked at the points that their own sums lead to, as if there
were no others, with a penalty. Their optimum is not that of all, but near it at first: once
everyone has answered, the method goes on from there. A site that has missed the first question is
asked for its moments at the point where the others are now: its first answer is as good as theirs.
"""

from typing import NamedTuple

import numpy as np

from ._bend import Separated, next_step
from ._cost import Log, Talk
from ._first_guess import PRIOR
from ._first_steps import first_steps
from ._latest import Latest, Past, add_up, guess, is_astray, remember, said_at
from ._model import Model
from ._points import (
    Answers,
    edges,
    gram,
    point,
    scales,
    total,
    upper_inverse,
    variances,
    with_penalty,
)
from ._sums import NONE, Answer, Moments, PointQuestion, read_answer
from ._together import is_provable


class Course(NamedTuple):
    """Of those that have answered the first question; all in units of D."""

    D: np.ndarray
    past: Past
    trial: np.ndarray  # where they are asked now
    before: np.ndarray  # where they were asked before
    begun: bool  # that was not the first
    asked: PointQuestion
    metric: np.ndarray
    answers: Answers  # at the trial

    def questions(self) -> dict[str, PointQuestion]:
        at = {site: own[0].w / self.D[:, None] for site, own in self.past.items()}
        return {site: self.asked._replace(seen=w) for site, w in at.items()}

    def remembered(self) -> Past:
        """With the answers at the trial."""
        past = {site: self.past.get(site, ()) for site in (*self.past, *self.answers)}
        return remember(past, self.trial, self.answers, self.asked, self.metric)

    def scaled(self, D: np.ndarray) -> "Course":
        """In units of another D."""
        share, k = D / self.D, self.trial.shape[1]
        both = np.outer(np.repeat(share, k), np.repeat(share, k))
        metrics = {id(each.metric): each.metric for own in self.past.values() for each in own}
        metrics = {key: None if A is None else A / both for key, A in metrics.items()}
        move = lambda each: each._replace(
            w=each.w * share[:, None], metric=metrics[id(each.metric)]
        )
        past = {site: tuple(map(move, own)) for site, own in self.past.items()}
        trial = self.trial * share[:, None]
        before = self.before * share[:, None]
        return self._replace(D=D, past=past, trial=trial, before=before, metric=self.metric / both)


class FirstAnswers(NamedTuple):
    answers: dict[str, Answer]  # each site's first: with its moments
    course: Course | None
    late: frozenset[str]  # sites that answered at a point of the course, not at the first


def gather(model: Model, log: Log, question: PointQuestion, may: bool = True) -> Talk[FirstAnswers]:
    """Everyone's answers to the first question, and how far the others went meanwhile. Sites that
    have missed it are asked the same at the point where the others are now, unless these have gone
    astray."""
    got: dict[str, Answer] = {}
    course, late = None, set()
    may = may and not model.summed and is_provable(model.loss)
    while not log.over and len(got) < len(model.sites):
        if may and len(got) > 1:
            course = _begun(model, got) if course is None else _next(model, got, course)
            if course is None:
                may, got, late = False, {s: a for s, a in got.items() if s not in late}, set()
        missing = [site for site in model.sites if site not in got]
        own = {} if model.summed else {site: model.own_columns(site) for site in missing}
        first = question if course is None else course.asked._replace(pilot=True)
        asked = {site: first._replace(seen=first.w, own=own.get(site, NONE)) for site in missing}
        beside = {} if course is None else course.questions()
        replies = yield asked | beside
        answers = {site: read_answer(blocks) for site, blocks in replies.items()}
        log.count(asked | beside, answers)
        new = {site: answers[site] for site in missing if site in answers}
        got |= new
        if course is not None:
            late |= set(new)
            course = course._replace(answers={**course.answers, **answers})
    return FirstAnswers(got, course, frozenset(late))


def _begun(model: Model, got: Answers) -> Course | None:
    sums = total([a.moments for a in got.values()])  # pyright: ignore
    model, D = _held(model, got, sums), scales(sums)
    zero = np.zeros((len(D), model.k))
    first = point(model, D, zero, got)
    try:
        step = first_steps(model, D, sums, gram(model, D, first), first, None)[0]
    except np.linalg.LinAlgError:  # their rows alone do not tell the columns apart
        return None
    past = {site: (Latest(zero, said),) for site, said in got.items()}
    return _asking(model, got, D, past, step, zero, False)


def _held(model: Model, got: Answers, sums: Moments) -> Model:
    """Of these sites alone, and with a penalty: a level that is rare may have one outcome among
    their rows, and its coefficient would run away."""
    model = with_penalty(model._replace(sites=tuple(got)), sums)
    spread = np.maximum(variances(model, sums), 1e-300)
    two = np.abs(sums.xx - sums.x) <= 1e-9 * sums.xx  # columns of 0 and 1
    ridge = PRIOR * np.where(two, 1.0, 4 * spread)
    if model.intercept is not None:
        ridge[model.intercept] = 0.0
    return model._replace(penalty=model.penalty + ridge)


def _next(model: Model, got: Answers, course: Course) -> Course | None:
    """None where what is guessed leads astray."""
    if not course.answers:
        return course
    sums, D, past = total([a.moments for a in got.values()]), course.D, course.remembered()  # pyright: ignore
    model = _held(model, got, sums)
    now = guess(model, D, course.trial, course.answers, past)
    before = guess(model, D, course.before, said_at(past, course.before), past)
    if is_astray(now, before):
        return None
    try:
        step = next_step(now, before, course.begun, False, model.loss)
    except Separated:
        return None
    return _asking(model, got, D, past, course.trial + step, course.trial, True)


def _asking(
    model: Model, got: Answers, D: np.ndarray, past: Past, trial, before: np.ndarray, begun: bool
) -> Course:
    sums, H = total([a.moments for a in got.values()]), add_up(model, D, past)  # pyright: ignore
    w, none = trial / D[:, None], np.zeros(0)
    V = upper_inverse(H, D, model.k)
    asked = PointQuestion(w, w, V, np.zeros(model.k), none, np.ones(()), False)
    G = np.diag(D**2) * float(sums.weight)
    asked = asked._replace(edges=edges(model, sums, G, w))
    return Course(D, past, trial, before, begun, asked, H, {})
