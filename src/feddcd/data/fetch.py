"""Download of well-known files: resumed where it stopped, verified, then renamed into place."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from .._errors import DataError
from .check import examine
from .known import SUFFIXES, File, KnownSet, find, folders, placing

BLOCK = 1 << 16
TIMEOUT = 60.0
NO_SUCH_FILE = (404, 410)
RANGE_REFUSED = 416

Watch = Callable[[str, int, int | None], None]  # name, bytes so far, bytes in all if known


class Served(NamedTuple):
    """By what one state of a file on the server differs from another."""

    address: str
    tag: str | None
    modified: str | None
    total: int | None

    @property
    def validator(self) -> str | None:
        """For If-Range, which takes strong tags only."""
        strong = self.tag if self.tag and not self.tag.startswith("W/") else None
        return strong or self.modified


def fetch(
    source: KnownSet, *, test: bool | None = None, watch: Watch = lambda name, done, total: None
) -> list[Path]:
    """The files of the set, downloaded unless they are here; `test` overrules the set's default."""
    with_test = (source.needs_test or source.fetch_test) if test is None else test
    files = source.files if with_test else (source.train,)
    return [find(file) or _download(source, file, watch) for file in files]


def _download(source: KnownSet, file: File, watch: Watch) -> Path:
    if file.base is None:
        raise DataError(
            f"the data set {source.name} has no public address, so feddcd cannot download it: "
            f"{placing(file)}"
        )
    folder, advice = folders()[0], placing(file)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # the publisher packs files again now and then: the usual name first, then the others
        for suffix in dict.fromkeys([file.packed, *SUFFIXES]):
            target = folder / f"{file.name}{suffix}"
            part = target.with_name(f"{target.name}.part")
            address = f"{file.base}/{target.name}"
            if _transfer(address, part, watch, advice):
                _verify(source, file, address, part)
                os.replace(part, target)
                _notes(part).unlink(missing_ok=True)
                return target
    except OSError as error:
        raise DataError(f"feddcd cannot write to {folder}: {error}") from None
    raise DataError(f"{file.address}: the server does not have this file (404); {advice}")


def _transfer(address: str, part: Path, watch: Watch, advice: str) -> bool:
    """Bring the part to its full length; False where the server has no such file."""
    start, before = _state(part, address)
    name = part.name.removesuffix(".part")
    if start and before and start == before.total:
        watch(name, start, start)
        return True
    response = _open(address, start, before, advice)
    if response is None:
        return False
    with response:
        start = start if response.status == 206 else 0
        served = _served(response, address)
        total = served.total
        with open(part, "ab" if start else "wb") as stream:
            _notes(part).write_text(json.dumps(served._asdict()))
            watch(name, start, total)
            for block in _blocks(response, part):
                stream.write(block)
                watch(name, start := start + len(block), total)
    if total not in (None, start):
        raise DataError(
            f"the download of {address} stopped at {start:,} of {total:,} bytes; {_kept(part)}"
        )
    return True


def _open(address: str, start: int, before: Served | None, advice: str) -> HTTPResponse | None:
    """The answer from byte `start` on, or from the first byte where the server cannot or the
    file has changed; None where there is no such file."""
    request = Request(address, headers={"User-Agent": "feddcd"})
    if start and before:
        request.add_header("Range", f"bytes={start}-")
        if before.validator:
            request.add_header("If-Range", before.validator)
    try:
        response = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code in NO_SUCH_FILE:
            return None
        if start and error.code == RANGE_REFUSED:
            return _open(address, 0, None, advice)
        raise DataError(
            f"{address} answered with the error {error.code} {error.reason}; {advice}"
        ) from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error or type(error).__name__
        raise DataError(f"feddcd cannot reach {address} ({reason}); {advice}") from None
    if response.status == 206 and not (start and before and _goes_on(response, start, before)):
        response.close()
        if not start:
            raise DataError(f"{address} sent only a part of the file; {advice}")
        return _open(address, 0, None, advice)
    return response


def _goes_on(response: HTTPResponse, start: int, before: Served) -> bool:
    """Whether the answer continues the very file that the part began."""
    first = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return bool(first) and int(first[1]) == start and _served(response, before.address) == before


def _served(response: HTTPResponse, address: str) -> Served:
    headers = response.headers
    if response.status == 206:
        length = headers.get("Content-Range", "").rpartition("/")[2]
    else:
        length = headers.get("Content-Length", "")
    total = int(length) if re.fullmatch("[0-9]+", length) else None
    return Served(address, headers.get("ETag"), headers.get("Last-Modified"), total)


def _blocks(response: HTTPResponse, part: Path) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, HTTPException) as error:
            why = str(error) or type(error).__name__
            raise DataError(
                f"the download of {response.url} was interrupted ({why}); {_kept(part)}"
            ) from None
        if not block:
            return
        yield block


def _verify(source: KnownSet, file: File, address: str, part: Path) -> None:
    try:
        examine(source, file, part)
    except DataError as error:
        part.unlink()
        _notes(part).unlink(missing_ok=True)
        raise DataError(
            f"{address} did not send the expected file, so feddcd deleted the download. The "
            f"reason: {error}"
        ) from None


def _state(part: Path, address: str) -> tuple[int, Served | None]:
    """How much is here, and of what; nothing where that is not known."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        before = Served(**json.loads(_notes(part).read_text()))
        if before.address == address and isinstance(before.validator, str | None):
            return part.stat().st_size, before
    return 0, None


def _notes(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _kept(part: Path) -> str:
    return (
        f"feddcd keeps the downloaded part in {part}; use the same command again to continue the "
        "download"
    )
