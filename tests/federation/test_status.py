"""How a federation stands at both ends, and the list of sites that each of them signs."""

import http.client
import json
import os
import shutil
import threading
import time
from http.server import ThreadingHTTPServer
from urllib.parse import quote

import pytest

from disks import in_memory
from feddcd._errors import DataError, SpecError, Stalled
from feddcd.cli._status import handler_of, lines_of, page_of, status_of
from feddcd.cli._tables import uninvite
from feddcd.federation.config import Config
from feddcd.federation.coordinator._rosters import settle_roster
from feddcd.federation.enrolment import desk, site
from feddcd.federation.enrolment.desk import Desk
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.init import create
from feddcd.federation.machine.link_state import FILE, STALE_S, LinkState, hangs, link_of
from feddcd.federation.machine.serving import state_of, want
from feddcd.federation.roster import load_keys, load_roster
from feddcd.federation.site.answer import answer
from feddcd.federation.site.approval import (
    FEW_WAITING,
    WAITS,
    Waits,
    approve,
    deny,
    require,
    waiting,
    words_of,
)
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
        (folder / "p.csv").write_text("age,y\n60,1\n61,0\n")
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
    settle_roster(home_of(folder), asker(folder, refused), refused, 0.0)


def test_every_site_signs_the_list_of_sites_once_a_person_agreed(folder):
    with pytest.raises(Stalled, match=r"for east, north, south to sign the list of sites"):
        settle(folder)
    words = set()
    for name in NAMES:
        (id,) = waiting(folder / name)
        lines = words_of(folder / name, id)
        assert [line for line in lines if line.endswith(": new")] == [f"  {n}: new" for n in NAMES]
        words.add(lines[-1].strip())
        assert "decide on what waits" in status_of(folder / name)["next"]
        approve(folder / name, id)
    assert len(words) == 1, "all people read the same six words"
    settle(folder)
    rosters = [load_roster(folder / name) for name in NAMES]
    assert {roster.digest for roster in rosters} == {load_roster(folder / "fed/server").digest}
    assert {roster.words() for roster in rosters} == words
    settle(folder)
    assert not any(waiting(folder / name) for name in NAMES), "nobody is asked again"
    assert status_of(folder / "north")["roster"] == words.pop()


def full(keys):
    """A list of these sites that all of them signed."""
    roster = Roster([RosterMember.of(name, own) for name, own in keys.items()])
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
    assert not agreed(folder, old)[0].startswith("CAREFUL")
    (first,) = (folder / "north" / "outgoing").glob("*.approved")
    assert WAITS in given(folder, third(0))
    approve(folder / "north", waiting(folder / "north")[0])  # and it never is complete
    assert not agreed(folder, new)[0].startswith("CAREFUL")
    assert first.exists(), "that somebody agreed once is kept, and is used up"
    assert given(folder, new) == "roster", "the list that holds is not asked for again"
    for late in (old, third(0)):
        assert WAITS in given(folder, late)
        assert load_roster(folder / "north").digest == new.digest
    asked = [words_of(folder / "north", id) for id in waiting(folder / "north")]
    (told,) = [lines for lines in asked if lines[0].startswith("CAREFUL: this is an OLDER list")]
    assert "  south: with other keys" in told
    for id in waiting(folder / "north"):
        deny(folder / "north", id)
    assert "refused by the rules" in given(folder, old)


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
        with pytest.raises(SpecError, match=f"several ids: {ids[0]}, {ids[-1]}. Read again"):
            decide(site, like)
        with pytest.raises(SpecError, match="does not wait for approval"):
            decide(site, ids[0])
    assert approve(site, ids[1][:4]) == ids[1]
    assert approve(site, ids[-1]) == ids[-1]


def test_without_one_signature_there_is_no_list(folder):
    with pytest.raises(Stalled):
        settle(folder)
    for name in NAMES:
        (deny if name == "north" else approve)(folder / name, waiting(folder / name)[0])
    with pytest.raises(DataError, match="nothing can be summed without its signature: north: "):
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
        settle_roster(home_of(folder), asker(folder, refused), refused, 0.0)
    assert not waiting(folder / "north"), "nobody is asked for it"


def test_what_comes_next_is_said_at_every_step(folder):
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
    assert status_of(home.path)["next"].endswith("feddcd federation confirm fed west")
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
    for bad, reason in (("nothing = 1\n", "unknown setting"), ("port = 1\n", "of the federation")):
        with pytest.raises(SpecError, match=reason):
            want(home, "third", bad)
    assert home.studies() == ["first", "second"], "nothing is left of a study that is refused"
    with pytest.raises(SpecError, match="there is another study first"):
        want(home, "first", JOB.replace("age", "1"))
    with pytest.raises(SpecError, match="letters, digits"):
        want(home, "../x", JOB)
    one.note("refused", reason="north: <script>alert(1)</script>\x1b[31m")
    held = status_of(home.path)
    page, lines = page_of(held), "\n".join(lines_of(held))
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "\x1b" not in page + lines
    assert "study first  wanted  north: " in lines


def test_a_result_comes_back_as_plain_text(folder):
    """Of known names and sizes; whatever else somebody sends is refused."""
    place = load_place(folder / "north")
    ask = lambda **meta: unpack_message(answer(pack_message(Envelope("result", meta, {})), place))
    said = ask(study="first", files={"summary.txt": "a table\x1b[31m\nage 0.1"})
    assert said.kind == "result"
    assert (place.folder / "results/first/summary.txt").read_text() == "a table\\x1b[31m\nage 0.1"
    assert status_of(place.folder)["results"] == ["first"]
    assert "CAME     the result of first" in status_of(place.folder)["last"][-1]
    for bad in (
        {"study": "../x", "files": {"summary.txt": ""}}, {"study": "a", "files": {}}, {},
        {"study": "a", "files": {"policy.toml": ""}}, {"study": "a", "files": {"summary.txt": 1}},
        {"study": "a", "files": {"../key": ""}}, {"study": 1, "files": []},
    ):  # fmt: skip
        assert ask(**bad).kind == "refusal"
    assert [path.name for path in (place.folder / "results").iterdir()] == ["first"]


def test_how_a_site_stands_with_the_coordinator(folder, monkeypatch):
    north = folder / "north"
    assert status_of(north)["state"] == "down"
    assert status_of(north)["next"].startswith("start it: feddcd federation site ")
    link = LinkState(north, "fed.example.org:9093")
    link.tell("connecting", "it does not know the key of this site")
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
    (north / FILE).write_text(json.dumps(plain | {"pid": 2**22 + os.getpid()}))
    assert status_of(north)["state"] == "down", "its process has gone"


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
