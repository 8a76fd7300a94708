"""Disks that fail: at one operation, in one way, and forgetting what was not yet synced."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feddcd._files import Disk


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder, in memory where that can be had: waiting for the disk is not what is tested."""
    memory = Path("/dev/shm")
    quick = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as made:
        yield Path(made).resolve()


class Crash(BaseException):
    """The power goes; nothing that runs afterwards reaches the disk."""


class QuickDisk(Disk):
    """Without the waiting; a killed process loses nothing that way, only a machine does."""

    def fsync(self, file):
        pass

    def fsync_dir(self, folder):
        pass


class FailingDisk(QuickDisk):
    """Real files, with a model of what a loss of power takes away.

    The operation number `at` fails as `fault` says, one of FAULTS or a number of bytes after which
    a write is torn. A crash cuts files without an fsync to `keep` of their length, and with
    `undo` takes back the renames whose folder was not synced.
    """

    def __init__(self, at=None, fault="before", *, keep=1.0, undo=False):
        self.at, self.fault, self.keep, self.undo = at, fault, keep, undo
        self.operations: list[str] = []
        self.unsynced: set[str] = set()
        self.renames: list[tuple[Path, bytes | None]] = []
        self.dead = False

    def lose_power(self):
        self.dead = True
        for path in self.unsynced:
            if os.path.exists(path):
                os.truncate(path, int(self.keep * os.path.getsize(path)))
        for target, before in reversed(self.renames):
            if before is None:
                target.unlink()
            else:
                target.write_bytes(before)
        raise Crash

    def _run(self, name, act, torn=None):
        if self.dead:
            raise Crash
        self.operations.append(name)
        if len(self.operations) - 1 != self.at:
            return act()
        if self.fault in ERRORS:
            raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]))
        if isinstance(self.fault, int) and torn is not None:
            torn(self.fault)
        elif self.fault in ("after", "error after") and (handle := act()) is not None:
            handle.close()  # its process is gone
        if self.fault == "error after":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.lose_power()

    def write_bytes(self, path, data):
        def write(size=None):
            self.unsynced.add(str(path))
            return Disk.write_bytes(self, path, data[:size])

        return self._run("write_bytes", write, lambda size: write(size).close())

    def fsync(self, file):
        self._run("fsync", lambda: self.unsynced.discard(file.name))

    def replace(self, source, target):
        def act():
            if self.undo:
                self.renames.append((target, target.read_bytes() if target.exists() else None))
            Disk.replace(self, source, target)
            self.unsynced.discard(str(target))
            if str(source) in self.unsynced:
                self.unsynced.remove(str(source))
                self.unsynced.add(str(target))

        self._run("replace", act)

    def fsync_dir(self, folder):
        self._run("fsync_dir", self.renames.clear)

    def read(self, path, limit):
        content = Disk.read(self, path, limit)
        self._run("read", lambda: None)
        return content

    def remove(self, path):
        self._run("remove", lambda: Disk.remove(self, path))

    def lock(self, path):
        return self._run("lock", lambda: Disk.lock(self, path))


ERRORS = {"disk full": errno.ENOSPC, "input/output error": errno.EIO}
CRASHES = ("before", "after")
FAULTS = (*CRASHES, *ERRORS, "error after")
LOSSES = [{"keep": k, "undo": u} for k in (0, 0.6, 1) for u in (False, True)]
