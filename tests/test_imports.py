"""The rules of the house: imports point one way, `_` means what it says, names mean one thing,
files stay short, heavy libraries stay at the edge, and nothing prints below the engines."""

import ast
import functools
import gc
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import feddcd

ROOT = Path(feddcd.__file__).parent
LAYERS = (
    ("_errors", "_files", "_origin", "_text"),
    ("_memory", "_extras", "_owners", "_pace", "_proxy"),
    ("_settings", "_types", "history", "losses", "formula"),
    ("sums",),
    ("tree",),
    ("problems",),
    ("data", "solvers"),
    ("algorithms",),
    ("participation", "measure"),
    ("simulator",),
    ("flower",),
    ("durable", "runs"),
    ("report",),
    ("paper", "race"),
    ("estimators", "analysis"),
    ("federation",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
WHERE = {  # third-party library: the only places that may import it when run
    "flwr": ("flower",),
    "sklearn": ("data", "estimators", "analysis"),
    "matplotlib": ("report", "paper", "race"),
    "typer": ("cli",),
    "cryptography": ("sums", "federation/machine/keys"),
}
SILENT = ("_types", "tree", "problems", "solvers", "algorithms", "participation", "measure")


class Import(NamedTuple):
    file: str  # relative to the package
    module: str
    lazy: bool  # inside a function


def _is_for_types(node):
    """`if TYPE_CHECKING:` or `if typing.TYPE_CHECKING:`."""
    if not isinstance(node, ast.If):
        return False
    return "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", ""))


BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def _inner(node):
    """The statements within one, and what holds them; no expression holds any."""
    return [child for name in BLOCKS for child in getattr(node, name, ())]


def _statements(node):
    for child in _inner(node):
        yield child
        yield from _statements(child)


def _imports(node, package, file, lazy=False):
    for child in _inner(node):
        if _is_for_types(child):
            continue
        if isinstance(child, ast.Import):
            yield from (Import(file, alias.name, lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = package[: len(package) - child.level + 1] if child.level else []
            if child.module:
                yield Import(file, ".".join([*base, child.module]), lazy)
            else:
                yield from (Import(file, ".".join([*base, a.name]), lazy) for a in child.names)
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _imports(child, package, file, lazy or function)


@functools.cache
def files():
    """The syntax tree of each file of the package."""
    paths = sorted(ROOT.rglob("*.py"))
    gc.disable()  # it would look at half a million nodes again and again, and all of them stay
    try:
        return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}
    finally:
        gc.enable()


@functools.cache
def all_imports():
    return [
        found
        for file, tree in files().items()
        for found in _imports(tree, ["feddcd", *Path(file).parts[:-1]], file)
    ]


def part(file):
    """The part of the package that a file belongs to."""
    return Path(file).parts[0].removesuffix(".py")


def test_the_reader_of_imports_reads():
    found = set(all_imports())
    assert Import("algorithms/feddcd.py", "feddcd.tree", False) in found
    assert Import("algorithms/feddcd.py", "feddcd._types", False) in found
    assert Import("algorithms/feddcd.py", "feddcd.solvers", False) in found
    assert any(i.lazy for i in found)
    assert len(found) > 200


def test_every_part_has_a_place():
    parts = {part(file) for file in files()} - {"__init__"}
    assert parts <= set(RANK), "say in LAYERS where the new part belongs"


def test_imports_point_one_way():
    """Experiments may show their report, from within a function; nothing else looks upwards."""
    wrong = []
    for file, module, lazy in all_imports():
        names = module.split(".")
        if names[0] != "feddcd" or part(file) == "__init__":
            continue
        target = names[1] if len(names) > 1 else "__init__"
        if target == part(file) or (lazy and part(file) == "runs" and target == "report"):
            continue
        if RANK.get(target, -1) >= RANK[part(file)] or target not in RANK:
            wrong.append(f"{file} imports {module}")
    assert not wrong


@functools.cache
def uses():
    """(the file that imports, the file that is imported), for types too."""
    pairs = set()
    for file, tree in files().items():
        for node in _statements(tree):
            if isinstance(node, ast.ImportFrom):
                up = Path(file).parts[: -node.level] if node.level else ()
                names = (node.module or "").split(".") if node.module else []
                if not node.level and names[:1] == ["feddcd"]:
                    names = names[1:]
                elif not node.level:
                    continue
                base = "/".join([*up, *names])
                pairs |= {(file, found) for a in node.names if (found := _file(base, a.name))}
    return {(one, other) for one, other in pairs if one != other}


def _file(base, name):
    tried = (f"{base}/{name}.py", f"{base}/{name}/__init__.py", f"{base}.py", f"{base}/__init__.py")
    return next((path.lstrip("/") for path in tried if path.lstrip("/") in files()), None)


def room(file):
    return str(Path(file).parent)


MACHINE = ("conduct", "gate", "serve")
# started from outside
ENTRIES = {"__main__.py", "cli/app.py"}
ENTRIES |= {f"federation/machine/{name}.py" for name in MACHINE}
# an algorithm, a solver or a problem has a name of its own, by which docs and errors call it
NAMED = ("algorithms/", "solvers/", "problems/")


def test_a_module_with_an_underscore_stays_in_its_room():
    """Or in a room within it."""
    private = {file for file in files() if Path(file).name.startswith("_")}
    private -= {file for file in private if Path(file).name.startswith("__")}
    seen = {used for user, used in uses() if not Path(user).is_relative_to(room(used))}
    assert not private & seen


def test_a_module_without_an_underscore_is_for_others():
    """Imported from outside its room, or shown by the `__init__` of its room."""
    others = {used for user, used in uses() if room(user) != room(used)}
    shown = {used for user, used in uses() if user == f"{room(used)}/__init__.py"}
    public = {file for file in files() if not Path(file).name.startswith("_")}
    named = {file for file in public if file in ENTRIES or file.startswith(NAMED)}
    assert not public - others - shown - named


def test_a_class_name_has_one_meaning():
    names = [
        n.name for t in files().values() for n in _statements(t) if isinstance(n, ast.ClassDef)
    ]
    assert not {name for name, count in Counter(names).items() if count > 1}


LONGEST = 300


def test_no_file_is_long():
    """One that grows beyond mixes two ideas."""
    lengths = {file: len((ROOT / file).read_text().splitlines()) for file in files()}
    assert not {file for file, lines in lengths.items() if lines > LONGEST}


def test_reports_know_the_history_and_the_catalogue_only():
    reads = {i.module for i in all_imports() if part(i.file) == "report"}
    assert {name for name in reads if "algorithms" in name} == {"feddcd.algorithms.catalogue"}
    targets = {
        i.module.split(".")[1]
        for i in all_imports()
        if part(i.file) == "report" and i.module.startswith("feddcd.")
    }
    assert targets <= {"report", "history", "algorithms", "_errors", "_origin", "_text"}


@pytest.mark.parametrize("library", WHERE)
def test_libraries_at_the_edge(library):
    wrong = [
        i.file
        for i in all_imports()
        if i.module.split(".")[0] == library
        and not any(i.file.startswith((f"{p}/", f"{p}.py")) for p in WHERE[library])
    ]
    assert not wrong


def test_optional_libraries_are_imported_late():
    """Not at the top of a module that `import feddcd` or a simple run would load."""
    heavy = {"pandas", "sklearn", "matplotlib"}
    late = lambda i: (
        i.lazy
        or part(i.file) in ("estimators", "analysis", "formula")
        or i.file == "federation/site/tables.py"
    )
    wrong = [i for i in all_imports() if i.module.split(".")[0] in heavy and not late(i)]
    assert not wrong


LIGHT = {  # in this order, in one process: what each import must leave out
    "feddcd": {"jax", "matplotlib", "sklearn", "pandas", "equinox"},
    # a site starts anew for every message
    "feddcd.federation": {"sklearn", "pandas", "matplotlib"},
    "feddcd.cli._federation": {"sklearn", "pandas", "matplotlib"},
}


def test_importing_is_light():
    code = (
        "import importlib, sys\n"
        f"for name, heavy in {LIGHT!r}.items():\n"
        "    dir(importlib.import_module(name))\n"
        "    if loaded := sorted(heavy & set(sys.modules)):\n"
        "        sys.exit(f'import {name} loads {loaded}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_resolves():
    for name in dir(feddcd):
        assert getattr(feddcd, name) is not None
    with pytest.raises(AttributeError, match="module 'feddcd' has no attribute 'nothing'"):
        feddcd.nothing  # noqa: B018


def test_nothing_is_printed_or_opened_below_the_engines():
    forbidden = {"print", "open", "write_text", "read_text", "write_bytes", "read_bytes", "input"}
    wrong = []
    for file, tree in files().items():
        if part(file) not in SILENT:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).split(".")[-1]
                if name in forbidden:
                    wrong.append(f"{file}:{node.lineno} calls {name}")
    assert not wrong


def test_no_clock_below_the_engines():
    clocks = ("time", "datetime", "logging", "os", "pathlib")
    wrong = [
        i for i in all_imports() if part(i.file) in SILENT and i.module.split(".")[0] in clocks
    ]
    assert not wrong
