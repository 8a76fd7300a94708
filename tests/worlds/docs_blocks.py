"""Code blocks of the pages: found, run in order, and held against the output that is shown."""

import contextlib
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas
from rich.console import Console, ConsoleDimensions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^(?: {4,}|\t).*\n)+", re.MULTILINE)
COMMAND = re.compile(
    r"^\s*(?:[A-Z_]+=\S+ )?(?:feddcd|pip|python|make|time|flower-\w+|ssh-keygen|sqlite3) "
)
OURS = re.compile(r"feddcd [^|<>&;]*")  # without pipes and the like
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
LEFT_OUT = "not run by the tests"
OWN_ROWS = ("index.md",)  # readers have `patients.csv` there
RELATIVE = 0.01
COLUMNS = 120


class Block(NamedTuple):
    page: Path
    line: int
    language: str  # "" where it is indented only
    title: str
    code: str
    shown: str  # the text block that follows it, if any

    @property
    def place(self) -> str:
        return f"{self.page.name}, line {self.line}"


def blocks(page: Path) -> list[Block]:
    """Fenced blocks, and indented ones that hold commands, in the order of the page."""
    text = page.read_text()
    fenced = list(FENCE.finditer(text))
    found = [_block(page, text, match, fenced) for match in fenced]
    rest = FENCE.sub(lambda match: re.sub(r"[^\n]", ".", match[0]), text)
    for match in INDENTED.finditer(rest):
        if any(map(COMMAND.match, match[0].splitlines())):
            found.append(Block(page, _line(text, match.start()), "", "", match[0], ""))
    return sorted(found, key=lambda block: block.line)


def _block(page: Path, text: str, match: re.Match[str], fenced: list[re.Match[str]]) -> Block:
    """A text block belongs to the code before it, if only blanks are between."""
    later = [other for other in fenced if other.start() >= match.end()]
    shown = ""
    if later and later[0][1] == "text" and not text[match.end() : later[0].start()].strip():
        shown = later[0][3]
    title = re.search(r'title="([^"]*)"', match[2])
    place = _line(text, match.start())
    return Block(page, place, match[1], title[1] if title else "", match[3], shown)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def runs(block: Block) -> bool:
    return block.language in ("python", "bash") and not block.title.startswith(LEFT_OUT)


def printed(page: Path) -> list[str]:
    """The commands of a page that are not in blocks that run; outputs are text blocks."""
    found = [b for b in blocks(page) if b.language in ("", "bash") and not runs(b)]
    lines = [line for b in found for line in re.sub(r" *\\\n\s*", " ", b.code).splitlines()]
    return [re.sub(r"\s+#.*", "", line.strip()) for line in lines if COMMAND.match(line)]


def write_patients(folder: Path, hospitals: Sequence[str] = ("h0", "h1", "h2", "h3")) -> None:
    """`patients.csv`, as the README's commands on tables want it."""
    draw = np.random.default_rng(1)
    age, sex = draw.uniform(20, 90, 600).round(1), draw.choice(["f", "m"], 600)
    death = (draw.random(600) < 1 / (1 + np.exp(4 - 0.05 * age))).astype(int)
    hospital = [hospitals[i % len(hospitals)] for i in range(600)]
    table = pandas.DataFrame({"age": age, "sex": sex, "death": death, "hospital": hospital})
    table.to_csv(folder / "patients.csv", index=False)


def run_line(page: Path, line: str, folder: Path) -> str:
    return run_bash(Block(page, 0, "bash", "", line, ""), folder)


def run_page(page: Path, folder: Path, most: int | None = None) -> None:
    """All blocks of a page in one folder, or the first ones; those in Python share their names."""
    names: dict[str, Any] = {"__name__": "page"}
    if page.name in OWN_ROWS:
        write_patients(folder)
    for block in [*filter(runs, blocks(page))][:most]:
        said = run_bash(block, folder) if block.language == "bash" else run_python(block, names)
        for line in missing(block.shown, said):
            raise AssertionError(f"{block.place}: shows\n{line}\nbut it printed\n{said}")


def run_python(block: Block, names: dict[str, Any]) -> str:
    """In the current folder."""
    said = io.StringIO()
    above = "\n" * block.line
    with contextlib.redirect_stdout(said):
        exec(compile(above + block.code, str(block.page), "exec"), names)
    return said.getvalue()


def run_bash(block: Block, folder: Path) -> str:
    """Line by line; `feddcd` in this process, which spares it the start of one of its own."""
    said = ""
    for ours, lines in groupby(block.code.replace("\\\n", " ").splitlines(), OURS.fullmatch):
        for code in lines if ours else ["\n".join(lines)]:
            said += _feddcd(block, code, folder) if ours else _bash(block, code, folder)
    return said


def _bash(block: Block, code: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", code],
        cwd=folder, env=os.environ | {"PATH": path, "COLUMNS": str(COLUMNS)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return _checked(block, done.returncode, done.stdout, done.stderr)


def _feddcd(block: Block, code: str, folder: Path) -> str:
    """The installed command, with the words that bash makes of the line."""
    words = _bash(block, f"printf '%s\\0' {code}", folder).split("\0")[1:-1]
    (command,) = entry_points(group="console_scripts", name="feddcd")
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.object(Console, "size", ConsoleDimensions(COLUMNS, 25)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = command.load()(words)
        except SystemExit as stop:
            status = stop.code
    return _checked(block, status, out.getvalue(), err.getvalue())


def _checked(block: Block, status: Any, out: str, err: str) -> str:
    if status:
        raise AssertionError(f"{block.place}: exit code {status}\n{err}")
    return out + err


def missing(shown: str, said: str) -> list[str]:
    """The first line that is shown and was not printed after the ones before it."""
    printed = iter(said.splitlines())
    for line in filter(str.strip, shown.splitlines()):
        if line.strip() != "..." and not any(alike(line, other) for other in printed):
            return [line]
    return []


def alike(one: str, other: str) -> bool:
    """The same words; whole numbers equal, others to about two digits."""
    words = lambda line: NUMBER.sub("#", line).split()
    if words(one) != words(other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(a == b or _near(a, b) for a, b in pairs)


def _near(a: str, b: str) -> bool:
    if not any(c in a + b for c in ".e"):
        return False
    value = lambda text: float(text.replace(",", ""))
    return math.isclose(value(a), value(b), rel_tol=RELATIVE)
