"""The ledger: what was appended stays, and what was changed, cut or reordered is found."""

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import numpy as np
import pytest

from disks import CRASHES, LOSSES, Crash, FailingDisk
from feddcd._errors import LedgerError
from feddcd.durable.ledger import Ledger


def filled(path, records=4, **options):
    ledger = Ledger(path, "north", **options)
    for n in range(1, records + 1):
        ledger.append("round", 1, n, b"body %d" % n, {"a": b"from a", "b": b"from b"})
    return ledger


def sql(path, *statements):
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def bodies(path):
    with Ledger(path, "north") as ledger:
        return [entry.body for entry in ledger.entries()]


def test_records_come_back_in_order(tmp_path):
    path = tmp_path / "ledger"
    with filled(path) as ledger:
        assert [e.seq for e in ledger.entries()] == [1, 2, 3, 4]
        assert [e.seq for e in ledger.entries(3)] == [3, 4]
        last = ledger.append("join", 2, 0, b"")
        assert ledger.head == (5, last.hash)
    with Ledger(path, "north") as ledger:
        *_, before, again = ledger.entries()
        assert again == last
        assert again.previous == before.hash
        assert ledger._database.first("PRAGMA journal_mode") == ("wal",)
        assert ledger._database.first("PRAGMA synchronous") == (2,)


def test_entries_see_what_is_appended_meanwhile(tmp_path):
    with filled(tmp_path / "ledger", 1) as ledger:
        seen = []
        for entry in ledger.entries():
            seen.append(entry.seq)
            if entry.seq < 3:
                ledger.append("round", 1, entry.seq + 1, b"")
    assert seen == [1, 2, 3]


def test_uploads_are_kept_until_pruned(tmp_path):
    with filled(tmp_path / "ledger", 2) as ledger:
        assert ledger.uploads(1, 1) == {"a": b"from a", "b": b"from b"}
        ledger.append("round", 1, 3, b"", {"c": b"first"})
        ledger.append("round", 1, 3, b"", {"c": b"second"})
        assert ledger.prune(1) == 2
        assert ledger.uploads(1, 1) == {}
        assert ledger.uploads(1, 2).keys() == {"a", "b"}
        assert ledger.prune(2) == 2
        assert ledger.uploads(1, 3) == {"c": b"first"}
        ledger.verify()
        assert ledger.head[0] == 4


def test_a_ledger_with_the_snapshots_of_earlier_versions_opens(tmp_path):
    path, columns = tmp_path / "ledger", "seq INTEGER PRIMARY KEY, body BLOB, hash TEXT"
    filled(path).close()
    sql(path, f"CREATE TABLE snapshots({columns})", "INSERT INTO snapshots VALUES (2, x'00', 'h')")
    with Ledger(path, "north") as ledger:
        assert ledger.append("round", 1, 5, b"body 5").seq == 5
    with Ledger(path, readonly=True) as ledger:
        ledger.verify()
        assert [entry.seq for entry in ledger.entries()] == [1, 2, 3, 4, 5]


TAMPERED = {
    "changed body": ("UPDATE records SET body = x'00' WHERE seq = 2", "record 2 disagrees with"),
    "changed round": ("UPDATE records SET round = 7 WHERE seq = 3", "record 3 disagrees with"),
    "changed kind": ("UPDATE records SET kind = 'join' WHERE seq = 1", "record 1 disagrees with"),
    "another type": ("UPDATE records SET epoch = 'x' WHERE seq = 2", "record 2 disagrees with"),
    "removed": ("DELETE FROM records WHERE seq = 2", "record 2 is missing"),
    "removed and moved up": (
        "DELETE FROM records WHERE seq = 2; UPDATE records SET seq = seq - 1 WHERE seq > 2",
        "record 2 disagrees with",
    ),
    "reordered": (
        "UPDATE records SET seq = 9 WHERE seq = 2; UPDATE records SET seq = 2 WHERE seq = 3;"
        "UPDATE records SET seq = 3 WHERE seq = 9",
        "record 2 disagrees with",
    ),
    "first removed": ("DELETE FROM records WHERE seq = 1", "record 1 is missing"),
    "last removed": (
        "DELETE FROM records WHERE seq = 4",
        "last record should be number 4, but it is number 3",
    ),
    "all removed": ("DELETE FROM records", "last record should be number 4, but it is number 0"),
    "one more": (
        "INSERT INTO records SELECT 5, kind, epoch, round, body, hash, hash FROM records LIMIT 1",
        "record 5 disagrees with",
    ),
    "renamed": (
        "UPDATE meta SET value = 'south' WHERE key = 'federation'",
        "to the federation 'sou",
    ),
    "newer": (
        "UPDATE meta SET value = '2' WHERE key = 'format'",
        "format 2, but this version of feddcd reads the format 1",
    ),
    "no format": ("DELETE FROM meta WHERE key = 'format'", "the part 'format' is missing"),
    "odd head": ("UPDATE meta SET value = 'x' WHERE key = 'head'", "its last entry was changed"),
    "a view, which may change or never end": (
        "ALTER TABLE meta RENAME TO own; CREATE VIEW meta AS SELECT * FROM own",
        "it contains more than tables",
    ),
    "no table": ("DROP TABLE records", "is damaged: no such table.*put the latest backup"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_changed_ledger_is_refused(case, tmp_path):
    statements, message = TAMPERED[case]
    path = tmp_path / "ledger"
    filled(path).close()
    sql(path, *statements.split(";"))
    with pytest.raises(LedgerError, match=message):
        Ledger(path, "north")
    with pytest.raises(LedgerError, match=message):  # and not "in use"
        Ledger(path, "north")


def test_the_name_of_the_federation_is_in_the_chain(tmp_path):
    path = tmp_path / "ledger"
    filled(path).close()
    sql(path, "UPDATE meta SET value = 'south' WHERE key = 'federation'")
    with pytest.raises(LedgerError, match="record 1 disagrees with"):
        Ledger(path, "south")


def test_changed_uploads_are_refused(tmp_path):
    path = tmp_path / "ledger"
    filled(path).close()
    sql(path, "UPDATE uploads SET body = 'x' WHERE client = 'b'")
    with (
        Ledger(path, "north") as ledger,
        pytest.raises(
            LedgerError, match=r"upload of site 'b' in round 2 .after start number 1 of the coord"
        ),
    ):
        ledger.uploads(1, 2)


def test_damaged_bytes_are_refused_or_make_no_difference(tmp_path):
    path, damaged = tmp_path / "ledger", tmp_path / "damaged"
    filled(path, 20).close()
    good, expected, refused = path.read_bytes(), bodies(path), 0
    rng = np.random.default_rng(1)
    for _ in range(400):
        data = bytearray(good)
        at = int(rng.integers(len(data)))
        data[at : at + 8] = rng.bytes(8)
        damaged.write_bytes(data)
        try:
            assert bodies(damaged) == expected
        except LedgerError:
            refused += 1
    assert refused > 50


def test_a_torn_log_leaves_the_records_before_it(tmp_path):
    path, torn = tmp_path / "ledger", tmp_path / "torn"
    filled(path, 1).close()
    seen = set()
    with Ledger(path, "north") as ledger:
        for n in (2, 3, 4):
            ledger.append("round", 1, n, bytes(9000))
        log = (tmp_path / "ledger-wal").read_bytes()
        for size in (*range(0, len(log), 997), len(log)):
            torn.write_bytes(path.read_bytes())
            (tmp_path / "torn-wal").write_bytes(log[:size])
            seen.add(len(bodies(torn)))
    assert seen == {1, 2, 3, 4}


CUT = {
    "empty": lambda p: p.write_bytes(b""),
    "no database": lambda p: p.write_bytes(b"a letter, not a ledger" * 300),
    "half": lambda p: os.truncate(p, p.stat().st_size // 2),
    "gone, but for its log": lambda p: p.rename(f"{p}-wal"),
}


@pytest.mark.parametrize("case", CUT)
def test_a_file_that_is_no_ledger_is_refused(case, tmp_path):
    path = tmp_path / "ledger"
    filled(path).close()
    CUT[case](path)
    gone = case == "gone, but for its log"
    how = "missing, but ledger-wal is still there" if gone else "damaged: "
    with pytest.raises(LedgerError, match=rf"ledger is {how}.*put the latest backup"):
        Ledger(path, "north")


def test_one_server_writes_and_others_look(tmp_path):
    path = tmp_path / "ledger"
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(path, readonly=True)
    with pytest.raises(LedgerError, match="give the name of its federation"):
        Ledger(path)
    with filled(path) as ledger:
        with pytest.raises(
            LedgerError, match=f"in use by process {os.getpid()}. A federation can have"
        ):
            Ledger(path, "north")
        with Ledger(path, readonly=True) as reader:
            assert reader.federation == "north"
            ledger.append("round", 2, 1, b"new")
            reader.verify()
            assert [e.body for e in reader.entries(5)] == [b"new"]
            with pytest.raises(LedgerError, match="opened only for reading"):
                reader.append("round", 2, 2, b"")
    with pytest.raises(LedgerError, match="this object has closed the file"):
        ledger.verify()


class Broken(sqlite3.Connection):
    """A connection on which the statement that begins with `fails` does not work out."""

    fails = "nothing"

    def execute(self, statement, *values):
        if statement.startswith(self.fails):
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(statement, *values)


def broken_at(fails):
    def connect(*args, **options):
        connection = sqlite3.connect(*args, factory=Broken, **options)
        connection.fails = fails
        return connection

    return connect


@pytest.mark.parametrize("fails", ["BEGIN IMMEDIATE", "INSERT", "UPDATE", "COMMIT", "DELETE"])
def test_a_write_that_failed_is_no_write(fails, tmp_path):
    path = tmp_path / "ledger"
    filled(path).close()
    with Ledger(path, "north", connect=broken_at(fails)) as ledger:
        call = (ledger.prune, 4) if fails == "DELETE" else (ledger.append, "round", 1, 5, b"x")
        with pytest.raises(LedgerError, match=r"cannot use .*: disk I/O error. Nothing is lost"):
            call[0](*call[1:])
        with pytest.raises(LedgerError, match="start the coordinator again"):
            ledger.append("round", 1, 5, b"x")
        with pytest.raises(LedgerError, match="start the coordinator again"):
            ledger.uploads(1, 1)
    with Ledger(path, "north") as ledger:
        assert ledger.head[0] == 4
        assert ledger.uploads(1, 4).keys() == {"a", "b"}
        assert ledger.append("round", 1, 5, b"x").seq == 5


def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path):
    path = tmp_path / "ledger"
    with filled(path) as ledger:
        with ledger._database.reading() as database:
            pages = database.execute("PRAGMA page_count").fetchone()[0]
            database.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        with pytest.raises(LedgerError, match="the disk is full"):
            ledger.append("round", 1, 5, bytes(100_000), {"a": b"x"})
    with Ledger(path, "north") as ledger:
        assert ledger.head[0] == 4
        assert ledger.uploads(1, 5) == {}
        assert ledger.append("round", 1, 5, bytes(100_000)).seq == 5


def test_a_ledger_that_meets_a_full_disk_when_opened_is_not_called_damaged(tmp_path):
    """Advice to remove the -wal file would then cost the last records."""
    path = tmp_path / "ledger"
    ledger = filled(path)
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            Ledger(sys.argv[1], "north")
        except LedgerError as error:
            print(error, flush=True)
        os._exit(0)
    """
    copy = tmp_path / "copy"
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    ledger.close()
    with child(code, copy) as process:
        said = process.stdout.read()
    assert "Nothing is lost. Keep this file and the files beside it" in said
    assert "damaged" not in said
    assert "remove" not in said
    assert len(bodies(copy)) == 4


def test_making_a_ledger_may_crash(tmp_path):
    disk = FailingDisk()
    Ledger(tmp_path / "count", "north", disk=disk).close()
    for n, (at, fault, loss) in enumerate(
        itertools.product(range(len(disk.operations)), CRASHES, LOSSES)
    ):
        path = tmp_path / str(n)
        with pytest.raises(Crash):
            Ledger(path, "north", disk=FailingDisk(at, fault, **loss))
        assert bodies(path) == []


def child(code, *arguments):
    text = "import os, sqlite3, sys\nfrom feddcd.durable.ledger import Ledger, LedgerError\n"
    return subprocess.Popen(
        [sys.executable, "-c", text + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


DIES = """
    class Dying(sqlite3.Connection):
        def execute(self, statement, *values):
            here = appending and statement.startswith(sys.argv[2])
            if here and sys.argv[3] == "before":
                os._exit(3)
            result = super().execute(statement, *values)
            if here:
                os._exit(3)
            return result

    appending = False
    connect = lambda *a, **k: sqlite3.connect(*a, factory=Dying, **k)
    ledger = Ledger(sys.argv[1], "north", connect=connect)
    ledger.append("round", 1, 1, b"one")
    appending = True
    ledger.append("round", 1, 2, bytes(50_000), {"a": b"x"})
"""


@pytest.mark.parametrize(
    ("statement", "when", "records"),
    [
        ("INSERT", "before", 1),
        ("UPDATE", "after", 1),
        ("COMMIT", "before", 1),
        ("COMMIT", "after", 2),
    ],
)
def test_a_process_that_dies_within_an_append(statement, when, records, tmp_path):
    path = tmp_path / "ledger"
    with child(DIES, path, statement, when) as process:
        assert process.wait() == 3
    with Ledger(path, "north") as ledger:
        assert ledger.head[0] == records
        assert len(ledger.uploads(1, 2)) == records - 1


def test_what_append_returned_outlives_a_kill(tmp_path):
    path = tmp_path / "ledger"
    code = """
        ledger = Ledger(sys.argv[1], "north")
        while True:
            print(ledger.append("round", 1, ledger.head[0] + 1, os.urandom(3000)).hash, flush=True)
    """
    acknowledged = []
    for lines in (1, 7, 23):
        with child(code, path) as process:
            acknowledged += itertools.islice(process.stdout, lines)
            with pytest.raises(LedgerError, match=f"in use by process {process.pid}"):
                Ledger(path, "north")
            process.send_signal(signal.SIGKILL)
            acknowledged += process.stdout  # written before it died
    with Ledger(path, "north") as ledger:
        hashes = [entry.hash for entry in ledger.entries()]
    told = [line.strip() for line in acknowledged if line.endswith("\n")]
    assert set(told) <= set(hashes)
    assert len(told) >= len(hashes) - 3


def test_a_file_that_may_not_grow(tmp_path):
    """The system itself refuses to write, as on a full disk."""
    path = tmp_path / "ledger"
    filled(path).close()
    code = """
        import resource
        ledger = Ledger(sys.argv[1], "north")
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        try:
            ledger.append("round", 1, 5, bytes(200_000))
        except LedgerError as error:
            print(error, flush=True)
        os._exit(0)
    """
    with child(code, path) as process:
        assert "Make free space on the disk, or repair it" in process.stdout.read()
    assert len(bodies(path)) == 4
