"""Which words of a question a person has read: outgoing/ID.read.

Asked again, for another study or purpose, the same id has other words. Nobody approves words in
place of those that they have read.
"""

import hashlib
from pathlib import Path

from ..._errors import SpecError
from ..._files import Disk, save
from ..._text import printable

MOST_BYTES = 1000


class Unread(SpecError):
    """What waits under this id has other words than a person has read."""

    def __init__(self, id: str, short: str, study: str):
        of = f" for study '{printable(study)}'" if study else ""
        super().__init__(
            f"the text of the request {short} changed after you read it, because the coordinator "
            f"asked again{of}. Read the new text. Then give the same command again"
        )
        self.id = id


def keep_read(queue: Path, id: str) -> None:
    save(Disk(), _path(queue, id), _text_of(queue, id))


def has_changed(queue: Path, id: str) -> bool:
    """Since a person has read it; what nobody has read has not."""
    seen = Disk().read(_path(queue, id), MOST_BYTES)
    return seen is not None and seen != _text_of(queue, id)


def forget_read(queue: Path, id: str) -> None:
    """A person has decided. Asked again, it is a new question."""
    _path(queue, id).unlink(missing_ok=True)


def _text_of(queue: Path, id: str) -> bytes:
    """A digest of it."""
    return hashlib.sha256((queue / f"{id}.json").read_bytes()).hexdigest().encode()


def _path(queue: Path, id: str) -> Path:
    return queue / f"{id}.read"
