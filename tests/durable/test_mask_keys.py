"""Keys of masks on a disk: there until their answer is, gone before it leaves."""

from itertools import count

import pytest

from disks import CRASHES, LOSSES, Crash, FailingDisk, in_memory
from feddcd._errors import Refused, StateError
from feddcd.durable.mask_keys import MaskKeys
from feddcd.sums.chain import advanced, begin, public_half
from sum_sites import fixed, sum_sites

SITES = sum_sites(3)
NAMES = SITES.roster.names
SECRETS = {name: fixed("nonce", name, 0) for name in NAMES}
NONCES = {name: public_half(secret) for name, secret in SECRETS.items()}
LABELS = ("round", "certificate")


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def start(secret):
    return begin(SITES.keys[NAMES[0]], SITES.roster, fixed("job"), NONCES, secret, LABELS)


FIRST = start(SECRETS[NAMES[0]])


def keys(folder, disk=None):
    return MaskKeys(folder / "mask", disk or FailingDisk())


def begun(folder, answered=()):
    made = keys(folder)
    made.begin(SECRETS[NAMES[0]])
    for label, number in answered:
        assert made.chain(label, number, start) == advanced(FIRST[label], number)
        made.forget(label, number, start)
    return made


def held(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*"))


def parts(chain):
    return list(chain.keys.values())


def test_used_keys_are_in_no_file(tmp_path):
    made = begun(tmp_path)
    assert SECRETS[NAMES[0]] in held(tmp_path)
    assert made.fit(NONCES[NAMES[0]])
    assert not made.fit(NONCES[NAMES[1]])
    for label, number in (("round", 1), ("certificate", 1), ("round", 4), ("round", 4)):
        made.forget(label, number, start)
        there = held(tmp_path)
        gone = [advanced(FIRST[label], n) for n in range(number + 1)]
        assert not any(key in there for chain in gone for key in parts(chain))
        assert all(key in there for key in parts(advanced(FIRST[label], number + 1)))
        assert SECRETS[NAMES[0]] not in there
        assert len(list(tmp_path.iterdir())) == 1
        with pytest.raises(
            Refused, match=f"this site has already answered exchange {number}, and has removed"
        ):
            made.chain(label, number, start)
    assert made.chain("certificate", 2, start) == advanced(FIRST["certificate"], 2)
    made.remove()
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        Refused, match="lost its keys for the masks of this job, or the job has ended at this site"
    ):
        made.chain("round", 5, start)


def test_what_is_removed_is_overwritten_first(tmp_path, monkeypatch):
    made, seen = begun(tmp_path, [("round", 0)]), []
    [path] = tmp_path.iterdir()
    monkeypatch.setattr(made.disk, "remove", lambda gone: seen.append(gone.read_bytes()))
    made.remove()
    assert seen == [bytes(len(seen[0]))]
    assert len(seen[0]) == path.stat().st_size


@pytest.mark.parametrize("answered", [[], [("round", 0), ("certificate", 0)]])
def test_a_crash_at_any_step_leaves_the_keys_of_before_or_those_of_after(tmp_path, answered):
    """Of an exchange that is on disk already: its keys may be there still, those of later ones
    always are."""
    for at in count():
        folders = [(tmp_path / f"{at} {f} {n}", f, how) for f in CRASHES
                   for n, how in enumerate(LOSSES)]  # fmt: skip
        done = []
        for folder, fault, how in folders:
            folder.mkdir()
            begun(folder, answered)
            try:
                keys(folder, FailingDisk(at, fault, **how)).forget("round", 1, start)
                done.append(folder)
            except Crash:
                pass
            again = keys(folder)
            for label, number in (("round", 2), ("certificate", 1)):
                assert again.chain(label, number, start) == advanced(FIRST[label], number)
            again.forget("round", 1, start)
            assert not any(key in held(folder) for key in parts(advanced(FIRST["round"], 1)))
        if len(done) == len(folders):
            assert at > 5
            return


def test_a_full_disk_or_a_damaged_file_is_refused(tmp_path):
    begun(tmp_path, [("round", 0)])
    for at in (0, 1):  # to read the keys, to write those of after
        with pytest.raises(StateError, match="cannot be read or written"):
            keys(tmp_path, FailingDisk(at, "input/output error")).forget("round", 1, start)
    [path] = tmp_path.glob("mask.*")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(Refused, match="damaged; start a new job"):
        keys(tmp_path).chain("round", 1, start)
