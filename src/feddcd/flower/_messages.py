"""Our bytes in Flower's messages: one array, which Flower sends in chunks, never pickled."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict

_RECORD, _ARRAY = "feddcd", "packed"


def wrap(data: bytes) -> RecordDict:
    array = Array(np.frombuffer(data, np.uint8))
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: array})})


def unwrap(message: Message) -> bytes | None:
    """None for an error, and for what is no message of ours."""
    if message.has_error():
        return None
    try:
        array = message.content.array_records[_RECORD][_ARRAY].numpy()
    except (KeyError, TypeError, ValueError):
        return None
    return array.tobytes() if array.dtype == np.uint8 and array.ndim == 1 else None
