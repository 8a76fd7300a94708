"""What people read who invite, enrol twice, enrol with wrong files, and take invitations back."""

import grp
import json
import math
import pwd
import shlex
import shutil
from contextlib import suppress

import pytest

from disks import in_memory
from feddcd._errors import Refused, SpecError
from feddcd.cli import _enrolment, _members, _serving
from feddcd.cli._status import lines_of, status_of
from feddcd.cli.app import main
from feddcd.federation import health, status
from feddcd.federation.config import Config
from feddcd.federation.enrolment import desk, site
from feddcd.federation.enrolment.departed import ask_standing
from feddcd.federation.enrolment.desk import Desk
from feddcd.federation.enrolment.invitation import read_invitation
from feddcd.federation.folder import FederationFolder
from feddcd.federation.machine import programs
from feddcd.federation.machine.init import create
from feddcd.federation.machine.link_state import LinkState
from feddcd.federation.status import RESTARTED, UNCONFIRMED, federation_status, next_step
from feddcd.sums.token import NO_TOKEN

ROWS = "age,sex\n" + "60,f\n" * 20


@pytest.fixture(scope="module")
def first():
    with in_memory() as folder:
        create(folder / "fed", [], Config("demo", host="fed.example.org"))
        yield folder


@pytest.fixture
def home(first, tmp_path, monkeypatch):
    shutil.copytree(first / "fed", tmp_path / "fed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.csv").write_text(ROWS)
    return FederationFolder(tmp_path / "fed")


@pytest.fixture
def said(home, monkeypatch):
    """All lines, and calls of a site that reach the desk without a network."""
    lines: list[str] = []
    for module in (_enrolment, _members):
        monkeypatch.setattr(module, "say", lines.append)
    told = lambda text, word="note": lines.append(text if word == "note" else f"{word}: {text}")
    monkeypatch.setattr(_enrolment, "warn", told)
    monkeypatch.setattr("feddcd.cli._tables.say", lines.append)
    monkeypatch.setattr(site, "over_tls", lambda who, data: Desk(home)(data, "h"))
    return lines


def invite(home, name="west"):
    _enrolment.invite_command(home.path, name, None, 7.0, False)
    return read_invitation(home.path.parent / f"{name}.invite")


def enrol(home, file="west.invite", data="patients.csv"):
    here, options = home.path.parent, dict.fromkeys(("out", "codebook", "label", "docker"))
    _enrolment.enrol_command(here / file, here / data, options)
    return here / "west"


def test_a_warning_stays_where_a_program_reads_the_result(home, monkeypatch, capsys):
    """With --json, what a person would read on stdout is left out, but no warning."""
    monkeypatch.setattr(site, "over_tls", lambda who, data: Desk(home)(data, "h"))
    _enrolment.invite_command(home.path, "west", None, 7.0, False)
    data = home.path.parent / "patients.csv"
    data.chmod(0o644)
    capsys.readouterr()
    invited = str(home.path.parent / "west.invite")
    with pytest.raises(SystemExit) as end:
        main(["federation", "enrol", invited, "--data", str(data), "--json"])
    assert not end.value.code
    told = capsys.readouterr()
    assert json.loads(told.out)["site"] == "west"
    assert "WARNING: patients.csv has the mode 0644" in " ".join(told.err.split())


@pytest.mark.parametrize("user", [0, 1000])
def test_root_is_warned_before_the_site_has_keys(home, said, monkeypatch, user):
    monkeypatch.setattr("os.geteuid", lambda: user)
    invite(home)
    enrol(home)
    warned = [i for i, line in enumerate(said) if "you work as root" in line]
    assert len(warned) == (user == 0)
    enrolled = next(i for i, line in enumerate(said) if "west is enrolled at" in line)
    assert all(i < enrolled for i in warned)
    assert all(said[i].startswith("WARNING: ") for i in warned), "as at the start of the site"


@pytest.mark.parametrize("up", [False, True])
def test_serve_is_asked_for_only_while_it_does_not_run(home, said, monkeypatch, up):
    monkeypatch.setattr(_enrolment, "is_up", lambda folder: up)
    invite(home)
    told = "can enrol and connect only while this command runs: feddcd federation serve fed"
    assert [told in line for line in said].count(True) == (not up)


def test_a_site_that_was_just_confirmed_gets_time_to_connect(home, said, monkeypatch):
    """Nobody calls the person there, whose program connects by itself."""
    for name, value in (("is_up", True), ("hang_of", None), ("connected", {})):
        monkeypatch.setattr(status, name, lambda folder, value=value: value)
    invite(home)
    folder = enrol(home)
    assert "connected: no site is confirmed yet" in lines_of(federation_status(home))
    words = " ".join(site.enrolment_words(folder).split()[:3])
    _enrolment.confirm_command(home.path, "west", words)
    told = "west is confirmed. If the program at west runs, it connects by itself within about half"
    assert any(told in line for line in said)
    held = federation_status(home)
    assert held["missing"] == ["west"]
    assert held["next"] == (
        "wait a minute, because a site was confirmed less than a minute ago. If the programs at "
        "west run, they connect by themselves"
    )
    enrolled = {"state": "waits for confirm", "site": "south"}
    two = {**held, "sites": [*held["sites"], enrolled]}
    assert next_step(home, two).startswith("call the person at south to compare")
    later = next_step(home, {**held, "confirmed_for": 61.0})
    assert later.startswith("ask the people at west to start their site: ")


def wrapped(text, width=76):
    """As a mail program breaks long lines."""
    pieces = lambda line: [line[i : i + width] for i in range(0, len(line), width)] or [""]
    return "\n".join(piece for line in text.splitlines() for piece in pieces(line))


def quoted(text):
    return "".join(f"> {line}\n" for line in text.splitlines())


MAILS = {
    "wrapped": wrapped,
    "quoted": quoted,
    "wrapped and quoted twice": lambda text: quoted(quoted(wrapped(text))),
    "with other ends of lines": lambda text: wrapped(text).replace("\n", "\r\n"),
    "indented": lambda text: "".join(f"    {line}\n" for line in wrapped(text).splitlines()),
    "in an answer": lambda text: f"Dear colleague,\n\nsee below\n\n{quoted(text)}\nKind regards",
}


@pytest.mark.parametrize("how", MAILS)
def test_an_invitation_that_a_mail_program_changed_is_read_if_it_is_whole(home, how):
    given, file = invite(home), home.path.parent / "west.invite"
    file.write_bytes(MAILS[how](given.text()).encode())
    assert read_invitation(file) == given
    for other in ("z", "9"):
        text = given.text().replace(given.token[:4], other * 4)
        file.write_bytes(MAILS[how](text).encode())
        with pytest.raises(SpecError, match="the invitation was changed on its way"):
            read_invitation(file)


def test_an_invitation_that_was_cut_is_damaged_and_not_something_else(home):
    given, file = invite(home), home.path.parent / "west.invite"
    text = given.text()
    for end in range(len("# An invitation for w"), len(text) - 2, 7):
        for how in (str, quoted):
            file.write_text(how(text[:end]))
            with pytest.raises(SpecError, match="Copy the whole file again") as error:
                read_invitation(file)
            assert "is not an invitation" not in str(error.value)


@pytest.mark.parametrize("how", ["invited", "enrolled", "ended", "torn"])
def test_what_nobody_confirmed_is_taken_back(home, said, how):
    """The invitation, and the keys that came with it; who holds them is not let in."""
    given = invite(home)
    record = home.server / "invitations" / "west.json"
    if how == "enrolled":
        west = enrol(home)
    elif how == "ended":
        record.write_text(json.dumps(json.loads(record.read_text()) | {"expires": 5}))
    elif how == "torn":
        record.write_text("{")
    _members.depart_command(home.path, ["west"], barred=False)
    assert not record.exists()
    assert status_of(home.path)["sites"] == []
    assert ("the enrolment of west is rejected" in "\n".join(said)) is (how == "enrolled")
    assert said[-1].endswith("feddcd federation invite fed west")
    with pytest.raises(Refused, match="or took this invitation back"):
        site.look(given)
    if how == "enrolled":
        with pytest.raises(SpecError, match="'west' is not invited"):
            desk.confirm(home, "west")
        assert ask_standing(west, site.over_tls)
        invite(home)
        assert enrol(home) == west, "it may come back"
        assert "retired:" not in "\n".join(lines_of(status_of(west)))
    known = "the names of all sites and invitations are: west$"
    if how != "enrolled":
        known = "this federation has no sites and no invitations$"
    with pytest.raises(SpecError, match=f"'east' is not a site .*has no invitation; {known}"):
        _members.depart_command(home.path, ["east"], barred=False)


def test_a_running_site_hears_that_its_enrolment_is_rejected(home, said, monkeypatch):
    """It waits for its confirmation, and asks now and then; a new enrolment has new words."""
    lines, now = [], [100.0]
    monkeypatch.setattr(_serving, "say", lines.append)
    monkeypatch.setattr(_serving, "ask_standing", lambda at: ask_standing(at, site.over_tls))
    monkeypatch.setattr(_serving.time, "monotonic", lambda: now[0])
    invite(home)
    west, asked = enrol(home), -math.inf
    link, unknown = LinkState(west, "h:1"), "the coordinator does not know the key of this site"
    link.tell("connecting", unknown)
    shown = _serving._show_link(west, "h:1", ("", ""), "west")
    shown, asked = _serving.show_rejected(west, shown, asked)
    assert shown == (_serving.WAITS_FOR_CONFIRM, site.enrolment_words(west))
    _members.depart_command(home.path, ["west"], barred=False)
    assert _serving.show_rejected(west, shown, asked) == (shown, asked), "not every second"
    del lines[:]
    now[0] += _serving.LOOK_S
    shown, asked = _serving.show_rejected(west, shown, asked)
    assert lines[0].startswith("the enrolment of this site was rejected by the coordinator at ")
    told = "ask the person at the coordinator for a new invitation, and give this command: feddcd"
    assert told in lines[1]
    held = status_of(west)
    assert "rejected: the enrolment of this site was rejected" in "\n".join(lines_of(held))
    logged = held["last"][-1].partition("  ")[2]
    assert logged.startswith("REJECTED this site heard: the coordinator at ")
    shown = _serving._show_link(west, "h:1", shown, "west")
    assert len(lines) == 2, "once"
    invite(home)
    enrol(home)
    for why in (unknown, RESTARTED):  # the second of a node that was let in before
        link.tell("connecting", why)
        _serving._show_link(west, "h:1", shown, "west")
        assert lines[2].startswith(
            "the site 'west' waits: the person at the coordinator (h:1) has not"
        )
        assert lines.pop(3).endswith(f"the last three: {site.enrolment_words(west)}")
        del lines[2:]
        assert status_of(west)["why"] == UNCONFIRMED
        assert site.enrolment_words(west) in status_of(west)["next"]


def test_an_expelled_invitation_is_not_made_again(home, said):
    invite(home)
    _members.depart_command(home.path, ["west"], barred=True)
    with pytest.raises(SpecError, match="the site 'west' was expelled and cannot join again"):
        invite(home)


def test_a_key_that_is_let_in_is_not_said_to_have_left(home, said):
    """A stranger with an invitation sends the key of another site, and is rejected."""
    invite(home)
    west = enrol(home)
    invite(home, "other")
    record = home.server / "invitations" / "other.json"
    claim = json.loads((record.parent / "west.json").read_text())["claim"]
    record.write_text(json.dumps(json.loads(record.read_text()) | {"claim": claim}))
    desk.confirm(home, "west")
    _members.depart_command(home.path, ["other"], barred=False)
    assert not ask_standing(west, site.over_tls)


def test_a_newer_invitation_says_that_it_ends_the_older(home, said):
    older = invite(home)
    assert not any("no longer valid" in line for line in said)
    invite(home)
    assert any(line.startswith("the older invitation for west, made at 20") for line in said)
    with pytest.raises(Refused, match="the coordinator made a newer invitation"):
        site.look(older)
    enrol(home)
    invite(home)
    assert any("west has to enrol again with the new invitation" in line for line in said)
    assert NO_TOKEN.startswith("no valid invitation has this token")


def test_an_enrolled_folder_keeps_its_data_file(home, said):
    invite(home)
    west = enrol(home)
    words = site.enrolment_words(west)
    (home.path.parent / "other.csv").write_text(ROWS)
    with pytest.raises(SpecError, match=r"west is already enrolled .*keep its path"):
        enrol(home, data="other.csv")
    assert enrol(home) == west, "the same once more changes nothing"
    assert site.enrolment_words(west) == words
    (west / "enrolled.json").unlink()  # its answer was lost on the way
    enrol(home)
    assert site.enrolment_words(west) == words


def test_what_a_second_enrolment_keeps_is_said(home, said, monkeypatch):
    invite(home)
    west = enrol(home)
    assert not any("kept" in line for line in said)
    assert "But approve nothing, and change nothing in policy.toml" in "\n".join(said)
    _members.depart_command(home.path, ["west"], barred=False)
    invite(home)
    del said[:]
    monkeypatch.setattr(_enrolment, "site_runs", lambda folder: True)
    (west / "policy.toml").write_text('identifiers = ["AGE"]\ncomplete = true\n')
    enrol(home)
    (warned,) = [line for line in said if "setting 'identifiers' in" in line]
    assert "names the column 'AGE', but patients.csv has no such column; did you mean" in warned
    told = "feddcd kept these files of an earlier enrolment, and this site uses them again: "
    assert f"{told}key, sum.keys, policy.toml" in said
    started = said.index(
        "next: you do not have to start anything, because this site runs already and connects by "
        "itself"
    )
    assert said[started + 1].startswith("Then call the person at the coordinator. ")
    assert said[started + 2] == f"  {site.enrolment_words(west)}"
    assert not programs.site_runs(west)


@pytest.mark.parametrize("heard", ["first", "last"])
def test_words_that_still_differ_have_one_rule_at_both_ends(home, said, heard):
    """The person asks again once; then the printed commands remove the site and invite it again."""
    invite(home)
    words = site.enrolment_words(enrol(home)).split()
    assert "ask for the words again. If the words still differ, another person" in said[-1]
    if heard == "first":
        with pytest.raises(SpecError) as raised:
            _enrolment.confirm_command(home.path, "west", "no such words")
        told = str(raised.value)
    else:
        _enrolment.confirm_command(home.path, "west", " ".join(words[:3]))
        (told,) = [line for line in said if "has other words, read the words again" in line]
    changed = "another person may be changing the messages between west and the coordinator"
    assert f"still differ, {changed}. Then remove west" in told
    assert home.key("west").exists() == (heard == "last")
    for command in told.partition("another way than before. The commands: ")[2].split("; "):
        with suppress(SystemExit):
            main(shlex.split(command)[1:])
    assert not home.key("west").exists()
    words = site.enrolment_words(enrol(home)).split()
    _enrolment.confirm_command(home.path, "west", " ".join(words[:3]))
    assert home.key("west").exists()


def test_a_data_file_that_every_user_may_read_is_named(home, said):
    """A warning: the site enrols."""
    invite(home)
    (home.path.parent / "patients.csv").chmod(0o644)
    west = enrol(home)
    (told,) = [line for line in said if "has the mode 0644" in line]
    assert "so other users of this machine may read the data of this site. What" in told
    assert told.endswith("What to do: chmod 600 patients.csv")
    assert "patients.csv has the mode 0644" in "\n".join(lines_of(status_of(west)))
    (home.path.parent / "patients.csv").chmod(0o600)
    del said[:]
    enrol(home)
    assert not any("has the mode" in line for line in said)


def test_a_data_file_of_another_account_stays_readable_for_the_site(home):
    """Mode 600 would lock out the service account, which is not the owner."""
    file = home.path.parent / "patients.csv"
    file.chmod(0o644)
    (told,) = health.open_data(file, "nobody")
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    assert told.todo == (
        f"give these two commands as root: chgrp {group} patients.csv; chmod 640 patients.csv. "
        f"Then only the user {file.owner()} and the group of the account nobody, which runs this "
        "site, can read the file"
    )
    (told,) = health.open_data(file, file.owner())
    assert told.todo == "chmod 600 patients.csv"


def test_an_enrolment_names_both_unit_files_and_who_needs_which(home, said):
    """A service account has no `systemctl --user`."""
    invite(home)
    assert any("The invitation works once, for one set of keys, until " in line for line in said)
    enrol(home)
    (told,) = [line for line in said if line.startswith("to start this site automatically")]
    assert "For a service account, or as root: west/feddcd-west-system.service. " in told
    assert told.endswith("can use 'systemctl --user': west/feddcd-west.service")


def test_who_moves_the_data_for_docker_reads_why_both_steps_are_needed(home):
    told = _enrolment._much_else(home.path.parent / "west", home.path.parent / "patients.csv")
    assert "into west/site.toml, so that this site reads the file there. Then give" in told
    assert told.endswith("and --docker: this writes the new path into the Dockerfile")


def test_too_few_rows_are_named_before_the_token_is_used(home, said):
    invite(home)
    (home.path.parent / "tiny.csv").write_text("age,sex\n60,f\n61,m\n")
    west = enrol(home, data="tiny.csv")
    (told,) = [line for line in said if "min_rows" in line]
    assert "tiny.csv has 2 rows, but the policy of this site needs at least 5 rows" in told
    (west / "policy.toml").write_text("min_rows = 30\ncomplete = true\n")
    with pytest.raises(SpecError):
        enrol(home)  # other data
    del said[:]
    enrol(home, data="tiny.csv")
    assert any("needs at least 30 rows" in line for line in said)


def test_a_file_that_is_no_invitation_is_named_so(home, said):
    with pytest.raises(SpecError, match=r"patients\.csv is not an invitation\. An invitation is"):
        enrol(home, file="patients.csv")
    with pytest.raises(SpecError, match="no such file; the coordinator makes an invitation with"):
        enrol(home, file="none.invite")
