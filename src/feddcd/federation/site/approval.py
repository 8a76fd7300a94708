"""What a person has to agree to: jobs and answers that wait, in the folder outgoing.

ID.json holds what waits, in plain words; beside ID.approved it may go on, beside ID.denied it is
refused until the person approves it after all. Beside ID.ended the study is over for which it was
asked: it waits no more until it is asked again. With the file `paused` nothing is answered.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..._errors import LogError, Refused, SpecError
from ..._files import Disk, save
from ..._text import listed, printable
from ._asker import NOBODY as NOBODY
from ._asker import Asker as Asker
from ._asker import whose
from .denials import forget_again, note_again
from .log import LOG, append, lock
from .policy import Policy, Ruled
from .reading import Unread, forget_read, has_changed, keep_read
from .told import PAUSED, denial, waits

WAITING = "outgoing"
MOST_WAITING = 100  # so that questions cannot fill the disk
FEW_WAITING = 5  # of a kind that costs who asks nothing
ID_LENGTH = 32  # hex digits: of 64 bits two jobs with one id could be found by trying
FEWEST_LETTERS = 4  # by which a person may name what waits
SHORT = 8  # letters of an id, as people read it
LIST = "the list of sites"  # that a person is asked to sign
DECIDED = ("approved", "denied", "ended")
READ = ("study", "purpose", "data")  # of what waited: an approval may be for these alone
FIRST_S, FIRST_TIMES = 0.5, 4  # of the first reply about a job: 0.5, 1, 2 or 4 s, or more
Made = TypeVar("Made")


class Waits(Refused):
    """Not refused, but not answered yet either: to be asked for again."""


def require(
    folder: Path,
    id: str,
    what: str,
    entry: Mapping[str, Any],
    disk: Disk | None = None,
    most: int | None = None,
    asked: Asker = NOBODY,
) -> None:
    """Goes on where a person has approved; `what` waits otherwise. Logged when it begins to wait,
    not each time it is asked for again. Where `most` of its kind wait, the oldest is dropped."""
    disk, queue = disk or Disk(), folder / WAITING
    if _is_approved(folder, id, asked):
        return
    _check_denied(folder, id, what, asked)
    try:
        queue.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(disk, queue / "held"):
            ids = waiting(folder)
            if id not in ids and most is not None:
                ids = _without_oldest(folder, ids, what, most, disk)
            if not _waits_for(folder, id, asked) and len({*ids} - {id}) < MOST_WAITING:
                shown = {"shown": asked.among(entry.get("shown") or [""]), "study": asked.study}
                shown |= asked.named()
                shown |= {"purpose": asked.purpose} if asked.bound else {}
                shown |= {"data": asked.data} if asked.data else {}
                for before in ("ended", "approved"):  # of another study, as it was asked for then
                    (queue / f"{id}.{before}").unlink(missing_ok=True)
                save(disk, queue / f"{id}.json", {"what": what, **entry, **shown})
                append(folder, {"waits": id, "what": what} | asked.named(), disk)
    except OSError as error:
        raise LogError(f"{queue} cannot be written: {error}") from error
    raise Waits(waits(what))


def _without_oldest(folder: Path, ids: list[str], what: str, most: int, disk: Disk) -> list[str]:
    """What waits, after room was made for one more of this kind."""
    paths = [folder / WAITING / f"{id}.json" for id in ids]
    kind = [path for path in paths if json.loads(path.read_text("utf-8")).get("what") == what]
    kind.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in kind[: max(0, len(kind) - most + 1)]:
        append(folder, {"dropped": path.stem, "what": what}, disk)
        path.unlink()
    return waiting(folder)


def asks_first(policy: Policy) -> bool:
    """Whether nothing that depends on values leaves before a person has decided. Where the rules
    on rows are off there is nothing to keep back: then only what leaves is shown to a person."""
    return policy.approve != "none" and policy.min_support >= 2


def held(
    folder: Path,
    id: str,
    what: str,
    judge: Callable[[], Made],
    shown: Callable[[Made | Exception], Sequence[str]],
    asked: Asker = NOBODY,
) -> Made:
    """What `judge` makes of values, or its refusal, once a person agrees. Until then others hear
    that it waits, whatever was found; the person reads it."""
    _check_denied(folder, id, what, asked)
    if _is_approved(folder, id, asked):
        return judge()
    if not _waits_for(folder, id, asked):
        begun = time.monotonic()
        try:
            found = judge()
        except Exception as error:
            found = error
        try:
            require(folder, id, what, {"id": id, "shown": list(shown(found))}, asked=asked)
        finally:
            time.sleep(_left(time.monotonic() - begun))
    raise Waits(waits(what))


def _waits_for(folder: Path, id: str, asked: Asker) -> bool:
    """Whether it waits in the words of this study. The same job may be asked for another one."""
    if id not in waiting(folder):
        return False
    held = json.loads((folder / WAITING / f"{id}.json").read_text("utf-8"))
    same = (held.get("study", ""), held.get("data", "")) == (asked.study, asked.data)
    return same and (not asked.bound or held.get("purpose") == asked.purpose)


def _left(took: float) -> float:
    """Until the next of few lengths: how long the rules took would reveal what they found."""
    ends = (FIRST_S * 2**i for i in range(FIRST_TIMES))
    return next((end - took for end in ends if end >= took), 0.0)


def _is_approved(folder: Path, id: str, asked: Asker) -> bool:
    """By a person who read this study, purpose and data file, where it is for these alone."""
    if not (path := folder / WAITING / f"{id}.approved").exists():
        return False
    held = json.loads(path.read_text("utf-8"))
    return not asked.bound or all(held.get(n, getattr(asked, n)) == getattr(asked, n) for n in READ)


def _check_denied(folder: Path, id: str, what: str, asked: Asker) -> None:
    """Told as what the rules refuse: others do not hear which of the two it was."""
    if (folder / WAITING / f"{id}.denied").exists():
        note_again(folder / WAITING, id, asked.study)
        raise Ruled("denied", denial(what, about_waiting(folder, id)[0], asked))


def waiting(folder: Path) -> list[str]:
    """The ids of what nobody approved or denied yet, of studies that go on."""
    paths = sorted((folder / WAITING).glob("*.json"))
    done = lambda path: any(path.with_suffix(f".{end}").exists() for end in DECIDED)
    return [path.stem for path in paths if not done(path)]


def denied(folder: Path) -> list[str]:
    paths = sorted((folder / WAITING).glob("*.denied"))
    return [path.stem for path in paths if path.with_suffix(".json").exists()]


def over(folder: Path) -> list[str]:
    """What nobody decided before its study ended."""
    paths = sorted((folder / WAITING).glob("*.ended"))
    decided = lambda path: any(path.with_suffix(f".{how}").exists() for how in DECIDED[:2])
    return [p.stem for p in paths if p.with_suffix(".json").exists() and not decided(p)]


def close(folder: Path, study: str | None = None) -> list[str]:
    """What waits for a study that ended, or for any, waits no more. Old undecided ones go."""
    queue = folder / WAITING
    ids = [id for id in waiting(folder) if study in (None, about_waiting(folder, id)[0])]
    for id in ids:
        save(Disk(), queue / f"{id}.ended", {"time": time.time()})
    left = [queue / f"{id}.ended" for id in over(folder)]
    left.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in left[:-MOST_WAITING]:
        path.with_suffix(".json").unlink(missing_ok=True)
        path.unlink()
    return ids


def about_waiting(folder: Path, id: str) -> tuple[str, str]:
    """The study of what waits, and what it is."""
    held = json.loads((folder / WAITING / f"{id}.json").read_text("utf-8"))
    return str(held.get("study") or ""), printable(str(held.get("what") or ""))


def asked_in(folder: Path, study: str) -> list[str]:
    """The ids of what was asked last for this study."""
    paths = sorted((folder / WAITING).glob("*.json"))
    return [path.stem for path in paths if study and about_waiting(folder, path.stem)[0] == study]


def asked_words(folder: Path, id: str) -> str:
    """The same for a person: two studies may ask for one job."""
    study, what = about_waiting(folder, id)
    held = json.loads((folder / WAITING / f"{id}.json").read_text("utf-8"))
    return f"{what} of study '{study}'" if study else printable(str(held.get("said") or what))


def words_of(folder: Path, id: str) -> list[str]:
    """What waits, as a person reads it."""
    held = json.loads((folder / WAITING / f"{id}.json").read_text("utf-8"))
    return [str(line) for line in held.get("shown", ())]


def mark_read(folder: Path, id: str) -> None:
    """A person reads it now."""
    keep_read(folder / WAITING, id)


def decision_of(folder: Path, id: str) -> tuple[str, str, list[str]]:
    """The id of what was asked for, what became of it, and its words."""
    paths = sorted((folder / WAITING).glob("*.json"))
    named = [path for path in paths if path.stem.startswith(id) and len(id) >= FEWEST_LETTERS]
    if len(named) != 1:
        known = listed([path.stem[:SHORT] for path in paths]) or "none"
        raise SpecError(
            f"{'more than one' if named else 'no'} id begins with {id!r}; the ids here are: {known}"
        )
    found = (how for how in DECIDED if named[0].with_suffix(f".{how}").exists())
    state = next(found, "waits for your decision")
    return named[0].stem, state, words_of(folder, named[0].stem)


def approve(folder: Path, id: str) -> str:
    """Also what was denied before: the person at the site may think again, nobody else. The whole
    id is given back."""
    return _decide(folder, id, "approved")


def deny(folder: Path, id: str) -> str:
    return _decide(folder, id, "denied")


def _decide(folder: Path, id: str, how: str) -> str:
    ids = waiting(folder)
    open_ = ids + over(folder) + (denied(folder) if how == "approved" else [])
    named = [one for one in open_ if one.startswith(id)]
    if id not in open_ and len(id) >= FEWEST_LETTERS and named:  # its beginning is enough
        # who asks chooses what begins alike, and makes the older one give way: it may be another
        # one that the person has read
        if len(ever := {*named, *_waited(folder, id)}) > 1:
            told = f"{id!r} is the beginning of several ids: {', '.join(sorted(ever))}"
            raise SpecError(f"{told}. Read these requests again, and give the whole id")
        id = named[0]
    if id not in open_:
        told = f"these ids wait: {listed(ids)}" if ids else "nothing waits"
        raise SpecError(f"{id!r} {_decided(folder, id)}; {told}")
    if has_changed(folder / WAITING, id):
        raise Unread(id, id[:SHORT], about_waiting(folder, id)[0])
    held = json.loads((folder / WAITING / f"{id}.json").read_text("utf-8"))
    append(folder, {how: id} | whose(held))
    forget_again(folder / WAITING, id)
    read = {name: held[name] for name in READ if "purpose" in held and name in held}
    save(Disk(), folder / WAITING / f"{id}.{how}", {"time": time.time()} | read)
    forget_read(folder / WAITING, id)
    if how == "approved":
        (folder / WAITING / f"{id}.denied").unlink(missing_ok=True)
    return id


def _waited(folder: Path, start: str) -> set[str]:
    """All ids with this beginning that ever waited here, from the log."""
    try:
        lines = (folder / LOG).read_bytes().splitlines()
        held = [json.loads(line) for line in lines if b'"waits"' in line]
    except FileNotFoundError:
        return set()
    except ValueError as error:
        raise LogError(
            f"{folder / LOG} is damaged, so feddcd needs the whole id: give all {ID_LENGTH} letters"
        ) from error
    return {id for entry in held if (id := str(entry.get("waits", ""))).startswith(start)}


def _decided(folder: Path, id: str) -> str:
    """What became of it, if a person has decided before."""
    for how in ("approved", "denied") if len(id) >= FEWEST_LETTERS and id.isalnum() else ():
        if any(path.stem.startswith(id) for path in (folder / WAITING).glob(f"*.{how}")):
            return f"was already {how}"
    return "does not wait for approval"


def pause(folder: Path) -> None:
    append(folder, {"paused": True})
    (folder / "paused").touch(mode=0o600)


def resume(folder: Path) -> None:
    append(folder, {"paused": False})
    (folder / "paused").unlink(missing_ok=True)


def check_running(folder: Path) -> None:
    """While it is paused others wait, as for an approval."""
    if (folder / "paused").exists():
        raise Waits(PAUSED)
