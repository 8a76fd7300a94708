"""What the tests recorded, line by line: as people read it, not as a terminal broke it."""

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
BOX = ("│", "┃")
TITLE = re.compile(r"[╭┏╰┗┡└├╞].*")  # of a frame, and its other rules
CELLS = re.compile(r"\s{2,}|[│┃]")
TEMPORARY = re.compile(
    r"(?:/[\w.-]+)*/(?:pytest-of-\w+/pytest-\d+/(?:popen-\w+/)?[\w-]+|tmp\w{8})(?:(/)|(?!\w))"
)
WIDTHS = (78, 80, 118, 120)  # of terminals in tests, within a frame and without
FEWEST = 3  # words of a line: shorter ones are numbers and labels


class Place(NamedTuple):
    """A line, as it was before the terminal broke it."""

    kind: str
    text: str


def recorded(folder: Path) -> Iterator[Place]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            kind, text = json.loads(line)
            for found in chain.from_iterable(map(unbroken, strings(ESCAPES.sub("", text)))):
                short = " ".join(TEMPORARY.sub(relative, found).split())
                if len(short.split()) >= FEWEST:
                    yield Place(kind, short)


def relative(path: re.Match[str]) -> str:
    return "" if path[1] else "folder"


def strings(text: str) -> Iterator[str]:
    """The text, and in place of JSON the words in it."""
    value = parsed(text)
    if value is not None:
        yield from leaves(value)
        return
    lines = text.split("\n")
    events = {line: parsed(line) for line in lines if line.startswith("{")}
    yield "\n".join("" if events.get(line) else line for line in lines)
    yield from leaves(list(events.values()))


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)


def unbroken(text: str) -> Iterator[str]:
    """Lines and cells of a terminal, those joined that it broke because they were too long."""
    kept = last = first = ""
    for line in map(unboxed, text.split("\n")):
        if kept and continues(first, last, line):
            kept = f"{kept} {line.strip()}"
        else:
            *cells, kept = [kept, *CELLS.split(line.strip())]
            yield from cells
            first = line
        last = line
    yield kept


def unboxed(line: str) -> str:
    """What stands in a frame; a line that is a part of the frame is empty."""
    if TITLE.fullmatch(line.strip()):
        return ""
    return line.strip()[1:-1] if line.strip().startswith(BOX) else line


def continues(first: str, last: str, line: str) -> bool:
    """Whether the terminal broke a line before this one: its first word had no place there."""
    if not line.strip() or indent(line) < indent(last):
        return False
    if CELLS.search(first.strip()) and indent(line) <= indent(first):
        return False  # the next row
    full = len(last)  # blanks fill what was broken; a line that was printed as it is has none
    return full in WIDTHS and len(last.rstrip()) + 1 + len(line.split()[0]) >= full


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())
