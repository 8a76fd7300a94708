"""What is broken at a site, from its files alone: so that a person reads it before a study ends
because of it."""

import errno
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .._errors import FeddcdError, SpecError
from .._files import shown
from .._owners import group_of, owner_of, to_own
from .._text import plural, printable, sentence_list
from ..data.codebook import FILE as CODEBOOK
from ..data.codebook import load_codebook
from ._columns_named import unknown_columns
from .enrolment.site import ENROLLED
from .folder import FederationFolder, load_limits, load_place
from .machine.keys import load_private, public_of, same_key
from .roster import KEYS, ROSTER, load_keys, load_roster
from .site.log import LOG, TODO, verify_log
from .site.memory import Memory
from .site.policy import FILE as POLICY
from .site.policy import doubtful_methods, load_policy

KEY, AUTHORITY, SETTINGS = "key", "ca.crt", "site.toml"
SECRET = (KEY, KEYS)  # nobody else may read them
OWN = (SETTINGS, POLICY, CODEBOOK, AUTHORITY, ROSTER, LOG)  # nobody else may change them
AGAIN = (
    "put the file back from a backup. If there is no backup, ask the person at the coordinator to "
    "retire this site and to send a new invitation"
)


PUT_BACK = (
    "put the data file back, with the same path. Do not name another file in "
    f"{SETTINGS}: then the rules of this site forget all earlier jobs"
)
SAME_PATH = (
    "if patients of the old file are in the new file, too, move the new file to the old path, and "
    f"write the old path into {SETTINGS} again. If the new file has only other patients, do "
    "nothing: this warning ends a month after the first job with the new path"
)


class Trouble(NamedTuple):
    """`stops`: this site does not answer before a person has mended it. `kind` stays the same
    where numbers in `what` change."""

    what: str
    todo: str
    stops: bool = True
    kind: str = ""

    def words(self) -> str:
        end = "" if self.what.endswith("?") else "."
        return f"{self.what}{end}{TODO}{self.todo}"


def troubles(folder: Path) -> list[Trouble]:
    """Those that stop answers first."""
    found = [*_modes(folder), *_owners(folder), *misnamed(folder), *moved(folder)]
    for check, todo in CHECKS:
        try:
            check(folder)
        except (FeddcdError, OSError) as error:
            what, said, own = _told(error).rpartition(TODO)
            what, todo = (what.removesuffix("."), own) if said else (own, to_own(error) or todo)
            found.append(Trouble(what, todo, kind=check.__name__))
    return sorted(found, key=lambda trouble: not trouble.stops)


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return printable(f"{shown(Path(error.filename))} cannot be read: {error.strerror}")
    return printable(" ".join(str(error).split()).rstrip("."))


def _settings(folder: Path) -> None:
    load_place(folder)
    load_limits(folder)


def _data(folder: Path) -> None:
    """That it can be opened: a look at the values would take too long here."""
    try:
        path = load_place(folder).data
    except FeddcdError:  # which the check of the settings tells
        return
    if path.is_dir():
        told = f"{shown(path)} is a folder"
        raise SpecError(f"{told}.{TODO}write the path of a data file into {SETTINGS}")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "this is not a file", str(path))
        with open(path, "rb") as file:
            if not file.read(1):
                raise OSError(errno.EINVAL, "the file is empty", str(path))
    except FileNotFoundError as error:
        if not (other := _other_path(folder, path)):
            raise
        raise SpecError(f"{_told(error)}.{TODO}{other}") from None


def _other_path(folder: Path, data: Path) -> str:
    """What to do where it may be that the path in the settings is wrong."""
    memory = Memory(folder, data)
    if memory.jobs():
        return ""
    if before := list(memory.forgotten()):
        return f"write the old path into {SETTINGS} again: data = {before[-1]!r}"
    return f"put the data file at this path, or correct the path in {SETTINGS}"


def _policy(folder: Path) -> None:
    load_policy(folder / POLICY)


def _codebook(folder: Path) -> None:
    if (folder / CODEBOOK).exists():
        load_codebook(folder / CODEBOOK)


def _node(folder: Path) -> None:
    own = public_of(load_private(folder / KEY))
    (folder / AUTHORITY).read_bytes()
    with suppress(FileNotFoundError):
        if not same_key(own, (folder / f"{KEY}.pub").read_bytes()):
            told = f"{shown(folder / KEY)} is not the private key that belongs to {KEY}.pub"
            raise SpecError(f"{told}, the public key with which this site enrolled")


def _sums(folder: Path) -> None:
    """A site of a trial with two sites has no keys for sums, and needs none."""
    if _is_open(folder / KEYS, 0o077):  # the message with other modes says it
        return
    if any((folder / name).exists() for name in (KEYS, ROSTER, ENROLLED)):
        load_keys(folder)
    if (folder / ROSTER).exists():
        roster, told = load_roster(folder), ""
        with suppress(FeddcdError):  # a site that enrolled again may have a list with older keys
            if (name := roster.own(load_keys(folder)).name) != (own := load_place(folder).client):
                told = f"{shown(folder / KEYS)} has the keys of site {name!r}, not of {own!r}"
        if told:
            raise SpecError(told)


CHECKS: tuple[tuple[Callable[[Path], object], str], ...] = (  # each with what to do then
    (_settings, f"correct {SETTINGS} of this site"),
    (_data, PUT_BACK),
    (_policy, f"correct {POLICY}. Until then, this site sends nothing"),
    (_codebook, f"correct {CODEBOOK} of this site"),
    (_node, AGAIN),
    (_sums, AGAIN),
    (
        verify_log,
        f"make sure that feddcd can read this file, or put {LOG} and .{LOG}.head back from "
        "a backup",
    ),
)


def open_data(path: Path, account: str) -> list[Trouble]:
    """What every user of this machine may do with the data file. A group may be meant to, as that
    of `account`, which runs the site."""
    if not path.is_file():  # the modes of a folder are not those of data
        return []
    can = [word for word, bit in (("read", 0o004), ("change", 0o002)) if _is_open(path, bit)]
    if not can:
        return []
    trouble, owner = _opened(path, f"{' or '.join(can)} the data of this site", "600"), ""
    if account in ("", "root") or (owner := owner_of(path)) == account:
        return [trouble]
    return [trouble._replace(todo=_close_to_others(path, owner, account))]


def _close_to_others(path: Path, owner: str, account: str) -> str:
    """Mode 600 would lock out a site that does not own its data."""
    at, group = shlex.quote(shown(path)), shlex.quote(group_of(account))
    return printable(
        f"give these two commands as root: chgrp {group} {at}; chmod 640 {at}. Then only the user "
        f"{owner} and the group of the account {account}, which runs this site, can read the file"
    )


def _modes(folder: Path) -> Iterator[Trouble]:
    """What other users of this machine can do here."""
    with suppress(FeddcdError):  # which the check of the settings tells
        yield from open_data(load_place(folder).data, owner_of(folder))
    if _is_open(folder, 0o077):
        yield _opened(folder, "read or change the folder of this site", "700")
    for name in SECRET:
        if _is_open(folder / name, 0o077):
            can = "read or change a private key of this site"
            yield _opened(folder / name, can, "600")._replace(stops=name == KEYS)
    for name in OWN:
        if _is_open(folder / name, 0o022):
            yield _opened(folder / name, "change this file", "600")


def open_server(folder: FederationFolder) -> list[Trouble]:
    """At the coordinator: who has the key of its server can pretend to be it."""
    found = []
    if _is_open(folder.path, 0o077):
        found.append(_opened(folder.path, "read or change the folder of this federation", "700"))
    if _is_open(key := folder.server / "server.key", 0o077):
        found.append(_opened(key, "read or change the private key of the coordinator", "600"))
    return found


def _owners(folder: Path) -> Iterator[Trouble]:
    """A file of another user, who may change it whatever its mode is."""
    own = owner_of(folder)
    for name in (*SECRET, *OWN):
        if (other := owner_of(folder / name)) not in (own, "root", ""):
            at = shown(folder / name)
            told = f"{at} belongs to the user {other}, who may change this file"
            todo = f"chown {shlex.quote(own)} {shlex.quote(at)}"
            yield Trouble(printable(told), todo, stops=False, kind=f"owner of {name}")


def misnamed(folder: Path) -> Iterator[Trouble]:
    """A warning: the file may get this column later, and a package may have this method."""
    with suppress(FeddcdError, OSError):  # which the other checks tell
        for told in unknown_columns(folder):
            todo = f"write the name in {POLICY} exactly as it is in the data file"
            yield Trouble(told, todo, stops=False, kind=told)
    with suppress(FeddcdError):
        for name, meant in doubtful_methods(load_policy(folder / POLICY).methods or ()).items():
            told = f"the setting 'methods' in {POLICY} has {name!r}, but feddcd has no such method"
            told = printable(f"{told}{meant}")
            todo = f"correct the name in {POLICY}. If another package has this method, do nothing"
            yield Trouble(told, todo, stops=False, kind=told)


def moved(folder: Path) -> Iterator[Trouble]:
    """A warning: the rules compare only jobs on one path of the data file."""
    with suppress(FeddcdError, OSError):  # which the other checks tell
        memory = Memory(folder, data := load_place(folder).data)
        if data.exists() and (before := memory.forgotten()):
            jobs = sentence_list([f"{plural(n, 'job')} of {path}" for path, n in before.items()])
            told = (
                f"{SETTINGS} names the data file {memory.key}, but the rules of this site remember "
                f"{jobs}. With the new path, all budgets begin again, and this site does not "
                "compare new jobs with these earlier jobs"
            )
            yield Trouble(printable(told), SAME_PATH, stops=False, kind="moved")


def _opened(path: Path, can: str, mode: str) -> Trouble:
    """A warning: on its way to the file, a user may be stopped by the folder above it."""
    at = shown(path)
    told = f"{at} has the mode {_mode(path):04o}, so other users of this machine may {can}"
    todo = f"chmod {mode} {shlex.quote(at)}"
    return Trouble(printable(told), todo, stops=False, kind=f"mode of {at}")


def _is_open(path: Path, bits: int) -> bool:
    return os.name == "posix" and bool(_mode(path) & bits)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
