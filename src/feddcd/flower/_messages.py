"""Our bytes in Flower's messages, never pickled; and the names that both sides of the link know.

Flower sends each part of a message by a call of its own: few bytes are one part, many an array,
which it cuts into pieces.
"""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

_RECORD, _NAME = "feddcd", "packed"
FEW = 1 << 20  # bytes
BUNDLE = "feddcd/no-code"  # the name that the coordinator gives to one without code
SECRET = "x-feddcd-inside"  # the header of the inner door


def wrap(data: bytes) -> RecordDict:
    if len(data) <= FEW:
        return RecordDict({_RECORD: ConfigRecord({_NAME: data})})
    array = Array(np.frombuffer(data, np.uint8))
    return RecordDict({_RECORD: ArrayRecord({_NAME: array})})


def unwrap(message: Message) -> bytes | None:
    """None for an error, and for what is no message of ours."""
    try:
        if message.has_error():
            return None
        if _RECORD in message.content.config_records:
            data = message.content.config_records[_RECORD][_NAME]
            return data if isinstance(data, bytes) else None
        array = message.content.array_records[_RECORD][_NAME].numpy()
    except Exception:  # of Flower's own, whatever a stranger made of a record
        return None
    return array.tobytes() if array.dtype == np.uint8 and array.ndim == 1 else None
