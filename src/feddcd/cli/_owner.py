"""Who may write in the folder of a site or of a federation: the account that owns it. Above all
not root, who may write everywhere: its files would stop the program that runs there."""

import os
import shlex
import sys
from pathlib import Path

from .._errors import FolderError
from .._files import shown
from .._origin import origin
from .._owners import owner_of

READS = ("status", "inspect", "verify")  # of `feddcd federation`: they write nothing


def check_owner(folder: Path) -> None:
    """Refuses a folder of another account. One that is not there yet belongs to who makes it."""
    if os.name != "posix" or not folder.exists() or folder.stat().st_uid == os.geteuid():
        return
    if os.geteuid() != 0 and os.access(folder, os.W_OK):  # a volume that a group shares
        return
    owner = owner_of(folder)
    raise FolderError(
        f"the folder {shown(folder)} belongs to the account {owner!r}, and you use another "
        "account. The program that uses this folder could not use the files that this command "
        f"writes. feddcd changed nothing. Give this command as the account {owner!r}: "
        f"sudo -u {shlex.quote(owner)} {_command()}"
    )


def _command() -> str:
    """As it was typed, with the place of the program: sudo may look elsewhere."""
    program, typed = Path(sys.executable).with_name("feddcd"), origin().command or "feddcd ..."
    where = shlex.quote(str(program)) if program.exists() else "feddcd"
    return where + typed.removeprefix("feddcd")
