"""A comparison as data: compare.toml beside the runs' folders."""

from pathlib import Path
from typing import Any

from .folder import (write_atomically)
from .._errors import FolderError
from .._errors import SpecError

Race = tuple[dict[str, Any], list[str], dict[str, dict[str, Any]]]


def save_race(
    folder: Path, base: dict[str, Any], algorithms: list[str], settings: dict[str, dict[str, Any]]
) -> None:
    import tomli_w

    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file, not a folder")
    folder.mkdir(parents=True, exist_ok=True)
    text = tomli_w.dumps({"algorithms": algorithms, "base": base, "settings": settings})
    write_atomically(folder / "compare.toml", lambda path: path.write_text(text))


def load_race(folder: Path) -> Race:
    import tomllib

    path = folder / "compare.toml"
    try:
        values = tomllib.loads(path.read_text())
        return values["base"], values["algorithms"], values["settings"]
    except FileNotFoundError:
        raise FolderError(
            f"{folder} is not a folder of feddcd compare: {path} is missing"
        ) from None
    except (tomllib.TOMLDecodeError, KeyError, SpecError) as error:
        raise FolderError(f"{path} is damaged: {error}") from None
