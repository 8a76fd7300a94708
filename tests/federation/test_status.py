"""How a federation stands at both ends, and the list of sites that each of them signs."""

import http.client
import itertools
import json
import os
import re
import shlex
import shutil
import threading
import time
import types
from contextlib import suppress
from http.server import ThreadingHTTPServer
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from disks import in_memory
from feddcd._errors import DataError, Failed, FeddcdError, Refused, SpecError, Stalled
from feddcd._files import Disk
from feddcd.cli import _serving, _status, _studies
from feddcd.cli._federation import verify_command
from feddcd.cli._members import depart_command
from feddcd.cli._site import approve_command
from feddcd.cli._status import handler_of, lines_of, page_of, status_of
from feddcd.cli._study_text import study_text
from feddcd.cli._tables import uninvite
from feddcd.cli.app import app, main
from feddcd.federation import _site_status, status
from feddcd.federation.about import StudyEnd
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _ending, _rosters, _tables
from feddcd.federation.coordinator import nodes as _nodes
from feddcd.federation.coordinator._hearing import Hearing, Patience
from feddcd.federation.coordinator._rosters import PROPOSED, settle_roster
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.enrolment import departed, desk, site
from feddcd.federation.enrolment.departed import after_departure, ask_standing, let_go
from feddcd.federation.enrolment.desk import Desk
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine import programs
from feddcd.federation.machine import serving as _serving_machine
from feddcd.federation.machine.init import create
from feddcd.federation.machine.link_state import (
    FILE,
    STALE_S,
    UNKNOWN,
    LinkState,
    hangs,
    link_of,
)
from feddcd.federation.machine.studies import cancel, note_state, state_of, want
from feddcd.federation.roster import earlier_roster, load_keys, load_roster, next_roster
from feddcd.federation.sign_up import read_roster
from feddcd.federation.site import _results, approval
from feddcd.federation.site.answer import answer
from feddcd.federation.site.approval import (
    FEW_WAITING,
    Asker,
    Waits,
    approve,
    close,
    deny,
    mark_read,
    require,
    waiting,
    words_of,
)
from feddcd.federation.site.log import append
from feddcd.federation.site.told import REFUSED, WAITS, waits
from feddcd.federation.status import study_status, waits_in_words
from feddcd.federation.wire import Envelope, pack_message, unpack_message
from feddcd.sums.roster import Roster, RosterMember
from sum_sites import fixed_keys

NAMES = ("east", "north", "south")
JOB = '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n'


@pytest.fixture(scope="module")
def made():
    """A federation of three sites that enrolled, made once."""
    with in_memory() as folder:
        home = create(folder / "fed", [], Config("demo", host="fed.example.org"))
        rows = "".join(f"{50 + i % 23},{i % 7}\n" for i in range(120))
        (folder / "p.csv").write_text(f"age,y\n{rows}")
        for name in NAMES:
            given = desk.invite(home, name)
            post = lambda invitation, sent: Desk(home)(sent, "h")
            site.enrol(given, folder / name, folder / "p.csv", {}, post=post)
            desk.confirm(home, name)
        yield folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "all")
    return tmp_path / "all"


def home_of(folder):
    return FederationFolder(folder / "fed")


def asker(folder, refused):
    """As the coordinator asks: those whose answers wait, or who refuse, give nothing."""

    def ask(requests):
        for name, request in requests.items():
            said = unpack_message(answer(request, load_place(folder / name)))
            if said.kind == "roster":
                yield name, said
            elif "waits for approval" not in said.meta["reason"]:
                refused[name] = said.meta["reason"]

    return ask


def settle(folder):
    refused = {}
    settle_roster(home_of(folder), asker(folder, refused), refused, Patience(0.0, 0.0))


def test_every_site_signs_the_list_of_sites_once_a_person_agreed(folder):
    with pytest.raises(Stalled, match=r"east, north, south did not sign the roster"):
        settle(folder)
    words = set()
    for name in NAMES:
        (id,) = waiting(folder / name)
        lines = words_of(folder / name, id)
        assert [line for line in lines if line.endswith(": new")] == [f"  {n}: new" for n in NAMES]
        words.add(lines[-1].strip())
        told = "read the list of sites that waits for you, compare its roster words by phone, and"
        assert told in status_of(folder / name)["next"]
        approve(folder / name, id)
    assert len(words) == 1, "all people read the same six words"
    settle(folder)
    rosters = [load_roster(folder / name) for name in NAMES]
    assert {roster.digest for roster in rosters} == {load_roster(folder / "fed/server").digest}
    assert {roster.words() for roster in rosters} == words
    settle(folder)
    assert not any(waiting(folder / name) for name in NAMES), "nobody is asked again"
    assert status_of(folder / "north")["roster"] == words.pop()


def test_a_site_without_a_list_hears_when_it_comes(folder):
    """That is no error. `status` says so, too, with the words that a person still has to hear."""
    north = folder / "north"
    told = CliRunner().invoke(app, ["federation", "roster", str(north)])
    when = "This is normal: the coordinator makes the list when the first study begins"
    assert when in told.output
    assert told.exit_code == 0
    LinkState(north, "h:1").tell("connected")
    lines = "\n".join(lines_of(status_of(north)))
    assert "masked sums with: no sites yet. This is normal before the first study: " in lines
    words = site.enrolment_words(north)
    heard = "the person at the coordinator has read the last three of these words to you"
    assert f"\nenrolment: complete, if {heard}: {words}\n" in lines
    (north / "left.json").write_text('{"time": 1795000000.0, "barred": false}')
    held = status_of(north)
    assert (held["enrolment_words"], held["since"]) == ("", None)
    assert "earlier masked sums with: no sites" in lines_of(held)


def test_the_list_that_another_one_replaces_is_kept(folder):
    """Tables that were made with it stay proven; see test_earlier_rosters.py."""

    def agree(names):
        for _ in range(2):
            with suppress(Stalled):
                settle(folder)
            for name in names:
                for id in waiting(folder / name):
                    approve(folder / name, id)
        settle(folder)
        return load_roster(folder / "fed/server")

    first = agree(NAMES)
    assert not (folder / "fed/server/rosters").exists(), "it holds"
    given = desk.invite(home_of(folder), "west")
    post = lambda invitation, sent: Desk(home_of(folder))(sent, "h")
    site.enrol(given, folder / "west", folder / "p.csv", {}, post=post)
    desk.confirm(home_of(folder), "west")
    assert agree((*NAMES, "west")).names == (*NAMES, "west")
    kept = earlier_roster(folder / "fed/server", first.digest)
    assert kept is not None
    assert kept.roster.names == NAMES
    assert abs(kept.time - time.time()) < 60


def full(keys, made=0):
    """A list of these sites that all of them signed."""
    roster = Roster([RosterMember.of(name, own) for name, own in keys.items()], made=made)
    for own in keys.values():
        roster = roster.signed(own)
    return roster


def given(folder, roster):
    """What a site says to a list: "roster" where it takes it."""
    body = pack_message(Envelope("roster", {"roster": roster.to_json().decode()}, {}))
    said = unpack_message(answer(body, load_place(folder / "north")))
    return said.meta.get("reason", said.kind)


@pytest.fixture
def lists(folder):
    """Three lists: of two the keys of south differ."""
    north = load_keys(folder / "north")
    keys = {"north": north, "east": fixed_keys(1), "south": fixed_keys(2)}
    new = full(keys | {"south": fixed_keys(3)})
    return full(keys), new, lambda i: full(keys | {f"s{i}": fixed_keys(4 + i)})


def agreed(folder, roster):
    """A person reads the lines and agrees; then the list is taken."""
    assert WAITS in given(folder, roster)
    (id,) = waiting(folder / "north")
    lines = words_of(folder / "north", id)
    approve(folder / "north", id)
    assert given(folder, roster) == "roster"
    assert load_roster(folder / "north").digest == roster.digest
    return lines


def test_an_older_list_does_not_come_back_without_a_person(folder, lists):
    """South's keys were stolen, all agreed to a list with new ones, and the old one comes again."""
    old, new, third = lists
    assert "CAREFUL" not in "".join(agreed(folder, old))
    (first,) = (folder / "north" / "outgoing").glob("*.approved")
    assert WAITS in given(folder, third(0))
    approve(folder / "north", waiting(folder / "north")[0])  # and it never is complete
    assert "CAREFUL" not in "".join(agreed(folder, new))
    assert first.exists(), "that somebody agreed once is kept, and is used up"
    assert given(folder, new) == "roster", "the list that holds is not asked for again"
    for late in (old, third(0)):
        assert WAITS in given(folder, late)
        assert load_roster(folder / "north").digest == new.digest
    asked = [words_of(folder / "north", id) for id in waiting(folder / "north")]
    (told,) = [lines for lines in asked if lines[-3].startswith("CAREFUL: this is an OLD list")]
    assert "  south: has other keys than before" in told
    for id in waiting(folder / "north"):
        deny(folder / "north", id)
    assert "refused by the rules" in given(folder, old)


def test_the_coordinator_gives_a_later_time_to_each_new_list(folder):
    def proposed():
        with pytest.raises(Stalled):
            settle(folder)
        return read_roster(folder / "fed" / "server" / PROPOSED)

    first, again = proposed(), proposed()
    assert (first.made > START, again.digest) == (True, first.digest), "one that goes round stays"
    later = next_roster(first.members[:2], Roster(first.members, made=first.made + 10**6))
    assert later.made == first.made + 10**6 + 1, "also with a clock that is behind"
    assert next_roster(first.members, first).digest == first.digest


HOUR = 3600
START = 1_760_000_000


def test_a_new_list_of_the_sites_of_before_is_not_old(folder, lists):
    """A fourth site joins and is retired: whoever is in the list now was in it all the time."""
    keys = {"north": load_keys(folder / "north"), "east": fixed_keys(1), "south": fixed_keys(2)}
    more = keys | {"west": fixed_keys(4)}
    for number, held in enumerate((keys, more, keys, more)):
        lines = agreed(folder, full(held, START + number * HOUR))
        back = "  west: new" in lines and number == 3
        assert (
            any(
                line.startswith(
                    "CAREFUL: in this list, the site 'west' has keys from an older list."
                )
                for line in lines
            )
            == back
        )
        assert "OLD list" not in "".join(lines)
        at = "  made by the coordinator on 2025-10-09"
        assert any(line.startswith(at) for line in lines), lines
    for held, hours in ((keys, 2), (keys, 0), (more, 1), (keys, 3)):
        assert WAITS in given(folder, full(held, START + hours * HOUR))
    asked = [words_of(folder / "north", id) for id in waiting(folder / "north")]
    assert ["OLD list" in "".join(lines) for lines in asked] == [True] * 4


def test_a_new_time_does_not_hide_that_stolen_keys_come_back(folder, lists):
    keys = {"north": load_keys(folder / "north"), "east": fixed_keys(1), "south": fixed_keys(2)}
    told = (
        "CAREFUL: in this list, the site {!r} has keys from an older list. The last list that you "
        "approved did not have these keys."
    )
    for number, south in enumerate((2, 3, 2)):
        lines = agreed(folder, full(keys | {"south": fixed_keys(south)}, START + number * HOUR))
        careful = [line for line in lines if line.startswith("CAREFUL")]
        assert len(careful) == (number == 2), lines
    assert careful[0].startswith(told.format("south"))
    renamed = {"north": keys["north"], "east": fixed_keys(1), "sud": fixed_keys(3)}
    lines = agreed(folder, full(renamed, START + 9 * HOUR))
    assert lines[-1].startswith(told.format("sud")), "the keys count, whatever the name"


def test_a_time_that_makes_all_later_lists_old_is_told(folder, lists):
    keys = {"north": load_keys(folder / "north"), "east": fixed_keys(1), "south": fixed_keys(2)}
    lines = agreed(folder, full(keys, int(time.time()) + 3 * 86_400))
    assert any(line.startswith("CAREFUL: this date is in the future") for line in lines)


def test_lists_do_not_push_everything_else_aside(folder, lists):
    """A coordinator makes them for nothing; the newest few are shown."""
    folder_of = folder / "north"
    with pytest.raises(Waits):
        require(folder_of, "a" * 32, "a job", {"shown": ["a job"]})
    for number in range(FEW_WAITING + 3):
        assert WAITS in given(folder, lists[2](number))
    ids = waiting(folder_of)
    assert len(ids) == FEW_WAITING + 1
    assert "a" * 32 in ids
    shown = [line for id in ids for line in words_of(folder_of, id)]
    assert [f"  s{n}: new" in shown for n in range(8)] == [False] * 3 + [True] * 5
    log = [json.loads(line) for line in (folder_of / "outgoing.jsonl").read_bytes().splitlines()]
    assert sum("dropped" in line for line in log) == 3


def test_what_was_read_is_not_exchanged_before_it_is_approved(folder):
    """The command that is shown has eight letters of an id. While a person calls the other sites a
    coordinator sends five more lists: the first gives way, and one of them begins as it did."""
    site, like = folder / "north", "beefcafe"
    ids = [f"{like}{'0' * 24}", *(f"{n}{'1' * 31}" for n in range(4)), f"{like}{'2' * 24}"]
    for id in ids:
        with pytest.raises(Waits):
            require(site, id, "the list of sites", {"shown": [id]}, most=FEW_WAITING)
    assert (ids[0] in waiting(site), ids[-1] in waiting(site)) == (False, True)
    for decide in (approve, deny):
        with pytest.raises(SpecError, match=f"several ids: {ids[0]}, {ids[-1]}. Read these"):
            decide(site, like)
        with pytest.raises(SpecError, match="does not wait for approval"):
            decide(site, ids[0])
    assert approve(site, ids[1][:4]) == ids[1]
    assert approve(site, ids[-1]) == ids[-1]


def test_words_that_changed_since_they_were_read_are_not_approved(folder):
    """The study ends, and the same job is asked for again, for another purpose."""
    site, id = folder / "north", "a" * 32
    first, second = (Asker("heart", f"purpose {n}", "", True) for n in (1, 2))
    for asked in (first, second):
        with pytest.raises(Waits):
            require(site, id, "this job", {"shown": ["a job"]}, asked=asked)
        if asked is first:
            mark_read(site, id)
            close(site, "heart")
    assert "purpose 2" in "".join(words_of(site, id))
    with pytest.raises(SpecError, match="text of the request aaaaaaaa changed after you read it"):
        approve(site, id)
    mark_read(site, id)
    approve(site, id)
    require(site, id, "this job", {}, asked=second)


def test_a_denial_lasts_however_many_texts_came_after_it(folder, monkeypatch):
    """It was made after its study had ended: of such texts, the oldest are dropped."""
    monkeypatch.setattr(approval, "MOST_WAITING", 2)
    site, ids = folder / "north", [f"{i}" * 32 for i in range(5)]
    for i, id in enumerate(ids):
        with pytest.raises(Waits):
            require(site, id, "this job", {"shown": ["a job"]}, asked=Asker(f"study {i}"))
        close(site, f"study {i}")
        if i == 0:
            mark_read(site, id)
            deny(site, id)
    assert approval.over(site) == ids[-2:]
    with pytest.raises(Refused):
        require(site, ids[0], "this job", {"shown": ["a job"]}, asked=Asker("another"))
    mark_read(site, ids[0])
    approve(site, ids[0])


@pytest.mark.parametrize("first", ["approved", "read"])
def test_a_question_that_was_read_in_another_study_is_decided_in_this_one(folder, capsys, first):
    """A decision is over with its study; what was read alone is shown in its new words."""
    site, id, command = folder / "north", "a" * 32, lambda: approve_command(folder / "north", [id])
    for study in ("heart", "liver"):
        asked = Asker(study, "purpose", "", True)
        with pytest.raises(Waits):
            require(site, id, "this job", {"shown": ["a job"]}, asked=asked)
        if study == "heart":
            mark_read(site, id)
            if first == "approved":
                command()
            close(site, study)
            capsys.readouterr()
    if first == "read":
        with pytest.raises(SpecError, match=r"asked again for study 'liver'\. Read the new text"):
            command()
        assert "liver" in capsys.readouterr().out, "the new text"
    command()
    assert "aaaaaaaa (this job of study 'liver') is approved" in capsys.readouterr().out


def test_without_one_signature_there_is_no_list(folder):
    with pytest.raises(Stalled):
        settle(folder)
    for name in NAMES:
        (deny if name == "north" else approve)(folder / name, waiting(folder / name)[0])
    with pytest.raises(
        DataError, match=r"not all sites signed the roster \(the list of sites\)\. Refused: north: "
    ):
        settle(folder)
    assert not (folder / "fed/server/roster.json").exists()


def test_a_list_with_other_keys_for_this_site_is_refused(folder):
    path = folder / "fed/server/members/north.json"
    plain = json.loads(path.read_text())
    other = json.loads((folder / "fed/server/members/south.json").read_text())
    plain |= {"signing": other["agreement"]}
    path.write_text(json.dumps(plain))
    refused = {}
    with pytest.raises((DataError, Stalled, ValueError)):
        settle_roster(home_of(folder), asker(folder, refused), refused, Patience(0.0, 0.0))
    assert not waiting(folder / "north"), "nobody is asked for it"


def test_what_comes_next_is_said_at_every_step(folder, monkeypatch):
    monkeypatch.chdir(folder)
    home = home_of(folder)
    said = status_of(home.path)
    assert [one["state"] for one in said["sites"]] == ["not connected"] * 3
    assert said["missing"] == list(NAMES)
    assert not said["open"]
    assert said["next"] == "open the port: feddcd federation serve fed"
    given = desk.invite(home, "west")
    assert status_of(home.path)["sites"][-1]["state"] == "invited"
    post = lambda invitation, sent: Desk(home)(sent, "h")
    site.enrol(given, folder / "west", folder / "p.csv", {}, post=post)
    assert status_of(home.path)["next"] == "open the port: feddcd federation serve fed"
    monkeypatch.setattr(status, "is_up", lambda folder: True)
    monkeypatch.setattr(status, "hang_of", lambda folder: None)
    here = {name: {"online": True} for name in NAMES}
    monkeypatch.setattr(status, "connected", lambda folder: here)
    held = status_of(home.path)
    call = "call the person at west to compare the enrolment words, then: feddcd federation "
    assert held["next"] == f"{call}confirm fed west"
    assert "connected: 3 of 3 sites" in "\n".join(lines_of(held)), "west is no site yet"
    study = want(home, "first", JOB)
    note_state(study, "running")
    waits = {"time": time.time(), "until": 9e9, "people": {"east": "this job"}, "silent": []}
    study.save(study.results / "waiting.json", waits)
    told = status_of(home.path)["next"]
    assert told.startswith("wait for study first: people at east (this job) have to decide; ")
    assert told.endswith(f"Meanwhile: {call}confirm fed west")
    note_state(study, "done")
    uninvite(home, ["north"])
    assert "north" not in home.invited()
    assert "north" not in [one["site"] for one in status_of(home.path)["sites"]]
    assert "north" not in desk.members(home).names
    desk.invite(home, "north")  # it may come back, with new keys


def test_several_studies_have_a_folder_each(folder):
    home = home_of(folder)
    one, two = want(home, "first", JOB), want(home, "second", JOB.replace("age", "1"))
    assert one.results == home.path / "studies" / "first"
    assert home.studies() == ["first", "second"]
    assert one.config().name == "demo/first"
    assert one.config().plan.formula != two.config().plan.formula
    assert state_of(one)["state"] == "wanted"
    other = "the setting `port` belongs to the federation"
    for bad, reason in (("nothing = 1\n", "unknown setting"), ("port = 1\n", other)):
        with pytest.raises(SpecError, match=reason):
            want(home, "third", bad)
    assert home.studies() == ["first", "second"], "nothing is left of a study that is refused"
    with pytest.raises(
        SpecError, match="there is already another study 'first'; choose another name"
    ):
        want(home, "first", JOB.replace("age", "1"))
    with pytest.raises(SpecError, match="letters, digits"):
        want(home, "../x", JOB)
    one.note("refused", reason="north: <script>alert(1)</script>\x1b[31m")
    wanted = "\n".join(lines_of(status_of(home.path)))
    assert "study first  not begun: nobody serves\n" in wanted, "an earlier try was refused"
    note_state(one, "running")
    held = status_of(home.path)
    page, lines = page_of(held), "\n".join(lines_of(held))
    assert "&lt;script&gt;" in page
    assert page.index(">study second<") < page.index(">study first<"), "the newest is not cut off"
    assert "<script" not in page
    assert "\x1b" not in page + lines
    assert "study first  stopped: nobody serves  north: " in lines


def test_a_result_comes_back_as_plain_text(folder, monkeypatch):
    """Of known names and sizes; whatever else somebody sends is refused."""
    place = load_place(folder / "north")
    ask = lambda **meta: unpack_message(answer(pack_message(Envelope("result", meta, {})), place))
    said = ask(study="first", files={"summary.txt": "a table\x1b[31m\nage 0.1"})
    assert said.kind == "result"
    assert (place.folder / "results/first/summary.txt").read_text() == "a table\\x1b[31m\nage 0.1"
    assert status_of(place.folder)["results"] == ["first"]
    assert "RECEIVED the result of study 'first'" in status_of(place.folder)["last"][-1]
    for bad in (
        {"study": "../x", "files": {"summary.txt": ""}}, {"study": "a", "files": {}}, {},
        {"study": "a", "files": {"policy.toml": ""}}, {"study": "a", "files": {"summary.txt": 1}},
        {"study": "a", "files": {"../key": ""}}, {"study": 1, "files": []},
        {"study": "a", "files": {"coefficients.csv": '"a"b'}},
        {"study": "a", "files": {"table1.csv": '"a"b'}},
    ):  # fmt: skip
        assert ask(**bad).kind == "refusal"
    assert [path.name for path in (place.folder / "results").iterdir()] == ["first"]
    monkeypatch.setattr(_results, "MOST_BYTES", 100)
    long = {"summary.txt": "€" * 7, "coefficients.csv": "€" * 7}
    said = [ask(study=f"s{n}", files=long).kind for n in range(3)]
    assert said == ["result", "refusal", "refusal"], "they fill no disk"
    assert ask(study="s0", files=long).kind == "result", "the same once more"


def test_no_cell_of_a_result_is_a_formula_of_a_spreadsheet(folder):
    """Also where a semicolon is what separates cells."""
    place = load_place(folder / "north")
    table = 'name,coef\nage,-1.5e-05\n=1+1,+3\n"x;=1+1, a",@x\n'
    meta = {"study": "first", "files": {"coefficients.csv": table}}
    assert unpack_message(answer(pack_message(Envelope("result", meta, {})), place)).kind
    kept = (place.folder / "results/first/coefficients.csv").read_text()
    assert kept == "name,coef\nage,-1.5e-05\n'=1+1,+3\n\"x;'=1+1, a\",'@x\n"


def test_how_a_site_stands_with_the_coordinator(folder, monkeypatch):
    north = folder / "north"
    assert status_of(north)["state"] == "down"
    assert status_of(north)["next"].startswith("start this site: feddcd federation site ")
    link = LinkState(north, "fed.example.org:9093")
    link.tell("connecting", "the coordinator does not know the key of this site")
    said = status_of(north)
    assert said["state"] == "connecting"
    assert site.enrolment_words(north) in said["next"], "so that both can compare them"
    link.tell("connected")
    held = link_of(north)
    assert held["state"] == "connected"
    assert not hangs(held, 600.0)
    assert hangs(held | {"seen": time.time() - STALE_S - 1}, 600.0)
    long = held | {"state": "answering", "seen": time.time() - STALE_S - 1}
    assert not hangs(long, 600.0), "it may work for so long"
    assert hangs(long | {"seen": time.time() - STALE_S - 601}, 600.0)
    assert "connected" in "\n".join(lines_of(status_of(north)))
    plain = json.loads((north / FILE).read_text())
    (north / FILE).write_text(json.dumps(plain | {"seen": time.time() - 80}))
    with Disk().lock(north / programs.SITE_LOCK):
        said = status_of(north)
    assert (said["state"], said["since"]) == ("not responding", None), "it was suspended"
    assert "has not responded for 80 s. The program hangs, or somebody suspended it" in said["why"]
    assert f"kill -CONT {os.getpid()} {os.getpid()}. Otherwise" in said["next"], "both programs"
    (north / FILE).write_text(json.dumps(plain | {"pid": 2**22 + os.getpid()}))
    assert status_of(north)["state"] == "down", "its process has gone"
    with Disk().lock(
        north / programs.SITE_LOCK
    ):  # `site` runs, and starts its node again after a pause
        said = status_of(north)
    assert said["state"] == "connecting"
    assert "start this site" not in said["next"]


def test_the_page_is_for_this_machine_alone(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(folder / "fed", "secret"))
    port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:

        def get(path, host=f"127.0.0.1:{port}"):
            call = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            call.request("GET", path, headers={"host": host})
            said = call.getresponse()
            return said.status, said.read().decode()

        assert json.loads(get("/secret/status.json")[1])["federation"] == "demo"
        code, page = get("/secret/")
        assert code == 200
        assert "fed.example.org:9093" in page or "closed" in page
        assert get("/secret/", "evil.example.org")[0] == 403, "nor a page of a stranger"
        for path in ("/", "/status.json", "/secre/", "/secrets/", "/x/secret/", "/é/"):
            assert get(quote(path)) == (403, ""), "another user of this machine has no token"
        assert get("/secret/../fed/server/server.key")[0] == 404
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_two_pages_on_one_machine_have_a_port_each(folder, monkeypatch, capsys):
    """The usual port may be in use; a port that was asked for is named if it cannot be used."""
    handler = handler_of(folder / "fed", "secret")
    with _status.page_server(handler, 0) as first:
        taken = first.server_address[1]
        monkeypatch.setattr(_status, "PORT", taken)
        with _status.page_server(handler, None) as second:
            assert second.server_address[1] not in (0, taken)
        for port in (taken, 70000):
            with pytest.raises(SystemExit) as end:
                main(["federation", "status", str(folder / "fed"), "--serve", f"--port={port}"])
            assert end.value.code == 2
            told = capsys.readouterr().err
            assert f"cannot use port {port} (" in told
            assert "leave --port out" in told


def study_of(folder, monkeypatch, study="first", job=JOB, **more):
    """Runs a study once, as far as it comes without waiting; the reason why it ended."""
    for module in (_nodes, _rosters, _tables):
        monkeypatch.setattr(module, "PAUSE_S", 0.0)
    home = home_of(folder)
    text = "patience = 0.01\n" + "".join(f'{k} = "{v}"\n' for k, v in more.items()) + job
    want(home, study, text)
    exchange = LocalExchange([load_place(folder / name) for name in NAMES])
    with pytest.raises(FeddcdError) as reason:
        coordinate(exchange, {"folder": str(home.path), "study": study}, lambda event: None)
    note_state(home.of_study(study), "failed", reason=str(reason.value))
    return str(reason.value)


@pytest.fixture
def asked(folder, monkeypatch):
    """All have signed the list of sites, and a job waits at each of them."""
    study_of(folder, monkeypatch)
    for name in NAMES:
        approve(folder / name, *waiting(folder / name))
    told = study_of(folder, monkeypatch, purpose="why do [b]patients[/b] return?")
    assert (
        "waited 0.01 s, but got no answer from these sites: east, north, south. Nothing is lost"
        in told
    )
    return folder


def test_all_sites_hear_that_a_study_ended(asked, monkeypatch):
    """And nothing waits any more for people whose decision nobody needs."""
    north, south = asked / "north", asked / "south"
    held = status_of(north)
    assert held["ended"][-1]["how"].startswith("ended without a result: the coordinator waited")
    (id,) = waiting(north)  # who was too late may still decide
    exchange = LocalExchange([load_place(asked / name) for name in NAMES])
    real, seen = exchange.ask, []

    def ask(requests, *rest):  # the study goes on: the job waits again, and south denies it
        for node, said in real(requests, *rest):
            name = NAMES[node - 1]
            if unpack_message(requests[node]).kind == "job":
                seen.append(len(status_of(asked / name)["ended"]))
                if name == "south" and waiting(south):
                    deny(south, *waiting(south))
            yield node, said

    exchange.ask = ask
    home = home_of(asked)
    config = home.of_study("first").config()
    assert config.purpose == "why do [b]patients[/b] return?"
    path = home.path / "studies/first/study.toml"
    path.write_text(path.read_text().replace("patience = 0.01", "patience = 60.0"))
    told = r"only east and north can take part\. Refused: south: the request was refused by the"
    with pytest.raises(DataError, match=told):
        coordinate(exchange, {"folder": str(home.path), "study": "first"}, lambda event: None)
    assert set(seen) == {0}, "what goes on has not ended"
    for name in ("north", "east"):
        said = status_of(asked / name)
        refused = "a rule or a person at the site 'south' refused the job"
        words = f"{refused}; you do not have to decide anything"
        assert said["ended"][-1]["how"] == f"ended without a result: {words}"
        assert said["waits"] == []
        assert f"study first: ended without a result: {words}" in "\n".join(lines_of(said))
        assert said["last"][-1].endswith(words)
    lines = show_lines(north, monkeypatch)
    assert lines == [], "an old end is no news"
    done = CliRunner().invoke(app, ["federation", "approve", str(north), id[:8]])
    assert done.output.strip() == (
        f"{id[:8]} (this job of study 'first') is approved. Study 'first' has ended, and the "
        "coordinator asks nothing now; your decision counts if the coordinator starts the study "
        "again"
    )
    denial = "ended without a result, because a person at this site denied this job. If a person"
    assert status_of(asked / "south")["ended"][-1]["how"].startswith(denial)
    assert status_of(asked / "south")["approved_later"] == ""
    next_of = lambda site: status_of(site)["next"]
    for name in ("north", "south"):
        LinkState(asked / name, "h:1").tell("connected", "")
    (denied,) = (asked / "south" / "outgoing").glob("*.denied")
    told = "you have nothing to do: a person denied this job of study 'first' here. feddcd tells "
    told += "the coordinator and the other sites only that a rule or a person refused."
    assert next_of(south).startswith(told)
    assert next_of(south).endswith(f": feddcd federation approve {south} {denied.stem[:8]}")
    assert "a person denied" not in next_of(north)
    CliRunner().invoke(app, ["federation", "approve", str(south), denied.stem])
    assert "a person denied" not in next_of(south)
    assert "\napproved later: " in "\n".join(lines_of(status_of(south)))
    assert status_of(north)["approved_later"] == "", "north refused nothing"


def show_lines(site, monkeypatch):
    """What the running `site` prints."""
    lines: list[str] = []
    monkeypatch.setattr(_serving, "say", lines.append)
    _serving.show_news(site, _serving.known_news(site))
    return lines


def test_a_running_site_names_the_commands_to_decide(asked, monkeypatch):
    """To be pasted from any folder, also where the path has a space."""
    home = asked / "a site's north"
    shutil.move(asked / "north", home)
    (id,) = waiting(home)
    lines = show_lines(home, monkeypatch)
    assert lines[0] == "this job of study 'first' waits for your decision"
    for line, word in zip(lines[2:], ("approve", "deny"), strict=True):
        how, command = line.strip().split(": ", 1)
        assert how == word
        assert shlex.split(command) == ["feddcd", "federation", word, str(home), id[:8]]
    monkeypatch.chdir("/")
    done = CliRunner().invoke(app, shlex.split(lines[2].split(": ", 1)[1])[1:])
    assert done.exit_code == 0, done.output
    assert show_lines(home, monkeypatch) == [], "decided"
    known, lines = _serving.known_news(home), []
    (home / "results" / "first").mkdir(parents=True)
    monkeypatch.setattr(_serving, "say", lines.append)
    _serving.show_news(home, known)
    assert lines == [f"the result of study 'first' is here: {home / 'results' / 'first'}"]


def test_an_approval_is_for_what_the_person_read(tmp_path):
    """Another study, or another purpose, asks again for the same job."""
    require_ = lambda **asked: require(
        tmp_path, "aaaa1111", "this job", {"shown": ["a job"]}, asked=Asker(bound=True, **asked)
    )
    for study, purpose in (("one", "why"), ("one", "who"), ("two", "who")):
        with pytest.raises(Waits):
            require_(study=study, purpose=purpose)
        approve(tmp_path, "aaaa1111")
        require_(study=study, purpose=purpose)
    with pytest.raises(Waits):
        require_(study="two", purpose="")
    with pytest.raises(Waits):
        require(tmp_path, "bbbb2222", "an answer", {}, asked=Asker("one"))
    approve(tmp_path, "bbbb2222")
    require(tmp_path, "bbbb2222", "an answer", {}, asked=Asker("two"))  # its id is of its numbers


def test_a_person_reads_who_asks_and_what_for(asked):
    """The purpose is the coordinator's, so it is quoted, short and no markup."""
    (id,) = waiting(asked / "north")
    lines = words_of(asked / "north", id)
    assert lines[1:4] == [
        "  study: first",
        "  who asks: the coordinator at fed.example.org:9093",
        "  purpose, as the coordinator writes it (nobody checked it): "
        "'why do [b]patients[/b] return?'",
    ]
    (event,) = [e for _, e in home_of(asked).of_study("first").read_events() if e["event"] == "job"]
    assert event["job"] == id[:8], "one name of a job at both ends"
    assert f"study first  job {id[:8]}  failed" in "\n".join(lines_of(status_of(asked / "fed")))
    done = CliRunner().invoke(app, ["federation", "status", str(asked / "fed"), id[:8]])
    assert f"job {id[:8]}" in done.output
    done = CliRunner().invoke(app, ["federation", "status", str(asked / "north"), id[:8]])
    assert f"{id[:8]} (this job of study 'first'): waits for your decision" in done.output
    done = CliRunner().invoke(app, ["federation", "outgoing", str(asked / "north"), id[:8]])
    waits = "WAITS    this job waits until a person at this site decides about the request"
    assert f"{waits} {id[:8]}" in done.output
    assert "SIGNED" not in done.output, "lines of this job alone"


def said_by(*command):
    done = CliRunner().invoke(app, ["federation", *map(str, command)])
    return f"{done.output}{done.exception or ''}"


def test_the_list_of_one_job_has_its_refusals_and_no_other_job(asked, monkeypatch):
    """A refusal before any row was read, and the question for names of this plan alone."""
    north = asked / "north"
    (id,) = waiting(north)
    (north / "policy.toml").write_text('columns = ["y"]\ncomplete = true\n')
    assert "does not allow the column 'age'" in study_of(asked, monkeypatch)
    (north / "policy.toml").write_text("complete = true\n")
    for formula in ("age ~ y", "y ~ 1"):
        study_of(asked, monkeypatch, job=JOB.replace("y ~ age", formula))
    listed = said_by("outgoing", north, id[:8]).splitlines()
    kinds = [line.split()[3] for line in listed]
    assert [kind for kind in kinds if kind not in ("LEFT", "ENDED")] == ["WAITS", "REFUSED"]
    names = [line for line in listed if "names and types" in line]
    questions = {line.rpartition("[question ")[2] for line in names}
    assert len(questions) == 1, "of the same study, with other columns"
    (refused,) = [line for line in listed if "REFUSED" in line]
    why = "its policy does not allow the column 'age' (columns in policy.toml)"
    assert refused.endswith(f"{why} [job {id[:8]} of study 'first']")
    whole = said_by("outgoing", north, "--log")
    assert len({line.rpartition("[question ")[2] for line in whole.splitlines()}) > 3


def test_one_job_of_two_studies_is_told_apart_at_both_ends(asked, monkeypatch):
    """Its id is a digest of what is asked of whom, so it is the same; the study is beside it."""
    north, fed = asked / "north", asked / "fed"
    (id,) = waiting(north)
    news = _serving.show_news(north, set())
    study_of(asked, monkeypatch, "second", purpose="another")
    assert waiting(north) == [id]
    assert words_of(north, id)[1] == "  study: second", "the text of who asks now"
    lines: list[str] = []
    monkeypatch.setattr(_serving, "say", lines.append)
    _serving.show_news(north, news)
    assert "this job of study 'second' waits for your decision" in lines
    short = id[:8]
    assert f"{short} (this job of study 'second') waits for your decision" in said_by(
        "approve", north
    )
    told = f"{short} (this job of study 'second') is approved"
    assert told in said_by("approve", north, short)
    rows = said_by("status", fed, short).splitlines()
    assert [row[: row.index("  failed")] for row in rows] == [
        f"study first  job {short}",
        f"study second  job {short}",
    ]
    assert said_by("status", fed, f"second/{short}").splitlines() == rows[1:]
    assert said_by("status", fed, "second").splitlines() == rows[1:]
    assert said_by("status", north, "second") == said_by("status", north, f"second/{short}")
    told = f"several studies have the job {short}; write 'first/{short}' or 'second/{short}'"
    assert told in said_by("verify", fed, short)
    both = said_by("outgoing", north, short)
    assert both.startswith("several studies have this job: 'first' and 'second'. To see the lines")
    for study, other in (("first", "second"), ("second", "first")):
        listed = said_by("outgoing", north, f"{study}/{short}")
        assert f"of study '{study}']" in listed
        assert f"study '{other}'" not in listed
        assert ("APPROVED" in listed) == (study == "second")
        whole = said_by("outgoing", north, study).splitlines()
        assert {line for line in listed.splitlines() if short in line} <= set(whole)
        assert not any(f"study '{other}'" in line for line in whole)
    told = (
        "the coordinator's last request for this job was for study 'second', not for study 'first'"
    )
    assert told in said_by("status", north, f"first/{short}")


def test_a_job_that_was_denied_names_the_study_that_asks_now(asked, monkeypatch):
    north = asked / "north"
    deny(north, *waiting(north))
    lines: list[str] = []
    study_of(asked, monkeypatch, "second")
    monkeypatch.setattr(_serving, "say", lines.append)
    _serving.show_news(north, set())
    told = "the coordinator asks again for this job of study 'second'"
    assert f"{told}, which a person at this site denied before" in lines


def test_a_job_that_was_denied_is_approved_once_more_in_another_study(asked, monkeypatch):
    """An approval is for one study, so the status does not promise that one is enough."""
    north = asked / "north"
    (id,) = waiting(north)
    deny(north, id)
    for name in ("east", "south"):
        approve(asked / name, *waiting(asked / name))
    study_of(asked, monkeypatch, "second")
    meta = {"study": "second", "why": "refused", "sites": {"north": "rules"}}
    answer(pack_message(Envelope("ended", meta, {})), load_place(north))
    how = status_of(north)["ended"][-1]["how"]
    assert "a person at this site denied this job in study 'first'. If a person" in how
    assert "this site then asks a person about this study, too" in how
    approve(north, id)
    study_of(asked, monkeypatch, "second")
    assert waiting(north) == [id]
    assert "this job of study 'second'" in "\n".join(lines_of(status_of(north)))


@pytest.mark.parametrize(
    "meta",
    [
        {}, {"study": "a", "why": "x", "sites": {}}, {"study": "../a", "why": "done", "sites": {}},
        {"study": "a", "why": "refused", "sites": {"south": "has no man of 61"}},
        {"study": "a", "why": "refused", "sites": {"south\n": "rules"}},
        {"study": "a", "why": "refused", "sites": ["a"]}, {"study": "a", "why": [], "sites": {}},
        {"study": "a", "why": "done", "sites": {}, "note": "call 555"},
        {"study": "a", "why": "gone", "sites": {}}, {"study": "a", "why": "part", "sites": {}},
    ],
)  # fmt: skip
def test_an_end_has_no_words_of_a_stranger(folder, meta):
    place = load_place(folder / "north")
    said = unpack_message(answer(pack_message(Envelope("ended", meta, {})), place))
    assert said.kind == "refusal"
    assert not (folder / "north" / "ended").exists()


def test_a_site_that_was_let_in_before_need_not_be_confirmed(asked, monkeypatch):
    lines = []
    monkeypatch.setattr(_serving, "say", lines.append)
    LinkState(asked / "north", "h:1").tell(
        "connecting", "the coordinator does not know the key of this site"
    )
    _serving._show_link(asked / "north", "h:1", ("", ""))
    assert "has not closed an earlier connection of this site, or has just started" in lines[-1]
    assert "up to a minute" in lines[-1]
    assert status_of(asked / "north")["why"] in lines[-1], "both commands give one reason"
    assert "another program" not in "".join(lines), "no alarm"
    (asked / "north" / "roster.json").unlink()
    del lines[:]
    (asked / "north" / "enrolled.json").write_text('{"words": "a b c d e f"}')
    held = _serving._show_link(asked / "north", "h:1", ("", ""), "north")
    assert lines == [
        "the site 'north' waits: the person at the coordinator (h:1) has not confirmed this site "
        "yet",
        "  call the person at the coordinator. Read the first three of these enrolment words "
        "aloud; the other person reads the last three: a b c d e f",
        "  then the person at the coordinator gives this command, with the folder of the "
        "federation as DIR: feddcd federation confirm DIR north",
        "  leave this command running: the site connects by itself when it is confirmed",
    ]
    for state in ("connecting", "down"):  # it asks anew, and has said what it waits for
        LinkState(asked / "north", "h:1").tell(state, "")
        held = _serving._show_link(asked / "north", "h:1", held, "north")
    assert len(lines) == 4
    LinkState(asked / "north", "h:1").tell("connected", "")
    _serving._show_link(asked / "north", "h:1", held, "north")
    assert lines[4] == "connected to h:1"
    last = " ".join(site.enrolment_words(asked / "north").split()[3:])
    assert lines[5].endswith(f"coordinator has read these words to you: {last}")
    assert len(lines) == 6


def to_hear(folder):
    """Also where the site was confirmed before it was started."""
    last = " ".join(site.enrolment_words(folder).split()[3:])
    told = "approve nothing before the person at the coordinator has read these words to you"
    return f"  {told}: {last}"


def test_a_coordinator_that_restarts_is_told_without_an_alarm(folder, monkeypatch):
    """Also to a site that was let in, and has signed no list of sites yet."""
    north, lines, asks = folder / "north", [], []
    monkeypatch.setattr(_serving, "say", lines.append)
    monkeypatch.setattr(_serving, "ask_standing", lambda folder: bool(asks.append(folder)))
    link, held = LinkState(north, "h:1"), ("", "")
    monkeypatch.setattr(_serving, "BRIEF_S", 0.0)
    restarted = "the coordinator has probably restarted and does not know this site yet"
    unknown = "the coordinator does not know the key of this site, or another program uses it"
    for state, why in (("connected", ""), ("connecting", restarted), ("connecting", unknown)):
        link.tell(state, why)
        held = _serving._show_link(north, "h:1", held, "north")
    assert lines == [
        "connected to h:1",
        to_hear(north),
        f"connecting with h:1: {restarted}",
        f"connecting with h:1: {_site_status.KNOWN_BEFORE}",
    ]
    assert asks == [north, north], "it may have been retired"
    del lines[:]
    _serving._show_ended(held, f"h:1 does not accept this site: {unknown}")
    assert lines == ["this site tries again every 10 s"], "the reason was just said"
    del lines[:]
    _serving._show_ended(("", ""), f"h:1 does not accept this site: {unknown}")
    assert lines[0] == f"this site is not connected: {_site_status.KNOWN_BEFORE}"
    assert status_of(north)["next"].startswith("wait a minute")
    enrolled = north / "enrolled.json"
    os.utime(enrolled, (time.time() + 9, time.time() + 9))  # as of a copy of the folder
    assert status_of(north)["next"].startswith("wait a minute")
    held = json.loads(enrolled.read_text()) | {"time": time.time() + 9}  # it enrols again
    enrolled.write_text(json.dumps(held))
    assert "the other person reads the last three: " in status_of(north)["next"]


def test_after_a_minute_another_program_with_the_same_key_is_suspected(folder, monkeypatch):
    """A copy of the folder, or a thief: waiting does not help. Each new program goes on counting,
    and a coordinator that was away in between begins again."""
    north, lines, now = folder / "north", [], [time.time()]
    monkeypatch.setattr(_serving, "say", lines.append)
    monkeypatch.setattr(time, "time", lambda: now[0])
    unknown, error = f"the coordinator {UNKNOWN} of this site", f"h:1 says: it {UNKNOWN}"

    def pass_by(seconds, state="connecting", why=unknown):
        for _ in range(seconds // 30):
            now[0] += 30.0
            link = LinkState(north, "h:1")
            link.tell("connecting", "")
            link.tell(state, why)
        return status_of(north)["next"]

    pass_by(30, "connected", "")
    assert pass_by(60).startswith("wait a minute")
    held = _serving._show_ended(("", ""), error, north)
    assert pass_by(90).startswith("look for a second copy of this folder")
    assert status_of(north)["why"] == _site_status.ELSEWHERE
    for _ in range(2):
        held = _serving._show_ended(held, error, north)
        link = LinkState(north, "h:1")
        for state, why in (("connecting", ""), ("connecting", unknown)):  # it tries again
            link.tell(state, why)
            held = _serving._show_link(north, "h:1", held, "north")
    assert not [line for line in lines if line.startswith("connecting")]
    said = [line for line in lines if line.startswith("this site is not connected")]
    reasons = (_site_status.KNOWN_BEFORE, _site_status.ELSEWHERE)
    assert said == [f"this site is not connected: {why}" for why in reasons]
    pass_by(30, "connecting", "the coordinator is not reachable now (nobody there)")
    assert pass_by(60).startswith("wait a minute")


def test_a_connection_that_is_lost_for_seconds_is_no_news(folder, monkeypatch):
    """As when the coordinator confirms another site, and its link starts again."""
    north, lines = folder / "north", []
    monkeypatch.setattr(_serving, "say", lines.append)
    monkeypatch.setattr(_serving, "ask_standing", lambda folder: False)
    link, held = LinkState(north, "h:1"), ("", "")
    away, restarted = "the coordinator is not reachable now", "it has probably restarted"
    told = [("connected", ""), ("connecting", away), ("connecting", restarted), ("connected", "")]
    for state, why in told:
        link.tell(state, why)
        held = _serving._show_link(north, "h:1", held, "north")
    assert lines == ["connected to h:1", to_hear(north)]
    link.tell("connecting", away)
    held = _serving._show_link(north, "h:1", held, "north")
    monkeypatch.setattr(_serving, "BRIEF_S", 0.0)  # it lasts
    held = _serving._show_link(north, "h:1", held, "north")
    assert _serving._show_link(north, "h:1", held, "north") == held
    assert lines[2:] == [f"connecting with h:1: {away}"]
    link.tell("connected", "")
    _serving._show_link(north, "h:1", held, "north")
    assert lines[3:] == ["connected to h:1", to_hear(north)]


def test_a_site_that_cannot_connect_says_it_once(folder, monkeypatch):
    """Its program ends every few seconds, for days if nobody mends the certificate."""
    north, lines = folder / "north", []
    link, ends = LinkState(north, "h:1"), ["a certificate", "a certificate", "a proxy"]

    class Ending:
        """Starts, begins to connect, and ends; the last one connects, and a person stops it."""

        def __init__(self, record):
            self.starts = 0
            self.programs = {"supernode": types.SimpleNamespace(log=north / "supernode.log")}

        def start(self, program):
            link.tell("connecting")

        def again(self, name):
            self.starts += 1
            link.tell("connecting" if self.starts < len(ends) else "connected")

        def dead(self):
            if self.starts == len(ends):
                return []
            self.programs["supernode"].log.write_text(f"ERROR: {ends[self.starts]}\n")
            return ["supernode"]

        def end(self):
            pass

    def sleep(seconds):
        if lines[-2:] == ["connected to h:1", to_hear(north)]:
            raise KeyboardInterrupt

    monkeypatch.setattr(_serving, "say", lines.append)
    monkeypatch.setattr(_serving, "Group", Ending)
    monkeypatch.setattr(_serving, "load_address", lambda path: "h:1")
    monkeypatch.setattr(_serving.time, "sleep", sleep)
    _serving.site_command(north)
    link_lines = [line for line in lines if "connect" in line or "again" in line]
    assert link_lines == [
        "connecting with h:1",
        "this site is not connected: a certificate",
        "this site tries again every 10 s",
        "this site is not connected: a proxy",
        "this site tries again every 10 s",
        "connected to h:1",
    ]


def test_retire_during_a_study_is_said_at_both_ends(asked, monkeypatch):
    """The study names the site and the next command; the others hear who left; the site itself,
    whose key is refused, asks and says who retired it."""
    monkeypatch.chdir(asked)
    home = home_of(asked)
    note_state(home.of_study("first"), "running")
    path = home.path / "studies/first/study.toml"
    path.write_text(path.read_text().replace("patience = 0.01", "patience = 60.0"))
    exchange, said = LocalExchange([load_place(asked / name) for name in NAMES]), []
    real = exchange.ask

    def ask(requests, *rest):
        if "south" in home.invited() and any(
            unpack_message(data).kind == "job" for data in requests.values()
        ):
            depart_command(home.path, ["south"], barred=False)
        yield from real(requests, *rest)

    exchange.ask = ask
    monkeypatch.setattr("feddcd.cli._members.say", said.append)
    with pytest.raises(DataError, match="the site south was retired while the study ran") as reason:
        coordinate(exchange, {"folder": str(home.path), "study": "first"}, lambda event: None)
    few = "A sum needs at least 3 sites, and now the federation has 2"
    assert f"{few}. Next: invite another site: feddcd federation invite fed NAME" in str(
        reason.value
    )
    assert said[0].startswith(
        "study 'first' ends now without a result, because south took part in it"
    )
    how = status_of(asked / "north")["ended"][-1]["how"]
    assert how.startswith(
        "ended without a result: the coordinator took the site 'south' out of the"
    )
    assert status_of(asked / "north")["waits"] == []
    calls = []
    desk_of = lambda who, data: (calls.append(who), Desk(home)(data, "h"))[1]
    monkeypatch.setattr(_serving, "ask_standing", lambda folder: ask_standing(folder, desk_of))
    assert not ask_standing(asked / "north", desk_of)
    lines: list[str] = []
    monkeypatch.setattr(_serving, "say", lines.append)
    link = LinkState(asked / "south", "fed.example.org:9093")
    link.tell("connecting", "the coordinator does not know the key of this site")
    state = _serving._show_link(asked / "south", "h:1", ("connected", ""), "south")
    assert lines[0].startswith("this site was retired by the coordinator at fed.example.org:9093")
    assert "If this site will not take part again, stop its program" in lines[1]
    assert "ask the person at the coordinator for a new invitation" in lines[1]
    assert _serving._show_link(asked / "south", "h:1", state, "south") == state
    assert len(lines) == 2, "once"
    assert calls[-1].certificate == (asked / "south" / "ca.crt").read_text()
    held = status_of(asked / "south")
    assert (held["waits"], held["next"]) == ([], lines[1])
    assert "retired: this site was retired by" in "\n".join(lines_of(held))
    assert held["last"][-1].endswith("retired this site, and sends no more questions to it")
    link.tell("connected")  # it came back with a new invitation
    _serving._show_link(asked / "south", "h:1", state, "south")
    assert "retired:" not in "\n".join(lines_of(status_of(asked / "south")))


@pytest.mark.parametrize("hears", [True, False], ids=["it asked why", "it was away"])
def test_what_waited_before_a_site_left_does_not_wait_after_it_enrolled_again(
    asked, monkeypatch, hears
):
    """Its study ended without it; asked again, it waits again."""
    home, south = home_of(asked), asked / "south"
    post = lambda who, data: Desk(home)(data, "h")
    (id,) = waiting(south)
    monkeypatch.setattr("feddcd.cli._tables.say", lambda line: None)
    uninvite(home, ["south"])
    if hears:
        assert ask_standing(south, post)
        assert waiting(south) == []
    again = desk.invite(home, "south")
    site.enrol(again, south, asked / "p.csv", {}, post=post)
    desk.confirm(home, "south")
    held = status_of(south)
    assert (waiting(south), held["waits"], held["left_federation"]) == ([], [], [])
    gone = "ended for this site, because this site left the federation"
    how = f"{gone}; you do not have to decide anything"
    assert held["ended"][-1]["how"] == how
    words = "ENROLLED this site enrolled again at the coordinator fed.example.org:9093, and removed"
    words = "RETIRED" if hears else words
    assert words in held["last"][-1]
    with pytest.raises(Waits):
        require(south, id, "this job", {"shown": ["its new text"]}, asked=Asker("first"))
    assert waiting(south) == [id]
    assert words_of(south, id)[0] == "its new text"
    site.enrol(again, south, asked / "p.csv", {}, post=post)  # once more by mistake: it is let in
    assert waiting(south) == [id]


def test_a_study_without_a_retired_site_is_one_command(folder, monkeypatch):
    monkeypatch.chdir(folder)
    study = want(home_of(folder), "first", JOB)
    told = after_departure(study, ["west"])
    command = told.partition("without west: ")[2].partition(". ")[0]
    note_state(study, "failed", reason="west left")
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    told = "study 'first' starts when `feddcd federation serve` runs. To start `serve`: feddcd"
    assert told in done.output
    assert state_of(study)["state"] == "wanted"


@pytest.mark.parametrize("key", ["", "x" * 2000, "ssh-ed25519 AAAA"])
def test_a_stranger_learns_nothing_of_who_left(folder, key):
    home = home_of(folder)
    let_go(home, "north", barred=True)
    status, said = Desk(home)(json.dumps({"ask": "standing", "key": key}).encode(), "h")
    assert "left" not in json.loads(said)
    own = (folder / "north" / "key.pub").read_text()
    status, said = Desk(home)(json.dumps({"ask": "standing", "key": own}).encode(), "h")
    assert (status, json.loads(said)["left"]["barred"]) == (200, True)


class Asked:
    """A network whose sites say what they are given."""

    def __init__(self, **said):
        self.said = said

    def ask(self, requests, *, work, most):
        yield from ((site, self.said[site]) for site in requests)

    def lost(self, site):
        pass


def wait_envelope(site, what="this job"):
    return Envelope("refusal", {"client": site, "reason": f"{site}: {waits(what)}"}, {})


def test_the_status_names_all_who_are_waited_for_and_how_old_that_is(folder, monkeypatch):
    home = home_of(folder)
    study = want(home, "first", JOB)
    note_state(study, "running")
    both = {site: wait_envelope(site) for site in ("east", "north")}
    hearing = Hearing(study, Asked(**both, south=None), study.config())  # pyright: ignore
    ask = lambda: list(hearing.replies(dict.fromkeys(NAMES, b""), "job", 10))
    assert ask() == []
    told = waits_in_words(study_status(study)["waits"])
    assert told.startswith("people at east (this job) and north (this job) have to decide; no ")
    assert "no answer from south yet; the coordinator waits until " in told
    told, _, age = told.partition(" (as of ")
    assert re.fullmatch(r"\d+ s ago\)", age)
    monkeypatch.setattr(status, "is_up", lambda folder: True)
    here = {name: {"online": True} for name in NAMES}
    monkeypatch.setattr(status, "connected", lambda folder: here)
    monkeypatch.setattr(status, "looked", lambda folder: time.time() - 2)
    held = status_of(home.path)
    assert held["next"].startswith(f"wait for study first: {told}")
    assert re.search(r"connected: 3 of 3 sites \(as of \d+ s ago\)", "\n".join(lines_of(held)))
    assert "study first  running  people at east (this job) and north" in "\n".join(lines_of(held))
    hearing.nodes.said["east"] = Envelope("job", {"client": "east"}, {})  # pyright: ignore
    assert [site for site, _ in ask()] == ["east"]
    assert list(study_status(study)["waits"]["people"]) == ["north"]
    events = [event for _, event in study.read_events() if event["event"] == "decided"]
    assert [(event["site"], event["left"]) for event in events] == [("east", ["north"])]
    (study.results / "waiting.json").unlink()  # a coordinator of before had none
    heard = [text.partition(":")[0] for text in study_status(study)["heard"]]
    assert heard == ["north", "south does not answer"]


def test_while_sites_still_answer_the_status_names_all_of_them(folder):
    """And until when: nothing is left of the words of an earlier start."""
    study = want(home_of(folder), "first", JOB)
    note_state(study, "running")
    early = {"time": time.time(), "until": 9e9, "people": {"west": "this job"}, "silent": []}
    study.save(study.results / "waiting.json", early)
    seen = []

    class Slow(Asked):
        def ask(self, requests, *, work, most):
            for name in requests:
                seen.append(study_status(study))
                yield name, self.said[name]

    said = {site: wait_envelope(site) for site in NAMES}
    hearing = Hearing(study, Slow(**said), study.config())  # pyright: ignore
    assert list(hearing.replies(dict.fromkeys(NAMES, b""), "job", 10)) == []
    first, second, third = (waits_in_words(each["waits"]) for each in seen)
    assert first == ""
    assert seen[0]["heard"] == []
    until = "yet; the coordinator waits until 20"
    told = f"people at east (this job) have to decide; no answer from north and south {until}"
    assert second.startswith(told)
    assert third.startswith("people at east (this job) and north (this job) have to decide; no ")
    assert f"no answer from south {until}" in third
    assert [each["heard"] for each in seen] == [[]] * 3, "one format"
    last = waits_in_words(study_status(study)["waits"])
    assert last.startswith("people at east (this job), north (this job) and south (this job) have")
    assert list(hearing.replies(dict.fromkeys(NAMES, b""), "job", 10)) == []
    again = [waits_in_words(each["waits"]) for each in seen[3:]]
    assert not any("no answer" in text for text in again), "asked once more, they still wait"


def test_a_study_that_continues_keeps_the_time_at_which_it_began(folder, monkeypatch):
    first, second = (want(home_of(folder), name, JOB) for name in ("first", "second"))
    note_state(first, "running", time=1_700_000_000.0)
    seen = []

    def end(study):
        seen.append((state_of(first)["time"], _studies.behind(second)[0]))
        return {"event": "finished"}

    assert begun(monkeypatch, [first], end) == ["first"]
    ((began, line),) = seen
    assert began == 1_700_000_000.0
    assert "study 'first', which has been running since 2023-11-14 22:13 UTC" in line
    assert state_of(first)["time"] > began, "when it was done"


def test_a_finished_training_goes_on_only_where_sites_have_to_leave(folder):
    home, text = home_of(folder), 'model = "logistic"\n'
    study = want(home, "first", text)
    note_state(study, "done")
    with pytest.raises(SpecError, match="study 'first' is finished, so it does not start again"):
        want(home, "first", text)
    study.request(("east",), False)
    assert state_of(want(home, "first", text))["state"] == "wanted"


def test_a_study_that_is_asked_again_has_not_ended(folder):
    """Also when the list of sites comes first, which is for all studies."""
    home, north = home_of(folder), folder / "north"
    study = want(home, "first", JOB)
    end = Envelope("ended", StudyEnd("first", "late", {"east": ""})._asdict(), {})
    answer(pack_message(end), load_place(north))
    assert [each["study"] for each in status_of(north)["ended"]] == ["first"]
    with pytest.raises(Stalled):
        settle_roster(study, asker(folder, {}), {}, Patience(0.0, 0.0))
    held = status_of(north)
    assert held["ended"] == []
    (asked,) = held["asked"]
    assert asked.startswith("the list of sites for study 'first' and later studies (")
    approve(north, waiting(north)[0])
    with pytest.raises(Stalled):  # it is approved for every study
        settle_roster(want(home, "second", JOB), asker(folder, {}), {}, Patience(0.0, 0.0))
    assert waiting(north) == []


def test_people_are_waited_for_longer_than_programs(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("feddcd.federation.coordinator._hearing.time.monotonic", lambda: now[0])
    patience = Patience(600.0, 7 * 86400.0)
    now[0] = 601.0
    assert patience.late()
    patience.begin()
    patience.waiting["north"] = "this job"
    now[0] += 6 * 86400.0
    assert not patience.late()
    del patience.waiting["north"]  # it has decided: from now on a program answers
    assert not patience.late()
    now[0] += 601.0
    assert patience.late()
    patience.begin()
    patience.waiting["north"] = "this job"
    now[0] += 7 * 86400.0 + 1
    assert patience.late()


def test_how_long_people_have(folder, tmp_path):
    """A week without a word; as long as programs where only their patience was set."""
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    home = home_of(folder)
    assert Config("t").approvals == 7 * 86400
    assert Config("t", patience=3.0).approvals == 3.0
    assert Config("t", patience=3.0, approval_patience=5.0).approvals == 5.0
    for days, seconds in ((None, 7 * 86400), (0.5, 43200)):
        study = want(home, f"s{seconds}", study_text(job, "", "", days))
        assert (study.config().approvals, study.config().patience) == (seconds, 600.0)
    with pytest.raises(SpecError, match="--wait must be above 0 and at most 365 days, got 0"):
        study_text(job, "", "", 0)
    above = "^the setting `approval_patience` must be above 0, got approval_patience=-1.0$"
    with pytest.raises(SpecError, match=above):
        Config("t", approval_patience=-1.0)


def test_sites_read_that_a_study_needs_enough_sites_after_one_left():
    """Two of three are too few for a sum, and a site does not know what comes next."""
    words = StudyEnd("first", "left", {"east": ""}).words()
    assert words == (
        "ended without a result: the coordinator took the site 'east' out of the federation; the "
        "coordinator can start the study again if enough sites remain"
    )
    late = StudyEnd("first", "late", {"east": ""}).words()
    assert late.endswith("for the site 'east'; the coordinator can start the study again")


def test_a_site_that_refused_reads_of_itself_and_of_the_others():
    end = StudyEnd("first", "refused", {"east": "rules", "south": "rules", "north": "policy"})
    assert end.words(own="south") == (
        "ended without a result: a rule or a person at this site and the site 'east' refused the "
        "job; the policy of the site 'north' does not allow the job; you do not have to decide "
        "anything"
    )
    told = end.words("the rule 'cells': few rows", "south")
    assert told.startswith(
        "ended without a result, because this site refused: the rule 'cells': few rows. Also, a "
        "rule or a person at the site 'east' refused the job; the policy of the site 'north' does "
    )
    assert "solved this problem" not in told, "nothing is broken"
    assert "Tell the person at the coordinator what to change in the job; or, if" in told
    assert end.words("the disk is full", "south").endswith(
        "After you have solved this problem, the coordinator can start the study again"
    )


def test_a_rule_that_refused_is_told_once_and_next_says_what_to_do(asked):
    """The reason, as long as it can be, stood four times in one output."""
    south, why = asked / "south", "its policy does not allow " + 9 * "a cell of few rows and "
    LinkState(south, "h:1").tell("connected", "")
    for id in waiting(south):
        approve(south, id)
    told = {"of_job": "a" * 32, "study": "first"}
    refused = {"refused": REFUSED, "question": "0" * 64, "rule": "cells", "why": why}
    append(south, refused | told)
    end = StudyEnd("first", "refused", {"south": "rules"})
    answer(pack_message(Envelope("ended", end._asdict(), {})), load_place(south))
    held = status_of(south)
    lines = "\n".join(lines_of(held))
    assert why in held["ended"][-1]["how"]
    assert lines.count(why.strip()) == 1
    assert "REFUSED  see the line 'last refusal'" in lines
    assert "study first: ended without a result, because this site refused (see the line" in lines
    assert held["next"].startswith(
        "tell the person at the coordinator what to change in the job of study 'first', because a "
        "rule of this site refused the job: the line 'study first' says why. "
    )


def test_who_was_away_hears_of_an_end_with_the_next_study(folder):
    home, ended = home_of(folder), StudyEnd("first", "stopped", {})
    heard = []
    nodes = types.SimpleNamespace(
        tell=lambda message, sites, seconds: heard.append(list(sites)) or set(sites) - {"east"},
        here=lambda: {"east", "north"},
    )
    _ending.tell_end(home.of_study("first"), nodes, ended, NAMES)  # pyright: ignore
    nodes.tell = lambda message, sites, seconds: heard.append(list(sites)) or set(sites)
    _ending.tell_earlier(home.of_study("second"), nodes)  # pyright: ignore
    _ending.tell_earlier(home.of_study("second"), nodes)  # pyright: ignore
    assert heard == [["east", "north", "south"], ["east"]]


def test_a_study_whose_program_died_is_told_later(folder, monkeypatch):
    home = home_of(folder)
    study, heard = want(home, "first", JOB), []

    def to_the_end(self):
        raise Failed("the coordinator stopped 5 times")

    monkeypatch.setattr(_serving_machine.Supervisor, "to_the_end", to_the_end)
    group = types.SimpleNamespace(stop=lambda name: None)
    _serving_machine._run(study, group, lambda event: None)  # pyright: ignore
    assert state_of(study)["state"] == "failed"
    nodes = types.SimpleNamespace(
        here=lambda: set(NAMES), tell=lambda message, sites, s: heard.append(message) or set(sites)
    )
    _ending.tell_earlier(home.of_study("second"), nodes)  # pyright: ignore
    (message,) = heard
    assert unpack_message(message).meta["why"] == "stopped"


def test_a_study_that_ended_while_nobody_served_does_not_begin_again(folder, monkeypatch):
    """`serve` is killed, its coordinator lives on and ends the study: nobody is asked once more."""
    study, begun = want(home_of(folder), "first", JOB), []

    def to_the_end(self):
        begun.append(state_of(study)["state"])
        return {"event": "finished"}

    monkeypatch.setattr(_serving_machine.Supervisor, "to_the_end", to_the_end)
    run = lambda: _serving_machine._run(
        study,
        types.SimpleNamespace(stop=lambda name: None),
        lambda event: None,  # pyright: ignore
    )
    note_state(study, "running")
    for name in ("started", "finished", "shared"):
        study.note(name)
    run()
    assert (state_of(study)["state"], begun) == ("done", [])
    note_state(study, "running")  # killed in a second try, before it ended
    study.note("started")
    run()
    assert (state_of(study)["state"], begun) == ("done", ["running"])
    note_state(study, "wanted")  # asked for once more
    run()
    assert begun == ["running"] * 2


def test_a_cancelled_study_ends_at_its_sites_and_does_not_begin_again(asked, monkeypatch):
    """While people have to decide: nobody has to decide any more, and the next study has its turn.
    What was logged stays."""
    home, north = home_of(asked), asked / "north"
    study = home.of_study("first")
    path = study.results / "study.toml"
    path.write_text(path.read_text().replace("patience = 0.01", "patience = 60.0"))
    note_state(study, "running")
    exchange = LocalExchange([load_place(asked / name) for name in NAMES])
    real, log = exchange.ask, (north / "outgoing.jsonl").read_text()

    def ask(requests, *rest):
        if any(unpack_message(data).kind == "job" for data in requests.values()):
            cancel(home, "first", served=True)
        yield from real(requests, *rest)

    exchange.ask = ask
    with pytest.raises(DataError, match="a person at the coordinator cancelled the study"):
        coordinate(exchange, {"folder": str(home.path), "study": "first"}, lambda event: None)
    for name in NAMES:
        held = status_of(asked / name)
        assert held["waits"] == []
        how = "ended without a result: the coordinator cancelled the study; you do not have to"
        assert held["ended"][-1]["how"].startswith(how)
    assert (north / "outgoing.jsonl").read_text().startswith(log)
    assert not (study.results / "jobs" / "current").exists(), "its sites have forgotten its keys"


def begun(monkeypatch, studies, end):
    """Which studies `serve` begins; each ends by `end`."""
    names: list[str] = []

    def to_the_end(self):
        names.append(self.folder.study)
        return end(self.folder)

    monkeypatch.setattr(_serving_machine.Supervisor, "to_the_end", to_the_end)
    group = types.SimpleNamespace(stop=lambda name: None)
    for study in studies:
        _serving_machine._run(study, group, lambda event: None)  # pyright: ignore
    return names


def test_a_study_is_cancelled_in_every_state(folder, monkeypatch):
    home = home_of(folder)
    first, second, third = (want(home, name, JOB) for name in ("first", "second", "third"))
    cancel(home, "second", served=True)  # it waits: it ends at once
    assert state_of(second)["state"] == "cancelled"
    assert not (home.server / "unheard.json").exists(), "its sites never heard of it"

    def end(study):  # a program that does not end by itself is ended, and sites hear of it later
        cancel(home, "first", served=True)
        raise Failed("it hangs")

    assert begun(monkeypatch, [first], end) == ["first"]
    note_state(third, "running")
    cancel(home, "third", served=False)  # nobody serves
    assert [state_of(study)["state"] for study in (first, third)] == ["cancelled"] * 2
    unheard = json.loads((home.server / "unheard.json").read_text())
    assert {name: wish["ended"]["why"] for name, wish in unheard.items()} == {
        "first": "cancelled", "third": "cancelled"
    }  # fmt: skip
    note_state(first, "running")  # `serve` was killed before it noted the end
    assert begun(monkeypatch, [first], end) == []
    assert state_of(first)["state"] == "cancelled"
    for name, told in (("first", "has already ended"), ("west", "there is no study 'west'")):
        with pytest.raises(SpecError, match=told):
            cancel(home, name, served=True)
    want(home, "first", JOB.replace("age", "1"))  # the same name, once more
    assert begun(monkeypatch, [first], lambda study: {"event": "finished"}) == ["first"]
    assert state_of(first)["state"] == "done"


def test_a_coordinator_that_does_not_end_a_cancelled_study_is_stopped(folder, monkeypatch):
    study = want(home_of(folder), "first", JOB)
    monkeypatch.setattr(programs, "CANCEL_S", -1.0)
    follow = programs.Supervisor(study, None, lambda event: None, 0)  # pyright: ignore
    follow.check_cancelled()
    note_state(study, "running")
    cancel(home_of(folder), "first", served=True)
    with pytest.raises(Failed, match="cancelled the study"):
        follow.check_cancelled()


def test_who_waits_behind_another_study_reads_it(folder, monkeypatch):
    """In `study`, in `status`, and how to end the study that is first."""
    monkeypatch.chdir(folder)
    home = home_of(folder)
    first, second = want(home, "first", JOB), want(home, "second", JOB)
    note_state(first, "running")
    waits = {"time": time.time(), "until": 9e9, "people": {"east": "this job"}, "silent": []}
    first.save(first.results / "waiting.json", waits)
    monkeypatch.setattr(status, "is_up", lambda folder: True)
    monkeypatch.setattr(status, "hang_of", lambda folder: None)
    row = next(line for line in lines_of(status_of(home.path)) if line.startswith("study second"))
    assert "waits behind study 'first', which has been running since 20" in row
    assert row.endswith("; the sites of study 'first' can answer until 2255-03-14 16:00 UTC")
    lines = _studies.behind(second)
    assert lines[0].endswith("Studies run one after the other")
    command = lines[2].partition("without a result: ")[2]
    assert command == "feddcd federation study fed first --cancel"
    monkeypatch.setattr(_studies, "is_up", lambda folder: False)
    done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert "study 'first' is cancelled. It has no result" in done.output
    assert _studies.behind(second) == []
    third = want(home, "third", JOB)
    told = "study 'third' waits behind study 'second', which was"
    assert _studies.behind(third)[0].startswith(told)


def test_since_is_the_time_of_the_connection(folder, monkeypatch):
    clock = itertools.count(1000.0, 100.0)
    monkeypatch.setattr("feddcd.federation.machine.link_state.time.time", lambda: next(clock))
    link, since = LinkState(folder / "north", "fed.example.org:9093"), []
    for state in ("connecting", "connected", "answering", "connected", "connecting", "connected"):
        link.tell(state)
        since.append(link_of(folder / "north")["since"])
    assert since == [1000.0, 1100.0, 1100.0, 1100.0, 1400.0, 1500.0]


def test_a_study_has_a_mode_and_a_purpose(folder):
    (folder / "job.toml").write_text(JOB)
    (folder / "training.toml").write_text('model = "logistic"\n')

    def study(name, job, *words):
        given = ["federation", "study", str(folder / "fed"), name, "--job", str(folder / job)]
        return CliRunner().invoke(app, [*given, "--no-follow", *words])

    done = study("one", "job.toml", "--mode", "each", "--purpose", " why?  ")
    assert done.exit_code == 0, done.output
    made = home_of(folder).of_study("one")
    assert (made.config().plan.answers, made.config().purpose) == ("each", "why?")
    assert "choose another name" in str(study("one", "job.toml").exception)
    note_state(made, "failed", reason="")
    assert study("one", "job.toml", "--mode", "sum").exit_code == 0, "asked for in another way"
    for words, reason in (
        (["--mode", "all"], "the setting 'answers' must be 'sum' or 'each'; got 'all'"),
        (["--purpose", "a" * 301], "at most 300 characters"),
        (["--purpose", "a\x1b[31m"], "one line"),
    ):
        assert reason in str(study("two", "job.toml", *words).exception)
    assert "for tables" in str(study("two", "training.toml", "--mode", "sum").exception)


def test_a_site_runs_once_and_has_no_proof(tmp_path):
    """A second program with the same key would push the first one off the port."""
    folder = tmp_path / "north"
    folder.mkdir()
    twice = pytest.raises(SpecError, match=r"the site 'north' already runs \(process \d+\)")
    with _serving._alone(folder, "north"), twice, _serving._alone(folder, "north"):
        pass
    with _serving._alone(folder, "north"):
        pass
    (folder / "site.toml").touch()
    for place in (folder, folder / "results" / "one"):
        with pytest.raises(
            SpecError,
            match=r"belongs to a site, and a site has no proof file\. Ask the coordinator",
        ):
            verify_command(place)


@pytest.mark.parametrize("time", ["NaN", "-1", "1e300", '"soon"'])
def test_a_date_of_retirement_that_is_none_is_not_believed(tmp_path, time):
    """From the coordinator, or from a damaged file: a site's status must not end on it."""
    said = f'{{"left": {{"time": {time}, "barred": false}}}}'.encode()
    (tmp_path / "ca.crt").write_text("the authority")
    (tmp_path / "key.pub").write_text("a key")
    (tmp_path / "left.json").write_text(f'{{"time": {time}, "barred": false}}')
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(departed, "load_address", lambda folder: "127.0.0.1:1")
        assert not ask_standing(tmp_path, lambda who, data: (200, said))
    assert departed.left_of(tmp_path) is None
