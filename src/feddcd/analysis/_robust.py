"""Robust covariances of the coefficients, as R's sandwich has them: V M V, V = F⁻¹.

With F Fisher's information, a row's score u_j = s_j f'(z_j) x_j and its leverage
h_j = s_j F_j x_j'V x_j, n rows, p coefficients and G clusters, the meat M is

    HC0      sum u u'
    HC1      the same, times n/(n - p)
    HC2      sum u u' / (1 - h)
    HC3      sum u u' / (1 - h)²
    cluster  sum over clusters of (sum u)(sum u)', times G/(G - 1) (n - 1)/(n - p)

which is a sum over sites, as clusters lie within sites. It is asked for once, at the last point and
with the V of that point: one exchange more than the model's own covariance needs.
"""

from typing import NamedTuple

import numpy as np

from .._errors import DataError, Refused, SpecError
from .._text import plural
from ._cost import Log, Talk, visit
from ._model import Model
from ._newton import Estimate, Judge, newton
from ._pilot import Pilot
from ._points import Point, inverse, upper_inverse
from ._sums import DesignRows, Moments, PointQuestion, square, upper
from .families import Family
from .protocol import SiteRows

LEVERAGE = {"HC2": 1, "HC3": 2}  # the power of 1 - h
FEW = 30  # clusters, below which intervals are too short
SLACK = 1e-3  # for rounding, where columns nearly depend on each other
WHOLE = 1e-9  # of 1 - h: such a row is fitted exactly, whatever its outcome


class Meat(NamedTuple):
    """A site's part: the upper triangle of its sum, and how many clusters it is of."""

    meat: np.ndarray
    clusters: np.ndarray


def meat_of(rows: SiteRows, asked: PointQuestion) -> Meat:
    """As the site's plan has it."""
    plan = rows.plan
    return site_meat(rows.data, plan.loss(), asked, plan.covariance, rows.cluster)


def site_meat(
    rows: DesignRows, family: Family, asked: PointQuestion, kind: str, cluster: np.ndarray | None
) -> Meat:
    """`cluster` holds a number for each row; None: the site is one cluster."""
    rows = asked.in_basis(rows)
    geometry = family.geometry(rows, asked.w.shape[0] - len(family.extras))
    z = geometry.z(asked.w)
    at = family.terms(z, rows.Y)
    scores = geometry.scores(rows.s[:, None] * at.slope)
    curvature = at.curvature if family.expected is None else family.expected(z)
    n, p = scores.shape
    if kind == "cluster":
        code = np.zeros(n, int) if cluster is None else cluster
        sums = np.zeros((int(code.max(initial=-1)) + 1, p))
        np.add.at(sums, code, scores)
        return Meat((sums.T @ sums)[upper(p)], np.asarray(float(len(sums))))
    factor = np.ones(n)
    if kind in LEVERAGE:
        left = 1 - _leverages(rows.X, rows.s * curvature[:, 0, 0], square(asked.V, p))
        if np.any(left < WHOLE):
            raise DataError(
                "<covariance> cannot be computed, because of "
                f"{plural(int(np.sum(left < WHOLE)), 'row')} with leverage 1. Such a row "
                "alone determines one coefficient. Use HC1, or leave out the column of this "
                "coefficient",
                settings={"covariance": kind},
            )
        factor = left ** -LEVERAGE[kind]
    return Meat((scores.T @ (factor[:, None] * scores))[upper(p)], np.zeros(()))


def _leverages(X: np.ndarray, weight: np.ndarray, V: np.ndarray) -> np.ndarray:
    """h of each row. The inverse of a sum of Hessians, of which one is H = X'diag(weight)X, has no
    eigenvalue of VH above 1; another V could raise any row's share until it alone was seen."""
    size = np.sqrt(np.maximum(np.diag(V), 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        R = V / np.outer(size, size)
    try:
        L = size[:, None] * np.linalg.cholesky(R)
        most = np.linalg.eigvalsh(L.T @ (X.T @ (weight[:, None] * X)) @ L)[-1]
    except np.linalg.LinAlgError:
        most = np.inf
    if not most <= 1 + SLACK:
        raise Refused("the matrix 'V' of the question is not the inverse of a sum of Hessians")
    return weight * np.sum((X @ V) * X, 1)


def sandwich(at: Point, sums: Moments, kind: str) -> np.ndarray:
    """In units of D; the point holds the meat."""
    V = inverse(at.F)
    return factor_of(at, sums, kind) * V @ given(at.meat) @ V


def factor_of(at: Point, sums: Moments, kind: str) -> float:
    """Of the meat, for few rows and few clusters."""
    n, p, G = float(sums.n), len(at.F), at.clusters
    if kind in ("HC1", "cluster") and n <= p:
        told = (
            f"<covariance> needs more rows than coefficients, got {plural(int(n), 'row')} and "
            f"{plural(p, 'coefficient')}"
        )
        raise SpecError(told, settings={"covariance": kind})
    if kind == "HC1":
        return n / (n - p)
    if kind == "cluster":
        if G < 2:
            told = f"<covariance> needs at least two clusters, got {G}"
            raise SpecError(told, settings={"covariance": kind})
        return G / (G - 1) * (n - 1) / (n - p)
    return 1.0


def settle(
    pilot: Pilot, estimate: Estimate, judge: Judge, tol: float, log: Log, hold: bool
) -> Talk[Estimate]:
    """The estimate with its meat. `judge` counts in the table's standard errors where the point
    has a meat, else in the model's: should the table's be much smaller, Newton's method goes on."""
    while True:
        log.reserve = 0
        before = judge(estimate.model, estimate.point, estimate.sums)
        estimate = yield from _ask(pilot, estimate, log)
        error = judge(estimate.model, estimate.point, estimate.sums)
        log.say(estimate.point.objective, error)
        done = error <= tol or estimate.point.rounded or not 0 < before < np.inf or log.left < 3
        if done:
            return estimate._replace(error=error, converged=error <= tol)
        start, factor, null = estimate.point.w / estimate.D[:, None], error / before, estimate.null
        scaled = lambda model, at, sums, factor=factor: factor * judge(model, at, sums)
        log.reserve = 1
        estimate = yield from newton(pilot, scaled, tol, log, start, hold)
        estimate = estimate._replace(null=null)


def _ask(pilot: Pilot, estimate: Estimate, log: Log) -> Talk[Estimate]:
    """One exchange at the last point, or more until all sites have answered."""
    model, D, w = estimate.model, estimate.D, estimate.point.w
    user, none = w / D[:, None], np.zeros(0)
    V = upper_inverse(estimate.point.F, D, model.k)
    asked = PointQuestion(
        user, user, V, np.zeros(model.k), none, np.ones(()), pilot=False, closing=True,
        basis=pilot.basis,
    )  # fmt: skip
    answers = yield from visit(model, log, asked, dict.fromkeys(model.sites, user), patient=True)
    if len(answers) < len(model.sites):
        told = (
            "<max_exchanges> is too small: robust standard errors need one more "
            "exchange, with all sites"
        )
        raise SpecError(told, settings={"max_exchanges": log.limit})
    E = np.repeat(D, model.k)
    total = np.sum([given(a.meat) for a in answers.values()], 0)
    meat = square(total, model.p) / np.outer(E, E)
    clusters = int(np.sum([given(a.clusters) for a in answers.values()]))
    return estimate._replace(point=estimate.point._replace(meat=meat, clusters=clusters))


def given(part: np.ndarray | None) -> np.ndarray:
    if part is None:
        raise DataError("a site did not send the sums that robust standard errors need")
    return part


def check(model: Model, kind: str) -> None:
    if kind in LEVERAGE and (model.k > 1 or model.loss.origin):
        told = (
            f"{kind} is not possible with family {model.family}, because a row has more than one "
            "leverage: use <covariance>"
        )
        raise SpecError(told, settings={"covariance": "HC1"})


def named(kind: str, clusters: int) -> str:
    """A covariance in words."""
    words = {"model": "model-based", "cluster": f"by cluster ({clusters})"}
    return words.get(kind, f"robust ({kind})")


def notes(kind: str, clusters: int) -> list[str]:
    """What is not proven, and a warning of few clusters."""
    if kind == "model":
        return []
    said = ["The proof is about the coefficients, and not about the standard errors."]
    if 0 < clusters < FEW:
        there = "there is" if clusters == 1 else "there are"
        said.append(
            f"WARNING: {there} only {plural(clusters, 'cluster')}. With few clusters, standard "
            "errors are too small, intervals too short and p-values too small. About "
            f"{FEW} or more clusters are needed."
        )
    return said
