"""What travels, as bytes: questions to a site and its answers.

A question carries the federation's terms, so that a site needs no memory but its state file.
A refusal carries a reason without any value of the data and without any path.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from .._errors import Refused
from .._types import Params, Scalar
from ..data.agreement import Offer
from ..durable.codec import flatten, pack, restore, unpack
from ..durable.protocol import Commit, Reply, Settle, Settled, Stamp, Task
from ..durable.shapes import Shapes
from ..measure import Tangent
from .terms import Terms

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


class Proof(NamedTuple):
    """A site's part of the certificate: its f and tangents at the model and at its own point."""

    value: Scalar
    score: Scalar
    at_model: Tangent
    at_own: Tangent


class Closing(NamedTuple):
    settled: Settled
    proof: Proof | None


class Refusal(NamedTuple):
    client: str
    reason: str


def packed(parcel: "Hello | Welcome | Ask | Reply | Closing | Refusal | Opened") -> bytes:
    kind: dict[str, Any] = {"version": VERSION, "kind": type(parcel).__name__.lower()}
    match parcel:
        case Opened(name, meta, arrays):
            return pack(meta | {"version": VERSION, "kind": name}, arrays)
        case Hello() | Refusal():
            return pack(kind | parcel._asdict(), {})
        case Welcome(offer, known):
            plain = {k: list(v) if isinstance(v, tuple) else v for k, v in offer._asdict().items()}
            return pack(kind | plain | {"known": known}, {})
        case Ask():
            return _packed_ask(kind, parcel)
        case Reply(client, incarnation, stamp, value, digest):
            meta = {"client": client, "incarnation": incarnation, "stamp": list(stamp)}
            return pack(kind | meta | {"digest": digest}, flatten(value))
        case Closing(settled, proof):
            client, incarnation, stamp, conserved = settled
            meta = {"client": client, "incarnation": incarnation, "stamp": list(stamp)}
            held = flatten({"conserved": conserved, "proof": proof})
            return pack(kind | meta | {"proven": proof is not None}, held)


def _packed_ask(kind: dict[str, Any], ask: Ask) -> bytes:
    message = ask.message
    meta: dict[str, Any] = {
        "terms": ask.terms.to_json(), "rows": ask.rows, "scale": ask.scale,
        "client": message.client, "stamp": list(message.stamp), "commit": None,
        "number": message.number if isinstance(message, Task) else None,
        "certify": ask.model is not None,
    }  # fmt: skip
    held: dict[str, PyTree] = {"down": message.down, "model": ask.model}
    if message.commit is not None:
        stamp, digest, answer = message.commit
        meta["commit"] = [*stamp, digest]
        held["answer"] = answer
    return pack(kind | meta, flatten(held))


class Opened(NamedTuple):
    """A parcel whose arrays are not looked at yet."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]


def opened(data: bytes) -> Opened:
    """Raises `CodecError` for what nobody could have packed."""
    meta, arrays = unpack(data)
    version, kind = meta.pop("version", None), meta.pop("kind", None)
    if version != VERSION or not isinstance(kind, str):
        raise Refused(f"a message of version {version}; this feddcd speaks version {VERSION}")
    return Opened(kind, meta, arrays)


def hello(parcel: Opened) -> Hello:
    return Hello(**parcel.meta)


def refusal(parcel: Opened) -> Refusal:
    return Refusal(str(parcel.meta["client"]), str(parcel.meta["reason"]))


def welcome(parcel: Opened) -> Welcome:
    plain = lambda v: tuple(v) if isinstance(v, list) else v
    values: dict[str, Any] = {k: plain(v) for k, v in parcel.meta.items()}
    known = _typed(values.pop("known"), bool)
    said = Offer(**values)
    _typed(said.client, str)
    _typed(said.rows, int)
    for name in () if isinstance(said.features, int) else _typed(said.features, tuple):
        _typed(name, str)
    for label in _typed(said.classes, tuple, type(None)) or ():
        _typed(label, str, int, float)
    return Welcome(said, known)


def _typed(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"expected {kinds[0].__name__}, got {value!r}")
    return value


def terms_of(parcel: Opened) -> Terms:
    return Terms.from_json(parcel.meta["terms"])


def ask(parcel: Opened, terms: Terms, like: Shapes, w: Params) -> Ask:
    meta = parcel.meta
    shape = {"down": like.down, "model": w if meta["certify"] else None}
    if meta["commit"] is not None:
        shape["answer"] = like.answer
    held, commit = restore(shape, parcel.arrays), None
    if meta["commit"] is not None:
        epoch, round, digest = meta["commit"]
        commit = Commit(Stamp(epoch, round), digest, held["answer"])
    client, stamp = meta["client"], Stamp(*meta["stamp"])
    if meta["number"] is None:
        message: Task | Settle = Settle(client, stamp, held["down"], commit)
    else:
        message = Task(client, meta["number"], stamp, held["down"], commit)
    return Ask(terms, meta["rows"], meta["scale"], message, held["model"])


def reply(parcel: Opened, like: Shapes) -> Reply:
    meta = parcel.meta
    value = restore(like.value, parcel.arrays)
    start = _typed(meta["incarnation"], int)
    return Reply(meta["client"], start, Stamp(*meta["stamp"]), value, meta["digest"])


def closing(parcel: Opened, like: Shapes, w: Params) -> Closing:
    meta = parcel.meta
    one: Any = jax.ShapeDtypeStruct((), jax.tree.leaves(w)[0].dtype)
    tangent = Tangent(one, one, w, one)
    proof = Proof(one, one, tangent, tangent) if meta["proven"] else None
    held = restore({"conserved": like.conserved, "proof": proof}, parcel.arrays)
    stamp = Stamp(*meta["stamp"])
    settled = Settled(meta["client"], meta["incarnation"], stamp, held["conserved"])
    return Closing(settled, held["proof"])
