"""A regression over a federation: the table of `FederatedGLM`, whatever gets lost or refused."""

import dataclasses
import json
import re
import shutil
import threading
import time
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from feddcd import FederatedGLM
from feddcd._errors import DataError, SpecError
from feddcd.analysis.plan import RegressionPlan
from feddcd.cli.app import app
from feddcd.federation.config import Config, load_config
from feddcd.federation.coordinator import _tables as regress
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from feddcd.federation.site import missing
from feddcd.federation.site.approval import approve, waiting
from feddcd.federation.site.log import LOG, verify_log
from feddcd.federation.site.policy import LOOSENED
from feddcd.federation.site.told import REFUSED
from feddcd.federation.wire import pack_message, unpack_message
from local_network import LocalNetwork
from slices import sliced, thinned

REST = pytest.mark.chaos

SITES = ["east", "north", "south", "west"]
FORMULA = "y ~ age + C(ward) + age:bmi + offset(0.1 * bmi)"


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(regress, "PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)


def patients(family="binomial", n=400):
    """One ward is at one site only, some values are missing, sites differ in size."""
    rng = np.random.default_rng(3)
    d = pd.DataFrame({"age": rng.normal(5, 1, n), "bmi": rng.normal(2.5, 0.5, n)})
    d["site"] = rng.choice(SITES, n, p=[0.5, 0.25, 0.15, 0.1])
    d["ward"] = rng.choice(["a", "b"], n)
    d.loc[(d.site == "west") & (d.index % 3 == 0), "ward"] = "only west"
    d["w"] = rng.integers(1, 4, n)
    z = 0.5 * d.age - 3 + (d.ward == "b") + 0.1 * d.bmi
    draws = {
        "binomial": (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int),
        "gaussian": z + rng.normal(size=n),
        "poisson": rng.poisson(np.exp(0.5 * z)),
        "multinomial": rng.choice(["none", "some", "much"], n),
        "gamma": np.exp(0.3 * z) * rng.gamma(2.0, 0.5, n),
        "negative_binomial": rng.poisson(np.exp(0.5 * z) * rng.gamma(1.0, 1.0, n)),
        "ordinal": np.array(["none", "some", "much"])[
            np.digitize(z + rng.logistic(size=n), [0, 1])
        ],
    }
    d["y"] = draws[family]
    d.loc[d.index % 50 == 7, "bmi"] = np.nan
    return d


def parts(d):
    return {site: rows.drop(columns="site") for site, rows in d.groupby("site")}


def made(folder, plan, data, **options):
    """Read site by site, unless the plan says otherwise."""
    if isinstance(plan, RegressionPlan) and plan.answers is None:
        plan = dataclasses.replace(plan, answers="each")
    config = Config("test", plan=plan, **{"patience": 5.0, **options})
    return create(folder / "fed", list(data), config, data=data)


def run(home, exchange=None, events=None, **options):
    places = [load_place(home.site(site)) for site in home.invited()]
    events = [] if events is None else events
    exchange = LocalExchange(places, **options) if exchange is None else exchange(places)
    coordinate(exchange, {"folder": str(home.path)}, events.append)
    return pd.read_csv(home.server / "glm" / "coefficients.csv", index_col="name"), events


def policy(home, site, *lines):
    """Loose, but for these lines."""
    held = LOOSENED | tomllib.loads("\n".join(lines))
    (home.site(site) / "policy.toml").write_text(tomli_w.dumps(held | {"complete": True}))


def same(table, model):
    own = model.original_table_
    assert list(table.index) == list(own.index)
    np.testing.assert_allclose(table.to_numpy(), own.to_numpy(), rtol=1e-8, atol=1e-12)


@cache
def without_south(formula):
    """What the other three sites give."""
    d = patients()
    return FederatedGLM("binomial", formula).fit(d[d.site != "south"], groups="site")


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("binomial", {}),
        ("binomial", {"site_effects": "fixed", "covariance": "cluster"}),
        pytest.param("binomial", {"covariance": "cluster", "cluster": "ward"}, marks=REST),
        pytest.param("poisson", {"covariance": "HC3"}, marks=REST),
        pytest.param("gaussian", {"weight": "w", "standardize": True}, marks=REST),
        pytest.param("poisson", {"offset": "bmi", "l2": 0.5}, marks=REST),
        ("multinomial", {"l2": 0.1}),
        pytest.param("binomial", {"link": "cloglog"}, marks=REST),
        ("gamma", {"link": "log", "weight": "w"}),
        pytest.param("gamma", {"link": "inverse"}, marks=REST),
        pytest.param("negative_binomial", {}, marks=REST),
        ("ordinal", {"classes": ["none", "some", "much"], "site_effects": "fixed"}),
    ],
)
def test_the_same_table_as_in_one_process(tmp_path, family, options):
    d = patients(family)
    formula = FORMULA.replace(" + offset(0.1 * bmi)", "") if family == "multinomial" else FORMULA
    table, events = run(made(tmp_path, RegressionPlan(formula, family, **options), parts(d)))
    extra = {"sample_weight": options.pop("weight", None), "offset": options.pop("offset", None)}
    extra["cluster"] = options.pop("cluster", None)
    model = FederatedGLM(family, formula, **options).fit(d, groups="site", **extra)
    same(table, model)
    end = events[-1]
    assert (end["event"], end["committed"]) == ("finished", model.n_exchanges_)
    assert end["messages"]["task"] == 4 * (1 + model.n_exchanges_)  # the first is for the columns
    told = json.loads((tmp_path / "fed" / "server" / "glm" / "model.json").read_text())
    assert f"{d.bmi.isna().sum()}" in (tmp_path / "fed/server/glm/summary.txt").read_text()
    assert told["family"] == family


def test_a_site_may_keep_what_its_rows_alone_would_give(tmp_path):
    """Its policy lets sums leave, but no model; rows, events and rows left out are told."""
    d = patients("poisson")
    home = made(tmp_path, RegressionPlan("y ~ age + bmi", "poisson"), parts(d))
    policy(home, "north", 'kinds = ["columns", "moments", "hessian"]')
    run(home)
    told = json.loads((home.server / "glm" / "model.json").read_text())["site_counts"]
    whole = d.dropna()
    for site in SITES:
        own, missing = whole[whole.site == site], d[d.site == site].bmi.isna().sum()
        assert told[site] == {
            "rows": len(own), "events": own.y.sum(), "missing": missing,
            "estimate": "not told" if site == "north" else "own fit",
        }  # fmt: skip


def test_years_and_their_squares_over_a_federation(tmp_path):
    d = patients("gaussian").assign(year=lambda d: 2000 + d.index % 11)
    formula = "y ~ year + I(year**2) + age"
    table, _ = run(made(tmp_path, RegressionPlan(formula, "gaussian"), parts(d)))
    same(table, FederatedGLM("gaussian", formula).fit(d, groups="site"))


@pytest.mark.parametrize("seed", sliced([0, 1], {0}))
def test_lost_messages_change_nothing(tmp_path, seed):
    d = patients()
    table, _ = run(made(tmp_path, RegressionPlan(FORMULA, tol=1e-6), parts(d)), loss=0.2, seed=seed)
    model = FederatedGLM("binomial", FORMULA, tol=1e-9).fit(d, groups="site")
    np.testing.assert_allclose(table["coef"], model.table_["coef"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("line", "said"),
    thinned(
        [
            ("min_rows = 1000", f"south: {REFUSED}"),
            ('columns = ["age", "y"]', "south: its policy does not allow the columns 'bmi', 'w'"),
            pytest.param("min_per_level = 30", f"south: {REFUSED}", marks=REST),
            ('methods = ["fedavg"]', "does not allow the method 'newton'"),
            pytest.param(
                'kinds = ["columns"]', "does not allow answers of the kind 'moments'", marks=REST
            ),
            ('kinds = ["columns", "moments"]', "does not allow answers of the kind 'hessian'"),
            pytest.param("min_per_class = 30", f"south: {REFUSED}", marks=REST),
            pytest.param("max_parameters_per_row = 0.01", f"south: {REFUSED}", marks=REST),
            (
                "answers = 'sum'",
                "does not allow answers of this site alone; others may read only sums over sites",
            ),
            ("min_sites = 5", "does not allow a sum over only 4 sites"),
            (
                "min_rows = 'many'",
                "south: this site cannot use its policy, so it sends nothing; the file "
                "site.log at the site",
            ),
        ],
        2,
    ),
)
def test_a_site_refuses_by_its_policy_and_the_others_go_on(tmp_path, line, said, monkeypatch):
    monkeypatch.setattr(missing, "LOOK_S", 0.0)  # for which it reads a file with a mistake again
    d = patients()
    formula = "y ~ age + bmi + C(ward)" if "level" in line else "y ~ age + bmi + w"
    home = made(tmp_path, RegressionPlan(formula), parts(d))
    policy(home, "south", line)
    table, events = run(home)
    (reason,) = [event["reason"] for event in events if event["event"] == "refused"]
    assert said in reason
    assert events[-1]["refused"] == ["south"]
    same(table, without_south(formula))
    shown = CliRunner().invoke(app, ["federation", "inspect", str(home.path)])
    assert "refused: south" in shown.output.replace("\n", " ")
    log = (home.site("south") / "outgoing.jsonl").read_text() if "'many'" not in line else "refused"
    assert "refused" in log
    for site in ("east", "north", "west"):
        assert verify_log(home.site(site)).lines >= 3


def test_bins_of_few_rows_stay_at_the_site(tmp_path):
    d = patients()
    home = made(tmp_path, RegressionPlan("y ~ age + bmi"), parts(d))
    for site in SITES:
        policy(home, site, "min_per_level = 8")
    heard = []

    def keep(places):
        network = LocalNetwork(places)
        heard.append(network.heard)
        return network

    run(home, keep)
    cells = [unpack_message(data).arrays.get("bins") for _, data in heard[0]]
    weights = np.concatenate([bins[0] for bins in cells if bins is not None])
    assert ((weights == 0) | (weights >= 8)).all()
    assert weights.max() >= 8


def test_an_answer_waits_for_its_administrator(tmp_path):
    d = patients()
    home = made(tmp_path, RegressionPlan("y ~ age + bmi"), parts(d), patience=60.0)
    policy(home, "south", "ask_before_sending = true", 'kinds = ["columns", "moments", "hessian"]')
    done, approved, events = threading.Event(), [], []

    def administrator():
        while not done.is_set():
            for id in set(waiting(home.site("south"))) - set(approved):  # a list may be old
                approve(home.site("south"), id)
                approved.append(id)
            time.sleep(0.01)

    thread = threading.Thread(target=administrator)
    thread.start()
    try:
        table, _ = run(home, events=events)
    finally:
        done.set()
        thread.join()
    model = FederatedGLM("binomial", "y ~ age + bmi").fit(d, groups="site")
    same(table, model)
    assert len(approved) == 1 + model.n_exchanges_
    assert any("waits for approval" in e["reason"] for e in events if e["event"] == "waiting")


def test_a_person_is_shown_what_leaves_and_may_say_no(tmp_path):
    home = made(tmp_path, RegressionPlan("y ~ age + bmi"), parts(patients()))
    seen = []

    def ask(text):
        seen.append(text)
        if "neither yes nor no" in text:
            return "y"
        return "no" if "'hessian'" in text else "yep" if len(seen) == 1 else "yes"

    with pytest.raises(DataError, match="needs 2 sites with columns"):
        run(home, ask=ask)
    site = seen[0].partition(":")[0].removeprefix("At the site ")
    assert site in ("east", "north", "south", "west"), seen[0]
    assert f"May this answer leave the site {site}? Write yes or no (y or n is enough): " in seen[0]
    assert seen[1].startswith("'yep' is neither yes nor no. May this answer leave the site ")
    assert sum("neither" in text for text in seen) == 1
    assert any("levels" in text or "rows: " in text for text in seen)


@pytest.mark.parametrize(
    ("change", "said"),
    thinned(
        [
            (lambda d: d.drop(columns="bmi"), "south: there is no column 'bmi', which the formula"),
            (lambda d: d.assign(ward=1.5), "the site's column 'ward' has a level that the plan"),
            (
                lambda d: d.assign(y=2),
                "south: this site cannot use its data; the file site.log at the site says why",
            ),
            (
                lambda d: d.assign(age="old"),
                (
                    "south: the site's column 'age' contains categories, but most sites have "
                    "numbers in this column"
                ),
            ),
            (
                lambda d: d.assign(ward="z"),
                "south: the site's column 'ward' has a level that the plan does not list",
            ),
        ],
        2,
    ),
)
def test_a_site_that_does_not_fit_is_refused_by_name(tmp_path, change, said):
    d = patients()
    data = parts(d)
    data["south"] = change(data["south"])
    plan = RegressionPlan("y ~ age + bmi + ward", levels={"ward": ["a", "b", "only west"]})
    home = made(tmp_path, plan, data)
    table, events = run(home)
    reasons = [event["reason"] for event in events if event["event"] == "refused"]
    assert any(said in reason for reason in reasons), reasons
    assert "south" in events[-1]["refused"]
    same(table, without_south("y ~ age + bmi + ward"))


@pytest.mark.parametrize(
    ("name", "change"),
    thinned(
        [
            ("g", lambda x: x * np.nan),
            ("H", lambda x: x[:-1]),
            pytest.param("value", lambda x: x.astype(np.float32), marks=REST),
            pytest.param("g", lambda x: x + np.inf, marks=REST),
            ("surprise", lambda x: x),
        ],
        2,
    ),
)
def test_a_damaged_answer_is_refused(tmp_path, name, change):
    d = patients()
    home = made(tmp_path, RegressionPlan("y ~ age + bmi"), parts(d))

    def tamper(site, kind, data):
        said = unpack_message(data)
        if site != "south" or said.kind != "sums":
            return data
        arrays = said.arrays
        arrays[name] = change(arrays.get(name, np.zeros(2)))
        return pack_message(said._replace(arrays=arrays))

    table, events = run(home, lambda places: LocalNetwork(places, tamper=tamper))
    (reason,) = [event["reason"] for event in events if event["event"] == "refused"]
    assert reason.startswith("south: the coordinator cannot use the answer of this site: ")
    same(table, without_south("y ~ age + bmi"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("glm = 3", "glm: the settings must be a table"),
        ("[glm]\nfamily = 'binomial'", "glm: the formula is missing"),
        ("[glm]\nformula = 'y ~ x'\nfamly = 'poisson'", "unknown setting 'famly'; did you mean"),
        ("[glm]\nformula = 'y'", "a formula must have the form 'y ~ x1 + x2'"),
        ("[glm]\nformula = 'y ~ x'\ntol = 0", "must be a finite number > 0; got tol"),
        (
            "[glm]\nformula = 'y ~ x'\nlevels = 3",
            "'levels' must have a list of levels for each column",
        ),
        (
            "[glm]\nformula = 'y ~ x'\nweight = 3",
            "the setting 'weight' must be the name of a column",
        ),
    ],
)
def test_settings_are_checked(tmp_path, values, said):
    path = tmp_path / "federation.toml"
    path.write_text("name = 'x'\n" + values)
    with pytest.raises(SpecError) as caught:
        load_config(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("formula", "options"),
    thinned(
        [
            ("y ~ age + C(ward, Treatment('only west'))", {}),  # at one site
            ("word ~ age + bmi", {"event": "alive"}),
            pytest.param("word ~ age + bmi", {}, marks=REST),
            ("y ~ age + ward * late", {}),  # no row of the ward that is only west is late
            ("y ~ . - w - word - rest - `body mass`", {}),
            pytest.param("y ~ `body mass` + I(age^2) + cut(age, c(-Inf, 5, Inf))", {}, marks=REST),
            ("cbind(w, rest) ~ age", {}),
        ],
        2,
    ),
)
def test_formulas_over_a_federation(tmp_path, formula, options):
    d = patients()
    d["late"] = (d.index % 2 == 0) & (d.ward != "only west")
    d = d.assign(word=np.where(d.y == 1, "dead", "alive"), rest=5 - d.w, **{"body mass": d.bmi})
    data = parts(d)
    data["west"] = data["west"].assign(own=1.0)  # no other site has it
    home = made(tmp_path, RegressionPlan(formula, **options), data)
    table, events = run(home)
    assert events[-1]["refused"] == []
    model = FederatedGLM("binomial", formula, **options).fit(d, groups="site")
    same(table, model)
    told = json.loads((tmp_path / "fed" / "server" / "glm" / "model.json").read_text())
    assert told["event"] == (options.get("event", "dead") if formula[0] == "w" else None)
    left_out = [e["columns"] for e in events if e["event"] == "left out"]
    assert left_out == ([["ward[T.only west]:late[T.True]"]] if "late" in formula else [])


def test_what_one_site_cannot_compute_alone_is_refused():
    with pytest.raises(
        ValueError,
        match=(
            r"formula: scale\(x\) needs all rows at once, but a site has only its own rows, "
            r"at 'scale' \(character 5\) in the formula 'y ~ scale\(x\)'. Write "
            r"I\(\(x - 50\) / 10\) with numbers that all sites agree on, or write only the name of "
            r"the column and set standardize=True"
        ),
    ):
        FederatedGLM("gaussian", "y ~ scale(x)").fit(
            pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [1.0, 2, 2, 5], "g": [0, 0, 1, 1]}), groups="g"
        )


def test_separation_over_a_federation_is_said(tmp_path):
    d = patients().assign(y=lambda d: (d.age > 5).astype(int))
    home, events = made(tmp_path, RegressionPlan("y ~ age"), parts(d)), []
    with pytest.raises(DataError, match="separation: age predicts some outcomes perfectly"):
        run(home, events=events)
    assert events[-1]["event"] == "failed"


def test_from_one_file_to_a_federation_by_commands(tmp_path):
    """The plan that `feddcd glm` writes is the federation's, and its table the same: of masked
    sums, with a proof."""
    d = patients().replace({"ward": {"only west": "a"}})  # one site's column is not summed
    d.to_csv("patients.csv", index=False)
    do = lambda *words: CliRunner().invoke(app, words, catch_exceptions=False)
    planned = do("glm", "patients.csv", "--formula", FORMULA, "--group", "site", "--out", "plan")
    assert planned.exit_code == 0, planned.output
    job = ["--job", "plan/job.toml", "--data", "patients.csv", "--group", "site"]
    assert do("federation", "init", "fed", *job).exit_code == 0
    done = do("federation", "simulate", "fed")
    assert done.exit_code == 0, done.output
    assert "Federated generalised linear model" in done.output
    read = lambda path: pd.read_csv(path, index_col="name")
    ours, theirs = read("fed/server/glm/coefficients.csv"), read("plan/coefficients.csv")
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    said = do("federation", "outgoing", "fed/sites/west", "--verify")
    assert "lines. Each line has the right digest of the line before it" in said.output
    noted = said.output.split()[-1]
    said = do("federation", "outgoing", "fed/sites/west", "--verify", noted)
    assert (said.exit_code, "nobody has changed the log" in said.output) == (0, True)
    said = do("federation", "outgoing", "fed/sites/west", "--verify", "0" * 64)
    assert (said.exit_code, said.output.partition(":")[0]) == (1, "NOT COMPLETE")
    log = Path("fed/sites/west") / LOG
    lines = log.read_bytes()
    log.write_bytes(lines.replace(b"2", b"3", 1))
    said = do("federation", "outgoing", "fed/sites/west", "--verify")
    assert (said.exit_code, said.output.partition(":")[0]) == (1, "NOT COMPLETE")
    log.write_bytes(lines)
    assert "no table yet" not in do("federation", "inspect", "fed").output
    words = do("federation", "roster", "fed").output
    assert words.count(": signed") == 4
    for proof in ("fed", "fed/server/proof"):
        said = do("federation", "verify", proof).output
        signed = "signed the roster, a nonce (a random number) for this job, and 5 masked answers"
        assert f"west: {signed}" in " ".join(said.split())
        assert "the table and its certificate are right" in " ".join(said.split())
        assert re.search(r"Exchanges: +4\b", said)
        assert "4 exchanges for the table and 1 exchange for the counts" in said
        ask = "compare these words by phone with a person at each site"
        assert (ask in " ".join(said.split())) == (proof != "fed"), (
            "in a trial there is nobody to call"
        )
    (name,) = re.findall(r"^job (\w{8}) of feddcd", said, re.MULTILINE)
    assert f"job {name} of" in do("federation", "verify", "fed", name).output
    log = do("federation", "outgoing", "fed/sites/west", name).output
    assert log.count(f"answer 4 of job {name}") == log.count(f"the counts of job {name}") == 1
    shutil.copytree("fed/server/glm", "copied/glm")  # a copy of a study, wherever it lies
    shutil.copy("fed/server/proof", "copied/proof")
    assert "these files follow from the proof: " in do("federation", "verify", "copied").output
    for place in ("fed/server", "copied"):
        Path(place, "glm/coefficients.csv").write_text(theirs.mul(1.001).to_csv())
    for place in ("fed", "copied"):
        judged = do("federation", "verify", place)
        assert judged.exit_code == 1
        assert "disagrees with the proof" in judged.output
    with pytest.raises(SpecError, match="there is no proof at plan/proof"):
        do("federation", "verify", "plan")
    with pytest.raises(
        SpecError, match=r"'plan' is a folder; give the job file in it: plan/job.toml"
    ):
        do("federation", "simulate", "fed", "--job", "plan")
    init = ("federation", "init", "new", "--data", "patients.csv", "--group", "site")
    with pytest.raises(
        SpecError, match=r"'plan' is a folder; give the job file in it: plan/job.toml"
    ):
        do(*init, "--job", "plan")
    do(*init, "--job", "plan/job.toml")
    first = "this study did not run yet. To run it: feddcd federation simulate new"
    with pytest.raises(SpecError, match=first):
        do("federation", "verify", "new")


def test_a_site_retires_from_the_next_table(tmp_path):
    d = patients()
    home = made(tmp_path, RegressionPlan("y ~ age + bmi"), parts(d))
    do = lambda *words: CliRunner().invoke(app, ["federation", *words])
    assert "south is not in the next table" in do("retire", str(home.path), "south").output
    assert isinstance(do("retire", str(home.path), "south").exception, SpecError)
    table, _ = run(home)
    same(table, without_south("y ~ age + bmi"))
    assert not home.ledger.exists()
    assert "there is no proof" in str(do("verify", str(home.path)).exception)
    assert do("join", str(home.path), "south").exit_code == 0
    table, _ = run(home)
    same(table, FederatedGLM("binomial", "y ~ age + bmi").fit(d, groups="site"))


def test_too_few_rows_over_a_federation_are_said(tmp_path):
    d = patients("gaussian", n=12).assign(site=["east", "north"] * 6).dropna().iloc[:4]
    home = made(tmp_path, RegressionPlan("y ~ age + bmi + w", "gaussian"), parts(d))
    with pytest.raises(DataError, match="4 coefficients needs more than 4 rows, got 4"):
        run(home)


@pytest.mark.parametrize("other", ["north ", "North"])
def test_a_level_that_sites_write_in_two_ways_is_told(tmp_path, other):
    """It became two levels of a table that was called proven."""
    d = patients()
    d["arm"] = np.where(np.arange(len(d)) % 2, "north", "south")
    held = parts(d)
    site = next(iter(held))
    held[site] = held[site].assign(arm=held[site].arm.replace("north", other))
    home = made(tmp_path, RegressionPlan("y ~ age + arm"), held)
    with pytest.raises(DataError, match="write one level of the column 'arm' in two ways"):
        run(home)


def test_both_spellings_are_told_with_the_sites_that_have_them(tmp_path):
    """The first site alone was named, although each had both."""
    d = patients()
    d["arm"] = np.resize(["north", "North", "south"], len(d))
    held = parts(d)
    home = made(tmp_path, RegressionPlan("y ~ age + arm"), held)
    first, *others = map(repr, sorted(held))
    each = f"the sites {', '.join([first, *others[:-1]])} and {others[-1]}"
    with pytest.raises(DataError, match=f"'North' at {each}; 'north' at {each}"):
        run(home)


def classed(n=60, odd=None):
    """Sites p and q with an outcome w of words, one row of p being odd."""
    rng = np.random.default_rng(4)
    d = pd.DataFrame({"x": rng.normal(size=2 * n), "w": np.resize(["a", "b", "c"], 2 * n)})
    d["site"] = np.repeat(["p", "q"], n)
    if odd is not None:
        d.loc[0, "w"] = odd
    return d


def told_of(home):
    """All that reached the coordinator, what p logged as sent, and p's own log."""
    heard = []

    def listen(site, kind, data):
        heard.append(data)
        return data

    with pytest.raises(DataError, match="needs 2 sites with columns") as error:
        run(home, lambda places: LocalNetwork(places, tamper=listen))
    sent, noted = (list(home.site("p").glob(name)) for name in ("outgoing.jsonl", "site.log"))
    log, own = ("".join(path.read_text() for path in paths) for paths in (sent, noted))
    events = [str(event) for _, event in home.read_events()]
    return "\n".join([str(error.value), *events, *map(repr, heard)]), log, own


@pytest.mark.parametrize("options", [{}, {"family": "multinomial"}])
def test_a_class_of_few_rows_does_not_leave_with_the_names(tmp_path, options):
    d = classed(odd="RARE777")
    if not options:  # two words: one of one row
        d = d[(d.site == "q") & (d.w != "c") | d.w.isin(["a", "RARE777"])]
    home = made(tmp_path, RegressionPlan("w ~ x", **options), parts(d))
    policy(home, "p", "min_per_class = 5")
    told, log, _ = told_of(home)
    assert f"p: {REFUSED}" in told
    assert "a class with fewer than 5 rows" in log
    assert "fewer than 5" not in told
    assert "RARE777" not in told + log


def test_classes_that_leave_are_logged_and_shown(tmp_path):
    home = made(tmp_path, RegressionPlan("w ~ x", "multinomial"), parts(classed()))
    seen = []
    run(home, ask=lambda text: seen.append(text) or "yes")
    first = json.loads((home.site("p") / "outgoing.jsonl").read_text().splitlines()[0])
    assert first["kind"] == "columns"
    assert first["classes"] == ["a", "b", "c"]
    assert "not sent" not in first
    assert "rows by classes: 'a': 20, 'b': 20, 'c': 20" in seen[0]


@pytest.mark.parametrize(
    ("options", "odd", "said"),
    [
        (
            {"family": "multinomial", "classes": ["a", "b", "c"]},
            "RARE777",
            "p: the site's outcome 'w' has a class that the plan does not list",
        ),
        (
            {"levels": {"w": ["a", "b"]}},
            "RARE777",
            "p: the site's outcome 'w' has a class that the plan does not list",
        ),
        (
            {},
            "RARE777",
            "p: the site's outcome 'w' has more than two values, but family binomial needs "
            "exactly two",
        ),
    ],
)
def test_a_class_that_does_not_fit_is_told_without_its_name(tmp_path, options, odd, said):
    d = classed(odd=odd)
    if "classes" not in options:
        d = d[d.w != "c"]
    told, log, noted = told_of(made(tmp_path, RegressionPlan("w ~ x", **options), parts(d)))
    assert said in told
    assert "RARE777" not in told + log
    assert "RARE777" in noted


def test_declared_classes_leave_as_declared(tmp_path):
    """Which of them a site has is not told."""
    d = classed()
    d = d[(d.site == "q") | (d.w != "c")]
    plan = RegressionPlan("w ~ x", "multinomial", classes=["c", "a", "b"], l2=0.1)
    heard = []

    def listen(site, kind, data):
        heard.append(unpack_message(data))
        return data

    run(made(tmp_path, plan, parts(d)), lambda places: LocalNetwork(places, tamper=listen))
    offers = [said.meta["classes"] for said in heard if said.kind == "columns"]
    assert offers == [["c", "a", "b"]] * 2


@pytest.mark.parametrize(
    ("formula", "family", "what"),
    [("w ~ C(x)", "multinomial", "column 'x'"), ("x ~ n", "multinomial", "outcome 'x'")],
)
def test_a_column_of_too_many_levels_stays_at_the_site(tmp_path, formula, family, what):
    d = classed(1001)
    d = d.assign(x=d.x.astype(str) if "C(" not in formula else d.x, n=d.index % 7)
    told, log, _ = told_of(made(tmp_path, RegressionPlan(formula, family), parts(d)))
    assert f"p: the site's {what} has more than 1,000 different values" in told
    for value in map(str, d.x[:20]):
        assert value[:12] not in told + log


def test_a_site_that_gets_another_name_is_told(tmp_path):
    job, do = Path("job.toml"), lambda *words: CliRunner().invoke(app, words)
    job.write_text("[glm]\nformula = 'y ~ age'\n")
    d = patients().replace({"site": {"south": "Süd 1"}})
    d.to_csv("d.csv", index=False)
    init = ["--job", str(job), "--data", "d.csv", "--group", "site"]
    done = do("federation", "init", "fed", *init)
    assert "the site 'Süd 1' gets the name 'Sued-1'" in done.output
    assert done.output.count("gets the name") == 1
    for other in ("Sued 1", "sueD-1"):
        d.replace({"site": {"west": other}}).to_csv("d.csv", index=False)
        failed = do("federation", "init", "fed2", *init)
        told = str(failed.exception)
        assert "two values of the column 'site'" in told
        assert "'Süd 1'" in told
        assert repr(other) in told
    with pytest.raises(SpecError, match="differ only by small and capital letters: 'A' and 'a'"):
        create(tmp_path / "fed3", ["A", "a"], Config("test"))
