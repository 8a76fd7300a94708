"""What travels in training, as bytes: rounds, settlements, the certificate's parts.

A question carries the federation's terms, so that a site needs no memory but its state file.
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from .. import tree
from .._types import Params, Scalar
from ..algorithms import arrived, travelling
from ..durable.codec import pack
from ..durable.protocol import Commit, Reply, Settle, Settled, Stamp, Task
from ..durable.shapes import Shapes
from ..measure import Tangent
from .terms import Terms
from .wire import VERSION, Envelope, check_type, lists


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


def pack_training(message: Ask | Reply | Closing) -> bytes:
    kind: dict[str, Any] = {"version": VERSION, "kind": type(message).__name__.lower()}
    match message:
        case Ask():
            return _pack_ask(kind, message)
        case Reply(value=value):
            return pack(kind | _meta(message, "value"), travelling(value))
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
    value = arrived(like.value, envelope.arrays)
    start = check_type(meta["incarnation"], int)
    return Reply(meta["client"], start, _read_stamp(meta), value, meta["digest"])


def _read_stamp(meta: dict[str, Any]) -> Stamp:
    epoch, round = check_type(meta["stamp"], list)
    return Stamp(check_type(epoch, int), check_type(round, int))


def read_closing(envelope: Envelope, like: Shapes, w: Params) -> Closing:
    meta = envelope.meta
    number: Any = jax.ShapeDtypeStruct((), jax.tree.leaves(w)[0].dtype)
    tangent = Tangent(number, number, w, number)
    proof = CertificatePart(number, number, tangent, tangent) if meta["proven"] else None
    content = tree.restore({"conserved": like.conserved, "proof": proof}, envelope.arrays)
    start = check_type(meta["incarnation"], int)
    settled = Settled(meta["client"], start, _read_stamp(meta), content["conserved"])
    return Closing(settled, content["proof"])
