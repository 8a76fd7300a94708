"""Whether the files that are here are the files they are taken for."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._errors import DataError
from .._text import plural
from ._parse import Rules
from .files import check_file, text_blocks
from .known import KNOWN, File, KnownSet, absent, find
from .libsvm import parsed_blocks


class Finding(NamedTuple):
    """What was seen of one file; `path` is None where the file is absent."""

    file: File
    path: Path | None
    good: bool
    says: str


class Counts(NamedTuple):
    """What can be counted in a LIBSVM file."""

    rows: int
    last: int
    nonzeros: int
    labels: dict[float, int]


def check(source: KnownSet) -> list[Finding]:
    """Look at every file of the set; DataError where the training file is absent."""
    if find(source.train) is None:
        raise absent(source, source.train)
    return [_finding(source, file) for file in source.files]


def _finding(source: KnownSet, file: File) -> Finding:
    path = find(file)
    if path is None:
        good = not source.needs_test
        says = (
            "this file is missing, but the data set can be used without this file"
            if good
            else str(absent(source, file))
        )
        return Finding(file, None, good, says)
    try:
        return Finding(file, path, True, examine(source, file, path))
    except DataError as error:
        return Finding(file, path, False, str(error))


def examine(source: KnownSet, file: File, path: Path) -> str:
    """What was checked and found right, in words; DataError says what is wrong."""
    check_file(path)
    sha256, size = _sha256(path)
    if sha256 == file.sha256:
        return f"the sha256 of the text is right: {_short(sha256)}"
    for other in KNOWN.values():
        for twin in other.files:
            if twin.sha256 == sha256 and twin.name != file.name:
                raise DataError(
                    f"{path}: the content is that of the file {twin.name!r} of the data set "
                    f"{other.name!r}, and not that of the file {file.name!r}"
                )
    if file.blob is not None and _blob(path, size) == file.blob:
        return f"the git blob id of the text is right: {_short(file.blob)}"
    if file.exact:
        raise DataError(
            f"{path}: the sha256 of the text is {sha256}, but {file.sha256} was expected"
        )
    checksum = file.sha256 or file.blob
    why = "feddcd knows no checksum of this file, so it compared counts"
    if checksum:
        why = (
            f"the checksum of this file should be {_short(checksum)}, but is another one, so "
            "feddcd compared counts"
        )
    return f"{why}. {_agreeing(file, count(path, source.features), source.features, path)}"


def count(path: Path, features: int | None = None) -> Counts:
    """Rows, largest index, stored values and labels, in little memory."""
    rows, last, nonzeros, labels = 0, 0, 0, Counter[float]()
    for block in parsed_blocks(path, Rules(str(path), 1, features)):
        rows += block.y.size
        nonzeros += block.data.size
        last = max(last, int(block.indices.max(initial=-1)) + 1)
        values, times = np.unique(block.y, return_counts=True)
        labels.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
    return Counts(rows, last, nonzeros, dict(labels))


def _agreeing(file: File, counts: Counts, features: int, path: Path) -> str:
    """The counts that agree; those that are not known are named, those that differ raise."""
    seen = {
        "rows": (file.rows, counts.rows),
        "largest index": (file.last, counts.last),
        "non-zeros": (file.nonzeros, counts.nonzeros),
    }
    wrong = [
        f"{what}: {got:,} instead of {expected:,}"
        for what, (expected, got) in seen.items()
        if expected not in (None, got)
    ]
    labels = dict(file.labels)
    if set(labels) != set(counts.labels):
        wrong.append(
            f"the labels should be {_list(sorted(labels))}, but are {_list(sorted(counts.labels))}"
        )
    else:
        wrong += [
            (
                f"the label {label:g} occurs {plural(counts.labels[label], 'time')} instead of "
                f"{plural(expected, 'time')}"
            )
            for label, expected in labels.items()
            if expected not in (None, counts.labels[label])
        ]
    if wrong:
        raise DataError(f"{path}: {'; '.join(wrong)}")
    right = [f"{what}: {got:,}" for what, (expected, got) in seen.items() if expected is not None]
    right += [] if file.last else [f"no index above {features:,}"]
    unknown = [what for what, (expected, _) in seen.items() if expected is None]
    known = [f"label {y:g}: {plural(n, 'time')}" for y, n in labels.items() if n is not None]
    if len(known) < len(labels):
        right.append(f"labels: {_list(sorted(labels))}")
        unknown.append("how often each label occurs")
    else:
        right.append("; ".join(known))
    rest = (
        f". Not checked, because feddcd does not know the right numbers: {', '.join(unknown)}"
        if unknown
        else ""
    )
    return f"These counts are right: {'; '.join(right)}{rest}"


def _list(labels: list[float]) -> str:
    shown = [f"{label:g}" for label in labels[:10]]
    return ", ".join(shown + ["..."] * (len(labels) > len(shown))) or "none"


def _sha256(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for block in text_blocks(path):
        digest.update(block)
        size += len(block)
    return digest.hexdigest(), size


def _blob(path: Path, size: int) -> str:
    """The id that git gives to the text: SHA-1 of a header and the content."""
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    for block in text_blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _short(checksum: str) -> str:
    return f"{checksum[:12]}..."
