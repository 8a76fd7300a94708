"""Invitation, enrolment, confirmation: what passes, and what is refused by name."""

import json
import re
import shutil
import ssl
import stat
import subprocess
import tomllib
from contextlib import contextmanager
from importlib.metadata import version

import pytest

from disks import in_memory
from feddcd._errors import FolderError, Refused, SpecError
from feddcd.cli._enrolment import invite_command
from feddcd.cli.app import main
from feddcd.federation.config import Config
from feddcd.federation.enrolment import desk, site
from feddcd.federation.enrolment.claim import LARGEST, Claim, claim_of
from feddcd.federation.enrolment.departed import standing
from feddcd.federation.enrolment.desk import Desk
from feddcd.federation.enrolment.invitation import DAYS, read_invitation
from feddcd.federation.enrolment.unit import (
    beside,
    of_root,
    write_coordinator_unit,
    write_dockerfile,
    write_unit,
)
from feddcd.federation.folder import FederationFolder, load_address, load_place
from feddcd.federation.machine.init import create
from feddcd.federation.machine.keys import Authority, same_key, write_pair
from feddcd.federation.site.policy import FILE, Policy, load_policy
from feddcd.federation.status import UNREADABLE, federation_status, next_step
from feddcd.sums.keys import SiteKeys
from feddcd.sums.roster import Roster
from feddcd.sums.token import NO_TOKEN, new_token

NAMES = ("north", "south", "east")


@pytest.fixture(scope="module")
def first():
    """Made once: keys and certificates take their time."""
    with in_memory() as folder:
        create(folder / "fed", [], Config("demo", host="fed.example.org"))
        yield folder


@pytest.fixture
def home(first, tmp_path):
    shutil.copytree(first / "fed", tmp_path / "fed")
    return FederationFolder(tmp_path / "fed")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("age,sex,y\n60,f,1\n61,m,0\n")
    return path


def invited(home, name, folder, days=DAYS):
    """The invitation as it arrives at the site."""
    path = folder / f"{name}.invite"
    path.write_text(desk.invite(home, name, days).text())
    return read_invitation(path)


def by(take):
    """Instead of the network: what is posted goes to this desk."""
    return lambda invitation, sent: take(sent, "192.0.2.1")


def enrolled(home, name, folder, data):
    given = invited(home, name, folder)
    return site.enrol(given, folder / name, data, {}, post=by(Desk(home)))


def events(home, kind):
    return [event for _, event in home.read_events() if event["event"] == kind]


def test_a_site_enrols_and_is_let_in_when_the_words_were_compared(home, tmp_path, data):
    made = enrolled(home, "north", tmp_path, data)
    assert not made.confirmed
    assert len(made.words.split()) == 6
    assert home.invited() == {}, "nobody is let in before a person says so"
    assert desk.words_of(home, "north") == made.words, "both people see the same words"
    desk.confirm(home, "north")
    assert same_key(home.invited()["north"], (made.folder / "key.pub").read_bytes())
    held = desk.members(home)
    assert held is not None
    assert held.names == ("north",)
    place = load_place(made.folder)
    assert (place.client, place.data) == ("north", data)
    assert load_address(made.folder) == "fed.example.org:9093"
    assert load_policy(made.folder / FILE) == Policy(), "careful"
    assert [e["event"] for _, e in home.read_events()] == ["invited", "enrolled", "confirmed"]
    with pytest.raises(SpecError, match="already confirmed"):
        desk.words_of(home, "north")
    with pytest.raises(SpecError, match="is already in the federation"):
        desk.invite(home, "north")


def test_private_keys_and_the_token_stay_where_they_are(home, tmp_path, data):
    """Nothing that travels, and no file of the coordinator, holds a secret of the site."""
    sent = []
    given = invited(home, "north", tmp_path)
    post = lambda invitation, body: (sent.append(body), Desk(home)(body, "h"))[1]
    made = site.enrol(given, tmp_path / "north", data, {}, post=post)
    secrets = [given.token.encode(), *(made.folder / "sum.keys").read_bytes().split()[4:]]
    secrets += (made.folder / "key").read_bytes().splitlines()[2:-1]
    assert len(secrets) >= 6
    kept = [p.read_bytes() for p in home.path.rglob("*") if p.is_file()]
    for secret in secrets:
        assert not any(secret in text for text in [*sent, *kept])
    for name in ("key", "sum.keys", "site.toml", "policy.toml"):
        assert stat.S_IMODE((made.folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700


def refused(home, given, folder, data, reason, host="192.0.2.1"):
    before = len(events(home, "not enrolled"))
    with pytest.raises(Refused, match=reason):
        site.enrol(given, folder, data, {}, post=by(Desk(home)))
    noted = events(home, "not enrolled")
    assert len(noted) == before + 1, "it is logged"
    assert noted[-1]["host"] == host
    return noted[-1]["reason"]


def test_a_token_works_once(home, tmp_path, data):
    given = invited(home, "north", tmp_path)
    first = site.enrol(given, tmp_path / "a", data, {}, post=by(Desk(home)))
    refused(home, given, tmp_path / "b", data, "this invitation was already used with other keys")
    again = site.enrol(given, tmp_path / "a", data, {}, post=by(Desk(home)))
    assert again.words == first.words, "its answer was lost: the same keys are the same claim"
    desk.confirm(home, "north")
    assert site.enrol(given, tmp_path / "a", data, {}, post=by(Desk(home))).confirmed
    refused(home, given, tmp_path / "b", data, "was already used")


def test_who_is_not_invited_learns_nothing(home, tmp_path, data):
    given = invited(home, "north", tmp_path)
    wrong = refused(home, given._replace(token=new_token()), tmp_path / "a", data, "has this token")
    other = refused(home, given._replace(site="south"), tmp_path / "b", data, "has this token")
    assert wrong == other == NO_TOKEN
    made = site.enrol(given, tmp_path / "c", data, {}, post=by(Desk(home)))
    assert not made.confirmed, "the token is still good"


def test_an_invitation_ends(home, tmp_path, data):
    given = invited(home, "north", tmp_path)
    late = Desk(home, now=lambda: given.expires + 1.0)
    until = r"this invitation was valid until 20\d\d-\d\d-\d\d"
    with pytest.raises(Refused, match=until):
        site.enrol(given, tmp_path / "a", data, {}, post=by(late))
    with pytest.raises(Refused, match=until):
        site.look(given, by(late))
    with pytest.raises(SpecError, match="the invitation was valid until"):
        read_invitation(tmp_path / "north.invite", now=given.expires + 1.0)
    newer = invited(home, "north", tmp_path)
    refused(home, given, tmp_path / "b", data, "has this token")  # the older one ended by the newer
    site.enrol(newer, tmp_path / "c", data, {}, post=by(Desk(home)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("address", "evil.example.org:9093"), ("expires", 9_999_999_999), ("federation", "other")],
)
def test_a_changed_invitation_is_refused(home, tmp_path, data, field, value):
    """By the site, as its check does not fit; and by the coordinator, if somebody makes it fit."""
    given = invited(home, "north", tmp_path)
    path = tmp_path / "north.invite"
    plain = tomllib.loads(path.read_text())
    path.write_text(path.read_text().replace(str(plain[field]), str(value)))
    with pytest.raises(SpecError, match="the invitation was changed on its way"):
        read_invitation(path)
    changed = given._replace(**{field: value})
    path.write_text(changed.text())
    assert read_invitation(path) == changed
    refused(home, changed, tmp_path / "a", data, "the invitation was changed on its way")


def test_another_authority_is_refused(home, tmp_path, data):
    """An invitation whose certificate was exchanged, as by somebody between the two."""
    given = invited(home, "north", tmp_path)
    other = Authority.new("other").pem().decode()
    path = tmp_path / "north.invite"
    mine, theirs = given._plain(), given._replace(certificate=other)._plain()
    path.write_text(path.read_text().replace(mine["certificate"], theirs["certificate"]))
    with pytest.raises(
        SpecError, match="the certificate in the invitation does not match its digest"
    ):
        read_invitation(path)
    refused(
        home, given._replace(certificate=other), tmp_path / "a", data, "is from another coordinator"
    )
    path.write_text("invitation = 2\n")
    with pytest.raises(SpecError, match="is an invitation of another version"):
        read_invitation(path)
    path.write_text("invitation = 1\n")
    with pytest.raises(SpecError, match="not complete, because the entry 'federation' is missing"):
        read_invitation(path)


def test_words_follow_from_every_part(home, tmp_path):
    """Another key, another authority, another name: other words. Six are as many as a roster's."""
    given = invited(home, "north", tmp_path)
    key = "ecdsa-sha2-nistp384 AAAA"
    claim = claim_of(given, "enrol", key, *_public())
    other = [
        claim._replace(site="south"), claim._replace(authority="0" * 64),
        claim._replace(invitation="0" * 64), claim._replace(key=key + "B"),
        claim._replace(signing=_public()[0]), claim._replace(agreement=_public()[1]),
    ]  # fmt: skip
    assert len({claim.words(), *(one.words() for one in other)}) == 7


def _public():
    return [half.hex() for half in SiteKeys.generate().public()]


BAD = [
    b"", b"{}", b"[]", b"null", b"\xff", b"[" * 5000, b'{"signature": 1}', b"x" * (LARGEST + 1),
    json.dumps({**dict.fromkeys(Claim._fields, "x"), "signature": "00"}).encode(),
    json.dumps({**dict.fromkeys(Claim._fields, ""), "ask": "look", "signature": ""}).encode(),
    json.dumps({**Claim("look", "../x", "", "")._asdict(), "signature": ""}).encode(),
    json.dumps({**Claim("look", "north", "", "")._asdict(), "more": 1, "signature": ""}).encode(),
    json.dumps({**Claim("look", "north", "", "")._asdict(), "signature": "0" * 128}).encode(),
    json.dumps({**Claim("look", "a\x1b[31m", "", "")._asdict(), "signature": "00"}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_the_desk_takes_nothing_else(home, tmp_path, body):
    invited(home, "north", tmp_path)
    status, said = Desk(home)(body, "192.0.2.1")
    assert status == 403
    assert set(json.loads(said)) == {"refused"}
    (event,) = events(home, "not enrolled")
    assert event["site"].isprintable()
    assert desk.records(home)["north"].claim is None


def test_who_has_a_token_is_known_before_anything_is_counted(home, tmp_path):
    given, take = invited(home, "north", tmp_path), Desk(home)
    claim = claim_of(given, "look")
    assert take.known(claim.sealed(given.token))
    assert not take.known(claim.sealed(new_token()))
    assert not take.known(claim._replace(site="south").sealed(given.token))
    assert not any(map(take.known, BAD))
    assert events(home, "not enrolled") == [], "it is only a look"


def test_a_disk_that_does_not_tell_north_from_NORTH(home, tmp_path):
    given = invited(home, "north", tmp_path)
    folder = home.server / "invitations"
    shutil.copy(folder / "north.json", folder / "NORTH.json")  # as such a disk finds it
    body = claim_of(given, "enrol", "x", *_public())._replace(site="NORTH").sealed(given.token)
    status, said = Desk(home)(body, "h")
    assert status == 403
    assert json.loads(said)["refused"] == NO_TOKEN


def test_refused_claims_fill_no_disk(home):
    take = Desk(home)
    for _ in range(3 * desk.NOTES):
        take(b"", "192.0.2.1")
    assert len(events(home, "not enrolled")) == desk.NOTES


def test_keys_that_are_no_keys_are_refused(home, tmp_path, data):
    north = enrolled(home, "north", tmp_path, data)
    desk.confirm(home, "north")
    given = invited(home, "south", tmp_path)
    key, good = (north.folder / "key.pub").read_text().strip(), _public()
    rsa = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS"
    tried = {
        "another site already has this key": (key, *good), "not a public key": ("x", *good),
        "with the curve secp384r1": (rsa, *good), "does not have 32 bytes": (key, "00", "00"),
    }  # fmt: skip
    for reason, keys in tried.items():
        body = claim_of(given, "enrol", *keys).sealed(given.token)
        status, said = Desk(home)(body, "h")
        assert status == 403
        assert reason in json.loads(said)["refused"]
    assert desk.records(home)["south"].claim is None


def test_three_sites_make_one_roster_that_nobody_signed_yet(home, tmp_path, data):
    for name in NAMES:
        enrolled(home, name, tmp_path, data)
        desk.confirm(home, name)
    held = desk.members(home)
    assert isinstance(held, Roster)
    assert held.names == tuple(sorted(NAMES))
    assert held.signatures == {}
    with pytest.raises(SpecError, match="there is already a site 'north'; choose another name"):
        desk.invite(home, "NORTH")
    with pytest.raises(SpecError, match=r"letters, digits, - and _ only"):
        desk.invite(home, "../x")
    with pytest.raises(SpecError, match="is not invited"):
        desk.words_of(home, "west")
    desk.invite(home, "west")
    with pytest.raises(SpecError, match="has not enrolled yet"):
        desk.words_of(home, "west")


@pytest.mark.parametrize("torn", ["{", '{"site": "west", "newer": 1}', '{"public": 5}', "[" * 9999])
def test_one_bad_invitation_does_not_stop_the_others(home, tmp_path, data, torn):
    made = enrolled(home, "east", tmp_path, data)
    (home.server / "invitations" / "west.json").write_text(torn)
    desk.invite(home, "south")
    desk.confirm(home, "east")
    assert site.enrol(
        read_invitation(tmp_path / "east.invite"), made.folder, data, {}, post=by(Desk(home))
    ).confirmed
    held = federation_status(home)
    states = {one["site"]: one["state"] for one in held["sites"]}
    assert states["west"] == UNREADABLE
    there = [one | {"state": "connected"} for one in held["sites"] if one["confirmed"]]
    told = next_step(
        home, held | {"open": True, "sites": [*there, {"site": "west", "state": UNREADABLE}]}
    )
    assert told.startswith("invite west again: feddcd federation invite ")
    claim = Claim("look", "west", "", "").sealed(new_token())
    assert Desk(home)(claim, "h")[0] == 500
    assert not Desk(home).known(claim)
    enrolled(home, "west", tmp_path, data)  # as it was told


def test_a_site_is_let_in_at_the_last_step_of_confirm(home, tmp_path, data, monkeypatch):
    """Wherever it breaks off, the site is out, and confirm can be asked for again."""
    made = enrolled(home, "north", tmp_path, data)
    given, steps = read_invitation(tmp_path / "north.invite"), []
    again = lambda: site.enrol(given, made.folder, data, {}, post=by(Desk(home))).confirmed

    def breaking(folder, path, values):
        steps.append(path.name)
        if len(steps) in broken:
            raise OSError("no space left")
        return saved(folder, path, values)

    saved = FederationFolder.save
    monkeypatch.setattr(FederationFolder, "save", breaking)
    for step in (1, 2):
        steps.clear()
        broken = (step,)
        with pytest.raises(OSError, match="no space"):
            desk.confirm(home, "north")
        assert home.invited() == {}
        assert desk.members(home) is None
        assert not again()
    steps.clear()
    broken = ()
    desk.confirm(home, "north")
    assert steps == ["north.json", "north.pub"]
    assert again()


def test_who_was_expelled_is_not_invited_again(home, tmp_path, data, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("north", "south"):
        enrolled(home, name, tmp_path, data)
        desk.confirm(home, name)
    assert _code(["federation", "expel", "fed", "north"]) == 0
    for name in ("north", "North"):
        assert _code(["federation", "invite", "fed", name]) == 2
        assert f"the site {name!r} was expelled and cannot join again" in capsys.readouterr().err
    assert events(home, "retired")[-1]["barred"] is True
    assert _code(["federation", "invite", "fed", "south"]) == 2
    assert "first retire this site: feddcd federation retire fed south" in capsys.readouterr().err
    assert _code(["federation", "retire", "fed", "south"]) == 0
    key = (tmp_path / "south" / "key.pub").read_text()
    assert standing(home, key)["left"]["barred"] is False
    desk.invite(home, "south")  # who was retired may come back
    assert _code(["federation", "retire", "fed", "south"]) == 0
    assert _code(["federation", "expel", "fed", "south"]) == 0, "also after it was retired"
    assert standing(home, key)["left"]["barred"] is True
    assert _code(["federation", "invite", "fed", "south"]) == 2
    assert "the site 'south' was expelled and cannot join again" in capsys.readouterr().err
    assert _code(["federation", "expel", "fed", "west"]) == 2


def test_of_a_cut_invitation_it_is_said_what_to_do(home, tmp_path):
    invited(home, "north", tmp_path)
    path = tmp_path / "north.invite"
    path.write_text(path.read_text().partition("check =")[0])
    with pytest.raises(SpecError, match=r"entry 'check' is missing. Copy the whole file again"):
        read_invitation(path)


def test_a_folder_of_somebody_else_is_not_written_to(home, tmp_path, data):
    given = invited(home, "north", tmp_path)
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "mine").write_text("mine")
    with pytest.raises(FolderError, match="is not empty"):
        site.enrol(given, tmp_path / "north", data, {}, post=by(Desk(home)))
    assert desk.records(home)["north"].claim is None


@contextmanager
def listening(home, tmp_path):
    """The desk behind TLS with the coordinator's certificate, as the link has it."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    take = Desk(home)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            status, said = take(self.rfile.read(int(self.headers["content-length"])), "h")
            self.send_response(status)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            pass

    class Quiet(HTTPServer):
        def handle_error(self, *_):
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(home.server / "server.crt", home.server / "server.key")
    server.socket = trust.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def at(home, port):
    path = home.path / "federation.toml"
    here = path.read_text().replace("9093", str(port)).replace("fed.example.org", "127.0.0.1")
    path.write_text(here)


def test_the_three_commands_over_tls(home, tmp_path, data, monkeypatch, capsys):
    """As people type them: invite, enrol, confirm. The codebook comes from the coordinator."""
    monkeypatch.chdir(tmp_path)
    book = home.path / "codebook.toml"
    sex = '[columns.sex]\ntype = "category"\nlevels = ["f", "m"]\n'
    book.write_text(f'[columns.age]\ntype = "number"\n{sex}')
    with listening(home, tmp_path) as port:
        at(home, port)
        assert _code(["federation", "invite", "fed", "north"]) == 0
        bad = tmp_path / "bad.csv"
        bad.write_text("age,sex\n60,x\n")
        for file, code in ((bad, 2), (data, 0)):
            words = ["federation", "enrol", "north.invite", "--data", file.name, "--docker"]
            assert _code(words) == code
            assert (tmp_path / "north").exists() is (code == 0), "nothing is made of bad data"
        said = capsys.readouterr()
        assert "the invitation is still valid" in said.err
        told = f"the Docker container can read all files in the folder {tmp_path}"
        assert told in said.err.replace("\n", " ")
        assert "patients.csv fits the codebook of the federation: 2 rows, 2 columns" in said.out
        other = Authority.new("demo").pem().decode()
        given = read_invitation(tmp_path / "north.invite")
        with pytest.raises(Refused, match="is not the coordinator of the invitation"):
            site.look(given._replace(certificate=other))
    with pytest.raises(SpecError, match=r"does not answer: Connection refused\. The coordinator"):
        site.look(given)
    words = site.enrolment_words(tmp_path / "north")
    assert words in said.out
    assert _code(["federation", "confirm", "fed", "north", "--words", "one two three"]) == 2
    assert events(home, "not confirmed")
    assert home.invited() == {}
    read = words.split()
    monkeypatch.setattr("builtins.input", lambda _: " ".join(read[:3]).upper())
    assert _code(["federation", "confirm", "fed", "north"]) == 0
    assert " ".join(read[3:]) in capsys.readouterr().out
    assert list(home.invited()) == ["north"]
    assert (tmp_path / "north" / "proposed-codebook.toml").exists()
    assert not (tmp_path / "north" / "codebook.toml").exists(), "a person adopts it"


def _code(words):
    try:
        main(words)
    except SystemExit as stop:
        return stop.code or 0
    return 0


def test_units_are_hardened_and_survive_odd_paths(tmp_path):
    folder = tmp_path / 'a "b" 100%'
    folder.mkdir()
    data = tmp_path / "my data.csv"
    text = write_unit(folder, "north", data).read_text()
    assert "NoNewPrivileges=yes" in text
    assert "ProtectSystem=strict" in text
    assert "100%%" in text
    assert f'ReadOnlyPaths="-{data}"' in text, "it starts also while the file is missing"
    assert "network-online" not in text, "which the units of a user do not have"
    docker = write_dockerfile(folder, "north", data).read_text()
    assert json.loads(docker.rpartition("CMD ")[2])[-1] == str(folder)
    assert (folder / ".dockerignore").read_text() == "*\n", "keys go into no image"
    source = f"feddcd-{version('feddcd')}"
    [build] = [line for line in docker.splitlines() if "docker build -t feddcd-north " in line]
    assert build.endswith(f"Dockerfile' {source}"), "only the source package is sent to Docker"
    assert f"feddcd=={version('feddcd')} && tar xzf {source}.tar.gz" in docker
    installs = re.findall(r"pip install (.+)", docker)
    assert len(installs) == 2
    assert "--no-deps --require-hashes -r requirements-site.lock" in installs[0]
    assert "--no-deps --no-build-isolation ." in installs[1], "nothing else is downloaded"
    assert "docker build: --build-arg HTTPS_PROXY=" in docker
    assert "docker run: -e HTTPS_PROXY=" in docker
    assert "--name feddcd-north " in docker
    assert "--pids-limit=" in docker
    (tmp_path / "plain").mkdir()
    write_unit(tmp_path / "plain", "north", data)
    write_coordinator_unit(tmp_path / "plain")
    for unit in (tmp_path / "plain").glob("*.service"):
        assert stat.S_IMODE(unit.stat().st_mode) == 0o600, "as every file of the folder"
        text, of_user = unit.read_text(), "-system" not in unit.name
        verb = "serve" if "coordinator" in unit.name else "site"
        assert re.search(rf'feddcd"? federation {verb} {re.escape(str(unit.parent))}\n', text)
        assert ("\nUser=" in text) is ("\nProtectProc=invisible\n" in text) is not of_user
        assert ("systemctl --user enable" in text) is of_user
        assert "MemoryMax=" in text
        assert re.search(r'InaccessiblePaths="?-/[^"\n]*/\.ssh"? ', text)
        if shutil.which("systemd-analyze"):
            unit.write_text(re.sub(r'ExecStart=("[^"]+"|\S+)', "ExecStart=/bin/true", text))
            words = ["systemd-analyze", *["--user"] * of_user, "verify", str(unit)]
            env = {"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
            done = subprocess.run(words, capture_output=True, text=True, env=env)
            assert unit.name not in done.stderr, done.stderr


def test_root_reads_that_another_account_is_safer(tmp_path, monkeypatch):
    for user, number in (("root", 0), ("feddcd", 1000)):
        monkeypatch.setattr("feddcd.federation.enrolment.unit.user_name", lambda name=user: name)
        monkeypatch.setattr("os.getuid", lambda number=number: number)
        unit = write_unit(tmp_path, "north", tmp_path / "p.csv")
        docker = write_dockerfile(tmp_path, "north", tmp_path / "p.csv")
        texts = [unit, docker, tmp_path / "feddcd-north-system.service"]
        assert ["CAREFUL: root" in file.read_text() for file in texts] == [user == "root"] * 3
        monkeypatch.setattr("os.geteuid", lambda number=number: number)
        assert ("you work as root" in of_root()) == (user == "root")


def test_a_unit_says_what_it_cannot_see(tmp_path, monkeypatch):
    """It has a /tmp of its own."""
    monkeypatch.setattr("feddcd.federation.enrolment.unit.TMP", (tmp_path / "tmp",))
    for folder in (tmp_path / "tmp" / "north", tmp_path / "north"):
        folder.mkdir(parents=True)
        text = write_unit(folder, "north", folder / "p.csv").read_text()
        told = f"# {folder} and {folder / 'p.csv'}. Choose folders outside"
        assert (told in text) == ("(PrivateTmp=yes), so it cannot use" in text)
        assert (told in text) == (folder.parent.name == "tmp")


def test_a_container_sees_a_data_file_that_was_replaced(tmp_path):
    """A mount of one file keeps the old one after `mv`; a mount of its folder does not."""
    folder = tmp_path / "sites" / "north"
    folder.mkdir(parents=True)

    def mounts(data):
        text = write_dockerfile(folder, "north", data).read_text()
        return re.findall(r"-v ([^\s:]+):[^\s:]+(:ro)? ", text)[1:], beside(folder, data)

    home = tmp_path / "data"
    assert mounts(home / "p.csv") == ([(str(home), ":ro")], False)
    assert mounts(folder / "p.csv") == ([], False), "the folder of the site is there anyway"
    assert mounts(tmp_path / "p.csv") == ([(str(tmp_path), ":ro")], True)


def test_secrets_are_written_to_new_files_whoever_may_read_those_that_are_there(home, tmp_path):
    """Somebody who has an old invitation open, or its name, does not read the new one."""
    old = tmp_path / "west.invite"
    old.write_text("an older one")
    old.chmod(0o644)
    with old.open() as held:
        invite_command(home.path, "west", old, DAYS, show=False)
        assert held.read() == "an older one"
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert read_invitation(old).site == "west"
    (tmp_path / "key").write_text("an older one")
    (tmp_path / "key").chmod(0o644)
    write_pair(tmp_path)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
