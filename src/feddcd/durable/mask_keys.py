"""A site's keys for the masks of one job, on its disk: those of answers that are still to come.

BASE.secret       the key that was made for the job, until the first exchange is answered
BASE.00000003     chains of keys, after the third time that some were used up

What is used up is overwritten and removed, once what comes after it is on disk. A file system may
keep older contents all the same, as a copy of the whole disk does.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .._errors import CodecError, Refused, StateError
from .._files import Disk, save
from ..sums.chain import KEY, OWN, KeyChain, advanced, public_half
from .codec import pack, unpack

SECRET = "secret"
MOST_BYTES = 1 << 24
Start = Callable[[bytes], Mapping[str, KeyChain]]  # chains of a job's secret


class MaskKeys:
    def __init__(self, base: Path, disk: Disk | None = None):
        self.base, self.disk = base, disk or Disk()

    def begin(self, secret: bytes) -> None:
        """Before its public half leaves; keys that are there give way to it."""
        with self._using():
            self._wipe(but=0)
            save(self.disk, self._path(SECRET), secret)

    def fit(self, nonce: bytes) -> bool:
        """Whether they are those of this nonce, as far as this can still be known."""
        if self._serials():
            return True
        held = self._read(SECRET)
        return held is not None and len(held) == KEY and public_half(held) == nonce

    def chain(self, label: str, number: int, start: Start) -> KeyChain:
        """The keys of an exchange; Refused where they are lost or used up."""
        return advanced(self._chains(start)[label], number)

    def forget(self, label: str, number: int, start: Start) -> None:
        """The keys of this exchange, once its answer is on disk, before it leaves."""
        chains, serial = self._chains(start), max(self._serials(), default=0)
        with self._using():
            if chains[label].number <= number:
                serial, later = serial + 1, advanced(chains[label], number + 1)
                save(self.disk, self._path(f"{serial:08}"), _packed({**chains, label: later}))
            self._wipe(but=serial)

    def remove(self) -> None:
        """All of them: the job is over at this site."""
        with self._using():
            self._wipe(but=0)

    def _chains(self, start: Start) -> Mapping[str, KeyChain]:
        if serials := self._serials():
            return _unpacked(self._read(f"{serials[-1]:08}") or b"")
        secret = self._read(SECRET)
        if secret is None or len(secret) != KEY:
            raise Refused(
                "this site lost its keys for the masks of this job, or the job has "
                "ended at this site; start a new job"
            )
        return start(secret)

    def _read(self, end: str) -> bytes | None:
        with self._using():
            return self.disk.read(self._path(end), MOST_BYTES)

    @contextmanager
    def _using(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateError(
                f"the keys in {self.base} cannot be read or written: {error}"
            ) from error

    def _wipe(self, but: int) -> None:
        """What comes before this one; all where there is none."""
        old = [self._path(f"{n:08}") for n in self._serials() if not but or n < but]
        for path in (self._path(SECRET), *old):
            self.disk.wipe(path)

    def _serials(self) -> list[int]:
        ends = (
            path.name.rpartition(".")[2] for path in self.base.parent.glob(f"{self.base.name}.*")
        )
        return sorted(int(end) for end in ends if end.isdecimal())

    def _path(self, end: str) -> Path:
        return self.base.with_name(f"{self.base.name}.{end}")


def _packed(chains: Mapping[str, KeyChain]) -> bytes:
    names = sorted({name for chain in chains.values() for name in chain.keys} - {OWN})
    numbers = {label: chain.number for label, chain in chains.items()}
    rows = {
        label: np.frombuffer(b"".join(chain.keys[n] for n in (OWN, *names)), np.uint8)
        for label, chain in chains.items()
    }
    return pack({"names": names, "numbers": numbers}, rows)


def _unpacked(data: bytes) -> dict[str, KeyChain]:
    try:
        meta, rows = unpack(data)
        names, found = (OWN, *meta["names"]), {}
        for label, number in meta["numbers"].items():
            keys = (key.tobytes() for key in rows[label].reshape(len(names), KEY))
            found[label] = KeyChain(number, dict(zip(names, keys, strict=True)))
        return found
    except (CodecError, LookupError, TypeError, ValueError):
        raise Refused(
            "this site's keys for the masks of this job are damaged; start a new job"
        ) from None
