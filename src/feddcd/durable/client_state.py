"""What a site must not lose: one file, replaced atomically, checked, locked and counted.

Every open raises the incarnation durably before anything else, so that what an earlier process
of this site promised can be told from what this one does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from .._errors import CodecError, StateError, VersionError
from .._files import Disk, Locked, lock_file, prepare, publish, temporary
from .codec import LIMIT, pack, unpack

FORMAT = 1

_REPAIR = (
    "put the latest backup of this file in its place, or have the coordinator retire this site; "
    "do not go on with an empty file"
)


class _Saved(NamedTuple):
    incarnation: int
    content: dict[str, Any] | None  # None before the first save
    arrays: dict[str, np.ndarray]


class ClientFile:
    """The state file of one client of one federation, held open by one process.

    `save` has happened when it returns. When it raises, the file holds the old content; where
    that is not certain (the rename or what follows it failed) every later call is refused, and
    opening again finds the old or the new.
    """

    def __init__(
        self, path: Path | str, *, federation: str, client: str, disk: Disk | None = None
    ) -> None:
        self.path = Path(path).resolve()  # a link and its target share one lock
        self.federation, self.client = federation, client
        self._disk = disk or Disk()
        self._uncertain = False
        self._lock: BinaryIO | None = self._take_lock()
        try:
            self._disk.remove(temporary(self.path))
            saved = self._read() or _Saved(0, None, {})
            self.incarnation = saved.incarnation + 1
            self._write(saved.content, saved.arrays)
        except OSError as error:
            self.close()
            raise StateError(f"cannot open {self.path}: {error}") from error
        except BaseException:
            self.close()
            raise

    def load(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What was saved last; None before the first save."""
        self._check_usable()
        try:
            saved = self._read()
        except OSError as error:
            raise StateError(f"cannot read {self.path}: {error}") from error
        if saved is None or saved.incarnation != self.incarnation:
            raise StateError(
                f"{self.path} was removed or replaced while in use; stop this site, put back the "
                "file it had, and start it again"
            )
        return None if saved.content is None else (saved.content, saved.arrays)

    def save(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self._check_usable()
        self._write(dict(meta), arrays)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self) -> BinaryIO:
        try:
            return self._disk.lock(lock_file(self.path))
        except Locked as error:
            raise StateError(
                f"{self.path} is in use by {error.holder}; a site runs once: stop that process "
                "first, or give this site its own file"
            ) from None
        except OSError as error:
            raise StateError(f"cannot lock {self.path}: {error}; does its folder exist?") from error

    def _check_usable(self) -> None:
        if self._lock is None:
            raise StateError(f"{self.path} is closed; open it again")
        if self._uncertain:
            raise StateError(
                f"the last write of {self.path} failed half-way; check the disk, then start the "
                "site again: it finds the state before or after that write"
            )

    def _write(self, content: dict[str, Any] | None, arrays: Mapping[str, np.ndarray]) -> None:
        meta = {
            "kind": "client",
            "format": FORMAT,
            "federation": self.federation,
            "client": self.client,
            "incarnation": self.incarnation,
            "content": content,
        }
        data = pack(meta, arrays)
        try:
            prepare(self._disk, self.path, data)
            self._uncertain = True  # a rename may have happened although it failed
            publish(self._disk, self.path)
        except OSError as error:
            raise StateError(
                f"cannot write {self.path}: {error}; free space or repair the disk, then start "
                "the site again"
            ) from error
        self._uncertain = False

    def _read(self) -> _Saved | None:
        data = self._disk.read(self.path, LIMIT)
        if data is None:
            return None
        try:
            meta, arrays = unpack(data)
            if (meta["kind"], meta["format"]) != ("client", FORMAT):
                raise VersionError(f"holds {meta['kind']} of format {meta['format']}, not {FORMAT}")
            owner, incarnation = (meta["federation"], meta["client"]), int(meta["incarnation"])
            saved = _Saved(incarnation, meta["content"], arrays)
        except VersionError as error:
            raise StateError(
                f"{self.path} {error}; start this site with the feddcd that wrote it"
            ) from None
        except (CodecError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"{self.path} is damaged: {error}; {_REPAIR}") from None
        if owner != (self.federation, self.client):
            raise StateError(
                f"{self.path} belongs to client {owner[1]!r} of federation {owner[0]!r}, not to "
                f"{self.client!r} of {self.federation!r}; point this site at its own file"
            )
        return saved
