"""Methods from Python files of the user's own, named on the command line: they run as any code that
the user starts, and only in this race."""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from .._errors import SpecError
from ..algorithms import Method
from ..algorithms.catalogue import add_method

_digests: dict[str, str] = {}  # by method: of its file
_files: dict[str, Path] = {}


def add_methods(files: Iterable[Path]) -> list[str]:
    """The names of the methods in these files, which the catalogue of this process then has."""
    return [name for file in files for name in _add(file)]


def digest_of(method: str) -> str | None:
    """Of the file that a method came from: another file is another method."""
    return _digests.get(method)


def file_of(method: str) -> Path | None:
    return _files.get(method)


def _add(file: Path) -> list[str]:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise SpecError(f"{file}: no such file") from None
    except OSError as reason:
        raise SpecError(f"{file}: cannot be read: {reason.strerror}") from None
    digest = hashlib.sha256(content).hexdigest()
    name = f"feddcd_file_{digest[:12]}"
    if name not in sys.modules:
        _run(file, content, name)
    rows = [row for row in vars(sys.modules[name]).values() if isinstance(row, Method)]
    own = {row.name: row for row in rows if row.algorithm.__module__ == name}
    if not own:
        raise SpecError(
            f"{file}: this file has no method. The file must contain the class of an algorithm, "
            "and an object of the class feddcd.algorithms.Method that describes this algorithm"
        )
    for row in own.values():
        if digest_of(row.name) not in (None, digest):
            raise SpecError(
                f"{file}: another file already has a method with the name {row.name!r}; give "
                "yours another name"
            )
        try:
            add_method(row)
        except SpecError as error:
            raise SpecError(f"{file}: {error}") from None
        _digests[row.name], _files[row.name] = digest, file
    return list(own)


def _run(file: Path, content: bytes, name: str) -> None:
    spec = importlib.util.spec_from_loader(name, None, origin=str(file))
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        exec(compile(content, str(file), "exec"), module.__dict__)
    except Exception as error:  # whatever it is, it is the user's
        del sys.modules[name]
        raise SpecError(
            f"{file}: Python cannot run this file: {type(error).__name__}: {error}"
        ) from error
