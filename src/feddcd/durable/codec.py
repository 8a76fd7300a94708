"""Arrays and plain JSON values as bytes, without pickle.

magic "FEDDCD" | version u16 | length of header u64 | header | arrays | sha256 of all before

The header is canonical JSON, {"arrays": [[name, dtype, shape], ...], "meta": {...}}, names in
order; the arrays follow in C order. All numbers are little-endian. Equal content gives equal
bytes, and only bytes that `pack` could have written are accepted.
"""

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import CodecError, VersionError
from .._text import plural

if TYPE_CHECKING:
    from jaxtyping import PyTree

VERSION = 1
LIMIT = 1 << 32  # bytes of one packed whole
_MAGIC = b"FEDDCD"
_START = struct.Struct("<6sHQ")
_CHECKSUM = hashlib.sha256().digest_size
_HEADER = 1 << 24
_DIMENSIONS = 32
_DEEPEST = 32  # lists within lists
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_KINDS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint32", "uint8", "bool")
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in _KINDS}
# in either order of bytes; the property dtype.name is slow
_NAMES = {kind: name for name, x in _DTYPES.items() for kind in (x, x.newbyteorder(">"))}
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def pack(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    plain = _in_order(arrays)
    header = _header(_text(meta), plain)
    size = _START.size + len(header) + sum(a.nbytes for a in plain.values()) + _CHECKSUM
    if len(header) > _HEADER or size > LIMIT:
        raise CodecError(
            f"the data are too large. The data have {size} bytes, and at most {LIMIT} are "
            f"possible. The header has {len(header)} bytes, and at most {_HEADER} are possible"
        )
    start = _START.pack(_MAGIC, VERSION, len(header))
    body = b"".join([start, header, *_contents(plain)])
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes, most: int = LIMIT) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Refuses, by CodecError, more bytes than `most` and whatever `pack` could not have made."""
    size = _check_frame(data, most)
    view = memoryview(data)
    first, end = _START.size + size, len(data) - _CHECKSUM
    meta, shapes = _parse_header(bytes(view[_START.size : first]))
    have, need = end - first, sum(_nbytes(*kind) for kind in shapes.values())
    if have != need:
        raise CodecError(f"the arrays have {plural(have, 'byte')}, but the header says {need}")
    arrays = {}
    for name, (dtype, shape) in shapes.items():
        after = first + _nbytes(dtype, shape)
        arrays[name] = _array(name, view[first:after], dtype, shape)
        first = after
    return meta, arrays


def digest(x: "PyTree") -> str:
    """sha256 over names, dtypes, shapes and bytes; the structure around the leaves is not seen."""
    from .. import tree  # with JAX, which tables do without

    plain = _in_order(tree.flatten(x))
    total = hashlib.sha256(_header("{}", plain))
    for content in _contents(plain):
        total.update(content)
    return total.hexdigest()


def _in_order(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    if odd := [name for name in arrays if not isinstance(name, str)]:
        raise CodecError(f"an array has the name {odd[0]!r}, but a name must be a text")
    return {name: _plain(name, arrays[name]) for name in sorted(arrays)}


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype not in _NAMES or array.ndim > _DIMENSIONS:
        raise CodecError(
            f"the array {name!r} has the type {array.dtype} and the shape {array.shape}. feddcd "
            f"allows at most {_DIMENSIONS} dimensions and these types: {', '.join(_DTYPES)}"
        )
    return np.asarray(array, _DTYPES[_NAMES[array.dtype]], order="C")


def _contents(arrays: Mapping[str, np.ndarray]) -> Iterator[memoryview]:
    return (array.reshape(-1).data for array in arrays.values())


def _header(meta: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    kinds = tuple((name, _NAMES[array.dtype], array.shape) for name, array in arrays.items())
    return f'{{"arrays":{_layout(kinds)},"meta":{meta}}}'.encode()


@lru_cache
def _layout(kinds: tuple[tuple[str, str, tuple[int, ...]], ...]) -> str:
    return _JSON.encode(kinds)


def _text(meta: Mapping[str, Any]) -> str:
    try:
        text = _JSON.encode(meta)
        _check_depth(text)
        # JSON would turn a tuple into a list and a key 1 into "1" without a word
        same = json.loads(text) == meta
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"the argument meta is not plain JSON: {error}") from None
    if not same:
        raise CodecError(
            "the argument meta is not plain JSON: use lists, not tuples, and use texts as keys"
        )
    return text


def _check_depth(text: str) -> None:
    """Who reads nested lists goes as deep as they do, and so does whoever shows them."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    marks = np.frombuffer(_STRINGS.sub("", text).encode(), np.uint8)
    step = np.isin(marks, (91, 123)).astype(np.int64) - np.isin(marks, (93, 125))
    if np.max(np.cumsum(step), initial=0) > _DEEPEST:
        raise ValueError(f"lists are nested more than {_DEEPEST} times")


def _check_frame(data: bytes, most: int) -> int:
    """The length of the header, once magic, version, sizes and checksum are right."""
    if not _START.size + _CHECKSUM <= len(data) <= min(most, LIMIT):
        raise CodecError(
            f"the data have {len(data)} bytes, but {_START.size + _CHECKSUM} to "
            f"{min(most, LIMIT)} bytes are possible"
        )
    magic, version, size = _START.unpack_from(data)
    if magic != _MAGIC:
        raise CodecError("the data were not written by feddcd")
    if version != VERSION:
        raise VersionError(
            f"the data have the format version {version}, but this version of feddcd "
            f"reads the format version {VERSION}"
        )
    if hashlib.sha256(memoryview(data)[:-_CHECKSUM]).digest() != data[-_CHECKSUM:]:
        raise CodecError("the checksum does not match the data")
    if size > min(_HEADER, len(data) - _START.size - _CHECKSUM):
        raise CodecError(f"the data say that the header has {size} bytes, which is not possible")
    return size


def _parse_header(
    header: bytes,
) -> tuple[dict[str, Any], dict[str, tuple[np.dtype, tuple[int, ...]]]]:
    try:
        text = header.decode()
        _check_depth(text)
        content = json.loads(text)
        if _JSON.encode(content) != text:
            raise ValueError("feddcd does not write JSON in this form")
        meta, listed = dict(content["meta"].items()), content["arrays"]
        shapes = {name: (_DTYPES[dtype], _shape(shape)) for name, dtype, shape in listed}
        names = [name for name, _, _ in listed]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        bad = "a part is missing or unknown, or has a wrong type"
        why = error if isinstance(error, ValueError) else bad
        raise CodecError(f"the message has a wrong header: {why}") from None
    if len(content) != 2 or not all(isinstance(n, str) for n in names) or names != sorted(shapes):
        raise CodecError(
            "the message has a wrong header: names are not sorted, or there are unknown parts"
        )
    return meta, shapes


def _shape(shape: list[int]) -> tuple[int, ...]:
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"the shape {shape} is not possible")
    if len(shape) > _DIMENSIONS or math.prod(max(n, 1) for n in shape) > LIMIT:
        raise ValueError("no array can have this shape")
    return tuple(shape)


def _nbytes(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    return dtype.itemsize * math.prod(shape)


def _array(name: str, data: memoryview, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind == "b" and np.any(np.frombuffer(data, np.uint8) > 1):
        raise CodecError(
            f"the array {name!r} has the type bool, but some of its bytes are neither 0 nor 1"
        )
    native = dtype.newbyteorder("=")
    return np.frombuffer(data, dtype).reshape(shape).astype(native)
