"""As if only some extras were installed: which packages they bring, and processes that find no
others."""

import contextlib
import os
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

from docs_blocks import ROOT, blocks

COMMANDS = {  # of pages, outside of the blocks that run: how they begin
    "race.md": ("feddcd race --problem ",),
    "runs.md": ("feddcd run ", "feddcd compare ", "feddcd list", "feddcd report "),
}
SENTENCE = re.compile(
    r"^First install what the code on this page needs: `pip install 'feddcd\[(.*)\]'`\.$", re.M
)


def named(page: Path) -> tuple[str, ...]:
    """The extras that a page names above its first block of code, in the words of all pages."""
    lines = page.read_text().splitlines()[: blocks(page)[0].line]
    return tuple(",".join(SENTENCE.findall("\n".join(lines))).replace(",", " ").split())


@cache
def hidden(extras: tuple[str, ...] = ()) -> frozenset[str]:
    """The modules that are installed here, and that feddcd with these extras does not bring."""
    seen = brought(extras)
    there = packages_distributions().items()
    return frozenset(name for name, owners in there if not seen & set(map(canonical, owners)))


def brought(extras: Iterable[str]) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    todo = [*map(Requirement, project["dependencies"]), Requirement(f"feddcd[{','.join(extras)}]")]
    seen = set()
    while todo:
        need = todo.pop()
        name = canonical(need.name)
        for extra in {"", *need.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            if name == "feddcd":
                todo += map(Requirement, project["optional-dependencies"].get(extra, ()))
            else:
                todo += [line for line in _asked(name) if _holds(line.marker, extra)]
    return {name for name, _ in seen}


def _asked(name: str) -> list[Requirement]:
    """What a package needs; nothing where it is not installed."""
    with contextlib.suppress(PackageNotFoundError):
        return [Requirement(line) for line in requires(name) or ()]
    return []


def _holds(marker: Marker | None, extra: str) -> bool:
    return marker is None or marker.evaluate({"extra": extra})


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# not with None in sys.modules: some libraries look there, and take it for the other library
HIDE = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        if name.partition(".")[0] not in {names}:
            return self.finder.find_spec(name, *more)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Without, sys.meta_path)
"""


def without(modules: Iterable[str], start: Path, environment: dict[str, str]) -> dict[str, str]:
    """The environment of a process that can import none of these, written to the folder `start`."""
    start.mkdir()
    (start / "sitecustomize.py").write_text(HIDE.format(names=set(modules)))
    paths = filter(None, (str(start), environment.get("PYTHONPATH")))
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}
