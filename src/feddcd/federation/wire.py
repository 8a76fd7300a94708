"""What travels, as bytes: questions to a site and its answers.

A question carries the federation's terms, so that a site needs no memory but its state file.
A refusal carries a reason without any value of the data and without any path.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from .. import tree
from .._errors import Refused
from .._types import Params, Scalar
from ..data.agreement import Offer
from ..durable.codec import LIMIT, pack, unpack
from ..durable.protocol import Commit, Reply, Settle, Settled, Stamp, Task
from ..durable.shapes import Shapes
from ..measure import Tangent
from .terms import Terms, lists, tuples

VERSION = 1
REGRESSION = "regression"  # what is said for a model where a table is asked for


class Hello(NamedTuple):
    """Who are you, and what columns and classes do you have?"""

    federation: str
    model: str


class Welcome(NamedTuple):
    """The answer to it; `known` tells whether this site has taken part in a round before."""

    offer: Offer
    known: bool


class Ask(NamedTuple):
    """A task, or the outcome alone; with `model`, the certificate's parts are asked for too."""

    terms: Terms
    rows: int  # with which the site joined
    scale: float | None  # the weight of one row
    message: Task | Settle
    model: Params | None = None


class CertificatePart(NamedTuple):
    """A site's f, and its tangents at the model and at its own point."""

    value: Scalar
    score: Scalar
    at_model: Tangent
    at_own: Tangent


class Closing(NamedTuple):
    settled: Settled
    proof: CertificatePart | None


class Refusal(NamedTuple):
    client: str
    reason: str


class Envelope(NamedTuple):
    """A message whose arrays are not looked at yet: who reads it says what it should hold."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack_message(message: Hello | Welcome | Ask | Reply | Closing | Refusal | Envelope) -> bytes:
    kind: dict[str, Any] = {"version": VERSION, "kind": type(message).__name__.lower()}
    match message:
        case Envelope(name, meta, arrays):
            return pack(meta | {"version": VERSION, "kind": name}, arrays)
        case Hello() | Refusal():
            return pack(kind | message._asdict(), {})
        case Welcome(offer, known):
            plain = {name: lists(value) for name, value in offer._asdict().items()}
            return pack(kind | plain | {"known": known}, {})
        case Ask():
            return _pack_ask(kind, message)
        case Reply(value=value):
            return pack(kind | _meta(message, "value"), tree.flatten(value))
        case Closing(settled, proof):
            arrays = tree.flatten({"conserved": settled.conserved, "proof": proof})
            return pack(kind | _meta(settled, "conserved") | {"proven": proof is not None}, arrays)


def _meta(answer: Reply | Settled, arrays: str) -> dict[str, Any]:
    """What a site says of its answer, beside the arrays."""
    return {name: lists(value) for name, value in answer._asdict().items() if name != arrays}


def _pack_ask(kind: dict[str, Any], ask: Ask) -> bytes:
    message = ask.message
    meta: dict[str, Any] = {
        "terms": ask.terms.to_json(), "rows": ask.rows, "scale": ask.scale,
        "client": message.client, "stamp": list(message.stamp), "commit": None,
        "number": message.number if isinstance(message, Task) else None,
        "certify": ask.model is not None,
    }  # fmt: skip
    content: dict[str, PyTree] = {"down": message.down, "model": ask.model}
    if message.commit is not None:
        stamp, digest, answer = message.commit
        meta["commit"] = [*stamp, digest]
        content["answer"] = answer
    return pack(kind | meta, tree.flatten(content))


def unpack_message(data: bytes, most: int = LIMIT) -> Envelope:
    """Raises `CodecError` for what nobody could have packed, and for more bytes than `most`."""
    meta, arrays = unpack(data, most)
    version, kind = meta.pop("version", None), meta.pop("kind", None)
    if version != VERSION or not isinstance(kind, str):
        said = version if isinstance(version, int | float) else "another kind"
        raise Refused(f"a message of version {said}; this feddcd speaks version {VERSION}")
    return Envelope(kind, meta, arrays)


def read_refusal(envelope: Envelope) -> Refusal:
    # a reason is shown in a terminal, which would obey the control characters of a stranger
    meta, most = envelope.meta, 1000
    told = _check_type(meta["reason"], str)[:most]
    reason = "".join(c if c.isprintable() else " " for c in told)
    return Refusal(_check_type(meta["client"], str)[:most], reason)


def read_welcome(envelope: Envelope) -> Welcome:
    """Every type is checked: what a site says of itself goes into the ledger."""
    values: dict[str, Any] = {k: tuples(v) for k, v in envelope.meta.items()}
    known = _check_type(values.pop("known"), bool)
    offer = Offer(**values)
    _check_type(offer.client, str)
    _check_type(offer.rows, int)
    for name in () if isinstance(offer.features, int) else _check_type(offer.features, tuple):
        _check_type(name, str)
    for label in _check_type(offer.classes, tuple, type(None)) or ():
        _check_type(label, str, int, float)
    return Welcome(offer, known)


def _check_type(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"expected {kinds[0].__name__}, got {repr(value)[:60]}")
    return value


def read_ask(envelope: Envelope, terms: Terms, like: Shapes, w: Params) -> Ask:
    meta = envelope.meta
    answer = {} if meta["commit"] is None else {"answer": like.answer}
    shape = {"down": like.down, "model": w if meta["certify"] else None, **answer}
    content, commit = tree.restore(shape, envelope.arrays), None
    if meta["commit"] is not None:
        epoch, round, digest = meta["commit"]
        commit = Commit(Stamp(epoch, round), digest, content["answer"])
    client, stamp = meta["client"], Stamp(*meta["stamp"])
    if meta["number"] is None:
        message: Task | Settle = Settle(client, stamp, content["down"], commit)
    else:
        message = Task(client, meta["number"], stamp, content["down"], commit)
    return Ask(terms, meta["rows"], meta["scale"], message, content["model"])


def read_reply(envelope: Envelope, like: Shapes) -> Reply:
    meta = envelope.meta
    value = tree.restore(like.value, envelope.arrays)
    start = _check_type(meta["incarnation"], int)
    return Reply(meta["client"], start, _read_stamp(meta), value, meta["digest"])


def _read_stamp(meta: dict[str, Any]) -> Stamp:
    epoch, round = _check_type(meta["stamp"], list)
    return Stamp(_check_type(epoch, int), _check_type(round, int))


def read_closing(envelope: Envelope, like: Shapes, w: Params) -> Closing:
    meta = envelope.meta
    number: Any = jax.ShapeDtypeStruct((), jax.tree.leaves(w)[0].dtype)
    tangent = Tangent(number, number, w, number)
    proof = CertificatePart(number, number, tangent, tangent) if meta["proven"] else None
    content = tree.restore({"conserved": like.conserved, "proof": proof}, envelope.arrays)
    start = _check_type(meta["incarnation"], int)
    settled = Settled(meta["client"], start, _read_stamp(meta), content["conserved"])
    return Closing(settled, content["proof"])
