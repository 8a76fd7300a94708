"""Text files, plain or compressed, as blocks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from .._errors import DataError

BLOCK = 1 << 22
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def check_file(path: Path) -> None:
    """Refuse anything but a regular file."""
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory, expected a LIBSVM file")
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file")
    if not os.path.isfile(path):
        raise DataError(f"{path}: is not a regular file")


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
    fault = "cannot be read"
    try:
        with open(path, "rb") as raw:
            kind, stream = _decompressed(raw)
            fault = f"is a truncated or damaged {kind}" if kind else fault
            while block := stream.read(BLOCK):
                yield block
    except DAMAGE as error:
        raise DataError(f"{path}: {fault}: {error}") from None


def _decompressed(raw: BinaryIO) -> tuple[str, _Readable]:
    """The compression, told by the first bytes rather than the name, and the text."""
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return "gzip file", gzip.GzipFile(fileobj=raw)
    if magic.startswith(b"BZh"):
        return "bzip2 file", bz2.BZ2File(raw)
    if magic == b"\xfd7zXZ\x00":
        return "xz file", lzma.LZMAFile(raw)
    return "", raw
