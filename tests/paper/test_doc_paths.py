"""Every file that the documentation names is in the tree, and holds what is named beside it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.py")
NAMED = re.compile(r"`([\w./-]+\.py)`: ((?:`[A-Za-z_]\w*`(?:, )?)+)")


def find(name: str) -> Path | None:
    """A file by its path from the root or from the package, or a test or module by its name."""
    for folder in (ROOT, ROOT / "src", ROOT / "src/feddcd"):
        if (folder / name).is_file():
            return folder / name
    anywhere = [] if "/" in name else [*ROOT.glob(f"tests/**/{name}"), *ROOT.glob(f"src/**/{name}")]
    return anywhere[0] if anywhere else None


@cache
def names_in(file: Path) -> set[str]:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)}


def references(text: str):
    """A file and a name in it, "" for the file itself; `::test_b` goes on with the last file."""
    for line in text.splitlines():
        file = ""
        for code in CODE.findall(line):
            path, *names = code.partition("[")[0].split("::")
            if FILE.fullmatch(path):
                file = path
            elif path or not (file and names):
                continue
            yield from ((file, name) for name in names or [""])
        for path, names in NAMED.findall(line):
            yield from ((path, name) for name in CODE.findall(names))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page):
    absent = []
    for file, name in references(page.read_text()):
        path = find(file)
        if path is None or (name and name not in names_in(path)):
            absent.append(f"{file}::{name}" if name else file)
    assert not absent


def test_the_reader_of_pages_reads():
    line = "| `tests/test_a.py::T::one[x]`, `::two` | `paper/b.py`: `f`, `g`; `c.toml` |"
    assert list(references(line)) == [
        ("tests/test_a.py", "T"), ("tests/test_a.py", "one"), ("tests/test_a.py", "two"),
        ("paper/b.py", ""), ("paper/b.py", "f"), ("paper/b.py", "g"),
    ]  # fmt: skip
    assert len(list(references((ROOT / "docs/paper.md").read_text()))) > 150
