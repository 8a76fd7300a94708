"""The SQLite file under the ledger: made atomically, locked, checked when opened."""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from .._errors import LedgerError
from .._files import Disk, Locked, lock_file, save, temporary

FORMAT = 1

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter from damaged messages and texts
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# the machine's trouble, not the file's: nothing of it is lost
_MACHINE = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
)  # fmt: skip


class Database:
    """One process writes. After a write that failed nobody knows whether a crash would bring it
    back, so all later calls are refused; opening again settles it."""

    def __init__(
        self,
        path: Path,
        *,
        readonly: bool,
        tables: str | None,
        disk: Disk,
        connect: Callable[..., sqlite3.Connection],
    ) -> None:
        """`tables` is the SQL of an empty ledger, for a file that is not there yet."""
        self.path = path
        self._lock: BinaryIO | None = None
        self._connection: sqlite3.Connection | None = None
        self._failed = False
        try:
            if not readonly:
                self._lock = _lock(path, disk)
                disk.remove(temporary(path))
            if not path.exists():
                self._create(tables, disk)
            uri = f"file:{quote(str(path))}?mode={'ro' if readonly else 'rw'}"
            self._connection = connect(uri, uri=True, isolation_level=None, timeout=5)
            if not readonly:
                _make_durable(self._connection)
                self._check_content(self._connection)
            self._check_tables()
            self._check_format()
        except _UNREADABLE as error:
            self.close()
            raise self._refusal(error) from None
        except OSError as error:
            self.close()
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise self._machine(error) from error
            raise LedgerError(
                f"cannot open {path}: {error}; check that its folder exists"
            ) from error
        except BaseException:
            self.close()
            raise

    def meta(self, key: str) -> str:
        row = self.first("SELECT value FROM meta WHERE key = ?", key)
        if row is None:
            raise self.damage(f"the part {key!r} is missing")
        return str(row[0])

    def first(self, query: str, *values: Any) -> tuple | None:
        with self.reading() as connection:
            return connection.execute(query, values).fetchone()

    def rows(self, query: str, *values: Any) -> list[tuple]:
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._usable()
        except _UNREADABLE as error:
            raise self._refusal(error) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, durable at its end."""
        connection = self._usable()
        if self._lock is None:
            raise LedgerError(
                f"{self.path} was opened only for reading, so nothing can be written to it"
            )
        self._failed = True  # until COMMIT has returned, whatever interrupts this
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except (*_UNREADABLE, OverflowError) as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise self._machine(error) from error
        self._failed = False

    def damage(self, what: str) -> LedgerError:
        return self._lost(f"is damaged: {what}")

    def _lost(self, how: str) -> LedgerError:
        return LedgerError(
            f"{self.path} {how}. Stop the coordinator, remove "
            f"{self.path.name}-wal and {self.path.name}-shm, and put the latest backup "
            "in the place of this file. Do not change the files of the sites"
        )

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _usable(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LedgerError(
                f"this object has closed the file {str(self.path)!r}; make a new object"
            )
        if self._failed:
            raise LedgerError(
                f"feddcd could not write to {self.path}; start the coordinator again to continue"
            )
        return self._connection

    def _create(self, tables: str | None, disk: Disk) -> None:
        if tables is None:
            raise LedgerError(f"there is no ledger at {self.path}; give the folder of a training")
        if self.path.with_name(f"{self.path.name}-wal").exists():
            raise self._lost(f"is missing, but {self.path.name}-wal is still there")
        save(disk, self.path, _content(tables))

    def _check_content(self, connection: sqlite3.Connection) -> None:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self.damage(verdict)

    def _check_tables(self) -> None:
        """A view in place of a table could say something else each time, or never end."""
        plain = "type IN ('table', 'index') AND sql NOT LIKE 'CREATE VIRTUAL%'"
        if self.first(f"SELECT 1 FROM sqlite_master WHERE sql IS NOT NULL AND NOT ({plain})"):
            raise self.damage("it contains more than tables")

    def _check_format(self) -> None:
        if (have := self.meta("format")) != str(FORMAT):
            raise LedgerError(
                f"{self.path} has the format {have}, but this version of feddcd reads the "
                f"format {FORMAT}; use the version of feddcd that wrote the file"
            )

    def _refusal(self, error: Exception) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _BUSY:
            return LedgerError(
                f"{self.path} is in use by another program; stop that program and try again"
            )
        return self._machine(error) if code in _MACHINE else self.damage(str(error))

    def _machine(self, error: Exception) -> LedgerError:
        full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
        why = "the disk is full" if full else str(error)
        return LedgerError(
            f"cannot use {self.path}: {why}. Nothing is lost. Keep this file and the "
            "files beside it. Make free space on the disk, or repair it. Then start the "
            "coordinator again"
        )


def _make_durable(connection: sqlite3.Connection) -> None:
    """With WAL others read while one writes; with FULL a COMMIT returns after its fsync."""
    for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):
        connection.execute(f"PRAGMA {setting}").fetchall()


@lru_cache
def _content(tables: str) -> bytes:
    """The file that holds these tables."""
    memory = sqlite3.connect(":memory:")
    try:
        memory.executescript(tables)
        return memory.serialize()
    finally:
        memory.close()


def _lock(path: Path, disk: Disk) -> BinaryIO:
    try:
        return disk.lock(lock_file(path))
    except Locked as error:
        raise LedgerError(
            f"{path} is in use by {error.holder}. A federation can have only one "
            "coordinator: stop that process first"
        ) from None
