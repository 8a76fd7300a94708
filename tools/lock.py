"""Writes requirements.lock and its parts for a site and for trainings: the versions of
constraints.txt with hashes.

    python tools/lock.py

The hashes of all files of a version are taken, so that one lock serves Linux, macOS and Windows
and Python 3.11 to 3.13. They come from the index that pip is set to; no host is written down.
Run it in an environment with everything installed (`make test` makes one): what a site or a
training needs is read from there.
"""

import json
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

ROOT = Path(__file__).parents[1]
PYTHONS = {"py3", "py2.py3", "cp311", "cp312", "cp313"}
MARKERS = {"uvloop": 'sys_platform != "win32"'}
PARTS = {"site": "flower", "train": "train"}  # names of locks, and what an extra needs
BUILD = ("setuptools==80.9.0",)  # builds this package itself
HEAD = "# made by tools/lock.py; install with: pip install --no-deps --require-hashes -r {name}\n"


def index() -> str:
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    said = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if not said:
        from pip._internal.models.index import PyPI

        said = PyPI.simple_url
    return said.rstrip("/")


def hashes(where: str, pin: str) -> list[str]:
    name, version = pin.split("==")
    kinds = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    address = f"{where}/{canonicalize_name(name)}/"
    request = urllib.request.Request(address, headers={"Accept": kinds})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text, kind = answer.read().decode(), answer.headers["content-type"]
    if "json" in kind:
        files = [(f["filename"], f["hashes"].get("sha256", "")) for f in json.loads(text)["files"]]
    else:
        found = re.findall(r'href="([^"#]*)#sha256=([0-9a-f]{64})', text)
        files = [(link.rpartition("/")[2], digest) for link, digest in found]
    return sorted({digest for file, digest in files if digest and fits(file, version)})


def fits(file: str, version: str) -> bool:
    """Whether a file is of this version, and for a Python of ours."""
    try:
        if not file.endswith(".whl"):
            return str(parse_sdist_filename(file)[1]) == version
        _, of, _, tags = parse_wheel_filename(file)
    except (InvalidSdistFilename, InvalidWheelFilename):
        return False
    ours = any(tag.interpreter in PYTHONS or tag.abi == "abi3" for tag in tags)
    return ours and str(of) == version


def needed(name: str, extras: frozenset[str] = frozenset(), seen: set | None = None) -> set[str]:
    """The names of all that a package needs, as it is installed here."""
    seen = set() if seen is None else seen
    key = (canonicalize_name(name), extras)
    if key in seen:
        return set()
    seen.add(key)
    names = {canonicalize_name(name)}
    for line in distribution(name).requires or []:
        wish = Requirement(line)
        asked = [{"extra": extra} for extra in extras or {""}]
        if wish.marker is None or any(wish.marker.evaluate(extra) for extra in asked):
            names |= needed(wish.name, frozenset(wish.extras), seen)
    return names


def write(name: str, pins: dict[str, list[str]]) -> None:
    lines = [HEAD.format(name=name)]
    for pin, digests in pins.items():
        marker = MARKERS.get(pin.partition("==")[0], "")
        wish = f"{pin} ; {marker}" if marker else pin
        lines.append(" \\\n    ".join([wish, *(f"--hash=sha256:{digest}" for digest in digests)]))
        lines.append("\n")
    (ROOT / name).write_text("".join(lines))


def main() -> None:
    where, pins = index(), [*(ROOT / "constraints.txt").read_text().split(), *BUILD]
    with ThreadPoolExecutor(8) as threads:
        found = dict(zip(pins, threads.map(lambda pin: hashes(where, pin), pins), strict=True))
    if empty := [pin for pin, digests in found.items() if not digests]:
        sys.exit(f"no hashes for {', '.join(empty)}")
    names = {pin: canonicalize_name(pin.partition("==")[0]) for pin in found}
    if lost := needed("feddcd", frozenset({"dev"})) - {*names.values(), "feddcd"}:
        sys.exit(f"not in constraints.txt: {', '.join(sorted(lost))}")
    write("requirements.lock", found)
    for part, extra in PARTS.items():
        those = needed("feddcd", frozenset({extra})) | {"setuptools"}
        kept = {pin: found[pin] for pin in found if names[pin] in those}
        write(f"requirements-{part}.lock", kept)


if __name__ == "__main__":
    main()
