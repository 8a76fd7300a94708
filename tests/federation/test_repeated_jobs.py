"""A job that is run again without a site, or without a row: what both jobs reveal together, and who
is told before it."""

import dataclasses
import json
import types
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from disks import in_memory
from feddcd import _files as files
from feddcd._errors import DataError, SpecError, Stalled
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.plan import RegressionPlan
from feddcd.cli import _studies
from feddcd.cli._members import depart_command
from feddcd.cli._status import status_of
from feddcd.cli.app import app
from feddcd.federation import _next_step
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import load_place
from feddcd.federation.machine import serving
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import note_state, state_of, want
from feddcd.federation.site._sets import if_denied
from feddcd.federation.site.approval import approve, deny, waiting, words_of
from feddcd.federation.site.memory import Memory
from feddcd.sums.proof import JobProof
from local_network import LocalNetwork, events

SITES = ("east", "north", "south", "west")
OTHERS = SITES[:3]
PLAN = RegressionPlan("y ~ age", "gaussian")
OTHER = "patience = 0.05\n[glm]\nformula = 'y ~ I(age^2)'\nfamily = 'gaussian'\n"
CAREFUL = 'approve = "{}"\ncomplete = true\n'


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(files, "_flush", lambda handle: None)


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def rows_of(site):
    rng = np.random.default_rng(SITES.index(site))
    d = pd.DataFrame({"age": rng.normal(60, 10, 80).round(1)})
    return d.assign(y=(0.1 * d.age + rng.normal(size=80)).round(2))


def made(folder, plan=PLAN, approval="", sites=SITES):
    config = Config("test", plan=plan, patience=0.05, fewest=3)
    home = create(folder / "fed", list(sites), config, data={s: rows_of(s) for s in sites})
    for site in sites if approval else ():
        (home.site(site) / "policy.toml").write_text(CAREFUL.format(approval))
    return home


def run(home):
    network = LocalNetwork([load_place(home.site(site)) for site in home.invited()])
    coordinate(network, {"folder": str(home.path), "study": home.study}, lambda event: None)


def again(home, plan=PLAN, more="", fewest=3, name="again"):
    """A study with this plan."""
    text = dataclasses.replace(home.config(), plan=plan).to_toml()
    part = text[text.index("\n[") :]
    return want(home, name, f"patience = 0.05\nfewest = {fewest}\n{more}{part}")


def refuse(home, site="west"):
    (home.site(site) / "policy.toml").write_text("columns = ['y']\ncomplete = true\n")


@pytest.mark.parametrize(
    "plan", [PLAN, DescribePlan(["age"], quantiles="none")], ids=["glm", "describe"]
)
@pytest.mark.parametrize("how", ["refuses", "retired"])
def test_a_finished_job_is_not_repeated_without_a_site_by_itself(tmp_path, plan, how):
    home = made(tmp_path, plan)
    run(home)
    home.key("west").unlink() if how == "retired" else refuse(home)
    closer = dataclasses.replace(plan, tol=1e-9) if plan is PLAN else plan
    study = again(home, closer)
    with pytest.raises(DataError) as found:
        run(study)
    said = str(found.value)
    told = (
        "study 'federation' already made a table with the same plan, and the site 'west' took part."
    )
    assert said.startswith(f"there is no new table: {told}")
    assert "could calculate the sums of the site 'west' alone" in said
    assert ("Refused: west" in said) == (how == "refuses")
    path = study.results / "study.toml"
    todo = (
        "If the site 'west' agreed to reveal its sums, write repeat_without = true at the top of "
    )
    assert f"{todo}{path}. In this file, feddcd keeps the job of this study. Then" in said
    command = f"feddcd federation simulate {home.path} --job {path} --study again"
    assert said.endswith(f"Then give this command: {command}")
    assert not events(study, "exchange")
    assert not list((study.results / "jobs").glob("*/0000*")), "nobody was asked for a number"
    study.save(study.results / "study.toml", again_text(study).encode())
    run(study)
    [ended] = events(study, "finished")
    assert ended["sites"] == list(OTHERS)


def test_who_retires_a_site_reads_which_tables_not_to_make_again(tmp_path, capsys):
    home = made(tmp_path)
    run(home)
    depart_command(home.path, ["west"], barred=False)
    west = "the site 'west'"
    told = f"study 'federation' made a table with {west}. Do not make this table again without "
    assert (
        f"{told}{west}: both tables together reveal the sums of {west} alone"
        in capsys.readouterr().out
    )
    depart_command(made(tmp_path / "new").path, ["west"], barred=False)
    assert "table again" not in capsys.readouterr().out


def again_text(study):
    return "repeat_without = true\n" + (study.results / "study.toml").read_text()


def test_what_the_coordinator_knows_is_said_before_people_decide(tmp_path, monkeypatch):
    """And the next step is a command that works as it is."""
    home = made(tmp_path, approval="none")
    run(home)
    home.key("west").unlink()
    for site in OTHERS:
        (home.site(site) / "policy.toml").write_text(CAREFUL.format("job"))
    study, asked = again(home, more="purpose = 'why?'\n"), []
    network = LocalNetwork([load_place(home.site(site)) for site in OTHERS])
    monkeypatch.setattr(network, "ask", lambda *given: asked.append(given) or iter(()))
    with pytest.raises(DataError, match="study 'federation' already made a table with the same"):
        coordinate(network, {"folder": str(home.path), "study": "again"}, lambda event: None)
    assert not any(work for _, _, work, _ in asked), "sites hear of the end alone"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_next_step, "is_trial", lambda folder: False)
    monkeypatch.setattr("feddcd.federation.status.trial_of", lambda folder: None)
    monkeypatch.setattr("feddcd.federation.status.is_up", lambda folder: True)
    here = {site: {"online": True} for site in OTHERS}
    monkeypatch.setattr("feddcd.federation.status.connected", lambda folder: here)
    note_state(study, "failed", reason="there is no table")
    told = status_of(home.path)["next"]
    read = "read in the line 'study again' why study 'again' ended without a result. "
    assert told.startswith(f"{read}If the site 'west' agreed to ")
    kept = ". In this file, feddcd keeps the job of "
    file, command = told.partition("at the top of ")[2].split(kept)
    command = command.partition("Then give this command: ")[2]
    assert command == "feddcd federation study fed again --job fed/studies/again/study.toml"
    Path(file).write_text("repeat_without = true\n" + Path(file).read_text())
    monkeypatch.setattr(_studies, "is_up", lambda folder: False)
    done = CliRunner().invoke(app, command.split()[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert state_of(study)["state"] == "wanted"
    assert (study.config().repeat_without, study.config().purpose) == (True, "why?")
    note_state(study, "failed", reason="there is no table")
    told = status_of(home.path)["next"]
    change = "agreed to reveal its sums, change repeat_without to true in fed/studies"
    assert f"If the site 'west' {change}" in told


def test_too_few_sites_are_said_before_anybody_is_asked(tmp_path, monkeypatch):
    home = made(tmp_path, approval="none")
    run(home)
    for site in ("west", "south"):
        home.key(site).unlink()
    study, asked = again(home, RegressionPlan("age ~ y", "gaussian")), []
    network = LocalNetwork([])
    monkeypatch.setattr(network, "ask", lambda *given: asked.append(given) or iter(()))
    with pytest.raises(DataError, match="needs at least 3 sites, and only east and north can"):
        coordinate(network, {"folder": str(home.path), "study": "again"}, lambda event: None)
    assert not any(work for _, _, work, _ in asked)
    assert not events(study, "here"), "it does not wait for anybody"


def test_a_finished_study_stays_as_it_is(tmp_path, monkeypatch):
    """It names its result; also where an earlier version noted its state as failed."""
    monkeypatch.chdir(tmp_path)
    home = made(tmp_path)
    run(study := again(home))
    note_state(study, "done")
    kept = {path: path.read_bytes() for path in study.results.rglob("*") if path.is_file()}
    job = study.results / "study.toml"
    for state in ("done", "failed"):
        note_state(study, state, reason="it was asked for once more")
        for more in ([], ["--job", str(job)], ["--purpose", "another one"]):
            given = ["federation", "study", "fed", "again", *more]
            error = CliRunner().invoke(app, given).exception
            assert isinstance(error, SpecError)
            assert str(error) == (
                "study 'again' is finished, so it does not start again. Its result is in "
                "fed/studies/again/glm. For a new table, choose another name: feddcd federation "
                "study fed OTHER_NAME --job FILE"
            )
        assert state_of(study)["state"] == state
    note_state(study, "wanted")  # its state was lost, and `serve` looks for studies

    def to_the_end(self):
        raise AssertionError("nobody is asked")

    monkeypatch.setattr(serving.Supervisor, "to_the_end", to_the_end)
    group = types.SimpleNamespace(stop=lambda name: None)
    serving._run(study, group, lambda event: None)  # pyright: ignore
    assert state_of(study)["state"] == "done"
    (study.results / "state.json").unlink()
    for path, data in kept.items():
        assert path.name == "state.json" or path.read_bytes() == data, path
    refuse(home)
    note_state(study, "done")
    with pytest.raises(SpecError, match="study 'again' is finished"):  # it gets its own study
        again(home, more="repeat_without = true\n")


def test_another_plan_and_more_sites_are_not_held_up(tmp_path):
    home = made(tmp_path)
    refuse(home)
    run(home)
    (home.site("west") / "policy.toml").write_text((home.site("east") / "policy.toml").read_text())
    run(study := again(home))
    assert events(study, "finished")[0]["sites"] == list(SITES)
    refuse(home)
    run(third := want(home, "third", OTHER))
    assert events(third, "finished")[0]["sites"] == list(OTHERS)


def test_the_sums_of_two_jobs_are_those_of_the_site_between_them(tmp_path):
    """What the warnings say is so: any other site has these sums, in its own folder."""
    home = made(tmp_path)
    run(home)
    refuse(home)
    run(study := again(home, more="repeat_without = true\n"))
    one, two = (JobProof.read(each.results / "proof") for each in (home, study))
    alone = one.sums(0)["n"] - two.sums(0)["n"]
    assert alone == len(rows_of("west"))
    name = next(name for name in one.sums(1) if name.endswith("x") and one.sums(1)[name].ndim == 1)
    kept = [list(home.site(site).glob("jobs/*/0001.sums")) for site in ("east", "west")]
    assert [len(each) for each in kept] == [2, 1]
    told = np.ravel(one.sums(1)[name] - two.sums(1)[name])
    assert np.isclose(told, rows_of("west").age.sum()).any()


def test_two_tables_of_a_linear_model_reveal_the_row_that_differs(tmp_path):
    """Without the sums of the jobs: their files say the sums again."""
    home = made(tmp_path, approval="none")
    place = load_place(home.site("north"))
    run(home)
    one = sums_in(home)
    gone = rows_of("north").iloc[7]
    rows_of("north").drop(index=[7]).to_csv(place.data, index=False)
    Memory(place.folder, place.data).retire()
    study = again(home, RegressionPlan("y ~ age", "gaussian", max_exchanges=40))
    for _ in range(3):  # two approvals at this site, and one at each other
        with suppress(Stalled):
            run(study)
        for site, id in [(s, id) for s in SITES for id in waiting(home.site(s))]:
            approve(home.site(site), id)
    assert np.allclose(one - sums_in(study), [1, gone.age, gone.y], rtol=0, atol=1e-6)


def sums_in(home):
    """Rows, and the sums of age and y, from the numbers of a table."""
    table = json.loads((home.results / "glm" / "model.json").read_text())
    products = table["dispersion"] * np.linalg.inv(table["covariance"])
    return np.array([*products[0], products[0] @ table["coefficients"]])


def test_people_read_what_both_jobs_reveal_of_a_site(tmp_path):
    home = made(tmp_path, approval="none")
    run(home)
    refuse(home)
    study = again(home, more="repeat_without = true\n")
    with pytest.raises(Stalled):
        run(study)
    for site in OTHERS:
        (id,) = waiting(home.site(site))
        words = "\n".join(words_of(home.site(site), id))
        assert (
            "NOTE: an earlier job used the same rows with another list of sites: the site 'west' "
            "is in only one of the two jobs.\n"
            "    The coordinator and everyone at the sites that take part in both jobs can "
            "calculate the sums of the site 'west' alone: they subtract the sums of the two jobs.\n"
            "    Deny this job, unless the site 'west' agreed to reveal this."
        ) in words
        assert "if you deny, there is a risk" not in words, "that is what this site should do"


@pytest.mark.parametrize("formula", ["y ~ age", "age ~ y"])
def test_a_site_that_joins_after_a_job_without_it_is_named_to_the_others(tmp_path, formula):
    """The other order reveals the same. Only those of the first job can know; this site cannot."""
    home = made(tmp_path, approval="none")
    refuse(home)
    run(home)
    (home.site("west") / "policy.toml").write_text(CAREFUL.format("job"))
    with pytest.raises(Stalled):
        run(again(home, RegressionPlan(formula, "gaussian"), fewest=4))
    for site in OTHERS:
        (id,) = waiting(home.site(site))
        words = "\n".join(words_of(home.site(site), id))
        assert "the site 'west' is in only one of the two jobs" in words
        assert "can calculate the sums of the site 'west' alone" in words
        assert "Deny this job, unless the site 'west' agreed to reveal this" in words
    (id,) = waiting(home.site("west"))
    assert "an earlier job" not in "\n".join(words_of(home.site("west"), id))


def test_a_job_that_nobody_answered_reveals_no_sums(tmp_path):
    """A site denies the first job of all: the others hear that nothing left for it."""
    home = made(tmp_path, approval="none")
    (home.site("west") / "policy.toml").write_text(CAREFUL.format("job"))
    with pytest.raises(Stalled):
        run(home)
    (id,) = waiting(home.site("west"))
    assert "if you deny, there is a risk" not in "\n".join(words_of(home.site("west"), id))
    deny(home.site("west"), id)
    with pytest.raises(Stalled):
        run(home)
    (id,) = waiting(home.site("east"))
    words = "\n".join(words_of(home.site("east"), id))
    assert "For the earlier job, this site sent nothing, or only its number of rows." in words
    assert "can calculate" not in words


@pytest.mark.parametrize("formula", ["y ~ age", "age ~ y", "y ~ I(age^2)"])
def test_who_may_deny_a_repeat_reads_what_this_can_reveal(tmp_path, formula):
    """Of the same job, of another, and of one that a rule would refuse."""
    home = made(tmp_path, approval="none")
    run(home)
    west = home.site("west")
    (west / "policy.toml").write_text(CAREFUL.format("job"))
    with pytest.raises(Stalled):
        run(again(home, RegressionPlan(formula, "gaussian")))
    (id,) = waiting(west)
    words = " ".join("\n".join(words_of(west, id)).split())
    refused = "^" in formula
    where = "on this data file" if refused else "on the same rows"
    assert ("NOTE: even if you approve" in words) == refused
    assert (
        f"if you deny, there is a risk, because this site answered an earlier job {where}." in words
    )
    assert "they and the coordinator can calculate the sums of this site alone" in words
    said = CliRunner().invoke(app, ["federation", "deny", str(west), id]).output
    assert (
        "the sums of the two jobs together reveal the sums of this site alone. So call"
        in " ".join(said.split())
    )


def test_both_approvals_after_a_withdrawal_say_what_it_reveals(tmp_path):
    """The repeat waits as a job on changed rows, and then as a job that was answered before."""
    home = made(tmp_path, approval="none")
    run(home)
    place = load_place(home.site("north"))
    rows_of("north").drop(index=[7]).to_csv(place.data, index=False)
    Memory(place.folder, place.data).retire()
    study, texts = again(home, dataclasses.replace(PLAN, max_exchanges=40)), []
    while len(texts) < 2:
        with pytest.raises(Stalled):
            run(study)
        for site in SITES:
            for id in waiting(home.site(site)):
                texts += ["\n".join(words_of(place.folder, id))] if site == "north" else []
                approve(home.site(site), id)
    assert "A job asks for sums" in texts[0]
    assert "This site answered the same job before." in texts[1]
    for text in texts:
        assert "differ by fewer than 20 rows" in text, "rule 7 demands 20 rows for 2 parameters"
        assert "can calculate the sums of these rows alone" in text
        assert "feddcd does not tell the other sites that rows were withdrawn here" in text


def test_a_denial_has_a_risk_also_when_the_rows_of_this_site_changed(tmp_path):
    """What counts are the rows of the others: they may be the same in both jobs."""
    home = made(tmp_path, approval="none")
    run(home)
    place = load_place(home.site("west"))
    rows_of("west").iloc[:50].to_csv(place.data, index=False)
    (place.folder / "policy.toml").write_text(CAREFUL.format("job"))
    with pytest.raises(Stalled):
        run(again(home, RegressionPlan("age ~ y", "gaussian")))
    (id,) = waiting(place.folder)
    words = " ".join("\n".join(words_of(place.folder, id)).split())
    assert "without this site, and use the same rows as in the earlier job, they" in words
    assert "the sums of this site alone, over its rows in the earlier job" in words
    assert "So this job ends if you deny" not in words, "three other sites remain"


def test_of_three_sites_a_denial_ends_the_job():
    job = {"set": "x", "questions": 1, "cohort": SITES[:3]}
    memory = types.SimpleNamespace(jobs=lambda: {"before": job})
    facts = types.SimpleNamespace(job="a" * 32, mode="sum", sites=SITES[:3])
    told = " ".join(if_denied(facts, memory))  # pyright: ignore
    few = "If you deny, the study ends, because only 3 sites take part, and a sum needs 3. But"
    assert f"{few} somebody can start the study again with a new site, or in mode 'each'." in told
    assert "deny this job, too" not in told, "it ends anyway"
    assert "Ask them to deny every later job without this site on the same rows." in told


def test_of_three_sites_a_denial_ends_the_study_also_at_the_names(tmp_path):
    """Also the line after the denial says it."""
    home = made(tmp_path, approval="none", sites=OTHERS)
    for site in OTHERS:
        data = load_place(home.site(site)).data
        rows_of(site).assign(sex=["f", "m"] * 40).to_csv(data, index=False)
    run(home)
    east = home.site("east")
    (east / "policy.toml").write_text(CAREFUL.format("job"))
    few = "because only 3 sites take part, and a sum needs 3. But"
    names, job = RegressionPlan("y ~ sex", "gaussian"), RegressionPlan("age ~ y", "gaussian")
    for plan, study in ((names, "names"), (job, "job")):
        with pytest.raises(Stalled):
            run(again(home, plan, name=study))
        (id,) = waiting(east)
        words = " ".join("\n".join(words_of(east, id)).split())
        assert ("asks for names and levels of columns" in words) == (study == "names")
        told = f"If you deny, the study ends, {few} somebody can start the study again with a"
        assert told in words
        said = CliRunner().invoke(app, ["federation", "deny", str(east), id]).output
        assert f"the study ends, {few} this site answered an earlier job." in " ".join(said.split())


def test_who_is_asked_for_names_and_levels_reads_the_risk_of_a_denial(tmp_path):
    home = made(tmp_path, approval="none")
    for site in SITES:
        data = load_place(home.site(site)).data
        rows_of(site).assign(sex=["f", "m"] * 40).to_csv(data, index=False)
    west = home.site("west")
    (west / "policy.toml").write_text(CAREFUL.format("job"))
    study = again(home, RegressionPlan("y ~ sex", "gaussian"), fewest=4)

    def waits(study):
        with pytest.raises(Stalled):
            run(study)
        (id,) = waiting(west)
        return id, " ".join("\n".join(words_of(west, id)).split())

    names, words = waits(study)
    assert "the coordinator asks for names and levels of columns" in words
    assert "if you deny, there is a risk" not in words, "nothing left this site before"
    approve(west, names)
    approve(west, waits(study)[0])
    run(study)
    second = again(home, RegressionPlan("y ~ age + sex", "gaussian"), fewest=4, name="second")
    _, words = waits(second)
    assert "the coordinator asks for names and levels of columns" in words
    assert (
        "if you deny, there is a risk, because this site answered an earlier job on this data"
        in words
    )


@pytest.mark.parametrize(("gone", "refused"), [(7, True), (15, False)])
def test_a_mean_of_a_description_counts_as_a_parameter(tmp_path, gone, refused):
    """Of rule 7: one mean needs 10 rows in each group."""
    plan = DescribePlan(["age"], quantiles="none")
    home = made(tmp_path, plan, approval="none")
    run(home)
    place = load_place(home.site("north"))
    rows_of("north").iloc[gone:].to_csv(place.data, index=False)
    with suppress(Stalled, DataError):
        run(again(home, dataclasses.replace(plan, least=6)))
    log = (place.folder / "outgoing.jsonl").read_text()
    assert ("There must be at least 10 such rows" in log) == refused
