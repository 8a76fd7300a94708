"""A trial on one machine: careful rules, what waits at which site, and a second job."""

import dataclasses
import json
import shlex

import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from feddcd import _files as files
from feddcd._errors import SpecError, Stalled
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.cli import _federation, _habits, _simulate, _tables
from feddcd.cli._simulate import Trial, simulate_command
from feddcd.cli._status import lines_of, status_of
from feddcd.cli.app import app
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.folder import FederationFolder
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import note_state, state_of, want
from feddcd.federation.site import approval
from feddcd.federation.site.approval import waiting
from feddcd.federation.site.policy import LOOSE, Policy, load_policy

SITES = ("east", "north", "south")
PLAN = DescribePlan(["age", "ward"])


@pytest.fixture
def said(monkeypatch):
    """What is printed, and no time to wait."""
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(approval, "FIRST_S", 0.001)
    monkeypatch.setattr(_habits, "_json", False)  # of a command with --json before
    monkeypatch.setattr(files, "_flush", lambda handle: None)
    lines = []
    for module in (_simulate, _federation, _tables):
        monkeypatch.setattr(module, "say", lambda line, **how: lines.append(line))
    return lines


def made(path, careful):
    d = pd.DataFrame({"age": [float(20 + i % 40) for i in range(120)], "ward": ["a", "b"] * 60})
    config = Config("t", plan=PLAN, patience=0.05)
    return create(path / "fed", list(SITES), config, data=dict.fromkeys(SITES, d), careful=careful)


def test_a_trial_under_careful_rules_says_who_waits_for_what(tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    home = made(tmp_path, careful=True)
    assert load_policy(home.site("north") / "policy.toml") == Policy()
    with pytest.raises(Stalled):
        simulate_command(home.path, Trial())
    (id,) = waiting(home.site("north"))
    at = said.index(
        "the site 'north' waits: a person has to decide about a request for names and levels of "
        "columns"
    )
    assert said[at + 1 : at + 4] == [
        "  read: feddcd federation approve fed/sites/north",
        f"  approve: feddcd federation approve fed/sites/north {id[:8]}",
        f"  deny: feddcd federation deny fed/sites/north {id[:8]}",
    ]
    assert sum("The simulation waits here for at most 0.05 s" in line for line in said) == 1
    assert not any("SITE_DIR" in line for line in said if "waits" in line)
    held = status_of(home.path)
    assert (held["trial"]["state"], held["missing"]) == ("failed", [])
    assert [one["site"] for one in held["trial"]["waits"]] == list(SITES)
    lines = "\n".join(lines_of(held))
    for site in SITES:
        assert f"waits: a person at {site} has to decide about a request for names" in lines
    commands = held["next"].partition("To approve: ")[2].split("; ")
    assert commands.pop() == "then: feddcd federation simulate fed"
    for command in commands:  # as they are
        assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0
    assert status_of(home.path)["trial"]["waits"] == []
    del said[:]
    with pytest.raises(Stalled):
        simulate_command(home.path, Trial())
    assert "the site 'south' waits: a person has to decide about this job" in said


def test_a_second_job_over_the_same_sites(tmp_path, said):
    home = made(tmp_path, careful=False)
    assert load_policy(home.site("north") / "policy.toml") == LOOSE
    simulate_command(home.path, Trial())
    assert "exchange 1: 3 of 3 sites answered" in said
    assert said[-1].startswith(
        "to run another job over the same sites: feddcd federation simulate "
    )
    assert said[-1].endswith(" --job FILE")
    job = tmp_path / "by ward.toml"
    other = dataclasses.replace(PLAN, columns=["age"], by="ward").to_dict()
    job.write_text(tomli_w.dumps({"describe": other}))
    simulate_command(home.path, Trial(), job)
    study = home.of_study("by-ward")
    assert (study.results / "describe" / "table1.csv").exists()
    assert (home.server / "describe" / "table1.csv").exists()
    assert state_of(study)["state"] == "done"  # so `serve` does not run it again
    events = (study.results / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["event"] == "finished"
    with pytest.raises(SpecError, match="give --job FILE, too"):
        simulate_command(home.path, Trial(), None, "other")


def test_the_proof_of_a_job_of_two_studies_is_told_with_its_study(tmp_path, said):
    home, job = made(tmp_path, careful=False), tmp_path / "again.toml"
    job.write_text(tomli_w.dumps({"describe": PLAN.to_dict()}))
    simulate_command(home.path, Trial())
    simulate_command(home.path, Trial(), job)
    jobs = {study["study"]: study["job"] for study in status_of(home.path)["studies"]}
    (id,) = set(jobs.values())
    verify = lambda name: CliRunner().invoke(app, ["federation", "verify", str(home.path), name])
    both = f"several studies have the job {id}; write 'federation.toml/{id}' or 'again/{id}'"
    assert str(verify(id).exception) == both
    told = verify(f"again/{id}").output
    assert (
        "name of the study: 'again' (the study's folder has this name; no site signed this name)"
        in told
    )
    assert told.startswith("VERIFIED: signatures, sums, questions and table are right")
    assert "certificate" not in told, "a description has none"
    assert "name of the study" not in verify(f"federation.toml/{id}").output
    others = {"again": "federation.toml", "federation.toml": "again"}
    for study, other in others.items():
        last = verify(study).output.splitlines()[-1]
        start = f"this federation also has the study {other!r}. feddcd did not check this study now"
        assert last.startswith(start)
        assert last.endswith(f"feddcd federation verify {files.shown(home.path)} {other}")
    none = f"in this folder, no id of a job begins with 'other/{id}'. The jobs are: "
    assert str(verify(f"other/{id}").exception).startswith(none)
    for study in ("again", "federation.toml"):  # its name is enough
        assert verify(study).output == verify(f"{study}/{id}").output
    none = "in this folder, no id of a job begins with 'other', and no study has this name. "
    assert str(verify("other").exception).startswith(none)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "allows almost everything"),
        (("--careful",), "waits for at least two approvals at each site"),
    ],
)
def test_the_next_command_of_a_trial_is_said(more, told, tmp_path):
    (tmp_path / "d.csv").write_text("age,site\n" + "".join(f"{i},s{i % 3}\n" for i in range(9)))
    (tmp_path / "job.toml").write_text('[describe]\ncolumns = ["age"]\n')
    words = ["init", str(tmp_path / "fed"), "--job", str(tmp_path / "job.toml")]
    words += ["--data", str(tmp_path / "d.csv"), "--group", "site", *more]
    done = CliRunner().invoke(app, ["federation", *words])
    assert done.exit_code == 0, done.output
    assert told in " ".join(done.output.split())
    assert "next: feddcd federation simulate" in done.output
    assert "federation up" not in done.output


ROWS = [(40 + i % 17, "ab"[i % 2], i % 3) for i in range(60)]
FORESEEN = {
    "few rows": (ROWS[:4], "rule 'min_rows': its policy does not allow fewer than 5 rows"),
    "a rare ward": (ROWS + [(50, "c", 1)] * 3, "rule 'min_per_level': its policy does not allow a"),
    "rare ages": ([(60, *rest) for _, *rest in ROWS[3:]] + ROWS[:3], "rule 'support': in the col"),
    "a dominated sum": (
        [(a, w, int((w == "a" and i % 4 == 0) or i % 10 == 1)) for i, (a, w, _) in enumerate(ROWS)],
        "rule 'dominance': the column 'ward[T.b]' times the outcome differs from 0 in fewer than 8 "
        "rows (max_share = 0.5). A new plan can join levels with few rows",
    ),
    "a small cell": (
        [(a, w, int(w == "a" or i % 30 == 1)) for i, (a, w, _) in enumerate(ROWS)],
        "rule 'cells': fewer than 5 rows have outcome = 1 and ward = b. A new plan can join "
        "levels with few rows, or leave out a column. The page 'The rules of a site' explains "
        "which policy would allow this job. A person at this site can also change the setting "
        "'small_cells' in",
    ),
    "enough": (ROWS, ""),
}


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize(("rows", "why"), FORESEEN.values(), ids=FORESEEN)
def test_a_refusal_that_is_certain_is_said_at_once(tmp_path, monkeypatch, rows, why, careful):
    """Before people approve a job in vain; the rules of a site say the same when it is asked."""
    monkeypatch.chdir(tmp_path)
    lines = ["age,ward,y,site", *(f"{a},{w},{y},north" for a, w, y in rows)]
    lines += [f"{a},{w},{y},{site}" for site in ("east", "south") for a, w, y in ROWS]
    (tmp_path / "d.csv").write_text("\n".join([*lines, ""]))
    job = '[glm]\nformula = "y ~ age + ward"\nfamily = "gaussian"\n'
    (tmp_path / "job.toml").write_text(job)
    words = ["init", "fed", "--job", "job.toml", "--data", "d.csv", "--group", "site"]
    words += ["--careful"] if careful else []
    done = CliRunner().invoke(app, ["federation", *words])
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert told.count("will refuse this job") == (1 if why and careful else 0), told
    none = "with these data, feddcd found no site that refuses this job"
    assert (none in told) == (careful and not why)
    if why and careful:
        note = "note: with these data, the site 'north' will refuse this job, even if a person"
        assert f"{note} approves it. Reason: " in told
        assert why in told
        assert "or the rules in fed/sites/north/policy.toml" in told
        assert (
            "only 2 of 3 sites will take part, so there will be no table: a sum needs at least 3"
            in told
        )

    def stop(*_):
        raise SpecError("here it ends")

    monkeypatch.setattr(_simulate, "coordinate", stop)
    (tmp_path / "again.toml").write_text(job)
    done = CliRunner().invoke(app, ["federation", "simulate", "fed", "--job", "again.toml"])
    told = " ".join(done.output.split())  # the same foresight for another job of the same sites
    assert told.count("will refuse this job") == (1 if why and careful else 0), told
    assert (_simulate.EARLIER in told) == bool(why and careful)


def test_a_careful_trial_of_a_training_says_that_no_site_takes_part(tmp_path):
    words = ["init", str(tmp_path / "fed"), "--sites", "3", "--data", "digits", "--careful"]
    done = CliRunner().invoke(app, ["federation", *words])
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "every site will refuse this training, because its policy does not allow" in told
    assert "write training = true into the file policy.toml of each site" in told


def test_the_status_says_what_a_trial_does(tmp_path, monkeypatch, said):
    """Also while it runs, and after it was killed."""
    monkeypatch.chdir(tmp_path)
    home = made(tmp_path, careful=False)
    assert status_of(home.path)["next"].endswith(": feddcd federation simulate fed")
    seen, real = [], _simulate.coordinate

    def coordinate(*args):
        seen.append(status_of(home.path))
        real(*args)

    monkeypatch.setattr(_simulate, "coordinate", coordinate)
    simulate_command(home.path, Trial())
    assert seen[0]["trial"]["words"] == "the command `simulate` runs now"
    assert seen[0]["next"] == "wait until the command `simulate` ends"
    held = status_of(home.path)
    assert "trial: the command `simulate` has ended with a result" in "\n".join(lines_of(held))
    assert [one["state"] for one in held["sites"]] == ["on this machine, to try feddcd"] * 3
    path = home.server / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "running", "began": "x"}))
    assert status_of(home.path)["trial"]["state"] == "stopped", "its process has gone"
    told = status_of(home.site("north"))["next"]
    see = "to see the next step: feddcd federation status fed"
    assert told == f"this site and its coordinator are on one machine; {see}"


def test_the_commands_after_sites_without_data_work_as_printed(tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    job, data = tmp_path / "job.toml", tmp_path / "data.csv"
    job.write_text(tomli_w.dumps({"describe": PLAN.to_dict()}))
    data.write_text("age,ward\n" + "".join(f"{20 + i % 40},a\n" for i in range(80)))
    made = ["federation", "init", "a fed", "--job", "job.toml", *("--site", "north")]
    done = CliRunner().invoke(app, [*made, "--site", "south", "--site", "west"])
    assert done.exit_code == 0, done.output
    first = "next: for each site, write the path of its data file into its site.toml"
    assert any(
        line.startswith(first) and line.endswith("a fed/sites/north/site.toml") for line in said
    )
    assert not any("federation up" in line for line in said)
    home = FederationFolder(tmp_path / "a fed")
    for site in home.invited():
        path = home.site(site) / "site.toml"
        path.write_text(path.read_text().replace('data = ""', f"data = '{data}'"))
    settings = home.path / "federation.toml"
    settings.write_text(settings.read_text().replace("patience = 600.0", "patience = 0.05"))
    (line,) = [line for line in said if line.startswith("to try the federation")]
    done = CliRunner().invoke(app, shlex.split(line.partition(": ")[2])[1:])
    assert isinstance(done.exception, Stalled), "the sites wait for approvals"
    assert waiting(home.site("north"))


def test_the_status_tells_what_another_command_did_after_the_trial(tmp_path, monkeypatch, said):
    """`up` runs the sites of a trial as well, and writes no line about `simulate`."""
    monkeypatch.chdir(tmp_path)
    home = made(tmp_path, careful=False)
    assert status_of(home.path)["next"].startswith("try the federation on this machine: ")
    (home.server / "model.npz").touch()
    home.note("greeting")
    home.note("finished")
    lines = lines_of(status_of(home.path))
    assert not any("`simulate`" in line for line in lines)
    assert lines[-1] == "next: read the result in fed/server"
    home.note("greeting")
    home.note("failed", reason="north has no power")
    again = "Then start the study again: feddcd federation up fed"
    assert status_of(home.path)["next"].endswith(again)
    simulate_command(home.path, Trial())
    lines = lines_of(status_of(home.path))
    assert any("the command `simulate` has ended with a result" in line for line in lines)
    assert lines[-1].startswith("next: read the result. To run the study again: ")


def test_where_studies_were_started_the_status_says_that_nobody_serves(tmp_path, monkeypatch, said):
    """Also in a federation with all sites on this machine; a later `simulate` is a trial again."""
    monkeypatch.chdir(tmp_path)
    home = made(tmp_path, careful=False)
    text = home.config().to_toml()
    study = want(home, "first", f"patience = 1\n{text[text.index('[describe]') :]}")
    held = status_of(home.path)
    lines = lines_of(held)
    assert "port: closed, because the command `feddcd federation serve` does not run" in lines
    assert "study first  not begun: nobody serves" in lines
    start = "open the port, so that study 'first' begins: feddcd federation serve fed"
    assert held["next"] == start
    for state in ("failed", "done"):
        note_state(study, state)
        held = status_of(home.path)
        assert (held["trial"], held["open"]) == (None, False)
        assert held["next"] == "open the port: feddcd federation serve fed"
    simulate_command(home.path, Trial())
    assert status_of(home.path)["trial"]["state"] == "done"
