"""A site's file survives every crash, and is refused where it cannot be trusted."""

import itertools
import os
import tracemalloc

import numpy as np
import pytest

from disks import CRASHES, ERRORS, LOSSES, Crash, FailingDisk, QuickDisk, in_memory
from feddcd._errors import StateError
from feddcd._files import Disk, save
from feddcd.durable.codec import LIMIT, pack
from feddcd.durable.site import ClientFile

OWNER = {"federation": "north", "client": "a"}
OLD = ({"round": 1}, {"y": np.arange(3.0)})
NEW = ({"round": 2}, {"y": np.arange(3.0) + 10, "z": np.array(True)})


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def opened(path, disk=None):
    return ClientFile(path, **OWNER, disk=disk or QuickDisk())


def found(path):
    """(incarnation, which of OLD and NEW, or None) after the machine has started again."""
    with opened(path) as file:
        content = file.load()
        assert not list(path.parent.glob(".*.tmp"))
        return file.incarnation, _which(content)


def _which(content):
    if content is None:
        return None
    names = {"old": OLD, "new": NEW}
    (name,) = [n for n, (meta, _) in names.items() if meta == content[0]]
    arrays = names[name][1]
    assert content[1].keys() == arrays.keys()
    assert all(np.array_equal(content[1][key], arrays[key]) for key in arrays)
    return name


def prepared(folder):
    folder.mkdir()
    path = folder / "state"
    with opened(path) as file:
        file.save(*OLD)
    return path


class Outcome:
    """Opens and saves NEW on a disk that may fail; says how far it came."""

    def __init__(self, path, disk, *, lose_at_end=False):
        self.incarnation, self.saved, self.error, self.crashed = None, False, None, False
        try:
            with opened(path, disk) as file:
                self.incarnation = file.incarnation
                file.save(*NEW)
                self.saved = True
                if lose_at_end:
                    disk.lose_power()
        except Crash:
            self.crashed = True
        except StateError as error:
            self.error = error


def operations(tmp_path):
    disk = FailingDisk()
    assert Outcome(prepared(tmp_path / "count"), disk).saved
    return disk.operations


def check(path, outcome):
    incarnation, which = found(path)
    assert incarnation > (outcome.incarnation or 1)
    assert which == "new" if outcome.saved else which in ("old", "new")
    return which


def test_a_save_is_found_again(tmp_path):
    path = tmp_path / "state"
    with ClientFile(path, **OWNER) as file:
        assert file.load() is None
        file.save(*OLD)
        assert _which(file.load()) == "old"
        file.save(*NEW)
        assert _which(file.load()) == "new"
    assert found(path) == (2, "new")
    assert path.stat().st_mode & 0o077 == 0


def test_every_crash_leaves_the_old_or_the_new(tmp_path):
    steps = operations(tmp_path)
    assert steps.count("replace") == 2  # the incarnation, then the state
    seen = set()
    places = itertools.product(range(len(steps)), CRASHES, LOSSES)
    for n, (at, fault, loss) in enumerate(places):
        path = prepared(tmp_path / str(n))
        outcome = Outcome(path, FailingDisk(at, fault, **loss))
        assert outcome.crashed
        seen.add(check(path, outcome))
    assert seen == {"old", "new"}


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.chaos)])
def test_a_crash_while_recovering_from_a_crash(every, tmp_path):
    steps = range(len(operations(tmp_path)))
    places = itertools.product(steps, CRASHES, steps, CRASHES, (False, True))
    places = itertools.islice(places, 0, None, every)
    for n, (first, how, second, then, undo) in enumerate(places):
        path = prepared(tmp_path / str(n))
        before = Outcome(path, FailingDisk(first, how, keep=0.6, undo=undo))
        after = Outcome(path, FailingDisk(second, then, keep=0.6, undo=not undo))
        assert before.crashed
        assert after.crashed
        assert (after.incarnation or 9) > (before.incarnation or 1)
        check(path, after)


def test_a_torn_write_leaves_the_old_or_the_new(tmp_path):
    steps = operations(tmp_path)
    size = (tmp_path / "count" / "state").stat().st_size
    writes = [at for at, name in enumerate(steps) if name == "write_bytes"]
    for n, (at, torn) in enumerate(itertools.product(writes, range(0, size, 7))):
        path = prepared(tmp_path / str(n))
        outcome = Outcome(path, FailingDisk(at, torn))
        assert outcome.crashed
        assert check(path, outcome) == "old"


def test_the_first_open_may_crash_too(tmp_path):
    disk = FailingDisk()
    opened(tmp_path / "count", disk).close()
    places = itertools.product(range(len(disk.operations)), CRASHES, LOSSES)
    for n, (at, fault, loss) in enumerate(places):
        path = tmp_path / str(n) / "state"
        path.parent.mkdir()
        assert Outcome(path, FailingDisk(at, fault, **loss)).crashed
        assert found(path)[1] is None


@pytest.mark.parametrize("fault", [*ERRORS, "error after"])
def test_every_error_is_told_and_leaves_the_old_or_the_new(fault, tmp_path):
    steps = operations(tmp_path)
    for at, name in enumerate(steps):
        path = prepared(tmp_path / str(at))
        outcome = Outcome(path, FailingDisk(at, fault))
        assert outcome.error is not None, name
        assert str(path) in str(outcome.error)
        which = check(path, outcome)
        if name in ("write_bytes", "fsync"):
            assert which == "old"


@pytest.mark.parametrize("fault", ERRORS)
def test_after_a_full_disk_the_same_file_goes_on(fault, tmp_path):
    path = prepared(tmp_path / "run")
    disk = FailingDisk()
    with opened(path, disk) as file:
        disk.at, disk.fault = len(disk.operations) + 1, fault  # the fsync
        with pytest.raises(StateError, match="make free space on the disk, or repair it"):
            file.save(*NEW)
        assert not list(path.parent.glob(".*.tmp"))
        assert _which(file.load()) == "old"
        file.save(*NEW)
        assert _which(file.load()) == "new"


@pytest.mark.parametrize("step", [2, 3])
def test_after_a_rename_that_failed_it_must_be_opened_again(step, tmp_path):
    path = prepared(tmp_path / "run")
    disk = FailingDisk()
    with opened(path, disk) as file:
        disk.at, disk.fault = len(disk.operations) + step, "input/output error"
        with pytest.raises(StateError, match="cannot write"):
            file.save(*NEW)
        for call in (file.load, lambda: file.save(*NEW)):
            with pytest.raises(StateError, match="before or after this change"):
                call()
    assert found(path)[1] in ("old", "new")


def test_what_was_saved_outlives_the_power(tmp_path):
    for n, loss in enumerate(LOSSES):
        path = prepared(tmp_path / str(n))
        outcome = Outcome(path, FailingDisk(**loss), lose_at_end=True)
        assert outcome.crashed
        assert outcome.saved
        assert check(path, outcome) == "new"


@pytest.mark.parametrize("lie", ["fsync", "fsync_dir"])
def test_a_disk_that_lies_is_noticed_by_these_tests(lie, tmp_path):
    """Without either fsync the tests above would fail."""
    Lying = type("Lying", (FailingDisk,), {lie: lambda self, _: None})
    wrong = 0
    for n, (at, loss) in enumerate(itertools.product((None, *range(20)), LOSSES)):
        path = prepared(tmp_path / str(n))
        outcome = Outcome(path, Lying(at, "after", **loss), lose_at_end=True)
        try:
            check(path, outcome)
        except (AssertionError, StateError):
            wrong += 1
    assert wrong


def test_every_open_raises_the_incarnation(tmp_path):
    path = tmp_path / "state"
    for expected in range(1, 5):
        with opened(path) as file:
            assert file.incarnation == expected
            if expected == 2:
                file.save(*OLD)
    assert found(path) == (5, "old")


def test_a_site_runs_once(tmp_path):
    path, link = tmp_path / "state", tmp_path / "link"
    link.symlink_to(path)
    with opened(path):
        for name in (path, link):
            with pytest.raises(
                StateError, match=f"in use by process {os.getpid()}. Only one process can run"
            ):
                opened(name)
    assert found(link) == (2, None)
    assert link.is_symlink()


def _spoil(path, **changes):
    meta = {"kind": "client", "format": 1, **OWNER, "incarnation": 1, "content": OLD[0]}
    path.write_bytes(pack(meta | changes, OLD[1]))


SPOILED = {
    "empty": (lambda p: p.write_bytes(b""), "is damaged.*latest backup.*retire this site"),
    "cut": (lambda p: os.truncate(p, p.stat().st_size - 1), "damaged: the checksum"),
    "flipped": (
        lambda p: p.write_bytes(p.read_bytes()[::-1]),
        "damaged: the data were not written by feddcd",
    ),
    "nothing in it": (lambda p: p.write_bytes(pack({}, {})), "damaged: the part 'kind' is missing"),
    "another codec": (
        lambda p: p.write_bytes(b"FEDDCD\x02\0" + p.read_bytes()[8:]),
        "format version 2, but this version of feddcd reads the format version 1. Start this "
        "site with the version of feddcd that",
    ),
    "another format": (
        lambda p: _spoil(p, format=9),
        "the format 'client 9'.*the version of feddcd that wrote",
    ),
    "another kind": (lambda p: _spoil(p, kind="server"), "the file has the format 'server 1'"),
    "another federation": (
        lambda p: _spoil(p, federation="south"),
        "belongs to the site 'a' of the federation 'south', not to 'a' of 'north'; give this site",
    ),
    "another client": (lambda p: _spoil(p, client="b"), "belongs to the site 'b'"),
    "a folder": (lambda p: (p.unlink(), p.mkdir()), "cannot open"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_file_that_cannot_be_trusted_is_refused(case, tmp_path):
    spoil, message = SPOILED[case]
    path = prepared(tmp_path / "run")
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StateError, match=message):
        opened(path)
    assert before is None or path.read_bytes() == before
    with pytest.raises(StateError, match=message):  # and not "in use"
        opened(path)


def test_a_file_that_changes_hands_is_noticed(tmp_path):
    path = prepared(tmp_path / "run")
    backup = path.read_bytes()
    with opened(path) as file:
        path.write_bytes(backup)
        with pytest.raises(StateError, match="replaced while this site used it"):
            file.load()
    with pytest.raises(StateError, match="this object has closed the file"):
        file.save(*NEW)
    with pytest.raises(StateError, match="check that its folder exists"):
        opened(tmp_path / "nowhere" / "state")


def test_a_small_file_is_read_in_little_memory(tmp_path):
    """Whatever the largest may be: a buffer for that would be taken at once."""
    (tmp_path / "state").write_bytes(b"small")
    tracemalloc.start()
    try:
        assert Disk().read(tmp_path / "state", LIMIT) == b"small"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_file_of_settings_ends_its_last_line(tmp_path):
    """What a terminal prints after `cat FILE` does not begin beside its last bracket."""
    save(Disk(), tmp_path / "a.json", {"rows": 3})
    assert (tmp_path / "a.json").read_text().endswith("}\n")
