"""Sites that are damaged, old, doubled or foreign: refused by name, and the others go on."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives import serialization

from disks import in_memory
from feddcd._errors import Stalled
from feddcd.durable.codec import digest, pack, unpack
from feddcd.durable.shapes import Compiled
from feddcd.durable.site import ClientFile
from feddcd.federation import answer_node
from feddcd.federation.coordinator.inspect import inspect
from feddcd.federation.folder import FederationFolder
from feddcd.federation.machine.init import add_site
from feddcd.federation.site import _training as worker
from feddcd.federation.site import missing
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.template import loose_text
from feddcd.federation.wire import Hello, pack_message, read_refusal, unpack_message
from local_network import (
    LocalNetwork,
    events,
    make,
    model,
    places,
    quick,
    reasons,
    sums,
    train,
    wine,
)
from slices import thinned

RIDGE = {"model": "ridge", "l2": 20.0}
SENTINEL = "sentinel-4711"
OTHERS = ("site-1", "site-2", "site-3")


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with quick():
        yield


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


@pytest.fixture(scope="module")
def template():
    with in_memory() as folder:
        home = make(folder / "f", data=wine(), rounds=2, patience=0.05, **RIDGE)
        train(home, LocalNetwork(places(home)))
        yield home


@pytest.fixture
def home(template, tmp_path):
    """Four sites after two rounds; what follows happens to site-4."""
    copy = FederationFolder(tmp_path / "f")
    shutil.copytree(template.path, copy.path)
    return copy


def bad(home: FederationFolder) -> SitePlace:
    return places(home)[3]


def goes_on(
    home: FederationFolder, network: LocalNetwork, without: bool = True, rounds: int = 4
) -> None:
    """To so many rounds, of which the last are without site-4, whose words hold no secret."""
    train(home, network, rounds)
    assert len(sums(home)) == rounds
    last = OTHERS if without else (*OTHERS, "site-4")
    assert {record.members for record in sums(home)[2:]} == {last}
    assert events(home, "finished")[-1]["unsettled"] == (["site-4"] if without else [])
    assert np.isfinite(model(home)).all()
    secrets = [str(home.path), str(home.path.parent), "data.csv", SENTINEL]
    for site, said in network.heard:
        assert not [s for s in secrets if s.encode() in said], site


def table(place: SitePlace, change) -> None:
    change(pd.read_csv(place.data)).to_csv(place.data, index=False, float_format="%.17g")


def rename(home: FederationFolder) -> None:
    table(bad(home), lambda t: t.rename(columns={"x3": "age"}))


def shorten(home: FederationFolder) -> None:
    table(bad(home), lambda t: t.head(20))


def scribble(home: FederationFolder) -> None:
    table(bad(home), lambda t: t.astype({"x5": object}).replace({"x5": {t.x5[7]: SENTINEL}}))


def pierce(home: FederationFolder) -> None:
    table(bad(home), lambda t: t.assign(x5=t.x5.where(t.index != 7)))


def unlabelled(home: FederationFolder) -> None:
    table(bad(home), lambda t: t.rename(columns={"label": SENTINEL}))


def garble(home: FederationFolder) -> None:
    first, second, *rest = bad(home).data.read_text().splitlines()
    bad(home).data.write_text("\n".join([first, second, f"1,{SENTINEL},2", *rest]))


def remove(home: FederationFolder) -> None:
    bad(home).data.unlink()


def flip(home: FederationFolder) -> None:
    data = bytearray(bad(home).state.read_bytes())
    data[len(data) // 2] ^= 1
    bad(home).state.write_bytes(data)


def cut(home: FederationFolder) -> None:
    bad(home).state.write_bytes(bad(home).state.read_bytes()[:-20])


def from_elsewhere(home: FederationFolder) -> None:
    bad(home).state.unlink()
    with ClientFile(bad(home).state, federation="north", client="site-4") as file:
        file.save({}, {})


def from_another(home: FederationFolder) -> None:
    shutil.copy(places(home)[0].state, bad(home).state)


def of_the_future(home: FederationFolder) -> None:
    meta, arrays = unpack(bad(home).state.read_bytes())
    bad(home).state.write_bytes(pack(meta | {"format": 9}, arrays))


DATA = r"site-4: this site cannot use its data; the file site.log at the site says why"
STATE = r"site-4: this site cannot use its state file; the file site.log at the site says why"
BROKEN = {  # what happens to it, what the administrator reads, and what the site's own does
    "fewer rows": (
        shorten,
        "site-4: its data changed since it joined: the site has 20 rows now, and had 28 rows "
        "when it joined. Put the old data back, or retire the site and let it enrol again with a "
        "new invitation",
        None,
    ),
    "another column": (
        rename,
        "site-4: it has no column 'x3'; it has a column 'age' that the federation does not have",
        "data.csv has no column 'x3'; it has a column 'age'",
    ),
    "no label": (
        unlabelled, "site-4: the site's data have no column 'label'", "columns: 'x0', 'x1', "
    ),
    "text in a column": (
        scribble,
        "site-4: the site's column 'x5' does not contain plain numbers",
        f"column 'x5' has '{SENTINEL}' on line ",
    ),
    "a hole in a column": (pierce, DATA, "column 'x5' has no value on line 9"),
    "no table": (
        garble,
        "site-4: the site's data file cannot be read as a table",
        "data.csv:3: this line has 3 fields, but the header has 14",
    ),
    "no data": (
        remove,
        "site-4: the data file of this site does not exist; the file site.log at the site says why",
        "data.csv",
    ),
    "damaged state": (flip, STATE, "state is damaged: "),
    "half a state": (cut, STATE, "Put the latest backup in the place of this file, or ask"),
    "another federation's state": (
        from_elsewhere, STATE, "belongs to the site 'site-4' of the federation 'north', not to"
    ),
    "another site's state": (from_another, STATE, "belongs to the site 'site-1' of the federation"),
    "a newer feddcd's state": (of_the_future, STATE, "Start this site with the version of "
                                                     "feddcd that wrote"),
}  # fmt: skip


@pytest.mark.parametrize(("harm", "said", "logged"), thinned(BROKEN.values(), 2), ids=BROKEN)
def test_a_broken_site_is_refused(harm, said, logged, home, monkeypatch):
    monkeypatch.setattr(missing, "LOOK_S", 0.0)
    harm(home)
    goes_on(home, LocalNetwork(places(home)))
    assert set(reasons(home).splitlines()) == {said}
    if logged:
        assert logged in bad(home).log.read_text()
        assert str(home.path) in bad(home).log.read_text()
    assert [event["reason"] for event in inspect(home).refusals][-1] == said


def test_a_locked_state_file(home):
    with ClientFile(bad(home).state, federation="test", client="site-4"):
        goes_on(home, LocalNetwork(places(home)))
    assert reasons(home) == STATE
    assert (
        "Only one process can run a site at a time: stop that process first"
        in bad(home).log.read_text()
    )
    train(home, LocalNetwork(places(home)), 5)
    assert sums(home)[-1].members == (*OTHERS, "site-4")
    assert events(home, "certified")[-1]["dual_residual"] <= 1e-10


OLD = (
    "site-4: this site's state is older than the ledger. The site was restored from a "
    "backup, or a copy of the site runs elsewhere. Stop the copy; if there is no copy, "
    "retire the site and let it enrol again with a new invitation. The last upload of this "
    "site, as the ledger has it: round 4 (after start number 2 of the coordinator); as the site "
    "has it: round 2 (after start number 1 of the coordinator)"
)


def test_a_site_from_an_old_backup(home):
    backup = bad(home).state.read_bytes()
    train(home, LocalNetwork(places(home)), 4)
    bad(home).state.write_bytes(backup)
    network = LocalNetwork(places(home))
    train(home, network, 6)
    assert reasons(home) == OLD
    assert {record.members for record in sums(home)[4:]} == {OTHERS}


def test_a_copy_of_a_site_at_work_elsewhere(home, tmp_path):
    copy = bad(home)._replace(folder=tmp_path / "elsewhere")
    shutil.copytree(bad(home).folder, copy.folder)
    train(home, LocalNetwork([*places(home)[:3], copy]), 4)
    train(home, LocalNetwork(places(home)), 6)
    assert reasons(home) == OLD
    assert {record.members for record in sums(home)[4:]} == {OTHERS}


def test_an_old_ledger_is_refused_by_the_sites(home):
    old = home.ledger.read_bytes()
    train(home, LocalNetwork(places(home)), 4)
    home.ledger.write_bytes(old)
    for path in home.server.glob("ledger.db-*"):
        path.unlink()
    settings = home.path / "federation.toml"
    settings.write_text(settings.read_text().replace("patience = 0.05", "patience = 2"))
    with pytest.raises(Stalled, match=r"the ledger is older|waited"):
        train(home, LocalNetwork(places(home), give_up := GiveUp()), 6)
    assert (
        "the ledger is older than this site's state. At the coordinator, put back the newest ledger"
        in reasons(home)
    )
    assert len(sums(home)) == 2
    assert give_up.count > 3


class GiveUp:
    """After some messages nobody answers any more."""

    def __init__(self):
        self.count = 0

    def __call__(self, site, kind):
        self.count += 1
        return "request" if self.count > 16 else None


def test_two_nodes_of_one_name(home, tmp_path):
    copy = bad(home)._replace(folder=tmp_path / "elsewhere")
    shutil.copytree(bad(home).folder, copy.folder)
    goes_on(home, LocalNetwork([*places(home), copy]), without=False)
    assert set(reasons(home).splitlines()) == {"two programs answer as site-4: stop one of the two"}


def test_a_greeting_in_anothers_name(home):
    posing = bad(home)._replace(client="site-1")
    posing.state.unlink()
    goes_on(home, LocalNetwork([*places(home)[:3], posing]))
    assert set(reasons(home).splitlines()) == {"two programs answer as site-1: stop one of the two"}


def test_who_is_not_invited(home, tmp_path):
    stranger = SitePlace("intruder", tmp_path / "stranger", bad(home).data, "label")
    stranger.folder.mkdir()
    (stranger.folder / "policy.toml").write_text(loose_text())  # else a person is asked first
    goes_on(home, LocalNetwork([*places(home), stranger]), without=False)
    assert set(reasons(home).splitlines()) == {
        "'intruder' is not invited; to invite this site: feddcd federation invite DIR intruder"
    }


def pem(home: FederationFolder, name: str) -> bytes:
    key = serialization.load_ssh_public_key((home.site(name) / "key.pub").read_bytes())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form)


@pytest.mark.parametrize("right", [True, False])
def test_the_key_must_be_the_invited_one(right, home):
    network = LocalNetwork(places(home))
    owners = {**{i: f"site-{i}" for i in (1, 2, 3)}, 4: "site-4" if right else "site-1"}
    network.keys = {node: pem(home, name) for node, name in owners.items()}
    goes_on(home, network, without=not right)
    said = "site-1: a site that calls itself site-4 does not have the key of site-4"
    assert set(reasons(home).splitlines()) == (set() if right else {said})


def test_something_that_is_no_key(home):
    network = LocalNetwork(places(home))
    network.keys = {4: b"-----BEGIN NONSENSE"}
    goes_on(home, network)
    assert "does not have the key of site-4" in reasons(home)


def invite(home: FederationFolder, data: str, label: str = 'label = "label"\n') -> None:
    folder = add_site(home, "site-5")
    told = f'client-id = "site-5"\nsuperlink = "x:1"\ndata = "{data}"\n{label}'
    (folder / "site.toml").write_text(told)
    (folder / "policy.toml").write_text(loose_text())


def newcomer(home: FederationFolder, change) -> None:
    invite(home, "data.csv")
    shutil.copy(bad(home).data, home.site("site-5") / "data.csv")
    table(places(home)[4], change)


def sparse_newcomer(home: FederationFolder, text: str = "1 1:0.5 14:2\n0 3:1\n") -> None:
    invite(home, "data.svm", "")
    (home.site("site-5") / "data.svm").write_text(text)


MISFITS = {
    "a column less": (
        lambda home: newcomer(home, lambda t: t.drop(columns="x12")),
        "site-5 has no column 'x12'",
    ),
    "a column more": (
        lambda home: newcomer(home, lambda t: t.assign(weight=1.5)),
        "site-5 has a column 'weight' that the federation does not have",
    ),
    "another name": (
        lambda home: newcomer(home, lambda t: t.rename(columns={"x3": "age"})),
        "site-5 has no column 'x3'; it has a column 'age' that the federation does not have",
    ),
    "numbers of columns": (sparse_newcomer, "site-5 has 14 features, the federation has 13"),
    "text as labels": (
        lambda home: newcomer(home, lambda t: t.assign(label=SENTINEL)),
        "site-5: the labels of this site are text, but the model ridge needs numbers",
    ),
    "a label that is not there": (
        lambda home: newcomer(home, lambda t: t.rename(columns={"label": "died"})),
        "site-5: the site's data have no column 'label'",
    ),
    "no rows": (
        lambda home: newcomer(home, lambda t: t.head(0)),
        "site-5: the site's data have no rows",
    ),
    "lines that are not LIBSVM": (
        lambda home: sparse_newcomer(home, "1 1:0.5 14\n"),
        "site-5: the site's data file cannot be read as LIBSVM",
    ),
}


@pytest.mark.parametrize(("invited", "said"), thinned(MISFITS.values(), 2), ids=MISFITS)
def test_a_site_that_does_not_fit(invited, said, home):
    invited(home)
    goes_on(home, LocalNetwork(places(home)), without=False)
    assert set(reasons(home).splitlines()) == {said}
    assert "site-5" not in inspect(home).server.members


def test_columns_in_another_order_fit(home):
    newcomer(home, lambda t: t[["label", *reversed([f"x{j}" for j in range(13)])]])
    train(home, LocalNetwork(places(home)), 2)
    assert not reasons(home)
    assert "site-5" in inspect(home).server.members


def test_misfits_at_the_founding(tmp_path):
    home = make(tmp_path / "f", 3, wine(3), rounds=1, patience=0.05, **RIDGE)
    table(places(home)[1], lambda t: t.rename(columns={"x3": "age"}))
    train(home, LocalNetwork(places(home)))
    assert sums(home)[0].members == ("site-1", "site-3")
    assert "site-2 has no column 'x3'; it has a column 'age'" in reasons(home)


def repacked(change):
    def tamper(data: bytes) -> bytes:
        meta, arrays = unpack(data)
        return pack(*change(meta, arrays))

    return tamper


def all_of(f):
    """The upload, changed; its digest as it was."""
    return repacked(lambda meta, arrays: (meta, {k: f(v) for k, v in arrays.items()}))


def told(**values):
    return repacked(lambda meta, arrays: (meta | values, arrays))


def enlarged(meta, arrays):
    ((name, value),) = arrays.items()
    return meta | {"digest": digest(value * 1e12)}, {name: value * 1e12}


UNREADABLE = "site-4: the coordinator cannot read the answer of this site: "
UPLOADS = {
    "nan": (all_of(lambda x: x * np.nan), "site-4: its upload has a value that is not finite"),
    "inf": (all_of(lambda x: x + np.inf), "site-4: its upload has a value that is not finite"),
    "changed": (all_of(lambda x: x + 1e-9), "site-4: its upload was damaged on the way"),
    "cut": (all_of(lambda x: x[1:]), UNREADABLE + "..*float64\\(12, 1\\), but float64"),
    "rounded": (all_of(lambda x: x.astype(np.float32)), UNREADABLE + ".*float32"),
    "too large": (repacked(enlarged), r"site-4: its upload has the norm .*e\+\d+, but at most 1.*"),
    "in another's name": (told(client="site-1"), "site-4 answered under another name, site-1"),
    "in nobody's name": (told(client=[]), "site-4 answered under another name, "),
    "of another round": (told(stamp=[1, 2]), "site-4: its upload is for round "
                                             ".*over or has not begun"),
    "with a word as start": (told(incarnation="x"), UNREADABLE + "expected int, got 'x'"),
    "without a digest": (told(digest=None), "site-4: its upload was damaged on the way"),
    "of another version": (told(version=1), UNREADABLE + "the message has the version 1"),
    "of another kind": (
        told(kind=3), UNREADABLE + "the message does not say what kind of message it is"
    ),
    "without a version": (
        told(version=None), UNREADABLE + "the message has no version number, and this feddcd reads"
    ),
    "garbage": (lambda data: b"\x80\x04garbage", UNREADABLE),
    "nothing": (lambda data: b"", UNREADABLE),
    "a refusal without reason": (
        lambda data: pack({"version": 2, "kind": "refusal"}, {}), UNREADABLE
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), thinned(UPLOADS.values(), 2), ids=UPLOADS)
def test_an_upload_that_is_not_one(change, said, home):
    tamper = lambda site, kind, data: change(data) if (site, kind) == ("site-4", "task") else data
    train(home, LocalNetwork(places(home), tamper=tamper), 4)
    assert {record.members for record in sums(home)[2:]} == {OTHERS}
    assert re.match(said, reasons(home)), reasons(home)
    assert inspect(home).refusals[0]["site"] == "site-4"
    assert events(home, "certified")[-1]["dual_residual"] <= 1e-10, "it was told: not in the sum"


def test_an_older_copy_that_answers_after_a_newer_one(home):
    starts = iter([99, 98])
    tamper = lambda site, kind, data: (
        told(incarnation=next(starts))(data) if (site, kind) == ("site-4", "task") else data
    )
    train(home, LocalNetwork(places(home), tamper=tamper), 4)
    assert [record.members for record in sums(home)[2:]] == [(*OTHERS, "site-4"), OTHERS]
    said = (
        "site-4: an older copy of this site (start number 98) answered after a newer copy "
        "(start number 99); stop the older copy"
    )
    assert reasons(home) == said


def test_a_site_looks_at_its_own_result(home, monkeypatch):
    """What is not finite does not leave it, nor its state."""
    real = worker.site_learner

    class Broken(Compiled):
        def __getattr__(self, name):
            if name != "client_step":
                return super().__getattr__(name)

            def step(*args):
                state, up = super(Broken, self).__getattr__(name)(*args)
                return state, up._replace(value=up.value * np.nan)

            return step

    def site_learner(terms, site, scale):
        parts = real(terms, site, scale)
        broken = "site-4" in site.file
        return parts._replace(algorithm=Broken(parts.algorithm._algorithm)) if broken else parts

    monkeypatch.setattr(worker, "site_learner", site_learner)
    train(home, LocalNetwork(places(home)), 4)
    assert (
        reasons(home) == "site-4: the result of this site in round 3 has a value that is not finite"
    )
    assert {record.members for record in sums(home)[2:]} == {OTHERS}
    assert events(home, "certified")[-1]["dual_residual"] <= 1e-10
    monkeypatch.undo()
    train(home, LocalNetwork(places(home)), 5)
    assert sums(home)[-1].members == (*OTHERS, "site-4")


SETTLEMENTS = {
    "nan": (
        all_of(lambda x: x * np.nan),
        "site-4: the answer with which this site confirms a round has a value that is not",
    ),
    "in another's name": (told(client="site-1"), "site-4 answered under another name, site-1"),
    "of another round": (
        told(stamp=[1, 2]),
        "site-4: this site did not confirm the round that the coordinator asked about, or this "
        "site sent no numbers for the proof of the gap",
    ),
    "garbage": (lambda data: b"garbage", UNREADABLE),
    "without the proof": (
        repacked(
            lambda meta, arrays: (
                meta | {"proven": False},
                {k: v for k, v in arrays.items() if k.startswith("conserved")},
            )
        ),
        "site-4: this site did not confirm the round that the coordinator asked about, or this "
        "site sent no numbers for the proof of the gap",
    ),
}


@pytest.mark.parametrize(("change", "said"), thinned(SETTLEMENTS.values(), 2), ids=SETTLEMENTS)
def test_a_settlement_that_is_not_one(change, said, home):
    """Neither the certificate nor a departure may rest on it."""
    home.request(("site-1",), False)
    tamper = lambda site, kind, data: change(data) if (site, kind) == ("site-4", "settle") else data
    before = events(home, "certified")
    train(home, LocalNetwork(places(home), tamper=tamper), 3)
    assert reasons(home).startswith(said)
    assert events(home, "certified") == before
    assert not events(home, "retired")
    told = events(home, "waiting")[0]["reason"]
    assert told.endswith("because site-4 has not sent its last sums")
    assert np.isfinite(model(home)).all()
    assert "dual_residual" not in inspect(home).summary


GREETINGS = {
    "garbage": lambda data: b"garbage",
    "a word as rows": told(rows="many"),
    "half a row": told(rows=1.5),
    "numbers as names": told(features=[1, 2]),
    "no features": told(features=None),
    "lists as classes": told(classes=[[]]),
    "a client that is a list": told(client=["site-4"]),
    "known, perhaps": told(known="perhaps"),
    "one thing more": told(more=1),
}


@pytest.mark.parametrize("change", thinned(GREETINGS.values(), 2), ids=GREETINGS)
def test_a_greeting_that_is_not_one(change, home):
    tamper = lambda site, kind, data: change(data) if (site, kind) == ("site-4", "hello") else data
    train(home, LocalNetwork(places(home), tamper=tamper), 3)
    assert set(reasons(home).splitlines()) == {
        "a SuperNode connected, but the coordinator cannot read its first answer"
    }
    assert sums(home)[-1].members == OTHERS


@pytest.mark.parametrize("largest", [1e3, 1e12])
def test_the_guard_of_sizes_can_be_set(largest, tmp_path):
    home = make(tmp_path / "f", 3, wine(3), rounds=2, largest=largest, patience=0.05, **RIDGE)
    table(places(home)[2], lambda t: t.assign(label=1e9 * (1 + t.label)))
    train(home, LocalNetwork(places(home)))
    refused = largest < 1e6
    assert all(("site-3" in record.members) != refused for record in sums(home))
    listed = [event["reason"] for event in inspect(home).refusals]
    assert any("site-3: its upload has the norm" in said for said in listed) == refused
    assert bool(listed) == refused


def test_whatever_goes_wrong_an_answer_leaves(home, monkeypatch):
    def fail(*_):
        raise RuntimeError(f"{SENTINEL} in {home.path}")

    monkeypatch.setattr(worker, "site_learner", fail)
    network = LocalNetwork(places(home))
    network.fault = lambda site, kind: "answer" if len(network.heard) > 12 else None
    with pytest.raises(Exception, match=r"waited"):
        train(home, network, 3)
    assert "site-4: this site had an error; the file site.log at the site says why" in reasons(home)
    assert all(SENTINEL.encode() not in said for _, said in network.heard)
    log = bad(home).log.read_text()
    assert SENTINEL in log
    assert "Traceback" in log
    assert "in site_learner" not in log.splitlines()[-1]


def test_a_site_without_a_place_for_its_log_still_answers(home, tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = bad(home)._replace(folder=tmp_path / "file" / "folder")
    said = read_refusal(unpack_message(answer(pack_message(Hello("test", "ridge")), nowhere)))
    assert said.client == "site-4"
    assert str(tmp_path) not in said.reason


def test_questions_that_nobody_asks(home):
    ask = lambda data: read_refusal(unpack_message(answer(data, bad(home)))).reason
    assert ask(b"garbage") == (
        "site-4: this site cannot read the coordinator's message; the file site.log at the site "
        "says why"
    )
    unknown = pack({"version": 2, "kind": "welcome"}, {})
    assert ask(unknown) == "site-4: this site does not know this kind of message"
    for version in (1, 3):  # the masks of the first were made of long-term keys alone
        other = pack({"version": version, "kind": "hello"}, {})
        told = f"site-4: the message has the version {version}, and this feddcd reads version 2; "
        assert ask(other) == told + "install the same feddcd at all sites and at the coordinator"


def test_a_node_finds_its_place(home, capsys):
    """In Flower's simulation engine, which numbers its sites; nothing else says where one is."""
    hello = pack_message(Hello("test", "ridge"))
    said = unpack_message(answer_node(hello, {"partition-id": 3}, {"folder": str(home.path)}))
    assert (said.kind, said.meta["client"]) == ("welcome", "site-4")
    elsewhere = {"client-id": "site-4", "data": str(bad(home).data), "state": str(home.path)}
    for wrong in ({}, elsewhere, {"partition-id": 99}):
        refused = unpack_message(answer_node(hello, wrong, {"folder": str(home.path)}))
        assert refused.kind == "refusal"
        assert str(home.path) not in str(refused.meta)
        assert "this site cannot start" in capsys.readouterr().err
