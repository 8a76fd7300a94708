"""What a text file does not say of itself: its encoding and what parts its fields."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from .._errors import DataError

MARKS = (  # the longer ones first
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
HINT = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)  # a first line that Excel understands
WESTERN, CENTRAL = "Windows-1252", "cp1250"
WRONG_LETTERS = (
    f'if letters look wrong, give {{}} (Central Europe); at a site, write encoding = "{CENTRAL}" '
    "into site.toml"
)
LOOK, START = 200, 1 << 16  # records, and letters, that are looked at


class Decoded(NamedTuple):
    text: str
    encoding: str  # as a person calls it


def decode(file: str, data: bytes, encoding: str | None) -> Decoded:
    """A byte order mark decides, then UTF-8; what is not UTF-8 is Windows-1252, Latin-1's heir."""
    mark, codec, name = next((m for m in MARKS if data.startswith(m[0])), (b"", "utf-8", "UTF-8"))
    if encoding is not None:
        codec, name = _codec(file, encoding), encoding
    try:
        text = data.removeprefix(mark if codec == "utf-8" else b"").decode(codec)
    except UnicodeDecodeError as error:
        if encoding is not None or name != "UTF-8" or b"\0" in data or _other_lines_are(data):
            raise _undecodable(file, data, error, name) from None
        text, name = _western(file, data), WESTERN
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        told = "this line contains a zero byte, so feddcd cannot read the file as text"
        more = "; if the file is UTF-16 text, give <encoding>"
        raise DataError(f"{file}:{line}: {told}{more}", settings={"encoding": "utf-16-le"})
    return Decoded(text, name)


def _codec(file: str, encoding: str) -> str:
    """Python has codecs of other things too: zlib, names of hosts, one that fails on all text."""
    with suppress(LookupError, ValueError):
        "".encode(encoding)  # which refuses those that are not of text
        if (codec := codecs.lookup(encoding).name) not in OF_HOSTS:
            return codec
    known = "for example, utf-8, utf-16, latin-1, windows-1252 or mac-roman"
    told = f"there is no text encoding {encoding!r}; <encoding> can be, {known}"
    raise DataError(told, file=file, settings={"encoding": None})


def _other_lines_are(data: bytes) -> bool:
    """Whether letters beyond ASCII are UTF-8 elsewhere: one broken byte is no other encoding."""
    return any(c > "\x7f" and c != "�" for c in data.decode("utf-8", "replace"))


def _undecodable(file: str, data: bytes, error: UnicodeDecodeError, name: str) -> DataError:
    line = data.count(b"\n", 0, error.start) + 1
    told = f"{file}:{line}: byte 0x{data[error.start]:02x} is not {name} text"
    return DataError(
        f"{told}; correct this byte, or give the encoding of the file with <encoding>",
        settings=ENCODING,
    )


def _western(file: str, data: bytes) -> str:
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        told = f"byte 0x{data[error.start]:02x} is neither UTF-8 nor Windows-1252 text"
        raise DataError(
            f"{file}:{line}: {told}; give the encoding of the file with <encoding>",
            settings=ENCODING,
        ) from None


ENCODING = {"encoding": ...}
OF_HOSTS = ("idna", "punycode")


class Parted(NamedTuple):
    sep: str
    skip: int  # lines before the header: Excel's sep=; is one


def separator(file: str, text: str, wanted: str | None, usual: str) -> Parted:
    """The one that gives most records as many fields as the header; `usual` if none does."""
    hint = HINT.match(text)
    if wanted is not None:
        wanted = wanted.replace("\\t", "\t")
        if len(wanted) != 1:
            told = f"<sep> must be one character, such as ';' or '\\t' for a tab; got {wanted!r}"
            raise DataError(told, settings={"sep": None})
        return Parted(wanted, int(hint is not None))
    if hint is not None:
        return Parted(hint[1], 1)
    if usual == "\t":
        return Parted(usual, 0)
    start = text if len(text) <= START else text[: text.rfind("\n", 0, START) + 1]
    fits = {sep: _fit(file, start, sep) for sep in SEPARATORS}
    best = max(fits, key=lambda sep: (fits[sep], sep == usual))
    return Parted(best if fits[best] else usual, 0)


def _fit(file: str, text: str, sep: str) -> float:
    """Fields of the header, times the share of records that have as many, if most do."""
    sizes: list[int] = []
    with suppress(DataError):  # quotes that make no sense with this one, or are cut off
        for _, fields in islice(records(file, text, sep), LOOK):
            sizes.append(len(fields))
    if not sizes or sizes[0] < 2:
        return 0.0
    share = sum(size == sizes[0] for size in sizes[1:]) / max(len(sizes) - 1, 1)
    return sizes[0] * share if share > 0.5 or len(sizes) == 1 else 0.0


def records(file: str, text: str, sep: str, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The line on which a record begins, and its fields."""
    lines = io.StringIO(text, newline="")
    rest = islice(lines, skip, None)
    reader = csv.reader(rest, delimiter=sep, skipinitialspace=True, strict=True)
    line = skip + 1
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = skip + reader.line_num + 1
    except csv.Error as error:
        told = f"feddcd cannot read this line ({error}); check the quotes in this line"
        raise DataError(f"{file}:{line}: {told}") from None
