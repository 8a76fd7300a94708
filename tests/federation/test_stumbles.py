"""What an administrator reads, and what a coordinator does not."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import feddcd._files as files
from feddcd._errors import Refused, SpecError
from feddcd._text import reason_in
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.cli import _enrolment, _federation, _serving, _site, _tables
from feddcd.cli._ending import complain
from feddcd.data.codebook import read_codebook
from feddcd.federation.config import Config
from feddcd.federation.coordinator import nodes as _nodes
from feddcd.federation.coordinator._ending import broken_off
from feddcd.federation.coordinator._ending import next_step as next_after
from feddcd.federation.coordinator._hearing import Hearing
from feddcd.federation.coordinator._offers import absent
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.studies import note_state
from feddcd.federation.site import _masked
from feddcd.federation.site import told as words
from feddcd.federation.site._columns import dominated, domination
from feddcd.federation.site._disclosure import Outgoing, Release, describe, hold, record
from feddcd.federation.site._roles import _check_constants
from feddcd.federation.site._words import describe_job, notes
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.approval import Asker, Waits, approve, deny, require, waiting
from feddcd.federation.site.log import LOG, append, read_log
from feddcd.federation.site.log_words import told
from feddcd.federation.site.policy import Policy, Ruled, not_allowed
from feddcd.federation.site.rules import check_answer
from feddcd.federation.site.template import loose_text
from feddcd.federation.status import log_of, next_step, study_status
from feddcd.federation.verify import _same_text
from feddcd.federation.wire import Envelope, pack_message, unpack_message
from feddcd.formula._parse import parse
from feddcd.runs.spec import Spec
from site_world import asked


def test_a_broken_message_is_refused_without_a_value(tmp_path, monkeypatch):
    """The error of a library may hold whatever it stumbled over."""

    def broken(place):
        return None

    def found(*args):
        raise ValueError("could not convert 'Miller, 1958-03-02' to float")

    monkeypatch.setattr(_masked, "_member", broken)
    monkeypatch.setattr(_masked, "JobRules", lambda *args: None)
    monkeypatch.setattr(_masked, "_found", found)
    release = types.SimpleNamespace(disk=None)
    place = types.SimpleNamespace(folder=tmp_path)
    envelope = types.SimpleNamespace(kind="job", meta={"id": "a" * 32})
    release.disk = files.Disk()
    with pytest.raises(Refused) as refusal:
        _masked.respond(envelope, place, release, b"")  # pyright: ignore
    assert "Miller" not in str(refusal.value)
    assert "Miller" in str(refusal.value.__cause__)


def test_an_approval_shows_all_that_is_asked():
    plan = RegressionPlan(
        "y ~ age", "gaussian", weight="w8", offset="exposure", cluster="ward",
        covariance="cluster", complete=["crp"],
    )  # fmt: skip
    columns = {name: np.arange(9.0) for name in ("Intercept", "age", "(outcome)", "(weight)")}
    rows = SiteRows(plan, None, 9, columns=("age", "y"))
    lines = "\n".join(describe_job(rows, columns, "sum", 50, ("east", "north")))
    without = SiteRows(RegressionPlan("y ~ age", "gaussian"), None, 9, columns=("age", "y"))
    plain = "\n".join(describe_job(without, columns, "sum", 50, ("east", "north")))
    assert "made from 2 columns of the model ('Intercept', 'age') and the outcome;" in plain
    assert "column of weights" not in plain
    rows = SiteRows(
        RegressionPlan("y ~ age", complete=["crp"]), None, 9, columns=("age", "y", "crp")
    )
    beside = "\n".join(describe_job(rows, columns, "sum", 50, ("east", "north")))
    assert "  columns of this site that the job uses: 'age', 'y'\n" in beside
    assert "every row must also have a value in these columns: ['crp']" in beside
    for said in ("'w8'", "'exposure'", "'ward'", "['crp']", "standard errors: 'cluster'"):
        assert said in lines
    assert (
        "made from 2 columns of the model ('Intercept', 'age'), the outcome and the weight;"
        in lines
    )


def test_only_the_person_at_the_site_changes_a_denial(tmp_path):
    for id in ("aaaa1111", "bbbb2222"):
        with pytest.raises(Exception, match="waits"):
            require(tmp_path, id, "this job", {"shown": []})
    deny(tmp_path, "aaaa1111")
    with pytest.raises(Ruled, match="by the rules of this site"):  # asked for once more
        require(tmp_path, "aaaa1111", "this job", {"shown": []})
    with pytest.raises(SpecError, match="was already denied"):
        deny(tmp_path, "aaaa1111")
    approve(tmp_path, "aaaa1111")
    require(tmp_path, "aaaa1111", "this job", {"shown": []})
    approve(tmp_path, "bbbb")
    with pytest.raises(SpecError, match="was already approved; nothing waits"):
        approve(tmp_path, "bbbb")
    with pytest.raises(SpecError, match="'cccc' does not wait for approval"):
        deny(tmp_path, "cccc")
    assert not waiting(tmp_path)


def test_other_versions_find_their_words_in_a_refusal():
    """A refusal has no code: a coordinator of any version looks for these words."""
    for said in (words.waits("this job"), words.PAUSED):
        assert "waits for approval by its administrator" in said
    assert "refused by the rules of this site" in words.REFUSED == str(Ruled("cells", "a"))
    said = str(not_allowed("the column 'zip'", "columns"))
    assert said == "its policy does not allow the column 'zip' (columns in policy.toml)"


def test_what_to_weigh_stands_just_before_the_commands_to_decide(tmp_path, monkeypatch):
    (tmp_path / "site.toml").write_text("")
    lines = ["A job asks:", *notes(["few rows changed"])]
    with pytest.raises(Waits):
        require(tmp_path, "a" * 32, "this job", {"shown": lines}, asked=Asker("first"))
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    _site.show_waiting(tmp_path)
    first = "aaaaaaaa (this job of study 'first') waits for your decision. All details are in "
    assert said[0].startswith(first)
    asks, study, note, yes, no = said[1:]
    assert (asks, study, note) == ("A job asks:", "  study: first", "  NOTE: few rows changed")
    assert yes.startswith("  approve: feddcd federation approve ")
    assert no.startswith("  deny: feddcd federation deny ")


def test_where_nothing_waits_a_job_may_still_come(tmp_path, monkeypatch):
    (tmp_path / "site.toml").write_text("")
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    _site.approve_command(tmp_path, [])
    (line,) = said
    assert line.startswith("nothing waits for your decision now.")
    assert "If a job comes later, give this command again" in line


def test_after_a_denial_the_coordinator_reads_what_happened_and_what_to_do(monkeypatch, capsys):
    refused = {"north": f"north: {words.REFUSED}"}
    errors = [
        broken_off(left, refused, again="CMD") for left in (["east"], ["east", "south", "west"])
    ]
    few, begun = map(str, errors)
    assert "a sum needs at least 3 sites, and only east can take part." in few
    assert "a site refused to continue after the first answers" in begun
    assert "go_on_without = true in the plan" in begun
    for text in (few, begun):
        assert text.startswith("there is no table: ")
        assert f"Refused: north: {words.REFUSED}." in text
        assert "Next: ask the people at north for the reason." in text
        assert "a person there can still approve it, with: feddcd federation approve" in text
        assert text.partition(" If you")[0].endswith(" Then start the study again: CMD.")
    complain(errors[0])
    lines = capsys.readouterr().err.splitlines()
    assert [line[:10] for line in lines] == ["error: the", "  Refused:", "  Next: as"]
    assert " ".join(map(str.strip, lines)) == f"error: {few}"
    two = {site: f"{site}: {words.REFUSED}" for site in ("north", "east")}
    other = two | {"west": "west: its policy does not allow this"}
    both = f"Refused: east and north (each: {words.REFUSED}); west: its policy does not allow this."
    assert both in str(broken_off([], other))
    assert "approve SITE_DIR ab8b3a59." in str(broken_off([], refused, None, "ab8b3a59"))
    said = []
    monkeypatch.setattr(_tables, "say", said.append)
    job = {"event": "job", "job": "ab", "sites": ["east", "south", "west"], "without": ["north"]}
    _tables.show_event(job)
    assert said == [
        "these sites are not part of this job: north (refused). The job without north is a new "
        "job. It uses only the rows of east, south and west. If people at these sites have to "
        "approve jobs, they have to approve the new job, too"
    ]
    _tables.show_event(job | {"without": []})
    assert len(said) == 1
    _tables.show_event(job | {"late": ["h02"], "silent": ["bay"]})
    gone = "bay (no answer in time), h02 (no decision in time) and north (refused)"
    told = f"these sites are not part of this job: {gone}. The job without bay, h02 and north "
    assert said[1].startswith(told)


def test_signed_messages_are_told_in_words():
    line = {"job": "ab" * 16, "exchange": 3, "sha256": "00"}
    masked = "masked, so others can read only the sum over all sites"
    assert told(line) == f"SIGNED   answer 3 of job abababab: {masked}"
    assert "the same bytes" in told(line | {"again": "00"})
    assert "it sent a random number and no data" in told(line | {"digest": "00"})


def test_the_log_is_written_for_who_answers_for_the_data():
    """No word of a method, no name of a rule alone, and `LEFT` where an answer left."""
    out = Outgoing("parts", "describe", ("age", "crp"), 298, 23, {}, {}, 3, {})
    sums = "sums of columns, and counts of rows in ranges of values"
    line = f"{sums} (columns: age and crp; rows: 298; sites in the result: 3)"
    assert told(record(out, b"", b"")) == f"LEFT     {line}"
    first = record(out._replace(kind="moments", arrays={"support": np.ones(1)}), b"", b"")
    assert told(first).startswith("LEFT     the number of rows, how many rows are left out, and ")
    why = {"refused": words.REFUSED, "rule": "dominance", "why": "few rows give most of a sum"}
    assert told(why) == (
        "REFUSED  a question, by the rule 'dominance': few rows give most of a sum. This reason "
        "stays at this site."
    )
    line = "APPROVED a person at this site approved the request abababab"
    assert told({"approved": "ab" * 16}) == line
    waits = {"waits": "ab" * 16, "what": "this job"}
    assert told(waits) == (
        "WAITS    this job waits until a person at this site decides about the request abababab"
    )


def test_a_line_on_what_left_names_its_job_and_its_study(tmp_path, monkeypatch):
    """Also in the list of one job, with the names of columns that left before it; lines of earlier
    versions name none, and are read as before."""
    (tmp_path / "site.toml").write_text("")
    (tmp_path / "policy.toml").write_text(loose_text())
    out = Outgoing("columns", "glm", ("age",), 298, 2, {}, {}, 3, {})
    release = Release(tmp_path, "north")
    release.release(b"", out, b"")  # as it was before
    for study, job in (("one", "aaaa1111"), ("two", "bbbb2222")):
        asked = Asker(study, question="cccc3333")
        release._replace(asked=asked).release(b"", out, b"")
        mine = release._replace(asked=asked._replace(job=job))
        mine.release(b"", out._replace(kind="hessian"), b"")
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    _site.outgoing_command(tmp_path, "", [], False, True)
    named = ["[question cccc3333 of study 'one']", "[job aaaa1111 of study 'one']"]
    named += [text.replace("one", "two").replace("aaaa1111", "bbbb2222") for text in named]
    assert "[" not in said[0]
    assert [line.partition("  LEFT ")[2].partition("[")[2] for line in said[1:]] == [
        text[1:] for text in named
    ]
    del said[:]
    _site.outgoing_command(tmp_path, "bbbb2222", [], False, True)
    assert [line[line.index("[") :] for line in said[:-1]] == named[2:]
    assert said[-1].startswith("Some lines of the log are from an earlier version")
    with pytest.raises(Refused):
        mine._guard(refuses, out._replace(kind="hessian"), b"")  # pyright: ignore
    assert log_of(tmp_path)[2][-1].endswith("[job bbbb2222 of study 'two']")


def test_the_log_says_of_which_columns_only_a_value_was_needed(tmp_path):
    """No sum is made of them."""
    (tmp_path / "policy.toml").write_text(loose_text())
    draw = np.random.default_rng(3)
    table = pd.DataFrame(draw.normal(size=(60, 4)), columns=["age", "smoker", "crp", "y"])
    table.to_csv(tmp_path / "data.csv", index=False)
    place = SitePlace("north", tmp_path, tmp_path / "data.csv")
    for more, said in ((["smoker", "crp"], "; needed complete: smoker and crp; "), ([], "; rows")):
        answer(asked(place, "y ~ age", complete=["age", *more], answers="each"), place)
        entry = read_log(tmp_path)[-1]
        assert f"columns: age and y{said}" in told(entry)
        assert set(more) <= set(entry["columns"])


@pytest.mark.parametrize("analysis", ["glm", "describe"])
@pytest.mark.parametrize("word", ["f", 1.0])
def test_words_in_complete_columns_need_no_approval_of_names(tmp_path, analysis, word):
    """Nothing about these columns leaves, whatever they contain."""
    table = pd.DataFrame({"age": np.arange(60.0), "y": range(60), "sex": [word] * 60})
    table.to_csv(tmp_path / "data.csv", index=False)
    place = SitePlace("north", tmp_path, tmp_path / "data.csv")
    glm = RegressionPlan("y ~ age", "gaussian", complete=["sex"])
    plan = glm if analysis == "glm" else DescribePlan(["age", "y"], complete=["sex"])
    message = pack_message(Envelope("columns", {"plan": plan.to_dict()}, {}))
    told = unpack_message(answer(message, place)).meta
    assert "age" in told["columns"]
    assert "sex" not in str(told)
    assert waiting(tmp_path) == []


def test_names_are_not_asked_for_a_job_that_the_policy_does_not_allow(tmp_path):
    """Else people approve names and levels before the policy refuses the job."""
    pd.DataFrame({"sex": list("fm") * 30, "y": range(60)}).to_csv(tmp_path / "data.csv")
    place = SitePlace("north", tmp_path, tmp_path / "data.csv")
    for more, said in (({"answers": "each"}, "answers of this site alone"), ({}, "waits for")):
        plan = RegressionPlan("y ~ sex", "gaussian", **more).to_dict()
        data = answer(pack_message(Envelope("columns", {"plan": plan}, {})), place)
        assert said in unpack_message(data).meta["reason"]
        assert bool(waiting(tmp_path)) == (not more)


def test_who_approves_reads_that_the_policy_is_broken(tmp_path, monkeypatch):
    (tmp_path / "site.toml").write_text("")
    (tmp_path / "policy.toml").write_text("min_rows = fifty\ncomplete = true\n")
    with pytest.raises(Waits):
        require(tmp_path, "a" * 32, "this job", {"shown": ["a job"]})
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    _site.approve_command(tmp_path, ["a" * 32])
    wrong = (
        "in line 1, feddcd cannot read min_rows = fifty; write a number, true, false, or a text in "
        "quotes"
    )
    end = f"policy.toml: not a TOML file: {wrong}. Until somebody corrects this, this site sends"
    assert end in said[-1]
    assert said[-1].startswith("PROBLEM: ")


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("[Errno 111] Connection refused", "Connection refused"),
        ("[SSL: WRONG] wrong version (_ssl.c:989)", "wrong version"),
        ("", "OSError"),
    ],
)
def test_an_error_of_the_network_has_no_words_of_developers(told, plain):
    assert reason_in(OSError(told)) == plain


def refuses():
    raise Ruled("cells", "few rows")


def test_a_table_of_the_version_before_still_follows_from_its_proof(tmp_path):
    now, before = tmp_path / "now.txt", tmp_path / "before.txt"
    now.write_text("Rows dropped:              none or few  AIC: 3\n")
    before.write_text("Rows dropped:               at least 0  AIC: 3\n")
    assert _same_text(before, now)
    before.write_text("Rows dropped:               at least 7  AIC: 3\n")
    assert not _same_text(before, now)


def test_what_was_denied_is_shown_again_when_it_is_asked_again(tmp_path, monkeypatch):
    (tmp_path / "site.toml").write_text("")
    ask = lambda: require(tmp_path, "a" * 32, "this job", {"shown": ["A job asks for sums:"]})
    with pytest.raises(Waits):
        ask()
    deny(tmp_path, "a" * 32)
    said = []
    monkeypatch.setattr(_serving, "say", said.append)
    monkeypatch.setattr(_site, "say", said.append)
    known = _serving.show_news(tmp_path, _serving.known_news(tmp_path))
    assert said == []
    with pytest.raises(Ruled):
        ask()
    known = _serving.show_news(tmp_path, known)
    (line,) = said
    told = "this site refused this job, because a person at this site denied it; to approve it: "
    assert line.startswith(f"{told}feddcd federation approve "), "as the coordinator hears of it"
    del said[:]
    with pytest.raises(Ruled):
        ask()
    known = _serving.show_news(tmp_path, known)
    assert said[0] == (
        "the coordinator asks again for this job, which a person at this site denied before"
    )
    assert said[1] == "  A job asks for sums:"
    assert said[2].startswith("  approve it now: feddcd federation approve ")
    assert said[2].endswith(" aaaaaaaa")
    del said[:]
    _serving.show_news(tmp_path, known)
    assert said == []
    _site.approve_command(tmp_path, [])
    assert said[1].startswith("denied: this job, aaaaaaaa; to approve it: feddcd federation ")


def test_after_a_refusal_the_status_names_the_site_and_the_job(tmp_path):
    folder = FederationFolder(tmp_path)
    folder.server.mkdir()
    events = [{"event": "greeting"}, {"event": "job", "job": "ab8b3a59"}]
    events += [{"event": "refused", "site": "north", "reason": f"north: {words.REFUSED}"}]
    events += [{"event": "failed", "reason": "there is no table"}]
    folder.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    held = study_status(folder)
    assert (held["state"], held["refused"]) == ("failed", ["north"])
    sites = [{"site": "north", "state": "x"}]
    told = next_step(folder, {"sites": sites, "studies": [held], "open": 0})
    assert told.startswith("ask the people at north why they refused job ab8b3a59 of study ")
    assert "feddcd federation approve SITE_DIR ab8b3a59" in told
    assert "ended without a result" not in told, "nothing is broken"


def test_after_a_broken_site_the_status_names_what_is_broken(tmp_path, monkeypatch):
    """And no denial, as nobody denied; a study that ended after it is the newest."""
    monkeypatch.chdir(tmp_path)
    folder, broken = FederationFolder(tmp_path / "fed"), "south: the data file does not exist"
    for name in ("first", "second"):
        study = folder.of_study(name)
        study.results.mkdir(parents=True)
        if name == "first":
            study.note("refused", site="south", reason=broken)
        note_state(study, "failed", time=5.0)
    sites = [{"site": name, "state": "connected"} for name in ("east", "north", "south")]
    held = lambda: [study_status(folder.of_study(name)) for name in ("first", "second")]
    told = lambda: next_step(folder, {"sites": sites, "studies": held(), "open": True})
    read = "read in the line 'study second' why study 'second' ended without a result. "
    assert told().startswith(f"{read}Then start ")
    note_state(folder.of_study("first"), "failed", time=6.0)  # once more
    assert told() == (
        f"study 'first' ended without a result. {broken}. Ask the people at south to repair this. "
        "At a site, this command says what is broken: feddcd federation status SITE_DIR. Then "
        "start the study again: feddcd federation study fed first"
    )
    assert "denied" not in next_after({"south": broken})
    assert "denied" in next_after({"south": broken, "north": f"north: {words.REFUSED}"})
    sites[2]["state"] = "not connected"
    assert told().startswith("ask the people at south to start their site")
    sites[2]["state"] = "connected"
    sites = [site | {"confirmed": True} for site in sites[:2]]  # south was retired
    left = "study 'first' ended without a result. south refused, but left the federation after that"
    assert told().startswith(f"{left}. First invite more sites, because sums need at least 3 sites")
    sites.append({"site": "west", "state": "connected", "confirmed": True})
    assert told() == f"{left}. Then start the study again: feddcd federation study fed first"
    note_state(folder.of_study("second"), "wanted")
    assert told() == "wait for study second: it runs"
    note_state(folder.of_study("second"), "done")
    assert told().startswith("start a study: ")


@pytest.mark.parametrize(
    ("waits", "then", "line"),
    [
        (words.waits("this job"), "", "north has decided"),
        (words.PAUSED, "", "north ended its pause"),
        (
            words.waits("this job"),
            "its data are missing",
            "the coordinator does not wait for people",
        ),
    ],
)
def test_nobody_is_said_to_have_decided_who_did_not(tmp_path, capsys, waits, then, line):
    folder, said = FederationFolder(tmp_path), {"reason": f"north: {waits}"}
    folder.server.mkdir()
    folder.key("north").parent.mkdir()
    folder.key("north").touch()
    ask = lambda *args, **more: [("north", Envelope(kind, {"client": "north", **said}, {}))]
    nodes, kind = types.SimpleNamespace(ask=ask), "refusal"
    hearing = Hearing(folder, nodes, Config("demo"))  # pyright: ignore
    list(hearing.replies({"north": b""}, "job", 10))
    kind, said = ("refusal", {"reason": f"north: {then}"}) if then else ("job", {})
    list(hearing.replies({"north": b""}, "job", 10))
    (event,) = [event for _, event in folder.read_events() if event["event"] == "decided"]
    _tables.show_event(event)
    assert capsys.readouterr().out.startswith(line)


def test_the_counts_of_the_status_are_those_of_its_list(tmp_path):
    entries = [
        {"waits": "ab" * 16, "what": "this job"}, {"approved": "ab" * 16},
        {"job": "ab" * 16, "exchange": -1, "digest": "ab" * 32},
        {"kind": "counts", "columns": ["age"], "rows": 9, "sites": 3, "arrays": {}},
        {"job": "ab" * 16, "exchange": 1, "sha256": "00"},
    ]  # fmt: skip
    (tmp_path / LOG).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    left, refused, last = log_of(tmp_path)
    assert (left, refused) == (1, 0)
    assert sum("  LEFT  " in line for line in last) == left


class FakeLocks(types.ModuleType):
    """As Windows' module: one byte of an open file, held by who came first."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__("msvcrt")
        self.held: set[tuple[int, int]] = set()

    def locking(self, handle: int, mode: int, size: int) -> None:
        place = (files.os.fstat(handle).st_ino, files.os.lseek(handle, 0, files.os.SEEK_CUR))
        if place in self.held:
            raise PermissionError(13, "Permission denied")
        self.held.add(place)


def test_files_are_locked_on_windows_without_its_missing_module(tmp_path, monkeypatch):
    """The module is loaded anew as on Windows, where there is no fcntl."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)  # an import of it fails
    monkeypatch.setitem(sys.modules, "msvcrt", FakeLocks())
    spec = importlib.util.spec_from_file_location("feddcd._files_there", Path(files.__file__))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    disk = there.Disk()
    with disk.lock(tmp_path / "lock"), pytest.raises(there.Locked, match=str(files.os.getpid())):
        disk.lock(tmp_path / "lock")
    there.save(disk, tmp_path / "a.json", {"a": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}


@pytest.mark.parametrize(
    "column",
    [
        "I(age > (TRUE + TRUE + TRUE)^(TRUE + TRUE + TRUE + TRUE) - TRUE)",
        "I(age > bmi / bmi * crp)",
        "I(age > bmi)",
        "I(age > exp(age - age))",
        "I(TRUE + TRUE > age)",
        "I(2 * age > 122)",
    ],
)
def test_a_threshold_without_a_numeral_is_one_nevertheless(column):
    """Rules on constants read numbers; these are made of none."""
    own = read_codebook({"columns": {"age": {"type": "number", "cuts": [61]}}})
    with pytest.raises(Refused, match="constants = 'codebook'"):
        _check_constants(own, f"y ~ {column}")
    for allowed in ("I(age > 61)", "I(sex == 'm')", "I(flag == TRUE)", "I(age / bmi)"):
        _check_constants(own, f"y ~ {allowed}")


def test_counts_behind_names_stay_and_are_told_as_such():
    out = Outgoing("columns", "newton", ("sex",), 130, 0, {}, {"sex": {"f": 63, "m": 67}}, 0, {})
    leaves, stays = describe(out).split("These numbers stay at this site")
    assert "'f', 'm'" in leaves
    assert "130" not in leaves and "67" not in leaves  # noqa: PT018
    assert "rows: 130" in stays and "'m': 67" in stays  # noqa: PT018
    line = record(out, b"", b"")
    assert line["levels"] == {"sex": ["f", "m"]}
    assert "not sent" not in line
    assert told(line) == (
        "LEFT     the names and types of 1 column: sex; the levels of 'sex': 'f', 'm'"
    )


def test_the_file_of_an_answer_has_no_number_beside_the_names_that_leave(tmp_path):
    out = Outgoing("columns", "newton", ("sex",), 130, 0, {}, {"sex": {"f": 63, "m": 67}}, 0, {})
    with pytest.raises(Waits):
        hold(tmp_path, out, b"", files.Disk(), Asker("heart", data="/data/north.csv"))
    [path] = (tmp_path / "outgoing").glob("*.json")
    held = json.loads(path.read_text())
    assert {"rows", "parameters", "sites"}.isdisjoint(held)
    assert held["levels"] == {"sex": ["f", "m"]}
    leaves = held["shown"].index("This would leave this site:")
    assert "  data file: /data/north.csv" in held["shown"][:leaves]  # it stays here
    assert "  kind: 'columns'" in held["shown"][leaves + 1]


@pytest.mark.parametrize("answered", [False, True])
def test_a_third_approval_is_named_where_the_site_answered_a_job(tmp_path, monkeypatch, answered):
    (tmp_path / "site.toml").write_text("")
    (tmp_path / "policy.toml").write_text("")
    for number in (-1, 0, *([1] if answered else [])):
        append(tmp_path, {"job": "ab" * 16, "exchange": number})
    with pytest.raises(Waits):
        require(tmp_path, "a" * 32, "names", {"shown": ["It asks for names and levels of sex"]})
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    _site.approve_command(tmp_path, ["a" * 32])
    assert "The job itself comes next, and needs another approval" in said[-1]
    assert ("the job needs a third approval" in said[-1]) == answered


def test_a_table_names_every_invited_site_that_it_lacks():
    invited, waited = ["east", "h02", "north", "south"], {("h02", "this job waits")}
    gone = absent(invited, ["north"], {"south": "south: refused"}, waited)
    assert gone == {
        "east": "east: the site did not answer in time",
        "h02": "h02: nobody at the site decided in time",
    }


def test_a_site_that_calls_another_port_is_named_and_mended(tmp_path):
    for name in ("north", "south"):
        home = tmp_path / "sites" / name
        home.mkdir(parents=True)
        port = 9093 if name == "north" else 9194
        (home / "site.toml").write_text(f'superlink = "127.0.0.1:{port}"\ndata = "d.csv"\n')
        (tmp_path / "server" / "keys").mkdir(parents=True, exist_ok=True)
    folder = FederationFolder(tmp_path)
    places = [load_place(tmp_path / "sites" / name) for name in ("north", "south")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_federation, "load_places", lambda folder: places)
        config = Config("fed", Spec(), host="127.0.0.1", port=9194)
        said: list[str] = []
        patch.setattr(_federation, "warn", said.append)
        _federation._mend_ports(folder, config)
        assert "north" in said[0] and "9194" in said[0] and "south" not in said[0]  # noqa: PT018
        assert load_place(tmp_path / "sites" / "north").address == "127.0.0.1:9194"
        other = Config("fed", Spec(), host="fed.example.org", port=9195)
        with pytest.raises(SpecError, match=r"127.0.0.1:9194.* 9195, so this site would never"):
            _federation._mend_ports(folder, other)


def test_a_dominated_column_is_named():
    X = np.ones((40, 2))
    X[0, 1] = 1e6
    question = types.SimpleNamespace(basis=np.zeros(0))
    analysis = types.SimpleNamespace(
        definite=lambda question: True,
        contributions=lambda rows, question: [("a sum of squares of a column", X**2)],
    )
    rows = SiteRows(None, None, 40, names=("age", "crp"))
    with pytest.raises(Ruled) as refusal:
        check_answer(Policy(min_support=5), rows, analysis, question)  # pyright: ignore
    told = "4 rows alone give more than 50 % of a sum of squares of the column 'crp'"
    assert told in refusal.value.story
    assert "logarithm" in refusal.value.story


@pytest.mark.parametrize(
    ("parts", "share", "told"),
    [
        (
            [9, 1, 1, 1, 1, 1, 1, 1],
            0.5,
            "4 rows alone give more than 50 % of a sum of the column 'x'",
        ),
        (
            [9, 1, 1, 1, 1, 1, 1, 1],
            0.8,
            "1 row alone gives more than 50 % of a sum of the column 'x'",
        ),
        (
            [9, 9, 9, 9, 1, 1, 1, 1],
            0.8,
            "4 rows alone give more than 80 % of a sum of the column 'x'",
        ),
        ([1] * 7 + [0] * 30, 0.5, "the column 'x' differs from 0 in fewer than 8 rows"),
        ([1] * 4 + [0] * 30, 0.8, "the column 'x' differs from 0 in fewer than 5 rows"),
    ],
)
def test_the_rows_that_dominate_a_sum_are_told(parts, share, told):
    x = np.array(parts, float)
    assert dominated(x[:, None], 5, share).all()
    assert domination(x, 5, share, "a sum of the column 'x'") == told


def test_a_name_with_spaces_is_explained():
    with pytest.raises(SpecError, match="Put a name with spaces into backticks"):
        parse("death ~ age + CRP at admission")
    with pytest.raises(SpecError, match=r"here, at '\)'[^`]*$"):
        parse("death ~ age)")


def test_words_with_commas_are_the_same_words(tmp_path, monkeypatch):
    let_in = []
    monkeypatch.setattr(_enrolment.desk, "words_of", lambda folder, site: "ab cd ef gh ij kl")
    monkeypatch.setattr(_enrolment.desk, "confirm", lambda folder, site: let_in.append(site))
    monkeypatch.setattr(FederationFolder, "note", lambda *args, **what: None)
    _enrolment.confirm_command(tmp_path, "north", "Ab, cd;  EF")
    assert let_in == ["north"]
    with pytest.raises(SpecError, match="for the words again, and run the same command"):
        _enrolment.confirm_command(tmp_path, "north", "ab cd gh")
    assert let_in == ["north"]


def test_who_waits_for_sites_reads_which_are_missing(monkeypatch):
    noted, here = [], iter([{"east"}, {"east"}, {"east", "north"}])
    nodes = types.SimpleNamespace(
        call=lambda enough: None, here=lambda: next(here), people=lambda: False
    )
    folder = types.SimpleNamespace(
        invited=lambda: ["east", "north"], note=lambda event, **what: noted.append((event, what))
    )
    monkeypatch.setattr(_nodes, "PAUSE_S", 0.0)
    _nodes.greet(folder, nodes, types.SimpleNamespace(patience=60.0))  # pyright: ignore
    assert noted == [("here", {"here": 1, "of": 2, "missing": "north"})]
