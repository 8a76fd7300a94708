"""What a site remembers of earlier jobs on a data file: sets of rows, cohorts, what was released.

rules/salt          without it a digest of a row tells nothing, not even a guess (`_salt`)
rules/memory.json   jobs by data file: when, which rows, which sites, parameters, questions
rules/sets/ID       the salted digests of a set's rows, sorted
rules/told/JOB      which rows a job counts together, as a number by row
rules/asked/JOB/ID  the questions that were answered, in their order
rules/exports/ID    of the data file as it was last: salted digests of its rows and values

All of it is readable by its owner alone and stays at the site. Whoever removes it, or puts an old
copy back, makes the site forget what it has answered: the rules on differences cannot hold then.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._errors import CodecError, StateError
from ..._files import Disk, save
from ...durable.codec import pack, unpack
from ._salt import salt_of
from .log import lock

MONTH = 30 * 86_400  # seconds
MOST_BYTES = 2**30  # a thousand plans of the largest size, which are years of a budget


class Export(NamedTuple):
    """A data file: identities of its rows, and digests of their values by column."""

    file: str
    names: tuple[str, ...]
    ids: np.ndarray
    cells: np.ndarray  # rows by columns
    story: str  # what became of the one before


class ToldSets(NamedTuple):
    """Identities of rows; and for each kind of sum, the cell of each row."""

    ids: np.ndarray
    sets: dict[str, np.ndarray]


class Memory:
    """Of one site about one data file. `clock` is for tests."""

    def __init__(self, folder: Path, data: Path, clock=time.time, disk: Disk | None = None):
        self.site, self.folder = folder, folder / "rules"
        self.key, self.clock, self.disk = str(data.resolve()), clock, disk or Disk()

    @property
    def salt(self) -> bytes:
        return salt_of(self.site, self.disk)

    def jobs(self) -> dict[str, dict[str, Any]]:
        """By id: what is known of each."""
        return self._read().get(self.key, {}).get("jobs", {})

    def offers(self) -> dict[str, float]:
        """By plan: when names of columns were first asked for it."""
        return self._read().get(self.key, {}).get("offers", {})

    def lately(self) -> int:
        """Jobs of the last month."""
        return sum(job["time"] > self.clock() - MONTH for job in self.jobs().values())

    def forgotten(self) -> dict[str, int]:
        """Jobs by other paths, which nothing here is compared with: for as long as this path is
        new, which is a month from its first job on."""
        if any(job["time"] <= self.clock() - MONTH for job in self.jobs().values()):
            return {}
        others = {path: len(own["jobs"]) for path, own in self._read().items() if path != self.key}
        return {path: jobs for path, jobs in others.items() if jobs}

    def answered_from(self, id: str) -> set[str]:
        """Digests of the files with other paths of which this job had answers, in a month."""
        jobs = [own["jobs"].get(id) for path, own in self._read().items() if path != self.key]
        lately = [job for job in jobs if job and job["time"] > self.clock() - MONTH]
        return {job.get("file", "") for job in lately if job["questions"]}

    def offered(self) -> int:
        return sum(then > self.clock() - MONTH for then in self.offers().values())

    def released(self) -> int:
        """Parameters of all jobs that were answered."""
        return sum(job.get("parameters", 0) for job in self.jobs().values() if job["questions"])

    def told(self) -> int:
        """Numbers that all jobs have revealed about rows of this file."""
        return sum(job.get("numbers", 0) for job in self.jobs().values())

    def columns(self) -> set[str]:
        """That entered any job."""
        return {name for job in self.jobs().values() for name in job.get("columns", ())}

    def begin(self, id: str) -> None:
        """Counts a job, whatever becomes of it."""
        if id in self.jobs():
            return
        with self._changed() as own:
            new = {"time": self.clock(), "questions": [], "set": None}
            own["jobs"].setdefault(id, new)

    def begin_offer(self, id: str) -> None:
        if id in self.offers():
            return
        with self._changed() as own:
            own["offers"].setdefault(id, self.clock())

    def note(self, id: str, **what: Any) -> None:
        with self._changed() as own:
            own["jobs"][id].update(what)

    def ask(self, id: str, question: str, numbers: int = 0) -> None:
        """Remembers a question, and how many numbers it reveals; one that is asked again counts
        once."""
        if question in self.jobs()[id]["questions"]:
            return
        with self._changed() as own:
            asked = own["jobs"][id]["questions"]
            if question not in asked:
                asked.append(question)
                own["jobs"][id]["numbers"] = own["jobs"][id].get("numbers", 0) + numbers

    def keep_question(self, job: str, data: bytes) -> None:
        """One that is answered; one that is asked again is kept once."""
        folder, digest = self.folder / "asked" / job, hashlib.sha256(data).hexdigest()[:16]
        with self._locked():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = self._questions(job)
            if not any(path.name.endswith(digest) for path in held):
                save(self.disk, folder / f"{len(held):04}-{digest}", data)

    def questions_of(self, job: str) -> list[bytes]:
        """That were answered, in their order."""
        held = [self.disk.read(path, 2**30) for path in self._questions(job)]
        return [each for each in held if each is not None]

    def _questions(self, job: str) -> list[Path]:
        return sorted((self.folder / "asked" / job).glob("[0-9]*[0-9a-f]"))

    def keep(self, identity: np.ndarray) -> str:
        """The id of a set of rows, which is kept."""
        held = np.sort(np.asarray(identity, "<u8")).tobytes()
        id = hashlib.sha256(held).hexdigest()[:16]
        path = self.folder / "sets" / id
        with self._locked():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not path.exists():
                save(self.disk, path, held)
        return id

    def rows_of(self, id: str) -> np.ndarray:
        held = self.disk.read(self.folder / "sets" / id, 2**33)
        if held is None or hashlib.sha256(held).hexdigest()[:16] != id:
            raise StateError(
                f"{self.folder / 'sets' / id} is lost or was changed; put the file back "
                "from a backup"
            )
        return np.frombuffer(held, "<u8")

    def most_rows(self) -> int:
        """Of the sets that jobs used."""
        sets = {job["set"] for job in self.jobs().values() if job["set"]}
        paths = [self.folder / "sets" / id for id in sets]
        return max((path.stat().st_size // 8 for path in paths if path.exists()), default=0)

    def keep_told(self, job: str, told: ToldSets) -> None:
        names = sorted(told.sets)
        cells = [told.sets[name] for name in names]
        plain = {"ids": np.asarray(told.ids, "<u8"), "cells": np.asarray(cells, "<i4")}
        parts = {k: np.frombuffer(v.tobytes(), "u1") for k, v in plain.items()}
        path = self.folder / "told" / job
        with self._locked():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            save(self.disk, path, pack({"names": names}, parts))

    def told_sets(self, job: str) -> ToldSets:
        path = self.folder / "told" / job
        try:
            meta, parts = unpack(self.disk.read(path, 2**33) or b"")
            ids = np.frombuffer(parts["ids"].tobytes(), "<u8")
            cells = np.frombuffer(parts["cells"].tobytes(), "<i4").reshape(-1, len(ids))
            return ToldSets(ids, dict(zip(meta["names"], cells, strict=True)))
        except (CodecError, LookupError, TypeError, ValueError):
            raise StateError(
                f"{path} is lost or was changed; put the file back from a backup"
            ) from None

    def export(self) -> Export | None:
        """The data file as it was when a job last looked at it."""
        path = self._export
        held = self.disk.read(path, 2**33)
        if held is None:
            return None
        try:
            meta, parts = unpack(held)
            names = tuple(map(str, meta["names"]))
            ids, cells = (np.frombuffer(parts[name].tobytes(), "<u8") for name in ("ids", "cells"))
            cells = cells.reshape(len(ids), len(names))
            return Export(str(meta["file"]), names, ids, cells, str(meta["story"]))
        except (CodecError, LookupError, TypeError, ValueError):
            raise StateError(f"{path} is damaged; put the file back from a backup") from None

    def keep_export(self, export: Export) -> None:
        file, names, ids, cells, story = export
        meta = {"file": file, "names": list(names), "story": story}
        with self._locked():
            self._export.parent.mkdir(mode=0o700, exist_ok=True)
            plain = {"ids": ids, "cells": cells}
            parts = {k: np.frombuffer(v.astype("<u8").tobytes(), "u1") for k, v in plain.items()}
            save(self.disk, self._export, pack(meta, parts))

    @property
    def _export(self) -> Path:
        return self.folder / "exports" / hashlib.sha256(self.key.encode()).hexdigest()[:16]

    def retired(self) -> set[str]:
        """Sets that a person has closed, since rows had to leave them."""
        return set(self._read().get(self.key, {}).get("retired", ()))

    def retire(self) -> int:
        """Closes all sets of this file; how many there were."""
        with self._changed() as own:
            found = {job["set"] for job in own["jobs"].values() if job["set"]}
            new = found - set(own["retired"])
            own["retired"] = sorted(found | set(own["retired"]))
        return len(new)

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        with self._locked():
            held = self._read()
            own = held.setdefault(self.key, {"jobs": {}, "offers": {}, "retired": []})
            yield own
            save(self.disk, self.folder / "memory.json", held)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(self.disk, self.folder / "memory.json"):
            yield

    def _read(self) -> dict[str, Any]:
        path = self.folder / "memory.json"
        held = self.disk.read(path, MOST_BYTES)
        if held is None:
            return {}
        try:
            found = json.loads(held)
            for own in found.values():
                _ = own["jobs"], own["offers"], own["retired"]
            return found
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StateError(
                f"{path} was changed or damaged; put the file back from a backup"
            ) from None


def difference(a: np.ndarray, b: np.ndarray) -> int:
    """Rows that are in one of two sets; of rows that are alike each counts."""
    values, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    net = np.bincount(place[: len(a)], minlength=len(values)).astype(int)
    net -= np.bincount(place[len(a) :], minlength=len(values))
    return int(abs(net).sum())


def smallest_atom(sets: Sequence[np.ndarray]) -> int:
    """The fewest rows that are in the same ones of these sets: any sum or difference of sums over
    sets is one over such groups. Of rows that are alike each counts."""
    values, place = np.unique(np.concatenate(sets), return_inverse=True)
    ends = np.cumsum([len(rows) for rows in sets])[:-1]
    counts = [np.bincount(part, minlength=len(values)) for part in np.split(place, ends)]
    copies = np.max(counts, axis=0)
    which = np.repeat(np.arange(len(values)), copies)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(copies) - copies, copies)
    group = np.zeros(len(which), int)
    for count in counts:
        group = np.unique(2 * group + (nth < count[which]), return_inverse=True)[1]
    return int(np.bincount(group).min())
