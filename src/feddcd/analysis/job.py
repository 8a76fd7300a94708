"""A regression as a conversation: what is asked for, and all that comes out of it."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from . import diagnose, statistics
from .choose import Choice, Link, choose
from .newton import Course, Pilot, Separated, newton, pilot
from .points import Answers, Model, variances
from .talk import Ask, Log


class Job(NamedTuple):
    model: Model
    classes: tuple[Any, ...] | None = None  # of a multinomial model, the base first
    tol: float = 0.01
    limit: int = 50
    covariance: str = "model"
    standardize: bool = False
    link: Link = Link()
    algorithm: str = "auto"
    absent: float = 0.0  # the share of sites that is expected to be missing
    watch: Callable[[dict[str, Any]], None] = lambda row: None  # told of each exchange


class Table(NamedTuple):
    table: pd.DataFrame
    covariance: pd.DataFrame


class Outcome(NamedTuple):
    w: np.ndarray  # d by k, user's units
    shown: Table  # standardised, if that was asked for
    original: Table  # user's units
    fit: statistics.Fit
    error: float
    converged: bool
    rows: int
    history: pd.DataFrame
    bins: pd.DataFrame | None
    residuals: pd.DataFrame | None
    by_site: pd.DataFrame | None
    choice: Choice


Train = Callable[[Pilot, int, Log], np.ndarray]


def regression(job: Job, train: Train | None = None) -> Generator[Ask, Answers, Outcome]:
    """`train(pilot, rounds, log)` runs Point-SAGA, where there is a way to, and gives its w."""
    log = Log(job.limit, job.watch)
    judge = lambda model, point, sums: statistics.error(
        point, statistics.covariance(model, point, sums, job.covariance)
    )
    try:
        known = yield from pilot(job.model, log)
        first = log.rows[0]
        absent = min(max(job.absent, 1 - first["answered"] / first["asked"]), 0.9)
        choice = choose(
            known.model, known.first.H, job.link, absent, job.algorithm, train is not None
        )
        start = None
        if train is not None and choice.method == "pointsaga":
            start = train(known, int(choice.predictions.exchanges["pointsaga"]), log)
        hold = choice.method == "newton"
        course = yield from newton(known, judge, job.tol, log, start, hold)
    except Separated as found:
        reason = diagnose.separation(found.direction, job.model.names, job.model.family)
        raise ValueError(reason) from None
    return _outcome(job, course, log, choice)


def _outcome(job: Job, course: Course, log: Log, choice: Choice) -> Outcome:
    model, k = course.model, job.model.k
    labels = list(model.names)
    if job.classes is not None:
        labels = [f"{c}: {name}" for c in job.classes[1:] for name in model.names]
    plain = np.eye(len(model.names))
    A = _flat(_units(job, course), course, k)
    by_mean, residuals = statistics.bins(model, course)
    return Outcome(
        w=course.point.w / course.D[:, None],
        shown=_table(job, course, labels, A),
        original=_table(job, course, labels, _flat(plain, course, k)),
        fit=statistics.fit(model, course),
        error=course.error,
        converged=course.converged,
        rows=int(course.sums.n),
        history=_history(job, log),
        bins=by_mean,
        residuals=residuals,
        by_site=statistics.by_site(model, course, labels, A),
        choice=choice,
    )


def _flat(A: np.ndarray, course: Course, k: int) -> np.ndarray:
    """From coefficients in units of D to A times those of the user, class by class."""
    order = np.arange(len(A) * k).reshape(-1, k).T.ravel()
    return (np.kron(A, np.eye(k)) / np.repeat(course.D, k))[order]


def _table(job: Job, course: Course, labels: list[str], A: np.ndarray) -> Table:
    cov = statistics.covariance(course.model, course.point, course.sums, job.covariance)
    cov, w = A @ cov @ A.T, A @ course.point.w.reshape(-1)
    table = statistics.table(w, np.sqrt(np.diag(cov)), labels)
    return Table(table, pd.DataFrame(cov, labels, labels))


def _units(job: Job, course: Course) -> np.ndarray:
    """From the user's units to standard deviations about means, where that is asked for."""
    model, A = course.model, np.eye(len(course.D))
    if not job.standardize:
        return A
    sd = np.sqrt(variances(model, course.sums))
    constant = np.arange(len(A)) == model.intercept
    if model.intercept is None:
        constant[len(A) - model.effects :] = True  # every site has its own
    free = np.arange(len(A)) < len(A) - model.effects
    free &= ~constant
    A[np.ix_(constant, free)] = (course.sums.x / course.sums.weight)[free]
    return A * np.where(np.eye(len(A), dtype=bool), sd[:, None], 1.0)


def _history(job: Job, log: Log) -> pd.DataFrame:
    history = pd.DataFrame(log.rows)
    moved = history["bytes_up"] + history["bytes_down"]
    return history.assign(seconds=job.link.seconds(history["exchange"], moved))
