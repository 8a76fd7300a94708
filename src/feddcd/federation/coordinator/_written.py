"""The files beside a training's ledger, read so that every program reads the same in them."""

import io
import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from ..._errors import Refused
from ..._files import Disk
from ..run_folder import ACCURACY, FINISHED, MEASURED
from ..verify import once

MOST_BYTES = 1 << 32
CERTIFIED = (*MEASURED, "rounding")
ENDED = (FINISHED, "done")  # "done": as earlier versions called it
COSTS = ("bytes_up", "epoch", "iterations", "seconds")  # which no site signs
_LOCAL = struct.Struct("<4s22xHH")  # of a file in a zip: its mark, the lengths of name and extra
_END = struct.Struct("<4s8xIIH")  # of the zip: its mark, size and place of the list, a comment


def read_summary(path: Path) -> dict[str, Any]:
    """Of a name that is there twice one program reads the first, another one the last."""
    data = _bytes(path)
    try:
        held = {} if data is None else json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise Refused(f"{path.name} is not valid JSON, or one name is in this file twice") from None
    if not isinstance(held, dict):
        raise Refused(f"{path.name} cannot be read")
    return held


def check_summary(said: dict[str, Any], own: dict[str, Any]) -> None:
    """What summary.json says beside the certificate; `own` follows from the ledger."""
    own = own | ACCURACY
    for name, value in said.items():
        if name in own:
            right = value == own[name]
        elif name == "status":
            right = value in ENDED
        elif name in COSTS:
            right = value is None or type(value) in (int, float)
        else:
            right = name in CERTIFIED
        if not right:
            raise Refused(f"the value of {name!r} in summary.json disagrees with the ledger")


def is_close(value: Any, own: float | None) -> bool:
    try:
        return own is not None and math.isclose(value, own, rel_tol=1e-9, abs_tol=1e-12)
    except (TypeError, OverflowError):
        return False


def read_arrays(path: Path) -> list[tuple[str, np.ndarray]]:
    """Of an .npz file, by name; all of its bytes belong to what is listed in it."""
    data = _bytes(path)
    try:
        if data is None:
            raise OSError("it does not exist")
        _check_whole(data)
        whole = io.BytesIO(data)
        with np.load(whole, allow_pickle=False) as file:
            return sorted(((name, file[name]) for name in file.files), key=lambda pair: pair[0])
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, struct.error) as error:
        raise Refused(f"{path} cannot be read: {error}") from None


def _check_whole(data: bytes) -> None:
    """A zip is read from its end, by some programs from its beginning. So nothing may be in front
    of its files, between them or behind the list."""
    with ZipFile(io.BytesIO(data)) as file:
        listed = sorted(file.infolist(), key=lambda each: each.header_offset)
    at = 0
    for each in listed:
        mark, name, extra = _LOCAL.unpack_from(data, at)
        if mark != b"PK\3\4" or each.header_offset != at or each.flag_bits & 8:
            raise BadZipFile("the file has content that its own list of contents does not name")
        at += _LOCAL.size + name + extra + each.compress_size
    mark, size, place, comment = _END.unpack_from(data, max(len(data) - _END.size, 0))
    if (mark, place, place + size, comment) != (b"PK\5\6", at, len(data) - _END.size, 0):
        raise BadZipFile("the file has content that its own list of contents does not name")


def _bytes(path: Path) -> bytes | None:
    return Disk().read(path, MOST_BYTES) if path.is_file() else None
