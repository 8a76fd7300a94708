"""What `status` says to do next, at a site and at the coordinator."""

import json
from contextlib import suppress

import pytest

from feddcd._errors import SpecError
from feddcd.cli import _enrolment, _site
from feddcd.cli._status import lines_of, status_of
from feddcd.cli._studies import study_command
from feddcd.cli._tables import show_event
from feddcd.cli.app import main
from feddcd.federation import status, trial
from feddcd.federation._next_step import PAUSE, next_step, start_again, waits_in_words
from feddcd.federation.about import StudyEnd
from feddcd.federation.config import Config
from feddcd.federation.coordinator._ending import too_few
from feddcd.federation.folder import WAITED
from feddcd.federation.machine.init import create
from feddcd.federation.machine.processes import last_error
from feddcd.federation.machine.studies import note_state, state_of, want
from feddcd.federation.site.approval import Asker, Waits, approve, deny, mark_read, require
from feddcd.federation.site.log_words import reason_of, time_of
from feddcd.federation.site.told import PAUSED, REFUSED, waits

JOB = "a1b2c3d4" * 4


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return create(tmp_path / "fed", ["east", "north", "south"], Config("t"))


@pytest.fixture
def site(home):
    """A job waits, and the program of the site does not run."""
    at = home.site("east")
    (at / "data.csv").write_text("age,y\n1,2\n")
    path = at / "site.toml"
    kept = [line for line in path.read_text().splitlines() if "data" not in line]
    path.write_text("\n".join([*kept, 'data = "data.csv"', ""]))
    with pytest.raises(Waits):
        require(at, JOB, "this job", {"shown": ["A job asks:"]}, asked=Asker("first"))
    return at


def test_a_site_that_does_not_run_is_started_before_a_person_decides(site):
    told = status_of(site)["next"]
    assert told == (
        "start this site: feddcd federation site fed/sites/east. Then read what waits for "
        "you, and decide: feddcd federation approve fed/sites/east"
    )


def test_the_status_after_a_denial_says_how_to_undo_it(site):
    mark_read(site, JOB)
    deny(site, JOB)
    (line,) = [line for line in lines_of(status_of(site)) if line.startswith("denied: ")]
    undo = "feddcd federation approve fed/sites/east a1b2c3d4"
    assert line == f"denied: this job of study 'first'; to approve it: {undo}"


def test_what_a_person_denied_is_not_called_a_rule():
    denied = {"rule": "denied", "why": "a person at this site denied this job"}
    assert reason_of(denied) == f"a person here: {denied['why']}"
    assert reason_of({"rule": "cells", "why": "few"}) == "the rule 'cells': few"


def test_times_of_the_log_are_in_utc_as_all_others():
    assert time_of({"time": "2026-11-18T23:45:10+0200"}) == "2026-11-18 21:45:10 UTC"
    assert time_of({"time": "noon"}) == "noon"


def test_a_study_that_lost_a_site_begins_again_only_with_enough_sites(home):
    why = "Next: a sum needs at least 3 sites, and the federation has 2"
    study = {"study": "first", "state": "failed", "stands": "failed", "reason": why, "time": 1.0}
    study |= {
        "refused": [],
        "broken": {},
        "forbidden": {},
        "job": "",
        "folder": "fed/studies/first",
    }
    sites = [{"site": name, "state": "connected", "confirmed": True} for name in ("east", "north")]
    told = next_step(home, {"sites": sites, "studies": [study], "open": True})
    assert "start the study again" not in told
    assert told.endswith("sums need at least 3 sites: feddcd federation invite fed NAME")
    more = [*sites, {"site": "west", "state": "connected", "confirmed": True}]
    assert "start the study again" in next_step(
        home, {"sites": more, "studies": [study], "open": True}
    )


def test_a_paused_site_is_not_said_to_decide_about_a_job():
    waits = {"people": {"east": PAUSE, "north": "this job"}, "silent": [], "until": "x"}
    told = waits_in_words(waits | {"as_of": "1 s ago"})
    assert "people at north (this job) have to decide" in told
    assert "east is paused, and a person there has to end the pause" in told


def test_only_the_last_study_that_failed_is_told_at_length(home):
    why = "there is no table: few sites. Refused: east: no.\nNext: ask the people at east."
    for time, name in enumerate(("first", "second")):
        study = want(home, name, '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
        note_state(study, "failed", time=1.0 + time, reason=" ".join(why.split()))
    first, second = (line for line in lines_of(status_of(home.path)) if line.startswith("study "))
    assert first == "study first  failed  there is no table: few sites"
    assert second.endswith("few sites. Refused: east: no. Next: ask the people at east.")


def test_nobody_is_asked_at_a_site_that_left(home):
    """Neither in the next step nor in the line of its study, also while another site is away."""
    study = want(home, "first", '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    study.note("refused", site="west", reason="west: the data file does not exist")
    why = "there is no table: few sites. Refused: west: no. Next: ask the people at west."
    note_state(study, "failed", reason=why)
    lines = lines_of(status_of(home.path))
    assert "Next: ask the people at west" not in "\n".join(lines)
    assert any(line.startswith("study first  failed  there is no table: few") for line in lines)


def test_what_to_do_after_a_failure_is_said_once(home, monkeypatch):
    """In the next step; the line of the study keeps what is not said there."""
    study = want(home, "first", '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    study.note("refused", site="east", reason=f"east: {REFUSED}")
    more = "With another setting the others go on."
    error = too_few(
        "few sites", {"east": f"east: {REFUSED}"}, more, JOB[:8], again=start_again(study)
    )
    assert f"Then start the study again: feddcd federation study fed first. {more}" in str(error)
    note_state(study, "failed", time=1.0, reason=str(error))
    (row,) = [line for line in lines_of(status_of(home.path)) if line.startswith("study ")]
    assert row.endswith(str(error)), "the next step is to open the port"
    online = {name: {"online": True} for name in ("east", "north", "south")}
    for name, value in (("is_up", True), ("connected", online), ("hang_of", None)):
        monkeypatch.setattr(status, name, lambda folder, value=value: value)
    lines = lines_of(status_of(home.path))
    (row,) = [line for line in lines if line.startswith("study ")]
    refused = "Refused: east: refused by the rules of this site or by a person there"
    assert row == f"study first  failed  there is no table: few sites. {refused}. {more}"
    assert "can still approve it: feddcd federation approve SITE_DIR" in lines[-1]
    note_state(study, "failed", time=1.0, reason="the coordinator stopped. Next: look for it.")
    assert "Next: look for it." in "\n".join(lines_of(status_of(home.path))), "nowhere else"


def test_a_connected_site_that_could_not_answer_is_marked(home, monkeypatch):
    """As far as the coordinator heard of it: in the last study that ran."""
    online = {name: {"online": True} for name in ("east", "north", "south")}
    for name, value in (("is_up", True), ("connected", online), ("hang_of", None)):
        monkeypatch.setattr(status, name, lambda folder, value=value: value)
    study = want(home, "first", '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    sites = lambda: {line.partition("  ")[0]: line for line in lines_of(status_of(home.path))}
    assert sites()["east"] == "east  connected"
    note_state(study, "running")
    held = {"people": {}, "silent": [], "looking": ["south"], "reading": ["north"]}
    home.save(study.results / WAITED, held | {"until": 9e9, "time": 1.0})
    assert sites()["south"] == "south  connected  in study first, its data file is missing"
    assert sites()["north"] == "north  connected  in study first, its policy.toml has a mistake"
    gone = "the data file of this site does not exist"
    study.note("refused", site="south", reason=f"south: {gone}; the file site.log says why")
    study.note("refused", site="east", reason=f"east: {REFUSED}")
    note_state(study, "failed", reason="there is no table")
    marked = f"in study first, it could not answer, because {gone}"
    assert sites()["south"] == f"south  connected  {marked}"
    assert sites()["east"] == "east  connected", "it decided"
    assert sites()["north"] == "north  connected"
    study = want(home, "second", '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    note_state(study, "done", time=9e9)
    assert sites()["south"] == "south  connected", "it answered since"


def test_a_study_of_up_that_was_killed_does_not_run(home, monkeypatch):
    home.results.mkdir(exist_ok=True)
    home.note("greeting", sites=3)
    own = status.federation_status(home)["studies"][0]
    assert (own["study"], own["state"], own["stands"]) == ("federation.toml", "stopped", "stopped")
    told = status.federation_status(home)["next"]
    what = "continue the study that the file 'federation.toml' describes"
    assert told == f"{what}: feddcd federation up fed"
    online = {name: {"online": True} for name in home.invited()}
    for name, value in (("is_up", True), ("connected", online), ("hang_of", None)):
        monkeypatch.setattr(status, name, lambda folder, value=value: value)
    monkeypatch.setattr(trial, "opened_for", lambda folder: 3600.0)  # so `up` has it open
    assert status.federation_status(home)["studies"][0]["state"] == "running"
    monkeypatch.setattr(trial, "opened_for", lambda folder: 0.0)  # so `serve` came after it
    held = status.federation_status(home)
    assert held["studies"][0]["state"] == "stopped"
    assert held["next"].startswith("start a study: ")


def test_a_waiting_line_says_who_decides_about_what(home, capsys):
    for reason, line in (
        (f"east: {waits('this job')}", "waiting: a person at east has to decide about this job"),
        (f"east: {PAUSED}", f"waiting: east: {PAUSED}"),
    ):
        show_event({"event": "waiting", "reason": reason, "site": "east", "until": 60.0})
        until = "the coordinator waits until 1970-01-01 00:01 UTC"
        assert capsys.readouterr().out.strip() == f"{line} ({until})"


def test_each_study_that_failed_keeps_who_refused(home):
    """Also when another study has ended after it."""
    broken = "this site cannot use its policy, so it sends nothing; the file site.log at the site "
    few = "there is no table: a sum needs at least 3 sites"
    for time, name in enumerate(("first", "second", "third")):
        study = want(home, name, '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
        study.note("refused", site="south", reason=f"south: {broken}says why")
        study.note("refused", site="east", reason=f"east: {REFUSED}")
        note_state(study, "failed", time=1.0 + time, reason=f"{few}. Refused: ... Next: ask.")
    note_state(home.of_study("third"), "done", time=9.0)
    held = status_of(home.path)
    rows = [line for line in lines_of(held) if line.startswith("study ")]
    short = (
        f"{few}. Refused: east: refused by the rules of this site or by a person there; south: "
        "this site cannot use its policy, so it sends nothing"
    )
    assert rows[:2] == [f"study first  failed  {short}", f"study second  failed  {short}"]
    assert [study["short"] for study in held["studies"]] == [short, short, ""]


def test_a_study_that_is_done_says_where_its_table_is_and_how_to_check_it(home):
    study = want(home, "first", '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    note_state(study, "done")
    row = lambda: next(line for line in lines_of(status_of(home.path)) if line.startswith("study "))
    assert row() == "study first  done"
    (study.results / "glm").mkdir()
    (study.results / "glm" / "summary.txt").touch()
    assert row() == "study first  done  result: fed/studies/first/glm", "mode each has no proof"
    (study.results / "proof").touch()
    check = "to check it: feddcd federation verify fed first"
    assert row() == f"study first  done  result: fed/studies/first/glm; {check}"


def test_the_words_need_no_option(home, monkeypatch):
    heard = []
    monkeypatch.setattr(_enrolment, "confirm_command", lambda *given: heard.append(given[1:]))
    for how in (["one", "two", "three"], ["--words", "one two three"]):
        with suppress(SystemExit):
            main(["federation", "confirm", "fed", "east", *how])
    assert heard == [("east", "one two three")] * 2


def test_an_invitation_file_is_not_replaced_without_a_word(home, capsys):
    for _ in range(2):
        with suppress(SystemExit):
            main(["federation", "invite", "fed", "west"])
        (home.server / "invitations" / "west.json").unlink(missing_ok=True)
    err = capsys.readouterr().err
    assert err.count("feddcd replaces the file west.invite") == 1


def test_a_study_that_ended_starts_again_without_its_job_file(home, tmp_path):
    """As `status` and `retire` print the command."""
    with pytest.raises(SpecError, match="--job is missing"):
        study_command(home.path, "first", None, False)
    job = tmp_path / "job.toml"
    job.write_text('[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    study_command(home.path, "first", job, False)
    job.unlink()
    study = home.of_study("first")
    before = study.config()
    note_state(study, "failed", reason="there is no table")
    study_command(home.path, "first", None, False)
    assert state_of(study)["state"] == "wanted"
    assert study.config() == before


def test_who_starts_a_study_reads_first_that_it_runs_elsewhere(home, tmp_path, monkeypatch, capsys):
    """People may decide for seven days: nobody keeps a terminal open for that."""
    job = tmp_path / "job.toml"
    job.write_text('[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    monkeypatch.setattr("feddcd.cli._studies.is_up", lambda folder: True)
    end = lambda study: note_state(study, "failed", reason="there is no table")
    monkeypatch.setattr("feddcd.cli._studies._follow", end)
    with pytest.raises(SystemExit):
        main(["federation", "study", "fed", "first", "--job", str(job)])
    first, status_line, option = capsys.readouterr().out.splitlines()
    assert "with Ctrl-C, or close its terminal: the study continues, as long as `serve`" in first
    assert status_line.endswith("feddcd federation status fed")
    assert "--no-follow" in option


def status_said(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(["federation", "status", *words])
    return end.value.code or 0, capsys.readouterr()


def test_the_exit_code_of_the_status_says_whether_a_site_has_a_problem(home, site, capsys):
    """For programs that watch the machine."""
    for words in (["fed/sites/east"], ["fed/sites/east", "--json"], ["fed"]):
        assert status_said(capsys, *words)[0] == 0
    (site / "data.csv").unlink()
    code, said = status_said(capsys, "fed/sites/east")
    assert code == 1
    assert "problem: " in said.out
    code, said = status_said(capsys, "fed/sites/east", "--json")
    assert code == 1
    assert json.loads(said.out)["problems"]
    assert status_said(capsys, "fed")[0] == 0


@pytest.mark.parametrize("kept", ["policy.toml", "key", "outgoing.jsonl", "rules"])
def test_a_restored_site_without_its_settings_is_no_federation(tmp_path, home, capsys, kept):
    (tmp_path / "restored" / kept).mkdir(parents=True)
    code, said = status_said(capsys, "restored")
    assert code == 2
    assert (
        "folder restored has files of a site, but no site.toml. Put site.toml back from" in said.err
    )
    with pytest.raises(SystemExit):
        main(["federation", "site", "restored"])
    assert "put site.toml back from a backup" in capsys.readouterr().err


def test_the_status_of_any_other_folder_says_what_it_lacks(tmp_path, home, capsys):
    (tmp_path / "other").mkdir()
    code, said = status_said(capsys, "other")
    assert code == 2
    assert "nor the folder of a coordinator: it has no site.toml and no federation.toml" in said.err
    assert "there is no folder away" in status_said(capsys, "away")[1].err


def test_a_program_that_ended_without_a_message_is_no_riddle(tmp_path):
    """Its log may have no line about a connection that was lost."""
    log = tmp_path / "supernode.log"
    log.write_text("it starts\n")
    assert last_error(log) == (
        "the program ended without a message about an error. Perhaps the connection was lost. The "
        f"last lines of {log} can show more"
    )
    log.write_text("ERROR: a certificate\n")
    assert last_error(log) == "a certificate"


def test_a_decision_for_an_ended_study_says_nothing_about_the_next_one(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    (tmp_path / "site.toml").write_text("")
    for id, study in (("a" * 32, "over"), ("b" * 32, "runs")):
        with pytest.raises(Waits):
            require(tmp_path, id, "this job", {"shown": ["A job asks:"]}, asked=Asker(study))
        mark_read(tmp_path, id)
    ended = [(1.0, StudyEnd("over", "cancelled", {}))]
    monkeypatch.setattr(_site, "ended_studies", lambda folder: ended)
    _site._decide(tmp_path, ["a" * 32, "b" * 32], approve, "is approved", "it continues")
    assert said[0].endswith("; your decision counts if the coordinator starts the study again")
    assert said[1] == "bbbbbbbb (this job of study 'runs') is approved; it continues"
