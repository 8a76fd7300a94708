"""What `feddcd federation invite`, `enrol` and `confirm` do."""

import re
import shlex
from pathlib import Path
from typing import Any

import tomli_w

from .._errors import SpecError
from .._files import Disk, owner_only, save, shown
from .._text import plural, printable
from ..data.codebook import FILE as CODEBOOK
from ..data.codebook import Codebook, load_codebook, read_codebook
from ..data.frames import Reading, is_table, read_frame
from ..data.tables import read_site
from ..federation.enrolment import desk
from ..federation.enrolment.invitation import Invitation, read_invitation, when
from ..federation.enrolment.site import READ_OUT, enrol, is_enrolled, look
from ..federation.enrolment.unit import (
    beside,
    of_root,
    start_words,
    user_name,
    write_dockerfile,
    write_unit,
)
from ..federation.folder import FederationFolder, load_place
from ..federation.health import misnamed, moved, open_data
from ..federation.machine.programs import is_up, site_runs
from ..federation.site.policy import FILE as POLICY
from ..federation.site.policy import limit, load_policy
from ._codebook import check_data
from ._habits import found
from ._owner import check_owner
from ._terminal import say, say_lines, warn

WARNING = "WARNING"  # in place of `note`, as `site` prints it
HALF = 3  # words that each of the two people reads out, as READ_OUT says


def invite_command(path: Path, site: str, out: Path | None, days: float, show: bool) -> None:
    from ._members import barred_of

    folder = FederationFolder(path)
    desk.check_barred(site, barred_of(folder))
    before = desk.records(folder).get(site)
    made = desk.invite(folder, site, days)
    found(site=site, expires=when(made.expires), authority=made.authority)
    found(replaced=None if before is None else when(before.made))
    if before is not None:
        warn(_replaced(site, before))
    if show:
        found(text=made.text())
        return say_lines(made.text())
    file = out or Path(f"{site}.invite")
    if before is None and file.exists():
        warn(
            f"feddcd replaces the file {shown(file)}. If the file contained an older invitation "
            f"for {site}, this older invitation is no longer valid"
        )
    save(Disk(), file, made.text().encode())  # a new file, whoever may read an old one
    found(file=file)
    say(
        f"The invitation is in {shown(file)}. Send this file to the person at {site}. "
        f"The invitation works once, for one set of keys, until {when(made.expires)}."
    )
    say(f"next, at {site}: feddcd federation enrol {shlex.quote(file.name)} --data FILE")
    if not is_up(folder):
        serve = f"feddcd federation serve {_quoted(folder.path)}"
        say(f"{site} can enrol and connect only while this command runs: {serve}")


def _replaced(site: str, before: desk.InvitationRecord) -> str:
    told = f"the older invitation for {site}, made at {when(before.made)}, is no longer valid"
    if before.claim is None:
        return told
    return (
        f"{told}. {site} had enrolled with this older invitation, but nobody had confirmed {site}. "
        f"feddcd deletes this enrolment, so {site} has to enrol again with the new invitation"
    )


def enrol_command(file: Path, data: Path, options: dict[str, Any]) -> None:
    invitation = read_invitation(file)
    folder: Path = options["out"] or Path(invitation.site)
    check_owner(folder)
    _check_enrolled(invitation, folder, data)
    reading = {name: options[name] for name in Reading._fields if options.get(name)}
    plain: dict[str, Any] = reading | {"na": tuple(options.get("na") or ())}
    how = Reading(**plain)
    book, rows = _check(invitation, folder, data, options["codebook"], options["label"], how)
    _warn_few(rows, data, folder)
    for trouble in open_data(data, user_name()):
        warn(trouble.words(), word=WARNING)
    if told := of_root():
        warn(told, word=WARNING)
    settings = {name: list(v) if name == "na" else v for name, v in reading.items()}
    settings |= {"label": options["label"]} if options["label"] else {}
    made = enrol(invitation, folder, data, settings, options["codebook"])
    with owner_only():
        if book is not None:
            _write_proposed(folder, book)
        unit = write_unit(folder, invitation.site, data)
        if options["docker"]:
            file = write_dockerfile(folder, invitation.site, data)
            say(f"to run this site in Docker, read the first lines of {shown(file)}")
            if beside(folder, data):
                warn(_much_else(folder, data))
    for trouble in (*misnamed(folder), *moved(folder)):
        warn(trouble.words(), word=WARNING)
    found(site=invitation.site, address=invitation.address, folder=folder, unit=unit)
    found(words=made.words, confirmed=made.confirmed)
    say(
        f"{invitation.site} is enrolled at the coordinator {invitation.address}; the folder of "
        f"this site is {shown(folder)!r}"
    )
    if made.kept:
        say(
            "feddcd kept these files of an earlier enrolment, and this site uses them again: "
            f"{', '.join(made.kept)}"
        )
        found(kept=list(made.kept))
    say(start_words(unit, "this site"))
    say(f"next: {_start(folder)}")
    if not made.confirmed:
        _say_words(made.words)


def _start(folder: Path) -> str:
    if site_runs(folder):
        return (
            "you do not have to start anything, because this site runs already and connects by "
            "itself"
        )
    return f"feddcd federation site {_quoted(folder)}"


def _much_else(folder: Path, data: Path) -> str:
    return (
        f"the Docker container can read all files in the folder {data.resolve().parent}, because "
        "the data file is in this folder. If the container must not read the other files, do this "
        "before the first study. Move the data file into a folder of its own. Write the new path "
        f"into {shown(folder / 'site.toml')}, so that this site reads the file there. Then give "
        "the command 'enrol' again with the same invitation, the new path and --docker: this "
        "writes the new path into the Dockerfile"
    )


def _say_words(words: str) -> None:
    say(f"Then call the person at the coordinator. {READ_OUT}")
    say(f"  {words}")
    say(
        "The first three words are enough for the coordinator to let this site in. But approve "
        "nothing, and change nothing in policy.toml, before you have heard the last three words."
    )
    say(
        "If a word that you hear differs from your word, ask for the words again. If the words "
        "still differ, another person may be changing the messages between this site and the "
        "coordinator. Then stop this site. The person at the coordinator removes this site, and "
        "sends a new invitation in another way than before."
    )


def _check_enrolled(invitation: Invitation, folder: Path, data: Path) -> None:
    """Refuses other data in a folder that is enrolled: this is no matter of the coordinator."""
    if is_enrolled(invitation, folder) and load_place(folder).data != data.resolve():
        raise SpecError(
            f"the site in the folder {shown(folder)} is already enrolled with this invitation, "
            "so you do not have to enrol again. For new rows of the same patients, replace the "
            "data file and keep its path. Only if the new file has other patients, write the path "
            f"of the new file as `data` into {shown(folder / 'site.toml')}. With another path, the "
            "rules of this site forget all earlier jobs"
        )


def _warn_few(rows: int, data: Path, folder: Path) -> None:
    """Before the token is used: with fewer rows than this, the site refuses each job."""
    least = limit(load_policy(folder / POLICY).min_rows)
    if rows < least:
        warn(
            f"{data} has {plural(rows, 'row')}, but the policy of this site needs at least "
            f"{plural(least, 'row')} (min_rows): the site would refuse each job. To use more "
            "rows later, replace this file and keep its path"
        )


def _check(
    invitation: Invitation,
    folder: Path,
    data: Path,
    own: Path | None,
    label: str | None,
    how: Reading,
) -> tuple[Codebook | None, int]:
    """The data, before the token is used. The codebook that the coordinator proposes, unless the
    site brings its own; and the number of rows."""
    if not data.exists():
        raise SpecError(f"there is no file {data}")
    if own is not None:
        book, where = load_codebook(own), str(own)
    else:
        sent = look(invitation, folder=folder)
        where = "the codebook of the federation"
        book = read_codebook(sent, where) if sent else None
    if book is not None:
        if not (rows := check_data(data, book, where, how)):
            raise SpecError(
                f"{data} does not fit the codebook, so feddcd sent nothing. Correct the "
                "data and run the same command again: the invitation is still valid"
            )
    elif is_table(data):
        table = read_frame(data, how=how)
        for note in table.notes:
            warn(note)
        rows, columns = len(table.frame), len(table.frame.columns)
        say(f"{data}: {plural(rows, 'row')}, {plural(columns, 'column')}; there is no codebook")
    else:
        rows = len(read_site(data, label, how=how).labels)
    return None if own is not None else book, rows


def _write_proposed(folder: Path, book: Codebook) -> None:
    """Beside the site's own place for it: a person adopts it."""
    path = folder / f"proposed-{CODEBOOK}"
    path.write_text(tomli_w.dumps(book.to_dict()), "utf-8")
    say(
        f"{shown(path)} is the codebook of the federation. Read it. If you agree with this "
        "codebook, make it the site's own codebook:"
    )
    say(f"  mv {_quoted(path)} {_quoted(folder / CODEBOOK)}")


def confirm_command(path: Path, site: str, words: str) -> None:
    folder = FederationFolder(path)
    expected = desk.words_of(folder, site).split()
    if not words:
        say(f"{site} has enrolled. Call the person at {site}, with a phone number that you know.")
        words = input(f"The first three words that the person at {printable(site)} reads to you: ")
    given = re.findall(r"\w+", words.lower())  # a comma between words is no other word
    if len(given) not in (HALF, len(expected)) or given != expected[: len(given)]:
        folder.note("not confirmed", site=site)
        raise SpecError(
            f"these are not the words of {site}, so {site} is not confirmed. Ask the "
            f"person at {site} for the words again, and run the same command. If the "
            f"words still differ, {_changed(folder, site)}"
        )
    say(
        f"The words are right. Now read the last three words to the person at {site}: "
        f"{' '.join(expected[HALF:])}"
    )
    say(
        f"  If the person at {site} has other words, read the words again. If the words still "
        f"differ, {_changed(folder, site)}"
    )
    desk.confirm(folder, site)
    found(site=site, confirmed=True, words=" ".join(expected))
    say(
        f"{site} is confirmed. If the program at {site} runs, it connects by itself within about "
        "half a minute. Meanwhile, other sites may lose their connection for some seconds, and "
        "connect again by themselves."
    )
    say(f"next, after half a minute: feddcd federation status {_quoted(folder.path)}")


def _changed(folder: FederationFolder, site: str) -> str:
    at = f"{_quoted(folder.path)} {site}"
    return (
        f"another person may be changing the messages between {site} and the coordinator. Then "
        f"remove {site}, and make a new invitation. Send the new invitation in another way than "
        f"before. The commands: feddcd federation retire {at}; feddcd federation invite {at}"
    )


def _quoted(path: Path) -> str:
    return shlex.quote(shown(path))
