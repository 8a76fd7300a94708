"""What users see while the tests run, for tools/sentences.py: FEDDCD_RECORD names the folder.

Each process appends to a file of its own, a line of JSON for each new text: whether it was printed,
warned, on a page or said by an error, and the text itself, of pages without their tags.
"""

import contextlib
import functools
import html
import io
import json
import os
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import click.testing
import pytest

TAGS = re.compile(
    r"<(style|script|svg|math|head)\b.*?</\1>"
    r"|</?(a|abbr|b|code|em|i|span|strong|sub|sup|wbr)\b[^>]*>|<[^>]*>"
)
SAYING = ("say", "say_lines", "note", "warn")
INLINE = 2  # of the groups above: tags within a line


class Record:
    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.seen = folder, set()

    def __call__(self, kind: str, text: str | bytes | None) -> None:
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        if not text or not text.strip() or (kind, hash(text)) in self.seen:
            return
        self.seen.add((kind, hash(text)))
        line = json.dumps([kind, text]) + "\n"  # at once: processes may be killed, and may fork
        with open(self.folder / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(line)


def after(owner, name: str, told) -> None:
    """`told(result, *arguments)` once the method has returned."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*arguments, **options):
        result = method(*arguments, **options)
        told(result, *arguments)
        return result

    setattr(owner, name, wrapped)


def plain(page: str) -> str:
    line = lambda tag: "" if tag[INLINE] else "\n"
    return html.unescape(TAGS.sub(line, " ".join(page.split())))


class Reports:
    """What tests let be printed without looking."""

    def __init__(self, record: Record):
        self.record = record

    def pytest_runtest_logreport(self, report):
        for text in (report.capstdout, report.capstderr):
            self.record("printed", text)


def start(folder: Path, plugins: pytest.PytestPluginManager) -> None:
    from feddcd._errors import FeddcdError

    record = Record(folder)
    after(FeddcdError, "__str__", lambda text, *_: record("error", text))
    after(FeddcdError, "__init__", lambda _, error, *__: str(error))
    after(click.testing.CliRunner, "invoke", lambda done, *_: record("printed", done.output))
    after(pytest.CaptureFixture, "readouterr", lambda both, _: [record("printed", t) for t in both])
    after(subprocess.Popen, "communicate", functools.partial(_communicated, record))
    after(contextlib._RedirectStream, "__exit__", functools.partial(_redirected, record))
    after(Path, "write_text", functools.partial(_written, record))
    plugins.register(Reports(record))
    _warned(record)
    _replaced(record)


def _communicated(record, both, process, *_) -> None:
    if "feddcd" in str(process.args):
        for text in both:
            record("printed", text)


def _redirected(record, _, stream, *__) -> None:
    if isinstance(stream._new_target, io.StringIO) and not stream._new_target.closed:
        record("printed", stream._new_target.getvalue())


def _written(record, _, path, text, *__) -> None:
    if text[:9].lower() == "<!doctype":
        record("page", plain(text))


def _warned(record) -> None:
    warn = warnings.warn

    def wrapped(message, category=None, stacklevel=1, **more):
        record("warned", str(message))
        warn(message, category, stacklevel + 1, **more)

    warnings.warn = wrapped


def _replaced(record) -> None:
    """Tests put functions of their own where a line would be printed."""
    replace: Any = pytest.MonkeyPatch.setattr

    def wrapped(self, target, name, *value, **more):
        if name in SAYING and value and callable(value[0]):
            value = (_heard(record, value[0]), *value[1:])
        replace(self, target, name, *value, **more)

    pytest.MonkeyPatch.setattr = wrapped


def _heard(record, function):
    def heard(text, *more, **options):
        record("printed", str(text))
        return function(text, *more, **options)

    return heard
