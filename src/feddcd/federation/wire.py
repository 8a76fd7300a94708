"""What travels, as bytes: greetings, envelopes and refusals; training has more, in `training_wire`.

A refusal carries a reason without any value of the data and without any path.
"""

from typing import Any, NamedTuple

import numpy as np

from .._errors import Refused
from ..data.agreement import Offer
from ..durable.codec import LIMIT, pack, unpack

VERSION = 2  # 1: masks were made of long-term keys alone
# of a table, which go back to sites
RESULT_FILES = ("summary.txt", "coefficients.csv", "table1.csv", "numbers.csv")
REGRESSION = "regression"  # what is said for a model where a table is asked for


class Hello(NamedTuple):
    """Who are you, and what columns and classes do you have?"""

    federation: str
    model: str
    purpose: str = ""  # as the coordinator writes it


class Welcome(NamedTuple):
    """The answer to it; `known` tells whether this site has taken part in a round before."""

    offer: Offer
    known: bool


class Refusal(NamedTuple):
    client: str
    reason: str


class Envelope(NamedTuple):
    """A message before anyone looks at its arrays: the reader says what it should hold."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack_message(message: Hello | Welcome | Refusal | Envelope) -> bytes:
    kind: dict[str, Any] = {"version": VERSION, "kind": type(message).__name__.lower()}
    match message:
        case Envelope(name, meta, arrays):
            return pack(meta | {"version": VERSION, "kind": name}, arrays)
        case Hello() | Refusal():
            return pack(kind | message._asdict(), {})
        case Welcome(offer, known):
            plain = {name: lists(value) for name, value in offer._asdict().items()}
            return pack(kind | plain | {"known": known}, {})


def unpack_message(data: bytes, most: int = LIMIT) -> Envelope:
    """Raises `CodecError` for what nobody could have packed, and for more bytes than `most`."""
    meta, arrays = unpack(data, most)
    version, kind = meta.pop("version", None), meta.pop("kind", None)
    if version != VERSION:
        known = isinstance(version, int | float)
        no = "the message has no version number"
        said = f"the message has the version {version}" if known else no
        raise Refused(
            f"{said}, and this feddcd reads version "
            f"{VERSION}; install the same feddcd at all sites and at the coordinator"
        )
    if not isinstance(kind, str):
        raise Refused("the message does not say what kind of message it is")
    return Envelope(kind, meta, arrays)


def read_refusal(envelope: Envelope) -> Refusal:
    # a reason is shown in a terminal, which would obey the control characters of a stranger
    meta, most = envelope.meta, 1000
    told = check_type(meta["reason"], str)[:most]
    reason = "".join(c if c.isprintable() else " " for c in told)
    return Refusal(check_type(meta["client"], str)[:most], reason)


def read_welcome(envelope: Envelope) -> Welcome:
    """Every type is checked: what a site says of itself goes into the ledger."""
    values: dict[str, Any] = {k: tuples(v) for k, v in envelope.meta.items()}
    known = check_type(values.pop("known"), bool)
    offer = Offer(**values)
    check_type(offer.client, str)
    check_type(offer.rows, int)
    for name in () if isinstance(offer.features, int) else check_type(offer.features, tuple):
        check_type(name, str)
    for label in check_type(offer.classes, tuple, type(None)) or ():
        check_type(label, str, int, float)
    return Welcome(offer, known)


def check_type(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"expected {kinds[0].__name__}, got {repr(value)[:60]}")
    return value


def tuples(value: Any) -> Any:
    """As it was before JSON made it a list."""
    return tuple(value) if isinstance(value, list) else value


def lists(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
