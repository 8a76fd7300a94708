"""rules/salt of a site: 32 random bytes. Without them nobody can try guesses against digests of
rows or of numbers."""

import secrets
from pathlib import Path

from ..._errors import LogError, StateError
from ..._files import Disk, save
from .log import lock

SIZE = 32


def salt_of(site: Path, disk: Disk) -> bytes:
    rules = site / "rules"
    path = rules / "salt"
    try:
        rules.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(disk, path):
            found = disk.read(path, 1000)
            if found is None:
                if (rules / "sets").exists():
                    raise StateError(
                        f"the file {path} is lost, so feddcd does not recognise the rows of "
                        "earlier jobs; put the file back from a backup"
                    )
                found = secrets.token_bytes(SIZE)
                save(disk, path, found)
    except OSError as error:
        raise LogError(f"{path} cannot be read or written: {error}") from error
    if len(found) != SIZE:
        raise StateError(
            f"{path} was changed: it must have {SIZE} bytes; put the file back from a backup"
        )
    return found
