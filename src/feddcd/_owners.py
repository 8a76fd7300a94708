"""Which account owns a file. What one account writes in the folder of another, the other cannot
read or replace later."""

import os
import shlex
from pathlib import Path

from ._files import shown
from ._text import printable


def owner_of(path: Path) -> str:
    """By name where it has one; nothing where there is no file, or no owners."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)
    except (OSError, NotImplementedError):
        return ""


def group_of(account: str) -> str:
    """The primary group of an account; the name of the account where the system has none."""
    try:
        import grp
        import pwd

        return grp.getgrgid(pwd.getpwnam(account).pw_gid).gr_name
    except (ImportError, LookupError):  # on Windows; or an account without a name
        return account


def to_own(error: Exception) -> str:
    """What to do where a file cannot be used because another account made it, in a folder of this
    account; else nothing."""
    if os.name != "posix" or not isinstance(error, PermissionError) or not error.filename:
        return ""
    path = Path(os.fsdecode(error.filename))
    try:
        file, folder = path.lstat().st_uid, path.parent.stat().st_uid
    except OSError:
        return ""
    if file == folder or folder != os.geteuid():
        return ""
    give = f"chown {shlex.quote(owner_of(path.parent))} {shlex.quote(shown(path))}"
    return printable(f"this file belongs to the account {owner_of(path)!r}. As root, run: {give}")
