"""A site's file of a job of masked sums: what it answered, before it leaves.

jobs/ID/job        the job, this site's nonce, a digest of what its answers are made of: frozen
jobs/ID/mask.*     the keys of its next answer, and of no earlier one (`durable.mask_keys`)
jobs/ID/0007.held  an answer that is about to leave
jobs/ID/0007       the same, once it may: asked again, the same bytes leave
jobs/ID/0007.own   its own part in the open, which stays here until the next answer has left
jobs/ID/0007.sums  what all sites' answers to it came to
jobs/ID/ended      the rules refused a question: nothing more is answered

A mask must never cover two texts. So whoever has lost this folder, or has it from a backup, does
not go on: the log of what left says how far the job had come.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from ..._errors import CodecError, FeddcdError, Refused, StateError
from ..._files import Disk, save
from ...durable.codec import pack, unpack
from ...durable.mask_keys import MaskKeys
from ...sums.job import Job, SignedNonce
from ...sums.layout import Layout
from ...sums.proof import SignedAnswer
from .log import LOG, append, lock

FOLDER = "jobs"
NONCE = -1  # the number under which the log has that this site joined
MOST_BYTES = 2**31
MOST_IDLE = 100  # jobs that were begun and answered with counts at most
ENDED = "ended"  # beside the answers, where the rules refused one


class FoundedJob(NamedTuple):
    job: Job
    nonce: SignedNonce
    frozen: str  # a digest of its data, and of what else answers are made of
    study: str = ""  # as the coordinator calls it


class HeldAnswer(NamedTuple):
    """`identity` is the id of the job, with all sites' nonces in it."""

    identity: bytes
    question: bytes
    layout: Layout
    answer: SignedAnswer


class JobFile:
    def __init__(self, site: Path, id: str, disk: Disk | None = None):
        self.site, self.id, self.disk = site, id, disk or Disk()
        self.path = site / FOLDER / id

    @property
    def masks(self) -> MaskKeys:
        return MaskKeys(self.path / "mask", self.disk)

    def found(self, founded: FoundedJob, secret: bytes) -> None:
        """Before the nonce leaves, which is the secret's public half."""
        if self.logged() is not None:
            raise self._lost()
        self._make_room()
        for folder in (self.path.parent, self.path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.masks.begin(secret)
        job, nonce, frozen, study = founded
        parts = {"job": job.to_json(), "nonce": nonce.nonce, "signature": nonce.signature}
        self._save("job", {"frozen": frozen, "study": study}, parts)

    def load(self) -> FoundedJob | None:
        """None where there was none ever; Refused where it was lost."""
        held = self._load("job")
        if held is None:
            if self.logged() is not None:
                raise self._lost()
            return None
        meta, parts = held
        try:
            nonce = SignedNonce(parts["nonce"], parts["signature"])
            job = Job.from_json(parts["job"])
            return FoundedJob(job, nonce, str(meta["frozen"]), str(meta.get("study", "")))
        except (FeddcdError, LookupError):
            self._damaged("job")

    def note(self, number: int, **what: str) -> None:
        """In the log of what leaves, which a backup of this folder does not have."""
        told = {name: text for name, text in what.items() if text}
        append(self.site, {"job": self.id, "exchange": number, **told}, self.disk)

    def logged(self) -> int | None:
        """The last exchange of this job that the log has, None where it has none."""
        return self._logged(self.id.encode()).get(self.id)

    def _logged(self, part: bytes = b"") -> dict[str, int]:
        """By job, from lines with this part; what a crash left of the last line never left."""
        try:
            whole, _, _ = (self.site / LOG).read_bytes().rpartition(b"\n")
        except FileNotFoundError:
            return {}
        found: dict[str, int] = {}
        for line in whole.splitlines():
            if part in line and b'"exchange"' in line and "job" in (entry := json.loads(line)):
                job, number = entry["job"], entry["exchange"]
                found[job] = max(number, found.get(job, number))
        return found

    def _make_room(self) -> None:
        """Jobs that were begun and asked for counts at most: who asks can begin one again and
        again. The log has them, so that none of them goes on."""
        idle = [path for path in self.path.parent.glob("*/") if not any(path.glob("0001*"))]
        idle.sort(key=lambda path: path.stat().st_mtime_ns)
        for path in idle[: max(0, len(idle) - MOST_IDLE + 1)]:
            JobFile(self.site, path.name, self.disk).close()
            shutil.rmtree(path)

    @property
    def answered(self) -> int:
        """Exchanges, from 0 on without a gap."""
        number = 0
        while (self.path / f"{number:04}").exists():
            number += 1
        return number

    def twins(self, job: Job) -> tuple[list[str], list[str]]:
        """Other jobs that were answered: those of the same plan, agreement and cohort (how
        accurate the table is to be makes no other plan), and those with a lost or damaged file,
        so that nobody knows. One of them stops no other job."""
        same, doubtful, logged = [], [], self._logged()
        for path in sorted(self.path.parent.glob("*/")):
            file = JobFile(self.site, path.name, self.disk)
            if file.id == self.id or (file.answered < 2 and logged.get(file.id, 0) < 1):
                continue
            try:
                known = file.load()
            except Refused:
                known = None
            if known is None:
                doubtful.append(file.id)
            elif _same(known.job, job):
                same.append(file.id)
        return same, doubtful

    @property
    def ended(self) -> bool:
        return (self.path / ENDED).exists()

    def end(self) -> None:
        """The rules refused a question of this job: it is not gone on with."""
        save(self.disk, self.path / ENDED, b"refused by the rules of this site")
        self.close()

    def close(self) -> None:
        """No more answers of this job can be made here. Those that were made stay, as they left."""
        self.masks.remove()
        for path in self.path.glob("*.own"):
            self.disk.wipe(path)

    def check_age(self) -> int:
        """How many exchanges were answered, once folder and log agree on it."""
        last, logged = self.answered - 1, self.logged()
        logged = NONCE if logged is None and last == NONCE else logged
        about_to = logged == last + 1 and self.held(last + 1) is not None
        if logged != last and not about_to:
            raise self._lost()
        return last + 1

    def held(self, number: int) -> HeldAnswer | None:
        """What is about to leave."""
        return self._answer(f"{number:04}.held")

    def sent(self, number: int) -> HeldAnswer | None:
        return self._answer(f"{number:04}")

    def hold(self, number: int, held: HeldAnswer) -> None:
        parts = {
            "identity": held.identity, "question": held.question, "layout": held.layout.to_json(),
            "words": held.answer.words, "signature": held.answer.signature,
        }  # fmt: skip
        self._save(f"{number:04}.held", {"number": number}, parts)

    def let_go(self, number: int) -> None:
        self.disk.replace(self.path / f"{number:04}.held", self.path / f"{number:04}")
        self.disk.fsync_dir(self.path)
        self.disk.wipe(self.path / f"{number - 1:04}.own")

    def keep_sums(self, number: int, sums: Mapping[str, np.ndarray]) -> None:
        save(self.disk, self.path / f"{number:04}.sums", pack({"number": number}, sums))

    def keep_own(self, number: int, values: Mapping[str, np.ndarray]) -> None:
        """Its own part of the sums: it stays here."""
        save(self.disk, self.path / f"{number:04}.own", pack({"number": number}, values))

    def own(self, number: int) -> dict[str, np.ndarray] | None:
        return self._numbers(f"{number:04}.own", number)

    def sums(self, number: int) -> dict[str, np.ndarray] | None:
        return self._numbers(f"{number:04}.sums", number)

    def _numbers(self, name: str, number: int) -> dict[str, np.ndarray] | None:
        data = self.disk.read(self.path / name, MOST_BYTES)
        if data is None:
            return None
        try:
            meta, found = unpack(data)
        except CodecError:
            self._damaged(name)
        if meta != {"number": number}:
            self._damaged(name)
        return found

    def _answer(self, name: str) -> HeldAnswer | None:
        loaded = self._load(name)
        if loaded is None:
            return None
        meta, parts = loaded
        try:
            if meta != {"number": int(name[:4])}:
                self._damaged(name)
            signed = SignedAnswer(parts["words"], parts["signature"])
            layout = Layout.from_json(parts["layout"])
            return HeldAnswer(parts["identity"], parts["question"], layout, signed)
        except (Refused, LookupError):
            self._damaged(name)

    def _save(self, name: str, meta: Mapping, parts: Mapping[str, bytes]) -> None:
        plain = {key: np.frombuffer(value, np.uint8) for key, value in parts.items()}
        try:
            save(self.disk, self.path / name, pack({**meta, "id": self.id}, plain))
        except OSError as error:
            raise StateError(f"{self.path / name} cannot be written: {error}") from error

    def _load(self, name: str) -> tuple[dict, dict[str, bytes]] | None:
        data = self.disk.read(self.path / name, MOST_BYTES)
        if data is None:
            return None
        try:
            meta, parts = unpack(data)
        except CodecError:
            self._damaged(name)
        if meta.pop("id", None) != self.id:
            self._damaged(name)
        return meta, {key: part.tobytes() for key, part in parts.items()}

    def _lost(self) -> Refused:
        return Refused(
            "this site lost its file of this job, or has an old copy of the file. So this site "
            "does not know which random numbers (masks) it has already used, and cannot continue "
            "the job. Start a new job"
        )

    def _damaged(self, name: str) -> NoReturn:
        own = StateError(f"{self.path / name} is damaged")
        raise Refused("this site's file of this job is damaged; start a new job") from own


def close_jobs(site: Path, study: str | None = None, disk: Disk | None = None) -> bool:
    """Of a study that ended, or of all; whether this site had answered any question of them."""
    disk, answered = disk or Disk(), False
    paths = sorted((site / FOLDER).glob("*/"))
    with lock(disk, site / FOLDER / FOLDER) if paths else nullcontext():
        for file in (JobFile(site, path.name, disk) for path in paths):
            with suppress(Refused):
                founded = file.load()
                if founded is not None and study in (None, founded.study):
                    answered = answered or file.answered > 0
                    file.close()
    return answered


def has_answered(site: Path, digest: str) -> bool:
    """Whether `twins` finds answers to the job with this digest: somebody may have deleted them."""
    for path in (site / FOLDER).glob("*/"):
        file = JobFile(site, path.name)
        with suppress(Refused):
            known = file.load()
            if known is not None and known.job.digest.hex() == digest and file.answered > 1:
                return True
    return False


def _same(a: Job, b: Job) -> bool:
    return replace(a, plan={}) == replace(b, plan={}) and a.asked == b.asked
