"""Parts of a coordinator's message about a job, each of the one type that it can have."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._errors import Refused
from ...sums.job import SignedNonce
from ..wire import Envelope

ID = 32  # hex digits of the name that a coordinator gives to a job
MOST_LETTERS = 1 << 20  # of a plan and what was agreed on it


def digest_of(*parts: Any) -> str:
    """Of plain values, in any order of their names."""
    held = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(held.encode()).hexdigest()


def check_size(*parts: Any) -> None:
    """Of what is kept of every job, also of those that nobody approves."""
    if (size := sum(len(json.dumps(part)) for part in parts)) > MOST_LETTERS:
        raise Refused(
            f"the plan has {size:,} characters, but this site reads at most {MOST_LETTERS:,} "
            "characters"
        )


def id_of(envelope: Envelope) -> str:
    id = envelope.meta.get("id")
    if not isinstance(id, str) or len(id) != ID or set(id) - set("0123456789abcdef"):
        raise Refused("the id of the job is missing or wrong")
    return id


def check_only(envelope: Envelope, names: set[str], arrays: set[str] | None) -> None:
    if set(envelope.meta) != names or (arrays is not None and set(envelope.arrays) != arrays):
        raise Refused("the message lacks some parts, or has parts that this site does not know")


def nonces_of(given: Mapping[str, Any]) -> dict[str, SignedNonce]:
    return {name: SignedNonce(hex_of(nonce), hex_of(mark)) for name, (nonce, mark) in given.items()}


def text_of(value: Any) -> bytes:
    if not isinstance(value, str):
        raise Refused("the message must contain the job as text")
    return value.encode()


def hex_of(value: Any) -> bytes:
    if not isinstance(value, str) or value != value.lower():
        raise Refused("this site cannot read a nonce (random number) or a signature in the message")
    return bytes.fromhex(value)


def bytes_of(array: np.ndarray) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise Refused("the message has a part that does not consist of bytes")
    return array.tobytes()
