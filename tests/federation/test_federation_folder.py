"""The folder of a federation: what is written there, who may read it, and what is noticed."""

import ast
import hashlib
import importlib
import itertools
import json
import pkgutil
import re
import shlex
import socket
import sqlite3
import stat
import tomllib
from pathlib import Path
from unicodedata import normalize

import jax
import numpy as np
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from typer.testing import CliRunner

import feddcd
from feddcd import algorithms
from feddcd._errors import FlowerError, LedgerError, Refused, SpecError
from feddcd.algorithms import AbstractAlgorithm
from feddcd.cli import _federation
from feddcd.cli._certify import certify_command
from feddcd.cli._federation import show_events
from feddcd.cli._members import join_command
from feddcd.cli.app import app
from feddcd.data.frames import Reading
from feddcd.durable.codec import pack, unpack
from feddcd.durable.ledger import _link
from feddcd.federation.config import Config, load_config
from feddcd.federation.coordinator.inspect import inspect, verify
from feddcd.federation.folder import (
    FederationFolder,
    load_address,
    load_limits,
    load_place,
)
from feddcd.federation.machine import programs
from feddcd.federation.machine._inner import make_door
from feddcd.federation.machine.init import add_site, certify, create
from feddcd.federation.machine.keys import same_key, serves
from feddcd.federation.site.answer import SitePlace
from feddcd.federation.terms import Terms, server_learner
from feddcd.runs.spec import Spec
from feddcd.tree import flatten
from local_network import LocalNetwork, events, make, model, places, quick, sums, train, wine
from slices import thinned

RIDGE = {"model": "ridge", "l2": 20.0}
SOURCE = Path(feddcd.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with quick():
        yield


BAD_CONFIG = {
    "no file": (
        None,
        r"to try a federation on this machine: feddcd federation init DIR --job job.toml "
        "--data FILE --g",
    ),
    "no TOML": ("name = ", r"federation.toml: not a TOML file"),
    "not text": (b"name = '\xff'", r"not a TOML file: .*UTF-8"),
    "no name": (
        "rounds = 3",
        r"federation.toml: the setting `name` is missing; write for example: name = 'north'",
    ),
    "empty name": (
        "name = ''",
        r"the setting `name` must be a text of one line that is not empty, got name=''",
    ),
    "name of two lines": (
        r'name = "a\nb"',
        r"must be a text of one line that is not empty, got name='a\\nb'",
    ),
    "name is a number": ("name = 3", r"the setting 'name' should be a text, got 3"),
    "misspelt": ("name='a'\nalgoritm='x'", r"unknown setting 'algoritm'; did you mean 'algorithm'"),
    "of a run": ("name='a'\npartition='iid'", r"unknown setting 'partition'"),
    "unknown algorithm": ("name='a'\nalgorithm='fedcd'", r"'fedcd'; did you mean 'feddcd'"),
    "unknown model": ("name='a'\nmodel='lasso'", r"unknown model 'lasso'"),
    "unknown weighting": ("name='a'\nweighting='rows'", r"unknown weighting 'rows'"),
    "unknown dtype": ("name='a'\ndtype='float16'", r"unknown dtype 'float16'"),
    "l2 of zero": (
        "name='a'\nl2=0.0",
        r"feddcd needs a penalty, because the loss of each client must be strongly convex: set l2",
    ),
    "l2 as text": ("name='a'\nl2='much'", r"the setting 'l2' should be a number, got 'much'"),
    "no rounds": ("name='a'\nrounds=0", r"rounds must be at least 1, got rounds=0"),
    "tau of one": ("name='a'\ntau=1", r"the setting `tau` must be at least 2, got tau=1"),
    "negative target": (
        "name='a'\ntarget_gap=-1.0",
        r"target_gap must be above 0, got target_gap=-1.0",
    ),
    "setting of another": ("name='a'\n[settings]\nrho=1.0", r"feddcd has no setting 'rho'"),
    "one upload": (
        "name='a'\nfewest=1",
        r"the setting `fewest` must be at least 2, because a round needs 2 uploads; got fewest=1",
    ),
    "half an upload": (
        "name='a'\nfewest=2.5",
        r"the setting 'fewest' should be a whole number, got 2.5",
    ),
    "no deadline": (
        "name='a'\ndeadline=0",
        r"the setting `deadline` must be above 0, got deadline=0",
    ),
    "no number": (
        "name='a'\npatience=nan",
        r"the setting `patience` must be above 0, got patience=nan",
    ),
    "true": ("name='a'\nlargest=true", r"the setting 'largest' should be a number, got True"),
    "port as text": (
        "name='a'\nport='9093'",
        r"the setting 'port' should be a whole number, got '9093'",
    ),
    "port too large": (
        "name='a'\nport=70000",
        r"the setting `port` must be from 1 to 65535, got port=70000",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_CONFIG.values(), ids=BAD_CONFIG)
def test_a_bad_configuration_is_named(text, message, tmp_path):
    path = tmp_path / "federation.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpecError, match=message) as error:
        load_config(path)
    assert str(path) in str(error.value)


SITE = "client-id = 'a'\nsuperlink = 'host:9093'\n"
BAD_SITE = {
    "no file": (None, r"site.toml: no such file"),
    "no TOML": ("data", r"site.toml: not a TOML file"),
    "no data": (
        SITE,
        r"does not have the path of the data of this site; write for example: data = 'patients.c",
    ),
    "empty data": (SITE + "data = ''", r"does not have the path of the data of this site"),
    "misspelt": (SITE + "data = 'x.csv'\nlable = 'y'", r"'lable'; did you mean 'label'"),
    "number": (SITE + "data = 3", r"site.toml: data must be a text, got 3"),
    "no time": (SITE + "answer_seconds = 0", r"answer_seconds must be a number above 0, got 0"),
    "no number": (SITE + "answer_memory = nan", r"answer_memory must be a number above 0"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SITE.values(), ids=BAD_SITE)
def test_a_bad_site_file_is_named(text, message, tmp_path):
    if text is not None:
        (tmp_path / "site.toml").write_text(text)
    with pytest.raises(SpecError, match=message) as error:
        load_place(tmp_path)
    assert str(tmp_path / "site.toml") in str(error.value)


def test_a_site_file_is_read(tmp_path):
    (tmp_path / "site.toml").write_text(f"{SITE}data = 'x.csv'\nlabel = 'y'\n")
    place = load_place(tmp_path)
    home = tmp_path.resolve()
    own = SitePlace("a", home, home / "x.csv", "y", address="host:9093", read=load_place)
    assert place == own
    assert load_address(tmp_path) == "host:9093"
    more = "data = 'x.csv'\nsep = ';'\ndecimal = ','\nencoding = 'latin-1'\nna = ['n/a', '-']\n"
    (tmp_path / "site.toml").write_text(SITE + more)
    place = load_place(tmp_path)
    assert place.how == Reading(";", ",", "latin-1", ("n/a", "-"))
    assert load_limits(tmp_path)[0] == 600
    (tmp_path / "site.toml").write_text(SITE + "answer_seconds = 1.5\nanswer_memory = 2\n")
    assert load_limits(tmp_path) == (1.5, 2 << 30)
    (tmp_path / "site.toml").write_text("superlink = 'host'\n")
    with pytest.raises(SpecError, match="needs superlink = 'host:port', got 'host'"):
        load_address(tmp_path)


CONFIGS = [
    Config("a"),
    Config("north & süd", Spec(algorithm="pointsaga", l2=0.5, tau=3, settings={"rho": 0.25})),
    Config("b", Spec(weighting="clients", model="ridge", target_gap=1e-6, seed=7, rounds=5)),
    Config("c", features=("age", "weight"), classes=("no", "yes"), fewest=3, largest=10.0),
    Config("d", features=13, classes=(0.0, 1.0), deadline=1.5, patience=2.0, host="h", port=1),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_a_configuration_survives_its_file(config, tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(config.to_toml())
    assert load_config(path) == config


def test_a_new_configuration_names_its_page_and_says_nothing_of_the_tables_of_studies(fresh):
    """Studies give their tables to their sites, whatever this file says."""
    text = (fresh.path / "federation.toml").read_text()
    page = Path(__file__).parents[2] / "docs/files.md"
    explained, names = page.read_text().replace("`[settings]`", "`settings`"), tomllib.loads(text)
    title = explained.split("\n")[0].removeprefix("# ")
    told = " ".join(line.removeprefix("# ") for line in text.split("\n") if line[:1] == "#")
    assert f"the page '{title}' explains every setting" in told
    assert [name for name in names if f"`{name}`" not in explained] == []
    assert "share" not in names
    given = Config("a", share="cohort")
    assert tomllib.loads(given.to_toml())["share"] == "cohort"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    config = Config("north", host="server.example", port=4711)
    return create(tmp_path_factory.mktemp("folder") / "f", ["a", "b-2"], config)


@pytest.fixture
def spaced(tmp_path, monkeypatch):
    """A federation made with a relative folder, below one with a space and brackets."""
    here = tmp_path / "a b [x] 😀"
    here.mkdir()
    monkeypatch.chdir(here)
    folder = create(Path("fed"), ["a", "b"], Config("north"))
    for name in ("a", "b"):
        file = folder.site(name) / "site.toml"
        file.write_text(file.read_text().replace('data = ""', 'data = "x.csv"'))
    return folder


def test_a_folder_is_absolute_wherever_it_was_named(spaced, monkeypatch):
    assert spaced.path == Path.cwd() / "fed"
    assert spaced == FederationFolder(Path("fed")) == FederationFolder(Path("../a b [x] 😀/fed"))
    monkeypatch.chdir(spaced.server)
    assert FederationFolder(Path("..")) == spaced
    assert load_place(Path("../sites/a")) == load_place(spaced.site("a"))


def test_what_programs_are_told_are_absolute_paths(spaced):
    make_door(spaced, 4711)
    started = [programs.link(spaced), programs.node(Path("fed/sites/a"))]
    started += [programs.coordinator(spaced, 1, 0)]
    files = ("--ssl-certfile", "--ssl-keyfile", "--ssl-ca-certfile", "--secret")
    named = [b for a, b in itertools.pairwise(started[0].command) if a in files]
    assert len(named) == len(files)
    named += [started[1].command[-1], started[2].command[-5]]
    assert all(Path(path).is_absolute() and Path(path).exists() for path in named)
    for program in started:
        assert program.log.is_absolute()
        assert Path(program.extra["FLWR_HOME"]).is_absolute()


def test_no_secret_is_in_the_list_of_processes(spaced):
    make_door(spaced, 4711)
    secret = (spaced.server / "inner.secret").read_text()
    make_door(spaced, 4712)
    assert (spaced.server / "inner.secret").read_text() != secret, "each start has its own"
    secret = (spaced.server / "inner.secret").read_text()
    assert len(secret) == 64
    for program in (programs.link(spaced), programs.coordinator(spaced, 1, 0)):
        assert secret not in " ".join([*program.command, *program.extra.values()])
    inner = programs.link(spaced).command
    assert inner[inner.index("--host") + 1] == "127.0.0.1"


def test_printed_commands_can_be_pasted(spaced, capsys, monkeypatch):
    for there, word in ((Path.cwd(), "fed"), (spaced.path.parent.parent, "a b [x] 😀/fed")):
        monkeypatch.chdir(there)
        capsys.readouterr()
        join_command(Path(word), f"c-{len(word)}")
        command = capsys.readouterr().out.splitlines()[-1].partition("run: ")[2]
        assert shlex.split(command) == ["feddcd", "federation", "up", word]
    with pytest.raises(SpecError, match="was not started yet") as error:
        inspect(spaced)
    assert shlex.split(str(error.value).partition("start it with: ")[2])[-1] == word


def test_texts_from_outside_are_printed_as_they_are(capsys):
    reason = "site [red]a[/red] has no column '[/]' :smile:"
    with show_events(Config("[north]"), 3) as watch:
        watch({"event": "refused", "reason": reason})
    assert f"refused: {reason}" in capsys.readouterr().out


def test_private_keys_are_private(fresh):
    found = [*fresh.path.rglob("key"), *fresh.path.rglob("*.key")]
    assert len(found) == 3  # the server's, and one per site: the authority's is nowhere
    for path in fresh.path.rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert b"PRIVATE KEY" in path.read_bytes()
    for site in ("a", "b-2"):
        inside = {path.name for path in fresh.site(site).iterdir()}
        assert inside == {"site.toml", "policy.toml", "key", "key.pub", "ca.crt"}, (
            "no key of anybody else"
        )
        assert fresh.invited()[site] == (fresh.site(site) / "key.pub").read_bytes()
    assert not same_key(fresh.invited()["a"], fresh.invited()["b-2"])
    assert same_key(fresh.invited()["a"], fresh.invited()["a"] + b" a comment")
    assert load_address(fresh.site("a")) == "server.example:4711"


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_servers_certificate_is_the_authoritys(fresh, tmp_path):
    server = certificate(fresh.server / "server.crt")
    verifier = lambda ca, host: (
        PolicyBuilder().store(Store([certificate(ca)])).build_server_verifier(host)
    )
    ca = fresh.site("a") / "ca.crt"
    for host in ("server.example", "localhost"):
        assert verifier(ca, x509.DNSName(host)).verify(server, [])
    with pytest.raises(VerificationError):
        verifier(ca, x509.DNSName("elsewhere.example")).verify(server, [])
    other = create(tmp_path / "other", ["a"], Config("north"))
    with pytest.raises(VerificationError):
        verifier(other.server / "ca.crt", x509.DNSName("localhost")).verify(server, [])


def test_another_host_needs_another_certificate(tmp_path):
    """With the authority's key, kept elsewhere, the sites believe it as they did."""
    config = Config("north", host="old.example", port=programs.free_port())
    safe = tmp_path / "stick"
    home = create(tmp_path / "f", ["a", "b"], config, authority=safe)
    toml, ca = home.path / "federation.toml", home.site("a") / "ca.crt"
    toml.write_text(toml.read_text().replace("old.example", "new.example"))
    with pytest.raises(SpecError, match=r"not for new.example, .* feddcd federation certify "):
        programs.up(home, print, sites=False)
    before = ca.read_bytes()
    assert not certify(home, safe)
    assert ca.read_bytes() == before
    assert serves(home.server, "new.example")
    assert not serves(home.server, "old.example")
    assert certify(home, None), "without it the sites need the new one"
    assert ca.read_bytes() == (home.server / "ca.crt").read_bytes() != before
    assert not list(home.path.rglob("ca.key"))


def test_two_people_can_compare_a_new_authority(tmp_path, capsys):
    home = create(tmp_path / "f", ["a", "b"], Config("north"), authority=tmp_path / "stick")
    certify_command(home.path, tmp_path / "stick")
    assert "sha256sum" not in capsys.readouterr().out, "the sites believe the old one"
    certify_command(home.path, None)
    digits = hashlib.sha256((home.server / "ca.crt").read_bytes()).hexdigest()[:20]
    *_, send, compare = capsys.readouterr().out.splitlines()
    assert "ca.crt to every site" in send
    assert "by phone. At the site, the command `sha256sum ca.crt` must print a line" in compare
    assert "begins with these 20 digits" in compare
    assert compare.endswith(f": {digits}")


@pytest.mark.parametrize("name", ["server.key", "server.crt", "ca.crt"])
def test_a_file_that_the_server_lacks_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setattr(programs, "answers", lambda host, port: False)
    home = create(tmp_path / "f", ["a", "b"], Config("north"))
    (home.server / name).unlink()
    with pytest.raises(SpecError, match=rf"{name} .* Put ca.crt, .* back from"):
        programs.up(home, print, sites=False)
    certify(home, None)
    assert (home.server / name).exists()


def test_another_port_reaches_the_sites_of_this_machine(tmp_path, monkeypatch):
    """The error names both places of the port; `up` mends its own sites, or ends."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        home = create(tmp_path / "fed", ["a", "b"], Config("f", host="127.0.0.1", port=port))
        both = (
            r"write port = \.\.\. into federation\.toml, and superlink = 'HOST:PORT' into the file "
            r"site\.toml of each site"
        )
        with pytest.raises(FlowerError, match=both), programs.opened(home, forget=True):
            pass
    for name in home.invited():
        path = home.site(name) / "site.toml"
        path.write_text(path.read_text().replace('data = ""', 'data = "x.csv"') + "# own words\n")
    config = Config("f", host="127.0.0.1", port=port + 1)
    said: list[str] = []
    monkeypatch.setattr(_federation, "warn", said.append)
    _federation._mend_ports(home, config)
    _federation._mend_ports(home, config)
    assert len(said) == 1, "once"
    assert f"the port in federation.toml is {port + 1}. feddcd wrote this port into " in said[0]
    for name in home.invited():
        assert load_address(home.site(name)) == f"127.0.0.1:{port + 1}"
        assert (home.site(name) / "site.toml").read_text().endswith("# own words\n")
    path.write_text(path.read_text().replace("127.0.0.1", "elsewhere.example"))
    _federation._mend_ports(home, config)
    other = Config("f", host="127.0.0.1", port=port + 2)
    with pytest.raises(SpecError, match=r"this site would never connect. Write the same port"):
        _federation._mend_ports(home, other)


def test_a_folder_in_use_is_left_alone(fresh):
    with pytest.raises(SpecError, match=r"f already has a federation\. To see what to do next: "):
        create(fresh.path, ["a"], Config("north"))
    assert len(fresh.invited()) == 2


@pytest.mark.parametrize("name", ["", "-", "..", "../a", "a/b", "a b", "ä", "a.b", "a\n", "a'"])
def test_odd_names_of_sites(name, tmp_path):
    with pytest.raises(
        SpecError, match="the name of a site may have letters, digits, - and _ only, got"
    ):
        create(tmp_path / "f", ["a", name], Config("north"))
    assert not (tmp_path / "f").exists()


def test_sites_have_one_name_each(fresh, tmp_path):
    with pytest.raises(SpecError, match="two sites have the same name: 'b'"):
        create(tmp_path / "f", ["a", "b", "b"], Config("north"))
    with pytest.raises(SpecError, match="the site 'a' is already invited"):
        add_site(fresh, "a")
    with pytest.raises(SpecError, match="the name of a site may have letters"):
        add_site(fresh, "../c")


def test_a_site_that_comes_back_has_the_keys_it_had(tmp_path):
    home = create(tmp_path / "f", ["a", "b"], Config("north"))
    before = home.invited()
    home.key("b").unlink()
    assert "b" not in home.invited()
    assert add_site(home, "b") == home.site("b")
    assert home.invited() == before


def test_settings_that_make_no_algorithm_are_not_written_down(tmp_path):
    """They could not be taken back: what was agreed stays agreed."""
    home = make(tmp_path / "f", 2, wine(2), rounds=1, settings={"eta": 5.0}, **RIDGE)
    with pytest.raises(SpecError, match=r"'eta' must be above 0 and below 2, got eta=5\.0"):
        train(home, LocalNetwork(places(home)))
    assert "'eta' must be above 0 and below 2" in events(home, "failed")[0]["reason"]
    toml = home.path / "federation.toml"
    toml.write_text(toml.read_text().replace("eta = 5.0", "eta = 1.0"))
    train(home, LocalNetwork(places(home)))
    assert len(sums(home)) == 1


class Death(Exception):
    pass


@pytest.fixture
def killed(tmp_path):
    """Three sites after two rounds; the coordinator died before anybody settled."""
    home = make(tmp_path / "f", 3, wine(3), rounds=2, **RIDGE)

    def fault(site, kind):
        if kind == "settle":
            raise Death

    with pytest.raises(Death):
        train(home, LocalNetwork(places(home), fault))
    return home


@pytest.fixture
def finished(killed):
    train(killed, LocalNetwork(places(killed)))
    return killed


def test_what_is_seen_of_a_federation(killed):
    names = {"site-1", "site-2", "site-3"}
    before = inspect(killed)
    assert (before.rounds, before.pending, set(before.last)) == (2, names, names)
    assert {stamp.round for stamp in before.last.values()} == {2}
    assert (before.summary, before.refusals, before.requests) == ({}, [], [])
    assert verify(killed).records == 1 + 1 + 3 + 2
    train(killed, LocalNetwork(places(killed)))
    killed.request(("site-1",), False)
    killed.request(("site-2", "site-3"), True)
    after = inspect(killed)
    assert (after.rounds, after.pending, after.server.epoch) == (2, set(), 2)
    assert after.requests == ["retire site-1", "expel site-2, site-3"]
    assert {member.rows for member in after.server.members.values()} == {28}
    assert after.summary["dual_residual"] <= 1e-10
    assert after.summary["certified_gap"] >= 0
    assert after.summary["members"] == dict.fromkeys(sorted(names), 28)
    assert after.terms.features == tuple(f"x{j}" for j in range(13))
    assert verify(killed).records == 1 + 2 + 3 + 2


def test_one_may_look_while_it_runs(killed):
    seen = []

    def fault(site, kind):
        if kind == "task":
            seen.append((inspect(killed).rounds, verify(killed).records))

    train(killed, LocalNetwork(places(killed), fault), 4)
    assert seen == [(2, 8)] * 3 + [(3, 9)] * 3


def test_an_empty_ledger_is_said_to_be_empty(tmp_path):
    home = make(tmp_path / "f", 2, wine(2), patience=0.02, **RIDGE)
    for look in (inspect, verify):
        with pytest.raises(
            SpecError, match="f was not started yet; start it with: feddcd federation up"
        ):
            look(home)
    done = CliRunner().invoke(app, ["federation", "verify", str(home.path)])
    assert isinstance(done.exception, SpecError), "so the exit code is 2"
    assert "VERIFIED" not in done.output, "there is nothing that could be wrong"
    with pytest.raises(Exception, match="waited"):
        train(home, LocalNetwork([]))
    for look in (inspect, verify):
        with pytest.raises(
            SpecError, match="is empty, because the sites have not agreed on the training yet"
        ):
            look(home)


def test_a_changed_model_is_noticed(finished):
    path, w = finished.server / "model.npz", model(finished)
    assert verify(finished)
    whole = path.read_bytes()
    np.savez(path, w=w + 1e-12)
    with pytest.raises(Refused, match=r"model.npz is not the model that follows from the ledger"):
        verify(finished)
    np.savez(path, w=w[1:])
    with pytest.raises(Refused, match="is not the model that follows from the ledger"):
        verify(finished)
    for damaged in (b"", b"garbage", whole[:-30], whole[:99] + b"\xff" + whole[100:]):
        path.write_bytes(damaged)
        with pytest.raises(Refused, match=r"model.npz (cannot be read|is not the model)"):
            verify(finished)


def edit(home: FederationFolder, *statement) -> None:
    database = sqlite3.connect(home.ledger)
    with database:
        assert database.execute(*statement).rowcount == 1
    database.close()


def read(home: FederationFolder, query: str) -> tuple:
    database = sqlite3.connect(home.ledger)
    row = database.execute(query).fetchone()
    database.close()
    return row


RECORDS = {
    "body": "UPDATE records SET body = zeroblob(9) WHERE seq = 6",
    "round": "UPDATE records SET round = 7 WHERE seq = 6",
    "kind": "UPDATE records SET kind = 'joined' WHERE seq = 6",
    "gone": "DELETE FROM records WHERE seq = 6",
    "the last gone": "DELETE FROM records WHERE seq = 8",
    "head": "UPDATE meta SET value = '5 x' WHERE key = 'head'",
}


@pytest.mark.parametrize("statement", thinned(RECORDS.values(), 2), ids=RECORDS)
def test_a_changed_record_is_noticed(statement, finished):
    edit(finished, statement)
    gone = "the last record should be|its last entry was changed"
    message = rf"record 6 (disagrees with|is missing)|{gone}"
    with pytest.raises(LedgerError, match=message):
        verify(finished)
    with pytest.raises(LedgerError, match=message):
        train(finished, LocalNetwork(places(finished)), 3)
    assert (
        "put the latest backup in the place of this file"
        in events(finished, "failed")[-1]["reason"]
    )


def test_a_changed_upload_is_noticed(killed):
    query = "SELECT epoch, round, client, body FROM uploads WHERE client = 'site-2'"
    epoch, round, client, body = read(killed, query)
    where = (epoch, round, client)
    changed = pack({}, {k: v + 1e-9 for k, v in unpack(body)[1].items()})
    update = "UPDATE uploads SET body = ? WHERE epoch = ? AND round = ? AND client = ?"
    edit(killed, update, (changed, *where))
    with pytest.raises(
        LedgerError, match=f"the upload of site 'site-2' in round {round} .after start number 1 "
    ):
        verify(killed)
    # who can change an upload can change its checksum, but not the digest in the chain
    update = "UPDATE uploads SET hash = ? WHERE epoch = ? AND round = ? AND client = ?"
    edit(killed, update, (_link("upload", client, epoch, round, changed), *where))
    with pytest.raises(
        Refused,
        match=r"record \d of the ledger: the upload of site 'site-2' is missing, or the sum was ",
    ):
        verify(killed)


def test_a_mean_that_is_not_the_uploads_is_noticed(killed):
    """A record forged with the whole chain after it, as a coordinator could that cheats."""
    seq, kind, epoch, round, body, _, previous = read(killed, "SELECT * FROM records WHERE seq = 7")
    meta, arrays = unpack(body)
    forged = pack(meta, {k: v + 1e-9 for k, v in arrays.items()})
    link = _link(previous, kind, epoch, round, forged)
    edit(killed, "UPDATE records SET body = ?, hash = ? WHERE seq = ?", (forged, link, seq))
    edit(killed, "UPDATE meta SET value = ? WHERE key = 'head'", (f"7 {link}",))
    with pytest.raises(
        Refused, match="record 7 of the ledger: its mean is not the mean of the uploads"
    ):
        verify(killed)


def test_events_survive_a_torn_line(finished):
    known = len(list(finished.read_events()))
    with finished.events.open("a") as file:
        file.write('{"time": 1, "eve')
    assert len(list(finished.read_events())) == known
    with finished.events.open("a") as file:
        file.write("\n" + json.dumps({"event": "later"}) + "\n")
    assert [event["event"] for _, event in finished.read_events()][known:] == ["later"]


def sources(words, folder=SOURCE):
    """Those with one of these words: names that Python reads as one are written as one."""
    texts = {path: normalize("NFKC", path.read_text()) for path in sorted(folder.rglob("*.py"))}
    found = {path: text for path, text in texts.items() if any(word in text for word in words)}
    return {path: ast.parse(text) for path, text in found.items()}


def test_nothing_is_pickled():
    """`pickle` is a word in texts, or allow_pickle=False; a model for scikit-learn is written as
    joblib where a user asks for it, and never read."""
    forbidden = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    said_no = 0
    written = SOURCE / "analysis" / "export.py"
    assert re.findall(r"joblib\.\w+", written.read_text()) == ["joblib.dump"]
    for path, tree in sources(forbidden).items():
        for node in ast.walk(tree) if path != written else ():
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Name | ast.Attribute):
                names = [node.id if isinstance(node, ast.Name) else node.attr]
            elif isinstance(node, ast.keyword) and node.arg and "pickle" in node.arg:
                assert node.arg == "allow_pickle", path
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
                said_no += 1
            assert not forbidden & {part for name in names for part in name.split(".")}, path
    assert said_no >= 2


def subclasses(cls):
    return {cls, *(below for each in cls.__subclasses__() for below in subclasses(each))}


def test_algorithms_live_in_one_place():
    for part in ("durable", "federation", "flower", "simulator"):
        for path, tree in sources({"Algorithm"}, SOURCE / part).items():
            for node in ast.walk(tree):
                bases = node.bases if isinstance(node, ast.ClassDef) else []
                assert not any("Algorithm" in ast.unparse(base) for base in bases), path
        package = importlib.import_module(f"feddcd.{part}")
        for module in pkgutil.walk_packages(package.__path__, f"feddcd.{part}."):
            if "flower." not in module.name:
                importlib.import_module(module.name)
    ours = [cls for cls in subclasses(AbstractAlgorithm) if cls.__module__.startswith("feddcd.")]
    assert len(ours) >= 8
    assert {cls.__module__.split(".")[1] for cls in ours} == {"algorithms"}


@pytest.mark.parametrize(
    "name",
    thinned(
        sorted(name for name, row in algorithms.ALGORITHMS.items() if not row.needs_everyone), 3
    ),
)
def test_sites_and_server_run_the_simulators_classes(name):
    terms = Terms("f", name, "ridge", 1.0, "samples", 0, "auto", 4, 3, 2, None)
    with jax.enable_x64(True):
        parts = server_learner(terms)
    own = type(parts.algorithm._algorithm)
    assert own.__module__.startswith("feddcd.algorithms.")
    assert own in vars(algorithms).values()
    assert flatten(parts.w)[""].dtype == np.float64
