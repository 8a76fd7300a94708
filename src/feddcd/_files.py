"""The few file operations that durable state is made of, in one place so that tests can break them.

A crash may fall before, within or after each of them; only `replace` is atomic, and nothing is
durable before its fsync.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


LOCKED_BYTE = 2**30


class Locked(Exception):
    """Somebody else holds the lock; `holder` says who, for a message."""

    def __init__(self, holder: str):
        super().__init__(holder)
        self.holder = holder


class Disk:
    """The real file system. Tests subclass it; nothing else does."""

    def write_bytes(self, path: Path, data: bytes) -> BinaryIO:
        """A new file that only its owner reads, still open: an error of writing is reported
        by the fsync of the handle that wrote."""
        file = open(path, "wb", buffering=0, opener=private)  # noqa: SIM115
        try:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        except BaseException:
            file.close()
            raise
        return file

    def fsync(self, file: BinaryIO) -> None:
        _flush(file.fileno())

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def fsync_dir(self, folder: Path) -> None:
        if sys.platform == "win32":  # which has no handles of folders, and renames durably
            return
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _flush(handle)
        finally:
            os.close(handle)

    def read(self, path: Path, limit: int) -> bytes | None:
        """None where there is no file; more than `limit` bytes are not read."""
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > limit:
                    raise OSError(f"the file has {size} bytes, but feddcd reads at most {limit}")
                return file.read(size)  # read(limit) would take that much memory at once
        except FileNotFoundError:
            return None

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def wipe(self, path: Path) -> None:
        """Overwritten, then removed. What the file system kept elsewhere stays there."""
        try:
            with open(path, "r+b", buffering=0) as file:
                file.write(bytes(os.fstat(file.fileno()).st_size))
                self.fsync(file)
        except FileNotFoundError:
            return
        self.remove(path)
        self.fsync_dir(path.parent)

    def lock(self, path: Path) -> BinaryIO:
        """Held until the handle is closed, at the latest when the process ends. The file stays:
        removing it would let two processes hold a lock of one name."""
        file = open(path, "a+b", buffering=0, opener=private)  # noqa: SIM115
        try:
            _lock(file)
            file.truncate(0)
            file.write(b"%d\n" % os.getpid())
        except (BlockingIOError, PermissionError):  # as Windows says it
            holder = _holder(file)
            file.close()
            raise Locked(holder) from None
        except BaseException:
            file.close()
            raise
        return file


def prepare(disk: Disk, path: Path, data: bytes) -> None:
    """Half of an atomic replace: what is to become `path`, durable beside it."""
    try:
        with disk.write_bytes(temporary(path), data) as file:
            disk.fsync(file)
    except OSError:
        with suppress(OSError):  # on a full disk its half would be in the way
            disk.remove(temporary(path))
        raise


def publish(disk: Disk, path: Path) -> None:
    """The other half. After a crash `path` is the old or the new one; after an error, who knows."""
    disk.replace(temporary(path), path)
    disk.fsync_dir(path.parent)


@lru_cache
def temporary(path: Path) -> Path:
    """One name suffices: who writes holds the lock."""
    return path.with_name(f".{path.name}.tmp")


def lock_within(disk: Disk, path: Path, seconds: float) -> BinaryIO:
    """A lock that others hold for moments is waited for; raises Locked after so long."""
    until = time.monotonic() + seconds
    while True:
        try:
            return disk.lock(path)
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def holder_of(path: Path) -> str | None:
    """Who has this lock, if anybody has it. Those who look do not take one another for a holder."""
    try:
        with open(path, "rb", buffering=0) as file:
            try:
                _lock(file, shared=True)
            except (BlockingIOError, PermissionError):
                return _holder(file)
    except OSError:
        pass
    return None


def _holder(file: BinaryIO) -> str:
    file.seek(0)
    holder = file.read(20).decode("ascii", "replace").strip()
    return f"process {holder}" if holder.isdigit() else "another process"


def lock_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def save(disk: Disk, path: Path, values: Mapping[str, Any] | bytes) -> None:
    """Durably and at once: readers, and the next process after a crash, see the old or the new."""
    data = values if isinstance(values, bytes) else f"{json.dumps(values, indent=1)}\n".encode()
    prepare(disk, path, data)
    publish(disk, path)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """The same for what a function writes, without waiting for the disk."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(new)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def fresh_folder(name: str) -> Path:
    """runs/NAME, or with a number behind it, whichever is not there yet."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)
    number, folder = 1, Path("runs") / stem
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{stem}-{number}"
    return folder


def shown(path: Path) -> str:
    """For a person: a path below the current folder without the way to that folder."""
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return str(path)


def stamp(path: Path) -> tuple[int, int]:
    """Tells one state of a file from another: when it was written, and its size."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size


@contextmanager
def owner_only() -> Iterator[None]:
    """Whatever is made meanwhile, by libraries too, only its owner may read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def private(path: str, flags: int) -> int:
    """An opener: what it makes only its owner reads."""
    return os.open(path, flags, 0o600)


def _lock(file: BinaryIO, shared: bool = False) -> None:
    """At once, or BlockingIOError, on Windows PermissionError. There a byte far behind the end of
    the file is locked, so that others can read who holds it, and no lock is shared."""
    if sys.platform == "win32":
        file.seek(LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
    else:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _flush(handle: int) -> None:
    if sys.platform == "darwin":  # fsync leaves the data in the drive's cache there
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)
