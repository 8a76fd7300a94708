"""Parsed files kept as plain arrays (.npz, never pickled) in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import numpy as np

from .._files import stamp, write_atomically

VERSION = 1


def cache_dir() -> Path:
    """FEDDCD_CACHE where it is set, else the user's cache folder."""
    if folder := os.environ.get("FEDDCD_CACHE"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("feddcd"))


def entry(path: Path, *key: object) -> Path:
    """Where the arrays of this state of the file are kept."""
    parts = (VERSION, *stamp(path), *key, os.fsencode(os.path.abspath(path)))
    return cache_dir() / f"libsvm-{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.npz"


def load(file: Path) -> dict[str, np.ndarray] | None:
    """The arrays in the file, or None where it is absent or damaged in any way."""
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception:
        return None


def store(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write atomically; a folder that cannot be written is no error."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, lambda path: _write(path, arrays))


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
