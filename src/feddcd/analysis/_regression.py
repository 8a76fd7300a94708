"""The regression table: Newton's method on sums over the sites, to a proven distance."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError, Refused
from ..formula import INTERCEPT, label
from . import _finished, _left_out, _offer, _schema
from ._agreement import read_agreement, stand_in
from ._bin_tables import bin_tables
from ._coefficients import (
    Shown,
    sandwich_change,
    shown_rows,
    statistic_of,
    table_of,
    worst_ratio,
)
from ._cost import Choice, LineCost, Log, Talk, choose
from ._influence import leave_one_out
from ._measures import measures
from ._model import Model, model_for, not_finite, summed_model
from ._newton import Estimate, newton
from ._offsets import check_offset, check_weights
from ._outcome import Outcome
from ._own import own_block
from ._pilot import Pilot, run_pilot
from ._points import Point, dispersion, inverse, variances
from ._predictor import Predictor
from ._result import SETTINGS, TableResult
from ._robust import LEVERAGE, check, factor_of, given, meat_of, sandwich, settle
from ._same import difference
from ._separation import explained
from ._sites import own_table, site_counts
from ._sums import KINDS, Moments, PointQuestion, answer, parts, read_answer
from ._whole import counted
from .agreed import with_codebook
from .families import ratio_of
from .plan import ModelSettings, RegressionPlan
from .protocol import Again, Agreement, Arrays, Blocks, SiteRows, Watch, tag

Train = Callable[[Pilot, int, Log], np.ndarray]
ROUGH = 1e-4  # standard errors: a tolerance that allows other numbers to be that far off, too


class RegressionTable:
    name = "regression"
    part = "glm"
    proven = "coefficients.csv"
    method = "newton"
    # what is made of single sites' blocks, and has to do without where only sums are known
    site_by_site: Mapping[str, tuple[str, ...]] = {
        "the last quadratic model of an absent site": ("value", "g", "H"),
        "estimates of single sites": ("own",),
        "rows and events of single sites": ("moments.n", "moments.y"),
    }

    plan = staticmethod(RegressionPlan.from_dict)
    with_codebook = staticmethod(with_codebook)
    columns = staticmethod(_offer.used)
    offer = staticmethod(_offer.offer)
    agree = staticmethod(_schema.agree)
    rows = staticmethod(_schema.site_rows)
    guarded = staticmethod(lambda rows, k: rows)
    agreement = staticmethod(read_agreement)
    stand_in = staticmethod(stand_in)
    matches = staticmethod(difference)
    columns_of = staticmethod(_finished.columns_of)
    contributions = staticmethod(_finished.contributions)
    definite = staticmethod(_finished.is_definite)

    def question(self, arrays: Arrays, rows: SiteRows) -> PointQuestion:
        d, k = rows.data.X.shape[1], rows.data.Y.shape[1]
        p = d * k
        shapes = {"w": (d, k), "seen": (d, k), "null": (k,), "scale": ()}
        shapes |= {"pilot": (), "closing": ()}
        optional = {"basis": (d, d), "own": (d,)}
        shapes |= {name: shape for name, shape in optional.items() if arrays[name].size}
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise Refused(
                    f"the part {name!r} of the question has the shape {arrays[name].shape}, but "
                    f"this plan needs {shape}"
                )
        if arrays["V"].size not in (0, p * (p + 1) // 2):
            raise Refused(
                f"the matrix V of the question has {arrays['V'].size} numbers, but this plan needs "
                f"{p * (p + 1) // 2}"
            )
        if arrays["closing"] and (rows.plan.covariance == "model" or not arrays["V"].size):
            raise Refused("the question asks for robust standard errors, but the plan does not")
        given = PointQuestion._make(arrays[name] for name in PointQuestion._fields)
        return given._replace(pilot=bool(given.pilot), closing=bool(given.closing))

    def answer(self, rows: SiteRows, question: PointQuestion) -> Blocks:
        loss = rows.plan.loss()
        before = [each for each in rows.before if each.w.shape == question.w.shape]
        given = answer(rows.data, loss, question, rows.least, rows.k, before, rows.grouped)
        if rows.alone and question.own.size:
            given = given._replace(own=own_block(rows.data, loss, question.own))
        if question.closing:
            given = given._replace(**meat_of(rows, question)._asdict())
        return {name: KINDS[name](part) for name, part in parts(given).items()}

    def blocks(self, arrays: Arrays, plan: ModelSettings, cohort: Agreement) -> Blocks:
        model = model_for(plan, cohort)
        p, triangle = model.p, model.p * (model.p + 1) // 2
        sizes = {"value": 1, "g": p, "H": triangle, "size": p, "M": 1, "m": 1, "pearson": 1}
        sizes |= {"F": triangle * (model.loss.expected is not None), "firth": p * model.loss.firth}
        if "meat" in arrays:
            sizes |= {"meat": triangle, "clusters": 1}
        blocks = tag(arrays, KINDS, sizes)
        if arrays["own"].size not in (0, 1, 2 * p):
            raise DataError("the part 'own' of the answer has a wrong shape")
        read_answer(blocks)  # every part is there
        return blocks

    def talk(
        self,
        plan: ModelSettings,
        cohort: Agreement,
        watch: Watch = lambda row: None,
        *,
        summed: bool = False,
        absent: float = 0.0,
        train: Train | None = None,
    ) -> Talk[TableResult]:
        """`absent` is the share of sites that is expected to be missing; `train` runs Point-SAGA,
        where there is a way to, and gives its w."""
        model = model_for(plan, cohort)
        model = summed_model(model) if summed else model
        log = Log(plan.max_exchanges, watch, model.summed)
        check(model, plan.covariance)
        line, firsts = LineCost(plan.latency, plan.bandwidth), list[Moments]()

        def look(sums: Moments) -> None:
            firsts.append(sums)
            check_offset(plan, sums, model.loss.link)
            again = _left_out.without_empty(plan, cohort, model.names, sums)
            if again is not None:
                raise Again(again)

        try:
            pilot = yield from run_pilot(model, log, look)
            shown, first = shown_rows(plan, cohort, pilot), log.rows[0]
            judge = lambda model, point, sums: _error(
                point, _covariance(model, point, sums, plan.covariance), shown
            )
            absent = min(max(absent, 1 - first["answered"] / first["asked"]), 0.9)
            saga = train is not None and model.loss.canonical
            choice = choose(pilot.model, pilot.first.H, line, absent, plan.algorithm, saga)
            start = None
            if train is not None and choice.method == "pointsaga":
                start = train(pilot, int(choice.predictions.exchanges["pointsaga"]), log)
            hold = choice.method == "newton" or not model.loss.canonical or model.loss.firth
            log.reserve = int(plan.covariance != "model")
            # other numbers are those of the last point asked: to all digits, it is the solution
            leap = plan.covariance == "model" and plan.tol >= ROUGH
            found = newton(pilot, judge, plan.tol, log, start, hold, leap)
            estimate = yield from explained(pilot, found)
            if plan.covariance != "model":
                found = settle(pilot, estimate, judge, plan.tol, log, hold)
                estimate = yield from explained(pilot, found)
        except DataError as error:
            check_weights(plan, firsts, model, error)
            if (again := _left_out.without(cohort, error)) is None:
                raise
            raise Again(again) from None
        except np.linalg.LinAlgError as error:
            raise not_finite(error) from None
        return _result(plan, cohort, Fit(pilot, shown, estimate, choice), log.history(line))


class Fit(NamedTuple):
    pilot: Pilot
    shown: Shown
    estimate: Estimate
    choice: Choice


def _result(
    settings: ModelSettings, cohort: Agreement, fit: Fit, history: pd.DataFrame
) -> TableResult:
    pilot, shown, estimate, choice = fit
    model, point = estimate.model, estimate.point
    cov = _covariance(model, point, pilot.sums, settings.covariance)
    ratios = ratio_of(model.family, model.loss.link) is not None
    w = (shown.original @ point.w.reshape(-1)).reshape(model.k, -1).T
    table, original_table = (
        table_of(
            A @ point.w.reshape(-1), A @ cov @ A.T, shown.labels,
            statistic_of(model, float(pilot.sums.n)), ratios, settings.level,
        )
        for A in (shown.table, shown.original)
    )  # fmt: skip
    square_of = lambda A: pd.DataFrame(A @ cov @ A.T, shown.labels, shown.labels)
    bins, residual_bins = bin_tables(model, estimate)
    last, is_intercept = history.iloc[-1], np.array([name == INTERCEPT for name in model.names])
    extra, several = len(model.names) - len(model.loss.extras), model.family == "multinomial"
    rest, first = w[:extra][~is_intercept[:extra]], w[:extra][is_intercept[:extra]].sum(0)
    numbers = measures(pilot, estimate)
    spread = _spread(fit, settings.covariance, numbers["doubts"]["dispersion"])
    numbers["doubts"] |= {"coef": _error(point, cov, shown), "std_err": spread}
    return counted(TableResult(
        **{name: getattr(settings, name) for name in SETTINGS},
        table=table,
        covariance_matrix=square_of(shown.table),
        original_table=original_table,
        original_covariance=square_of(shown.original),
        n_rows=int(pilot.sums.n),
        n_dropped=0,
        n_sites=len(cohort.sites),
        n_clusters=estimate.point.clusters,
        **numbers,
        grouped=float(pilot.sums.weight) != float(pilot.sums.n),
        certified_error=estimate.error,
        unproven=model.loss.unproven,
        converged=estimate.converged,
        rounded=point.rounded,
        history=history,
        choice=choice,
        site_table=own_table(settings, pilot, shown),
        site_counts=site_counts(pilot, cohort.sites),
        answers="sum" if model.summed else "each",
        spread=_deviations(pilot),
        codebook=settings.codebook if isinstance(settings, RegressionPlan) else {},
        bins=bins,
        residual_bins=residual_bins,
        n_exchanges=int(last["exchange"]),
        n_uploads=int(last["uploads"]),
        bytes_up=int(last["bytes_up"]),
        bytes_down=int(last["bytes_down"]),
        coef=rest.T if several else rest[:, 0],
        intercept=first if several else w[extra:, 0] if model.loss.bare else float(first[0]),
        classes=None if cohort.classes is None else np.array(cohort.classes),
        sites=np.array(cohort.sites),
        outcome=None if cohort.outcome is None else Outcome(*cohort.outcome),
        row_sums=estimate.sums.of_outcome,
        predictor=_predictor(settings, cohort, model, w),
        left_out=tuple(cohort.left_out),
        empty_levels={c: tuple(map(label, found)) for c, found in cohort.empty.items()},
        leave_one_out=leave_one_out(estimate, shown, table, settings.standardize),
    ))  # fmt: skip


def _deviations(pilot: Pilot) -> pd.Series:
    """Of the columns; of those that hold 0 and 1 alone sum x² is sum x, and one is their unit."""
    model, sums = pilot.model, pilot.raw
    binary = np.abs(sums.xx - sums.x) <= 1e-9 * sums.xx
    sd = np.where(binary, np.nan, np.sqrt(variances(model, sums)))
    return pd.Series(sd, index=list(model.names))


def _predictor(settings: ModelSettings, cohort: Agreement, model: Model, w) -> Predictor:
    extra = len(model.names) - len(model.loss.extras)
    design = _schema.design(settings, cohort)
    return Predictor(
        settings.family, settings.formula, w[:extra], design, model.effects,
        link=model.loss.link, left_out=tuple(cohort.left_out),
        thresholds=w[extra:, 0] if model.loss.bare else None,
    )  # fmt: skip


def _covariance(model: Model, point: Point, sums: Moments, kind: str) -> np.ndarray:
    """Of the coefficients in units of D: φF⁻¹, or the sandwich where its meat is known."""
    if kind == "model" or point.meat is None:
        return dispersion(model, point.value, sums, point.pearson) * inverse(point.F)
    return sandwich(point, sums, kind)


def _error(point: Point, cov: np.ndarray, shown: Shown) -> float:
    """The certified distance of the worst coefficient, in the table's standard errors."""
    if point.bound.r == 0 or point.bound.reach == np.inf:
        return float(point.bound.r)
    return float(point.bound.reach * worst_ratio(inverse(point.H), cov, shown))


def _spread(fit: Fit, kind: str, of_dispersion: float) -> float:
    """The log of the factor by which a standard error may still change: half of that of the
    dispersion, and half the bound's turn, rS, as the Hessian changes by e^{±rS}. Fisher's
    information, where it is not the Hessian, has no proven bound: twice as much is taken, as with
    leverages of robust ones."""
    pilot, shown, estimate, _ = fit
    model, point, (_, S, r, *_) = pilot.model, estimate.point, estimate.point.bound
    turn = point.bound.turn
    if not turn < 100:
        return np.inf
    if kind == "model":
        own = turn / 2 if model.loss.expected is None else turn
        return own + of_dispersion / 2
    V, cov = inverse(point.H), _covariance(model, point, pilot.sums, kind)
    change = sandwich_change(V, given(point.meat), r, S)
    change *= np.sqrt(factor_of(point, pilot.sums, kind))
    known = model.loss.expected is None and kind not in LEVERAGE
    worst = float(change * worst_ratio(V, cov, shown)) * (1 if known else 2)
    return -float(np.log1p(-worst)) if worst < 1 else np.inf
