"""The server's memory: a chain of records in one SQLite file, durable when `append` returns.

hash = sha256(previous || kind || epoch || round || body); the first record stands on the name of
the federation. Uploads are beside the records until they are pruned.
"""

import hashlib
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from .._errors import LedgerError
from .._files import Disk
from ._database import FORMAT, Database

__all__ = ["Entry", "Ledger", "LedgerError"]

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records(seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, epoch INTEGER NOT NULL,
  round INTEGER NOT NULL, body BLOB NOT NULL, hash TEXT NOT NULL, previous TEXT NOT NULL);
CREATE TABLE uploads(epoch INTEGER, round INTEGER, client TEXT, seq INTEGER NOT NULL,
  body BLOB NOT NULL, hash TEXT NOT NULL, PRIMARY KEY(epoch, round, client));
"""
_KEEP = "INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_AT_ONCE = 8  # records in memory; a round holds as many uploads


class Entry(NamedTuple):
    seq: int  # from 1, without gaps
    kind: str
    epoch: int
    round: int
    body: bytes
    hash: str
    previous: str


class Ledger:
    """One process writes and names its federation; others may look, with `readonly`.

    A file that is not there is made, for a named federation. After a write that failed all later
    calls are refused; opening again finds the record or not, and that is final.
    """

    def __init__(
        self,
        path: Path | str,
        federation: str | None = None,
        *,
        readonly: bool = False,
        disk: Disk | None = None,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        if federation is None and not readonly:
            raise LedgerError(
                "to write a ledger, give the name of its federation; to read it, give readonly=True"
            )
        tables = None if readonly else _empty(str(federation))
        path, disk = Path(path).resolve(), disk or Disk()
        self._database = Database(
            path, readonly=readonly, tables=tables, disk=disk, connect=connect
        )
        try:
            self.federation = self._database.meta("federation")
            if federation not in (None, self.federation):
                raise LedgerError(
                    f"{path} belongs to the federation {self.federation!r}, not to {federation!r}; "
                    f"give the folder of the federation {federation!r}"
                )
            if not readonly:
                self.verify()
        except BaseException:
            self.close()
            raise

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last record; number 0 before the first."""
        seq, _, last = self._database.meta("head").partition(" ")
        if not seq.isdecimal():
            raise self._database.damage("its last entry was changed")
        return int(seq), last

    def append(
        self,
        kind: str,
        epoch: int,
        round: int,
        body: bytes,
        uploads: Mapping[str, bytes] | None = None,
    ) -> Entry:
        """The next record and, in the same transaction, the uploads (by client) it is made of."""
        last, previous = self.head
        link = _link(previous, kind, epoch, round, body)
        entry = Entry(last + 1, kind, epoch, round, body, link, previous)
        # the head is written with its record: a crash leaves both or none
        with self._database.writing() as database:
            database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", entry)
            head = f"{entry.seq} {entry.hash}"
            database.execute("UPDATE meta SET value = ? WHERE key = 'head'", (head,))
            for client, upload in (uploads or {}).items():
                own = _link("upload", client, epoch, round, upload)
                database.execute(_KEEP, (epoch, round, client, entry.seq, upload, own))
        return entry

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The records from `start` on; what is appended meanwhile comes too."""
        query = f"SELECT * FROM records WHERE seq >= ? ORDER BY seq LIMIT {_AT_ONCE}"
        while rows := self._database.rows(query, start):
            yield from map(Entry._make, rows)
            start = rows[-1][0] + 1

    def verify(self) -> None:
        """Recomputes the chain; raises with the first record that breaks it."""
        with self._database.reading() as database:
            database.execute("BEGIN")  # one moment, also beside a writer
            try:
                self._follow_chain()
            finally:
                database.execute("ROLLBACK")

    def uploads(self, epoch: int, round: int) -> dict[str, bytes]:
        """By client, in their order."""
        query = "SELECT client, body, hash FROM uploads WHERE epoch = ? AND round = ? ORDER BY 1"
        rows = self._database.rows(query, epoch, round)
        for client, body, have in rows:
            if not _matches(have, "upload", client, epoch, round, body):
                where = f"round {round} (after start number {epoch} of the coordinator)"
                raise self._database.damage(f"the upload of site {client!r} in {where} was changed")
        return {client: body for client, body, _ in rows}

    def prune(self, upto_seq: int) -> int:
        """Forgets the uploads kept for the records up to `upto_seq`; returns how many."""
        with self._database.writing() as database:
            return database.execute("DELETE FROM uploads WHERE seq <= ?", (upto_seq,)).rowcount

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow_chain(self) -> None:
        seq, previous = 0, _genesis(self.federation)
        for seq, entry in enumerate(self.entries(), 1):
            if entry.seq != seq:
                raise self._database.damage(f"record {seq} is missing")
            if entry.previous != previous or not _matches(entry.hash, previous, *entry[1:5]):
                raise self._database.damage(f"record {seq} disagrees with the record before it")
            previous = entry.hash
        if self.head != (seq, previous):
            raise self._database.damage(
                f"the last record should be number {self.head[0]}, but it is number {seq}"
            )


def _empty(federation: str) -> str:
    values = {"format": FORMAT, "federation": federation, "head": f"0 {_genesis(federation)}"}
    quoted = lambda value: "'" + str(value).replace("'", "''") + "'"
    rows = ", ".join(f"({quoted(key)}, {quoted(value)})" for key, value in values.items())
    return f"{_TABLES} INSERT INTO meta VALUES {rows};"


def _genesis(federation: str) -> str:
    return _link("genesis", federation, 0, 0, b"")


def _link(previous: str, kind: str, epoch: int, round: int, body: bytes) -> str:
    text = f"{previous} {kind}".encode()
    numbers = struct.pack("<Qqq", len(text), epoch, round)
    return hashlib.sha256(numbers + text + body).hexdigest()


def _matches(have: object, *parts: Any) -> bool:
    try:
        return have == _link(*parts)
    except (TypeError, ValueError, struct.error):  # SQLite holds any type in any column
        return False
