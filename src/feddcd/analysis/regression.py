"""The regression table: Newton's method on sums over the sites, to a proven distance."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from .._errors import DataError, Refused
from . import _schema, _statistics
from ._certificate import variances
from ._cost import LineCost, Log, Talk, choose
from ._model import model_for, separation
from ._newton import Estimate, Pilot, Separated, newton, run_pilot
from ._sums import KINDS, PointQuestion, answer, parts, read_answer
from .formula import INTERCEPT
from .plan import ModelSettings, RegressionPlan
from .protocol import Agreement, Arrays, Blocks, Each, Kind, SiteRows, Watch, tag
from .result import SETTINGS, Predictor, TableResult

Train = Callable[[Pilot, int, Log], np.ndarray]


class RegressionTable:
    name = "regression"
    method = "newton"
    # what is made of single sites' blocks, and has to do without where only sums are known
    site_by_site: Mapping[str, tuple[str, ...]] = {
        "the last quadratic model of an absent site": ("value", "g", "H"),
        "estimates of single sites": ("g", "H"),
        "covariance by cluster": ("g",),
    }

    def kinds(self, settings: ModelSettings) -> dict[str, Kind]:
        """The sandwich needs every site's gradient; all else can do with sums."""
        return KINDS | {"g": Each} if settings.covariance == "cluster" else KINDS

    plan = staticmethod(RegressionPlan.from_dict)
    columns = staticmethod(_schema.used)
    offer = staticmethod(_schema.offer)
    agree = staticmethod(_schema.agree)
    rows = staticmethod(_schema.site_rows)

    def question(self, arrays: Arrays, rows: SiteRows) -> PointQuestion:
        d, k = rows.data.X.shape[1], rows.data.Y.shape[1]
        p = d * k
        shapes = {"w": (d, k), "seen": (d, k), "null": (k,), "scale": (), "pilot": ()}
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise Refused(f"a question whose {name} has the shape {arrays[name].shape}")
        if arrays["V"].size not in (0, p * (p + 1) // 2):
            raise Refused("a question whose V has another size")
        given = PointQuestion._make(arrays[name] for name in PointQuestion._fields)
        return given._replace(pilot=bool(given.pilot))

    def answer(self, rows: SiteRows, question: PointQuestion) -> Blocks:
        said, kinds = (
            answer(rows.data, rows.plan.family, question, rows.least),
            self.kinds(rows.plan),
        )
        return {name: kinds[name](part) for name, part in parts(said).items()}

    def blocks(self, arrays: Arrays, plan: ModelSettings, cohort: Agreement) -> Blocks:
        p = model_for(plan, cohort).p
        sizes = {"value": 1, "g": p, "H": p * (p + 1) // 2, "size": p, "M": 1, "m": 1}
        blocks = tag(arrays, self.kinds(plan), sizes)
        read_answer(blocks)  # every part is there
        return blocks

    def talk(
        self,
        plan: ModelSettings,
        cohort: Agreement,
        watch: Watch = lambda row: None,
        *,
        absent: float = 0.0,
        train: Train | None = None,
    ) -> Talk[TableResult]:
        """`absent` is the share of sites that is expected to be missing; `train` runs Point-SAGA,
        where there is a way to, and gives its w."""
        model, log = model_for(plan, cohort), Log(plan.max_exchanges, watch)
        line = LineCost(plan.latency, plan.bandwidth)
        judge = lambda model, point, sums: _statistics.error(
            point, _statistics.covariance(model, point, sums, plan.covariance)
        )
        try:
            pilot = yield from run_pilot(model, log)
            first = log.rows[0]
            absent = min(max(absent, 1 - first["answered"] / first["asked"]), 0.9)
            choice = choose(
                pilot.model, pilot.first.H, line, absent, plan.algorithm, train is not None
            )
            start = None
            if train is not None and choice.method == "pointsaga":
                start = train(pilot, int(choice.predictions.exchanges["pointsaga"]), log)
            hold = choice.method == "newton"
            estimate = yield from newton(pilot, judge, plan.tol, log, start, hold)
        except Separated as lost:
            raise separation(lost.direction, model.names, model.family) from None
        except np.linalg.LinAlgError as error:
            raise DataError(str(error)) from None
        history = pd.DataFrame(log.rows)
        moved = history["bytes_up"] + history["bytes_down"]
        history = history.assign(seconds=line.seconds(history["exchange"], moved))
        return _result(plan, cohort, estimate, history, choice)


def _result(
    settings: ModelSettings, cohort: Agreement, estimate: Estimate, history: pd.DataFrame, choice
) -> TableResult:
    model, k, w = estimate.model, estimate.model.k, estimate.point.w / estimate.D[:, None]
    labels = list(model.names)
    if cohort.classes is not None:
        labels = [f"{c}: {name}" for c in cohort.classes[1:] for name in model.names]
    A = _flat(_units(settings, estimate), estimate, k)
    table, matrix = _table(settings, estimate, labels, A)
    plain = _flat(np.eye(len(model.names)), estimate, k)
    original_table, original_covariance = _table(settings, estimate, labels, plain)
    bins, residual_bins = _statistics.bins(model, estimate)
    last, is_intercept = history.iloc[-1], np.array([name == INTERCEPT for name in model.names])
    rest, first = w[~is_intercept], w[is_intercept].sum(0)
    several = cohort.classes is not None
    return TableResult(
        **{name: getattr(settings, name) for name in SETTINGS},
        table=table,
        covariance_matrix=matrix,
        original_table=original_table,
        original_covariance=original_covariance,
        n_rows=int(estimate.sums.n),
        n_dropped=0,
        n_sites=len(model.sites),
        **_statistics.fit(model, estimate)._asdict(),
        certified_error=estimate.error,
        converged=estimate.converged,
        history=history,
        choice=choice,
        site_table=_statistics.by_site(model, estimate, labels, A),
        bins=bins,
        residual_bins=residual_bins,
        n_exchanges=int(last["exchange"]),
        n_uploads=int(last["uploads"]),
        bytes_up=int(last["bytes_up"]),
        bytes_down=int(last["bytes_down"]),
        coef=rest.T if several else rest[:, 0],
        intercept=first if several else float(first[0]),
        classes=np.array(cohort.classes) if several else None,
        sites=np.array(cohort.sites),
        predictor=Predictor(
            settings.family, settings.formula, w, _schema.design(settings, cohort), model.effects
        ),
    )


def _flat(A: np.ndarray, estimate: Estimate, k: int) -> np.ndarray:
    """From coefficients in units of D to A times those of the user, class by class."""
    order = np.arange(len(A) * k).reshape(-1, k).T.ravel()
    return (np.kron(A, np.eye(k)) / np.repeat(estimate.D, k))[order]


def _table(
    settings: ModelSettings, estimate: Estimate, labels: list[str], A: np.ndarray
) -> tuple[pd.DataFrame, pd.DataFrame]:
    model, point, sums = estimate.model, estimate.point, estimate.sums
    cov = _statistics.covariance(model, point, sums, settings.covariance)
    cov, w = A @ cov @ A.T, A @ point.w.reshape(-1)
    table = _statistics.table(w, np.sqrt(np.diag(cov)), labels)
    return table, pd.DataFrame(cov, labels, labels)


def _units(settings: ModelSettings, estimate: Estimate) -> np.ndarray:
    """From the user's units to standard deviations about means, where that is asked for."""
    model, A = estimate.model, np.eye(len(estimate.D))
    if not settings.standardize:
        return A
    sd = np.sqrt(variances(model, estimate.sums))
    constant = np.arange(len(A)) == model.intercept
    if model.intercept is None:
        constant[len(A) - model.effects :] = True  # every site has its own
    free = np.arange(len(A)) < len(A) - model.effects
    free &= ~constant
    A[np.ix_(constant, free)] = (estimate.sums.x / estimate.sums.weight)[free]
    return A * np.where(np.eye(len(A), dtype=bool), sd[:, None], 1.0)
