"""A site in training: it greets, works on rounds and settles, over its rows and its state file."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from ... import tree
from ..._errors import Refused
from ..._files import stamp
from ..._text import plural
from ...algorithms import travelling
from ...algorithms.catalogue import find_method, get_method
from ...data.agreement import CLASSIFIERS, SiteData, offer
from ...data.frames import Reading
from ...data.tables import read_site
from ...durable.protocol import Reply
from ...durable.site import ClientFile, Site
from ...measure import tangent
from ..sealed import KINDS as MASKED
from ..sealed import certificate_like
from ..terms import Learner, Terms, joining_problem, site_learner
from ..training_wire import Ask, CertificatePart, Closing, pack_training, read_ask
from ..wire import Envelope, Hello, Welcome, pack_message
from ._training_rules import (
    TrainingFacts,
    asked_by,
    begin_training,
    check_batches,
    check_greeting,
    check_training,
    columns_of,
    tell,
)
from .answer import SitePlace
from .approval import ID_LENGTH, require
from .policy import REVEALS, Check, Outgoing

TRUSTED = (
    "  NOTE: no rule checks the answers of a training.",
    "  A person who runs the coordinator and owns one of the sites can change the model in small "
    "steps. From the changes of the answers, such a person can compute the values of single rows, "
    "even if each answer uses all rows.",
    "  Approve only if you trust all sites and the coordinator with your rows.",
)


def greet(hello: Hello, place: SitePlace, check: Check) -> tuple[bytes, Outgoing]:
    site = rows_of(place)
    out = outgoing_of(site, hello.model, "columns")
    check_greeting(check(out), place, hello, site)
    offered = offer(place.client, site, hello.model)
    place.folder.mkdir(parents=True, exist_ok=True)
    with ClientFile(place.state, federation=hello.federation, client=place.client) as file:
        saved = file.load()
    known = saved is not None and saved[0]["committed"] is not None
    return pack_message(Welcome(offered, known)), out


def answer_round(envelope: Envelope, place: SitePlace, check: Check) -> tuple[bytes, Outgoing]:
    if envelope.kind in MASKED:
        from . import _masked_training as masked  # with what only sums need

        message, out = masked.handle(envelope, place, check)
        return pack_message(message), out
    if envelope.kind != "ask":
        raise Refused(f"{place.client}: this site does not know this kind of message")
    meta, terms = envelope.meta, Terms.from_json(envelope.meta["terms"])
    check_method(terms, place.client)
    site = rows_of(place)
    if len(site.labels) != meta["rows"]:
        raise _changed(
            place,
            f"the site has {plural(len(site.labels), 'row')} now, and had "
            f"{plural(meta['rows'], 'row')} when it joined",
        )
    with jax.enable_x64(terms.double):
        learner = site_learner(terms, site, meta["scale"])
        count = sum(x.size for x in jax.tree.leaves(learner.w))
        # an upload; or, in a settlement, gradients for the certificate
        kind = "gradient" if meta["number"] is None else get_method(terms.algorithm).sends
        out = outgoing_of(site, terms.model, kind, terms.algorithm, count, terms.tau)
        policy = check(out)  # before the state moves: a refused round was never worked on
        check_batches(policy, terms.settings)
        facts = training_facts(terms.to_json(), (), out, learner)
        memory = begin_training(policy, place, facts)
        if policy.approve == "job":
            approve_training(place, terms, out, "  rounds: there is no limit")
        check_training(policy, place, facts, site, memory, 1)
        number = meta["number"]
        if number is None:
            tell(policy, facts, site, memory, closing_of(envelope.arrays), facts.closing)
        else:
            tell(policy, facts, site, memory, str(number), facts.numbers)
        ask = read_ask(envelope, terms, learner.like, learner.w)
        place.folder.mkdir(parents=True, exist_ok=True)
        with ClientFile(place.state, federation=terms.federation, client=place.client) as file:
            _check_same(place, site, fresh=file.load() is None)
            message = _handle(learner, file, ask)
    return pack_training(message), out._replace(arrays=_arrays(message))


def in_all(facts: TrainingFacts, rounds: int, site: SiteData) -> str:
    """The one bound that a training has: fewer numbers than values."""
    numbers = rounds * facts.numbers + facts.closing
    values = len(site.labels) * len(columns_of(site))
    return (
        f"  numbers that leave in all rounds: {numbers}; numbers in the data of this site: {values}"
    )


def training_facts(
    terms: dict, sites: Sequence[str], out: Outgoing, learner: Learner
) -> TrainingFacts:
    """With what leaves counted by its shapes: a Hessian, say, is many numbers."""
    held = json.dumps([terms, *sites], sort_keys=True)
    count = lambda like: sum(math.prod(x.shape) for x in jax.tree.leaves(like))
    told = count(learner.like.mean), count(certificate_like(learner.like, learner.w))
    id = hashlib.sha256(held.encode()).hexdigest()
    return TrainingFacts(id, tuple(sites), out.parameters, *told)


def closing_of(arrays: Mapping[str, np.ndarray]) -> str:
    """The name of a settlement among a job's questions: each other model is another question."""
    held = hashlib.sha256()
    for name in sorted(arrays):
        held.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return f"certificate {held.hexdigest()[:16]}"


def approve_training(place: SitePlace, terms: Terms, out: Outgoing, *more: str) -> None:
    """A person agrees once to these terms, and to what else is said of them."""
    lines = [
        "A training asks this site for answers in many rounds:",
        f"  federation: {terms.federation!r}, method: {terms.algorithm!r}, model: {terms.model!r}",
        f"  settings: {_settings_of(terms)}",
        f"  columns: {', '.join(map(repr, out.columns)) or 'the columns have no names'}",
        f"  rows: {out.rows}, parameters: {out.parameters}, sites in a sum: {out.sites}",
        f"  what leaves each time: {out.kind!r}: {REVEALS[out.kind]}",
        *more,
        *TRUSTED,
    ]
    held = json.dumps([terms.to_json(), *more], sort_keys=True)
    id = hashlib.sha256(held.encode()).hexdigest()[:ID_LENGTH]
    entry, asked = {"terms": terms.to_json(), "shown": lines}, asked_by(place, terms.federation)
    require(place.folder, id, "this training", entry, asked=asked)


def _settings_of(terms: Terms) -> str:
    names = ("l2", "weighting", "seed", "dtype")
    held = dict(terms.settings) | {name: getattr(terms, name) for name in names}
    return ", ".join(f"{name} = {value!r}" for name, value in sorted(held.items()))


def _check_same(place: SitePlace, site: SiteData, *, fresh: bool) -> None:
    """The digest of the rows stays at the site, beside its state: who has it can test guesses."""
    path, now = place.folder / "data.sha256", digest_of(site)
    if fresh or not path.exists():
        path.write_text(now)
    elif path.read_text() != now:
        raise _changed(place, "the site has the same number of rows, with other values")


def _changed(place: SitePlace, how: str) -> Refused:
    return Refused(
        f"{place.client}: its data changed since it joined: {how}. Put the old data back, or "
        "retire the site and let it enrol again with a new invitation"
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


def rows_of(place: SitePlace) -> SiteData:
    return _read(place.data, place.label, place.how, *stamp(place.data))


@lru_cache(maxsize=4)
def _read(data: Path, label: str | None, how: Reading, *_: int) -> SiteData:
    return read_site(data, label, how=how)


def check_method(terms: Terms, client: str) -> None:
    """A method of another package has to be installed here, too: its policy is checked here."""
    if find_method(terms.algorithm) is None:
        raise Refused(
            f"{client}: this site does not have the method {terms.algorithm[:50]!r}; "
            "install the same feddcd and the same extra packages at all sites"
        )


def outgoing_of(
    site: SiteData, model: str, kind: str, method: str = "", parameters: int = 0, sites: int = 0
) -> Outgoing:
    """An answer in the words of the policy, before there are any arrays."""
    classes = {}
    if model in CLASSIFIERS:
        values, counts = np.unique(site.labels, return_counts=True)
        classes = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
    rows, columns = len(site.labels), site.names or ()
    return Outgoing(
        kind, method, columns, rows, parameters, classes, {}, sites, {}, trains=True
    )  # fmt: skip


def _arrays(message: Reply | Closing) -> dict[str, np.ndarray]:
    if isinstance(message, Reply):
        named = travelling(message.value).items()
        return {f"value.{name}".rstrip("."): array for name, array in named}
    return tree.flatten({"conserved": message.settled.conserved, "proof": message.proof})
