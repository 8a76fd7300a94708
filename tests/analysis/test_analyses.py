"""An analysis is one file: a second one, defined here, runs as the regression table does."""

import dataclasses
import json
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pytest
from test_regress import FORMULA, SITES, made, parts, patients, policy, run

from feddcd import FederatedGLM
from feddcd._errors import DataError, SpecError
from feddcd.analysis import export, report
from feddcd.analysis._regression import RegressionTable
from feddcd.analysis._sums import KINDS, DesignRows
from feddcd.analysis.plan import ModelSettings, RegressionPlan
from feddcd.analysis.protocol import (
    Agreement,
    ColumnsOffer,
    Count,
    Max,
    Offered,
    SiteRows,
    Sum,
    arrays,
    converse,
    in_process,
    tag,
)
from feddcd.analysis.registry import ANALYSES, read_plan
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator._tables import AnalysisRun
from slices import thinned


@dataclass(frozen=True)
class MeansPlan:
    columns: list
    analysis = "means"
    answers = "each"
    codebook: ClassVar[dict] = {}  # none was agreed
    levels: ClassVar[dict] = {}

    def to_dict(self):
        return {"analysis": self.analysis, "columns": self.columns}


class MeansQuestion(NamedTuple):
    about: np.ndarray  # the means so far: squares are taken about them
    reveals = "moments"

    @property
    def parameters(self):
        return len(self.about)


@dataclass(frozen=True)
class MeansResult:
    means: dict
    largest: float
    n_dropped: int = 0
    n_exchanges: int = 1

    def with_sites(self, by_site, refused, apart=False):
        return dataclasses.replace(self, n_dropped=sum(by_site.values()))

    def facts(self):
        return {"largest": self.largest}

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "means.json"
        path.write_text(json.dumps(self.means))
        yield path


class Means:
    """Rows and means by column, in one exchange."""

    name = method = part = "means"

    def plan(self, values):
        return MeansPlan(values["columns"])

    def columns(self, plan, names):
        return tuple(plan.columns)

    def offer(self, table, plan):
        return Offered(ColumnsOffer({}, plan.columns, None, plan.columns), {}, {})

    def agree(self, offers, plan):
        return Agreement({}, None, plan.columns, list(offers)), {}

    def rows(self, table, plan, cohort, site):
        X = table[list(plan.columns)].dropna()
        return SiteRows(plan, X.to_numpy(float), len(X), len(table) - len(X), tuple(plan.columns))

    def guarded(self, rows, k):
        return rows

    def question(self, arrays, rows):
        return MeansQuestion(arrays["about"])

    def answer(self, rows, question):
        X = rows.data - question.about
        top = 2.0 ** np.ceil(np.log2(np.abs(X).max()))
        return {"n": Count(np.array(float(rows.n))), "x": Sum(X.sum(0)), "top": Max(top, 1)}

    def columns_of(self, rows):
        return dict(zip(rows.columns, rows.data.T, strict=True))

    def contributions(self, rows, question):
        yield "a sum", np.abs(rows.data - question.about)

    def definite(self, question):
        return True

    def blocks(self, arrays, plan, cohort):
        kinds = {"n": Count, "x": Sum, "top": lambda array: Max(array, 1)}
        return tag(arrays, kinds, {"n": 1, "x": len(plan.columns), "top": 1})

    def talk(self, plan, cohort, watch=lambda row: None):
        answers = {}
        while missing := [site for site in cohort.sites if site not in answers]:
            answers |= yield dict.fromkeys(missing, MeansQuestion(np.zeros(len(plan.columns))))
        total = lambda name: np.sum([blocks[name].value for blocks in answers.values()], 0)
        means = dict(zip(plan.columns, (total("x") / total("n")).tolist(), strict=True))
        return MeansResult(means, float(max(b["top"].value for b in answers.values())))


@pytest.fixture
def means(monkeypatch):
    monkeypatch.setitem(ANALYSES, "means", Means())
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    return ANALYSES["means"]


def test_a_second_analysis_in_one_process(means):
    d, plan = patients(), read_plan({"analysis": "means", "columns": ["age", "bmi"]})
    rows = {site: means.rows(part, plan, None, site) for site, part in parts(d).items()}
    cohort, _ = means.agree({site: means.offer(None, plan).offer for site in rows}, plan)
    found = converse(means.talk(plan, cohort), in_process(means, rows, absent=0.4, seed=1))
    whole = d[["age", "bmi"]].dropna()
    np.testing.assert_allclose(list(found.means.values()), whole.mean(), rtol=1e-12)
    assert whole.max().max() <= found.largest <= 2 * whole.max().max()


def test_a_second_analysis_over_a_federation(tmp_path, means):
    """The site's policy looks at it, and lost messages do not matter."""
    d = patients()
    home = made(tmp_path, MeansPlan(["age", "bmi"]), parts(d))
    policy(home, "south", 'columns = ["age"]')
    with pytest.raises(FileNotFoundError, match=r"coefficients\.csv"):  # a table has them, this not
        run(home, loss=0.2)
    found = json.loads((home.server / "means" / "means.json").read_text())
    whole = d.loc[d.site != "south", ["age", "bmi"]].dropna()
    np.testing.assert_allclose(list(found.values()), whole.mean(), rtol=1e-12)
    end = [event for _, event in home.read_events()][-1]
    assert (end["event"], end["refused"], end["sites"]) == (
        "finished", ["south"], ["east", "north", "west"],
    )  # fmt: skip


def test_an_unknown_analysis_is_named(means):
    with pytest.raises(SpecError, match="no analysis 'mean'; did you mean 'means'"):
        read_plan({"analysis": "mean"})
    assert read_plan({"analysis": "regression", "formula": "y ~ x"}) == RegressionPlan("y ~ x")


def test_every_part_of_an_answer_says_what_is_done_with_it():
    """Sums are sums and bounds lie on their grids, and so is the meat of the last exchange."""
    regression, rng = RegressionTable(), np.random.default_rng(0)
    data = DesignRows(rng.normal(size=(9, 2)), np.ones((9, 1)), np.ones(9), np.zeros(9))
    cohort = Agreement({}, None, ["a", "b"], ["here"])
    asked = next(regression.talk(ModelSettings(), cohort))["here"]
    blocks = regression.answer(SiteRows(ModelSettings(), data, 9), asked)
    assert list(blocks) == [name for name in KINDS if name not in ("meat", "clusters")]
    kinds = {name: type(block) for name, block in blocks.items()}
    assert {n for n, kind in kinds.items() if kind is not Sum} == {"M", "m", "moments.n", "own"}
    assert isinstance(blocks["moments.n"], Count)
    assert [blocks[name].grid for name in ("M", "m")] == [1, 8]
    cluster = ModelSettings(covariance="cluster")
    last = regression.answer(SiteRows(cluster, data, 9), asked._replace(closing=True))
    assert list(last) == list(KINDS)
    assert isinstance(last["meat"], Sum)
    assert last["clusters"] == Count(np.asarray(1.0))
    needed = {part for used in regression.site_by_site.values() for part in used}
    assert needed < {name for name, kind in kinds.items() if kind is not Max}
    assert regression.blocks(arrays(blocks), ModelSettings(), cohort).keys() == blocks.keys()


def federated(tmp_path, plan, data, monkeypatch):
    """The result that the coordinator returns."""
    results = []
    kept = AnalysisRun.run
    monkeypatch.setattr(AnalysisRun, "run", lambda self: results.append(kept(self)))
    run(made(tmp_path, plan, data))
    return results[0]


@pytest.mark.parametrize(
    ("family", "options"),
    thinned(
        [
            ("binomial", {}),
            ("binomial", {"site_effects": "fixed"}),
            ("gaussian", {"standardize": True}),
            ("multinomial", {"l2": 0.1}),
        ],
        2,
    ),
)
def test_what_a_federation_returns_predicts(tmp_path, monkeypatch, family, options):
    """As the estimator that was fitted on the pooled rows."""
    d = patients(family)
    formula = FORMULA.replace(" + offset(0.1 * bmi)", "") if family == "multinomial" else FORMULA
    plan = RegressionPlan(formula, family, tol=1e-9, **options)
    result = federated(tmp_path, plan, parts(d), monkeypatch)
    pooled = FederatedGLM(family, formula, tol=1e-9, **options).fit(d, groups="site")
    new, groups = d.dropna()[::3], "site" if options.get("site_effects") else None
    expected = pooled.predict(new, groups=groups)
    np.testing.assert_allclose(result.predict(new, groups=groups), expected, rtol=1e-8)
    model = FederatedGLM.of(result)
    np.testing.assert_allclose(model.predict(new, groups=groups), expected, rtol=1e-8)
    pd.testing.assert_frame_equal(model.table_, result.table)
    with pytest.raises(
        DataError,
        match=r"ward has 'z' at row 0 \(counted from 0\), but the fit knows only the levels",
    ):
        result.predict(new.assign(ward="z"), groups=groups)
    if groups:
        assert list(result.sites) == SITES
        with pytest.raises(DataError, match="the fit had no site 'z'"):
            result.predict(new, groups=["z"] * len(new))


def test_what_a_federation_returns_answers_as_the_estimator_does(tmp_path, monkeypatch):
    """Tests, contrasts, VIFs and intervals need no row."""
    d, formula = patients("gaussian"), "y ~ age * ward + bmi"
    result = federated(
        tmp_path, RegressionPlan(formula, "gaussian", tol=1e-9), parts(d), monkeypatch
    )
    pooled = FederatedGLM("gaussian", formula, tol=1e-9).fit(d, groups="site")
    smaller = FederatedGLM("gaussian", "y ~ age + bmi", tol=1e-9)
    smaller.fit(d.dropna(subset="ward"), groups="site")
    asked = {
        "test": lambda fit: fit.test(),
        "vif": lambda fit: fit.vif(),
        "contrast": lambda fit: fit.contrast("age - 2 * bmi = 1"),
        "compare": lambda fit: fit.compare(smaller),
        "predict": lambda fit: fit.predict(d.dropna()[::3], interval=0.9),
    }
    for ask in asked.values():
        pd.testing.assert_frame_equal(ask(result), ask(pooled), rtol=1e-6)
    assert list(result.test().index) == ["bmi", "age:ward"]


def test_files_are_made_of_an_estimator_or_a_result(tmp_path):
    fit = FederatedGLM("gaussian", "y ~ age + ward").fit(patients("gaussian"), groups="site")
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.result_.n_rows = 3
    for name, each in {"a": fit, "b": fit.result_}.items():
        export.write(each, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        if path.suffix != ".joblib":
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert report.write(fit, tmp_path / "report.html").exists()
    shown = {f"{f.name}_" for f in dataclasses.fields(fit.result_)} - {"covariance_matrix_"}
    settings = {f"{name}_" for name in fit.get_params()}
    assert {n for n in shown - settings if not hasattr(fit, n)} == {"predictor_"}
    assert not hasattr(fit, "classes_")
