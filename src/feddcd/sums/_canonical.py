"""One text for one value: JSON with sorted names and nothing between them; and hashes that say
what they are of, every field with its length before it."""

import hashlib
import json
import math
from typing import Any

from .._errors import Refused, SpecError

MOST_DEPTH = 30
LARGEST_INTEGER = 2**63


def canonical(value: Any) -> bytes:
    """As UTF-8. SpecError for what JSON cannot hold, NaN and infinity included."""
    _check(value, 0)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SpecError("a text has a character that is not valid Unicode") from None


def parse(data: bytes, most: int) -> Any:
    """The inverse: what is not written as `canonical` writes it is refused."""
    if len(data) > most:
        raise Refused(f"a text has {len(data):,} bytes, which is more than the limit of {most:,}")
    try:
        value = json.loads(data.decode())
        same = canonical(value) == data
    except (ValueError, RecursionError):
        raise Refused("a text is not JSON in the form that feddcd writes") from None
    if not same:
        raise Refused("a text is not JSON in the form that feddcd writes")
    return value


def digest(purpose: str, *fields: bytes) -> bytes:
    """SHA-256 of the fields, each with its length, and of what they are for."""
    return hashlib.sha256(framed(purpose, *fields)).digest()


def framed(purpose: str, *fields: bytes) -> bytes:
    every = (purpose.encode(), *fields)
    return b"".join(len(field).to_bytes(8, "big") + field for field in every)


def _check(value: Any, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise SpecError("a value is nested too deeply")
    if isinstance(value, dict):
        for name, inner in value.items():
            if type(name) is not str:
                raise SpecError(f"a name must be a text, got {name!r}")
            _check(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner, depth + 1)
    elif type(value) is int:
        if abs(value) >= LARGEST_INTEGER:
            raise SpecError("a whole number does not fit into 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise SpecError(f"a number must be finite, got {value}")
    elif not (value is None or type(value) in (str, bool)):
        raise SpecError(f"a value of type {type(value).__name__} cannot be written as JSON")
