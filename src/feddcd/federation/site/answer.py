"""A site's side: a question in bytes to an answer in bytes, over its data and its state file.

Whatever goes wrong, an answer leaves, and it holds no value of the data and no path of this
machine: the whole story is in the site's own log.
"""

import hashlib
import json
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from ... import tree
from ..._errors import CodecError, DataError, LogError, PolicyError, Refused, SpecError, StateError
from ..._files import private, stamp
from ...algorithms.catalogue import find_method, get_method
from ...data.agreement import CLASSIFIERS, Offer, SiteData, offer
from ...data.frames import PLAIN, Reading
from ...data.tables import read_site
from ...durable.protocol import Reply
from ...durable.site import ClientFile, Site
from ...measure import tangent
from .. import wire
from ..sealed import KINDS as MASKED
from ..terms import Learner, Terms, joining_problem, site_learner
from ..wire import REGRESSION, Ask, CertificatePart, Closing, Envelope, Hello, Refusal, Welcome
from .approval import ID_LENGTH, Waits, check_running, require
from .disclosure import Release
from .policy import REVEALS, Check, Outgoing

Message = Welcome | Reply | Closing | Envelope
FAULTS = (  # what the server is told of an error: the first line that fits
    (PolicyError, "its policy cannot be used"),
    (LogError, "its log of what leaves cannot be written"),
    (FileNotFoundError, "its data file is not there"),
    (SpecError, "its settings cannot be used"),
    (DataError, "its data cannot be used"),
    (StateError, "its state file cannot be used"),
    (CodecError, "it could not read the message"),
    (MemoryError, "it would need more memory than this site gives to an answer"),
    (Exception, "it failed"),
)


class SitePlace(NamedTuple):
    """Where a site keeps what is its own."""

    client: str
    folder: Path  # of the state file and the log
    data: Path
    label: str | None = None
    how: Reading = PLAIN  # the file is written

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
        if envelope.kind in ("job", "exchange"):
            from ._masked import respond

            check_running(place.folder)
            return respond(envelope, place, release, request)
        message, out = _answer(envelope, place, release, request)
        data = wire.pack_message(message)
        return data if out is None else release.release(data, out, request)
    except Waits as waits:  # polls are no refusals
        reason = str(release.named(waits))
    except Refused as refusal:
        reason = _refused(place, release, refusal, request)
    except Exception as error:
        reason = _log(place, error)
    return wire.pack_message(Refusal(place.client, reason))


def _refused(place: SitePlace, release: Release, refusal: Refused, request: bytes) -> str:
    """A refusal leaves too, so the log has it first."""
    if refusal.__cause__ is not None:  # with the value and the place, for this site alone
        note(place, str(refusal), str(refusal.__cause__))
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
    return f"{place.client}: {what}; its own log says why"


def note(place: SitePlace, what: str, story: str) -> None:
    """In the site's own log; the answer leaves in any case."""
    with suppress(OSError):
        place.folder.mkdir(parents=True, exist_ok=True)
        with open(place.log, "a", encoding="utf-8", opener=private) as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {story}\n")


def _answer(
    envelope: Envelope, place: SitePlace, release: Release, request: bytes
) -> tuple[Message, Outgoing | None]:
    check = lambda out: release.check(out, request)
    if envelope.kind == "hello":
        return _greet(Hello(**envelope.meta), place, check)
    check_running(place.folder)
    if envelope.kind in ("columns", "sums"):
        from . import _tables as tables  # with pandas, which training does without
        from ._own_table import table_of

        handle = tables.columns if envelope.kind == "columns" else tables.sums
        return handle(envelope, table_of(place), release, check)
    if envelope.kind in MASKED:
        from . import _masked_training as masked  # with what only sums need

        return masked.handle(envelope, place, check)
    if envelope.kind != "ask":
        raise Refused(f"{place.client}: a message of an unknown kind")
    meta, terms = envelope.meta, Terms.from_json(envelope.meta["terms"])
    check_method(terms, place.client)
    site = rows_of(place)
    if len(site.labels) != meta["rows"]:
        raise _changed(place, f"{len(site.labels)} rows now, {meta['rows']} then")
    with jax.enable_x64(terms.double):
        learner = site_learner(terms, site, meta["scale"])
        count = sum(x.size for x in jax.tree.leaves(learner.w))
        # an upload; or, in a settlement, gradients for the certificate
        kind = "gradient" if meta["number"] is None else get_method(terms.algorithm).sends
        out = outgoing_of(site, terms.model, kind, terms.algorithm, count, terms.tau)
        policy = check(out)  # before the state moves: a refused round was never worked on
        if policy.approve == "job":
            approve_training(place, terms, out)
        ask = wire.read_ask(envelope, terms, learner.like, learner.w)
        place.folder.mkdir(parents=True, exist_ok=True)
        with ClientFile(place.state, federation=terms.federation, client=place.client) as file:
            _check_same(place, site, fresh=file.load() is None)
            message = _handle(learner, file, ask)
    return message, out._replace(arrays=_arrays(message))


def approve_training(place: SitePlace, terms: Terms, out: Outgoing, *more: str) -> None:
    """A person agrees once to these terms, and to what else is said of them."""
    lines = [
        "A training asks for a part of this site in many rounds:",
        f"  federation: {terms.federation!r}, method: {terms.algorithm!r}, model: {terms.model!r}",
        f"  columns: {', '.join(map(repr, out.columns)) or 'without names'}",
        f"  rows: {out.rows}, parameters: {out.parameters}, sites in a sum: {out.sites}",
        f"  what leaves each time: {out.kind!r}: {REVEALS[out.kind]}",
        *more,
    ]
    held = json.dumps([terms.to_json(), *more], sort_keys=True)
    id = hashlib.sha256(held.encode()).hexdigest()[:ID_LENGTH]
    require(place.folder, id, "this training", {"terms": terms.to_json(), "shown": lines})


def _check_same(place: SitePlace, site: SiteData, *, fresh: bool) -> None:
    """The digest of the rows stays at the site, beside its state: who has it can test guesses."""
    path, now = place.folder / "data.sha256", digest_of(site)
    if fresh or not path.exists():
        path.write_text(now)
    elif path.read_text() != now:
        raise _changed(place, "as many rows, other values")


def _changed(place: SitePlace, how: str) -> Refused:
    return Refused(
        f"{place.client}: its data changed since it joined: {how}. Put the old data back, or "
        "retire it and let it join again"
    )


def digest_of(site: SiteData) -> str:
    total = hashlib.sha256(repr((site.X.shape, site.names, site.labels.dtype.str)).encode())
    X = site.X
    parts = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
    for array in (*parts, site.labels):
        total.update(np.ascontiguousarray(array).view(np.uint8).data)
    return total.hexdigest()


def _handle(learner: Learner, file: ClientFile, ask: Ask) -> Reply | Closing:
    algorithm, f, w, like, key = learner
    first = lambda: joining_problem(ask.terms, ask.rows)
    site = Site(file, algorithm, f, w, key, like, first)
    message = site.handle(ask.message)
    if isinstance(message, Reply):
        return message
    if ask.model is None:
        return Closing(message, None)
    point = algorithm.witness(site.client.state)
    return Closing(message, certificate_part(f, ask.model, ask.model if point is None else point))


@eqx.filter_jit
def certificate_part(f, w, point) -> CertificatePart:
    value, score = f(w), f.score(w)
    return CertificatePart(value, score.astype(value.dtype), tangent(f, w), tangent(f, point))


def _greet(hello: Hello, place: SitePlace, check: Check) -> tuple[Welcome, Outgoing | None]:
    if hello.model == REGRESSION:
        return Welcome(Offer(place.client, 0, (), None), False), None  # its name, no more
    site = rows_of(place)
    out = outgoing_of(site, hello.model, "columns")
    check(out)
    offered = offer(place.client, site, hello.model)
    place.folder.mkdir(parents=True, exist_ok=True)
    with ClientFile(place.state, federation=hello.federation, client=place.client) as file:
        saved = file.load()
    return Welcome(offered, saved is not None and saved[0]["committed"] is not None), out


def rows_of(place: SitePlace) -> SiteData:
    return _read(place.data, place.label, place.how, *stamp(place.data))


@lru_cache(maxsize=4)
def _read(data: Path, label: str | None, how: Reading, *_: int) -> SiteData:
    return read_site(data, label, how=how)


def check_method(terms: Terms, client: str) -> None:
    """A method of another package has to be installed here, too: its policy is checked here."""
    if find_method(terms.algorithm) is None:
        raise Refused(f"{client}: the method {terms.algorithm[:50]!r} is not installed here")


def outgoing_of(
    site: SiteData, model: str, kind: str, method: str = "", parameters: int = 0, sites: int = 0
) -> Outgoing:
    """An answer in the words of the policy, before there are any arrays."""
    classes = {}
    if model in CLASSIFIERS:
        values, counts = np.unique(site.labels, return_counts=True)
        classes = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
    rows, columns = len(site.labels), site.names or ()
    return Outgoing(kind, method, columns, rows, parameters, classes, {}, sites, {})


def _arrays(message: Reply | Closing) -> dict[str, np.ndarray]:
    if isinstance(message, Reply):
        return tree.flatten({"value": message.value})
    return tree.flatten({"conserved": message.settled.conserved, "proof": message.proof})
