"""A site's side: a question in bytes to an answer in bytes, over its data and its state file.

Whatever goes wrong, an answer leaves, and it holds no value of the data and no path of this
machine: the whole story is in the site's own log.
"""

import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..._errors import (
    CodecError,
    DataError,
    FeddcdError,
    LogError,
    MissingExtra,
    PolicyError,
    Refused,
    SpecError,
    StateError,
)
from ..._extras import needs
from ..._files import private
from ...data.agreement import Offer
from ...data.frames import PLAIN, Reading
from .. import wire
from ..about import take_about
from ..wire import REGRESSION, Envelope, Hello, Refusal, Welcome
from ._disclosure import Release
from ._whose import of_message
from .approval import Asker, Waits, check_running
from .ended import goes_on, keep_ended
from .missing import check_policy, check_settings, check_there
from .policy import Outgoing, Ruled
from .told import SEE_LOG

FAULTS = (  # what the server hears of an error: the first line that fits
    (PolicyError, "this site cannot use its policy, so it sends nothing"),
    (LogError, "this site cannot write its log outgoing.jsonl, so it sends nothing"),
    (FileNotFoundError, "the data file of this site does not exist"),
    (SpecError, "this site cannot use its settings in site.toml"),
    (DataError, "this site cannot use its data"),
    (StateError, "this site cannot use its state file"),
    (CodecError, "this site cannot read the coordinator's message"),
    (MissingExtra, "this site cannot train, because feddcd[train] is not installed at this site"),
    (MemoryError, "the answer would need more memory than answer_memory in site.toml allows"),
    (Exception, "this site had an error"),
)


class SitePlace(NamedTuple):
    """Where a site keeps what is its own."""

    client: str
    folder: Path  # of the state file and the log
    data: Path
    label: str | None = None
    how: Reading = PLAIN  # the file is written
    address: str = ""  # of the coordinator
    read: Callable[[Path], "SitePlace"] | None = None  # the settings again, for each question

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "site.log"


def answer(request: bytes, place: SitePlace, ask: Callable[[str], str] | None = None) -> bytes:
    """`ask` puts what would leave before a person, who says yes or no."""
    release = Release(place.folder, place.client, ask)
    try:
        # the rules are asked twice: before the work, and by `release` with what it came to
        envelope = wire.unpack_message(request)
        about = take_about(envelope.meta)
        purpose = about.purpose if about.study else None
        asked = Asker(about.study, purpose, place.address)
        release = release._replace(asked=of_message(asked, envelope, place.folder))
        goes_on(place.folder, about)
        if envelope.kind == "roster":
            from ._signing import sign_roster

            check_running(place.folder)
            return wire.pack_message(sign_roster(envelope, place, about.study))
        if envelope.kind == "result":
            from ._results import keep_result

            return wire.pack_message(keep_result(envelope, place))
        if envelope.kind == "ended":
            return wire.pack_message(keep_ended(envelope, place))
        if envelope.kind == "hello" and Hello(**envelope.meta).model == REGRESSION:
            return wire.pack_message(Welcome(Offer(place.client, 0, (), None), False))  # its name
        place, release = _ready(place, release)
        if envelope.kind in ("job", "exchange"):
            from ._masked import respond

            return respond(envelope, place, release, request)
        data, out = _answer(envelope, place, release, request)
        return data if out is None else release.release(data, out, request)
    except Waits as waits:  # polls are no refusals
        reason = str(release.named(waits))
    except Refused as refusal:
        reason = _refused(place, release, refusal, request)
    except Exception as error:
        reason = _log(place, error)
        with suppress(LogError):  # of which site.log has the reason
            release.fault(_own_words(place, reason), _one_line(error), request)
    return wire.pack_message(Refusal(place.client, reason))


def refusal(place: SitePlace, reason: str) -> bytes:
    """To a question that is too large, or needs too much time for its answer."""
    with suppress(LogError):
        Release(place.folder, place.client).fault(f"this site did not answer: {reason}")
    return wire.pack_message(Refusal(place.client, f"{place.client}: {reason}"))


def _own_words(place: SitePlace, told: str) -> str:
    return told.removeprefix(f"{place.client}: ").removesuffix(f"; {SEE_LOG}")


def _one_line(error: Exception) -> str:
    """For the log of what left, which has no value of a row."""
    if isinstance(error, DataError):
        return SEE_LOG
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FeddcdError | OSError):
        return " ".join(str(error).split())
    return f"{type(error).__name__}; {SEE_LOG}"  # its text may quote a value


def _refused(place: SitePlace, release: Release, refusal: Refused, request: bytes) -> str:
    """A refusal leaves too, so the log has it first."""
    if refusal.__cause__ is not None:  # with the value and the place, for this site alone
        note(place, str(refusal), str(refusal.__cause__))
    elif isinstance(refusal, Ruled) and refusal.in_log != refusal.story:
        note(place, str(refusal), refusal.story)
    if refusal.logged:
        return str(refusal)
    try:
        release.refuse(refusal, request)
    except LogError as error:
        return _log(place, error)
    return str(release.named(refusal))


def _log(place: SitePlace, error: Exception) -> str:
    """One line without values for the server; everything for the site's administrator."""
    if isinstance(error, DataError) and error.public is not None:
        note(place, error.public, str(error))
        return f"{place.client}: {error.public}"
    what = next(words for kinds, words in FAULTS if isinstance(error, kinds))
    plain = isinstance(error, DataError | StateError | FileNotFoundError | SpecError | LogError)
    story = str(error) if plain else "".join(traceback.format_exception(error))
    note(place, what, story)
    return f"{place.client}: {what}; {SEE_LOG}"


def note(place: SitePlace, what: str, story: str) -> None:
    """In the site's own log; the answer leaves in any case."""
    with suppress(OSError):
        place.folder.mkdir(parents=True, exist_ok=True)
        with open(place.log, "a", encoding="utf-8", opener=private) as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {story}\n")


def _ready(place: SitePlace, release: Release) -> tuple[SitePlace, Release]:
    """For questions about the data: which file that is, the settings say now."""
    check_running(place.folder)
    check_policy(place, partial(note, place))
    now = check_settings(place, partial(note, place))
    place = place._replace(data=now.data, label=now.label, how=now.how)
    check_there(place, partial(note, place))
    return place, release._replace(asked=release.asked._replace(data=str(place.data)))


def _answer(
    envelope: Envelope, place: SitePlace, release: Release, request: bytes
) -> tuple[bytes, Outgoing | None]:
    check = lambda out: release.check(out, request)
    if envelope.kind == "hello":
        release.check_trains()
        with needs("train"):
            from . import _training as training

        return training.greet(Hello(**envelope.meta), place, check)
    if envelope.kind in ("columns", "sums"):
        from . import _tables as tables  # with pandas, which training does without
        from ._own_table import table_of

        handle = tables.columns if envelope.kind == "columns" else tables.sums
        message, out = handle(envelope, table_of(place), release, check)
        return wire.pack_message(message), out
    release.check_trains()
    with needs("train"):
        from . import _training as training

    return training.answer_round(envelope, place, check)
