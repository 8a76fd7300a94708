"""Text files, plain or packed, as blocks of lines; what was parsed is kept as plain arrays (.npz,
never pickled) in the user's cache folder."""

from __future__ import annotations

import bz2
import contextlib
import difflib
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from .._errors import DataError
from .._files import stamp, write_atomically
from .._text import size

BLOCK = 1 << 22
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)
CACHE_VERSION = 1
MOST_UNPACKED = 1 << 30  # bytes of a table, which takes some ten times as much memory
ALIKE = 0.75  # of the letters of two names
SMALL, MOST_TIMES = 1 << 26, 200  # a larger text packed that well is no table


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def check_file(path: Path) -> None:
    """Refuse anything but a regular file."""
    if os.path.isdir(path):
        raise DataError(f"{path}: this is a folder, but a LIBSVM file is needed")
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file{near(path)}")
    if not os.path.isfile(path):
        raise DataError(f"{path}: this is not a regular file")


def near(path: Path) -> str:
    """'; did you mean ...?' with a file beside it that is nearly called so, or nothing."""
    with contextlib.suppress(OSError):
        beside = {each.stem: each.name for each in path.parent.iterdir() if each.is_file()}
        close = difflib.get_close_matches(path.stem, beside, 1, ALIKE)
        return f"; did you mean {beside[close[0]]!r}?" if close else ""
    return ""


def line_blocks(path: Path) -> Iterator[bytes]:
    """Blocks of whole lines, each ending in a newline."""
    rest: list[bytes] = []
    for number, block in enumerate(text_blocks(path)):
        if number == 0:
            block = block.removeprefix(BYTE_ORDER_MARK)
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, block[:end]])
            rest = []
        rest.append(block[end:])
    if last := b"".join(rest):
        yield last.removesuffix(b"\r") + b"\n"


def text_blocks(path: Path) -> Iterator[bytes]:
    """The uncompressed content, byte for byte."""
    fault = "this file cannot be read"
    try:
        with open(path, "rb") as raw:
            kind, stream = _decompressed(raw)
            fault = f"this is an incomplete or damaged {kind}" if kind else fault
            while block := stream.read(BLOCK):
                yield block
    except DAMAGE as error:
        raise DataError(f"{path}: {fault}: {error}") from None


def whole_text(path: Path) -> bytes:
    """The same in one piece, for tables; a packed file that unpacks to too much is refused on the
    way."""
    with open(path, "rb") as raw:
        packed = bool(_decompressed(raw)[0])
    length, most = 0, max(SMALL, MOST_TIMES * os.path.getsize(path))
    blocks: list[bytes] = []
    for block in text_blocks(path):
        blocks.append(block)
        length += len(block)
        if packed and length > min(most, MOST_UNPACKED):
            told = (
                f"{path}: this file becomes larger than {size(min(most, MOST_UNPACKED))} when it "
                "is unpacked; if this file is a table, unpack it first, or save it as .parquet"
            )
            raise DataError(told)
    return b"".join(blocks)


def _decompressed(raw: BinaryIO) -> tuple[str, _Readable]:
    """The compression, as the first bytes show it and not the name, and the text."""
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return "gzip file", gzip.GzipFile(fileobj=raw)
    if magic.startswith(b"BZh"):
        return "bzip2 file", bz2.BZ2File(raw)
    if magic == b"\xfd7zXZ\x00":
        return "xz file", lzma.LZMAFile(raw)
    return "", raw


def cache_dir() -> Path:
    """FEDDCD_CACHE where it is set, else the user's cache folder."""
    if folder := os.environ.get("FEDDCD_CACHE"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("feddcd"))


def cache_entry(path: Path, *key: object) -> Path:
    """Where the arrays of this state of the file are kept."""
    parts = (CACHE_VERSION, *stamp(path), *key, os.fsencode(os.path.abspath(path)))
    return cache_dir() / f"libsvm-{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.npz"


def load_arrays(file: Path) -> dict[str, np.ndarray] | None:
    """The arrays in the file, or None where it is absent or damaged in any way."""
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception:
        return None


def store_arrays(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write atomically; a folder that cannot be written is no error."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, lambda path: _write(path, arrays))


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
