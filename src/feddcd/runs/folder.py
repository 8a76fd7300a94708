"""A run folder: config.toml, history.csv, summary.json, model.npz, report.html, checkpoint.npz.
A comparison has one of them for each method, and compare.toml beside them.

Every file is replaced atomically, history before checkpoint, so that a run that is killed
at any moment leaves a folder from which it can go on.
"""

import hashlib
import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from .. import tree
from .._errors import CodecError, FolderError, SpecError
from .._files import write_atomically
from .._settings import check_names
from .._text import plural
from ..history import History
from ..problems import AbstractSamples, stacks_of
from .spec import Spec, load_spec

if TYPE_CHECKING:
    from .build import Built

FORMAT = 1
Race = tuple[dict[str, Any], list[str], dict[str, dict[str, Any]]]  # base, algorithms, settings


def create(folder: Path, spec: Spec, *, overwrite: bool = False) -> None:
    """An empty run folder; one that already holds a run is refused."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file, not a folder")
    if (folder / "checkpoint.npz").exists() and not overwrite:
        raise FolderError(
            f"the folder {folder} already contains a run. Continue this run with --resume "
            f"{shlex.quote(str(folder))}, or choose another --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "config.toml", spec.save)


def read_spec(folder: Path) -> Spec:
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such run folder")
    try:
        return Spec(**load_spec(folder / "config.toml"))
    except SpecError as error:
        raise FolderError(f"{folder} is not a run folder: {error}") from None


def read_history(folder: Path) -> History:
    try:
        return History.load(folder / "history.csv")
    except (OSError, ValueError) as error:
        raise FolderError(f"cannot read {folder / 'history.csv'}: {error}") from None


def read_summary(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "summary.json").read_text())
    except (OSError, ValueError) as error:
        raise FolderError(f"cannot read {folder / 'summary.json'}: {error}") from None


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    text = json.dumps(summary, indent=2, allow_nan=False)
    write_atomically(folder / "summary.json", lambda path: path.write_text(text + "\n"))


def write_model(folder: Path, model: PyTree, classes: np.ndarray | None) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(model)
    arrays = {
        "w" + jax.tree_util.keystr(path): leaf
        for path, leaf in leaves
        if isinstance(leaf, np.ndarray)  # a module of the user's may hold functions, too
    }
    if classes is not None:
        arrays["classes"] = classes
    write_atomically(folder / "model.npz", lambda path: _savez(path, arrays))


def read_model(folder: Path) -> tuple[PyTree, np.ndarray | None]:
    """The model and its classes: one array, or several by the names of their places. A federation
    writes the names of the features, too."""
    try:
        with np.load(folder / "model.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # zipfile and numpy raise nearly anything on damaged bytes
        raise FolderError(f"cannot read {folder / 'model.npz'}: {error}") from None
    classes = arrays.pop("classes", None)
    arrays.pop("features", None)
    return (arrays["w"] if set(arrays) == {"w"} else arrays), classes


def save_checkpoint(
    folder: Path,
    spec: Spec,
    state: PyTree,
    origin: str = "",
    known: dict[str, Any] | None = None,
) -> None:
    """`known` is what the run knows beside its state and its history."""
    arrays = tree.flatten(state)
    problem, digest = _fingerprint(spec), _digest(arrays)
    meta = {"format": FORMAT, "problem": problem, "origin": origin, "digest": digest}
    meta["known"] = known or {}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    write_atomically(folder / "checkpoint.npz", lambda path: _savez(path, arrays))


def load_checkpoint(
    folder: Path, spec: Spec, like: PyTree, origin: str = ""
) -> tuple[PyTree, dict[str, Any]]:
    """The saved state, with the structure of `like`, and what was known beside it; every mismatch
    is named."""
    path = folder / "checkpoint.npz"
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = dict(json.loads(bytes(arrays.pop("meta"))))
    except FileNotFoundError:
        raise FolderError(
            f"{path} is missing, so the run cannot continue. Start the run again from "
            f"{folder / 'config.toml'}"
        ) from None
    except Exception as error:  # zipfile and numpy raise nearly anything on damaged bytes
        raise FolderError(f"{path} is damaged: {error}") from None
    if meta.get("format") != FORMAT:
        raise FolderError(
            f"{path} has the format {meta.get('format')}, but this version of feddcd reads the "
            f"format {FORMAT}; use the version of feddcd that wrote this file"
        )
    if meta.get("problem") != _fingerprint(spec):
        raise FolderError(
            f"{path} was written with other settings. To continue this run, use the same settings "
            f"as before, in {folder / 'config.toml'} and in your call. Only rounds, target_gap and "
            "eval_every may change"
        )
    if meta.get("digest") != _digest(arrays):
        raise FolderError(f"{path} is damaged: its checksum does not match its contents")
    if meta.get("origin") != origin:
        raise FolderError(
            f"{path} was written with other data, with other parts (the rows of each client) or "
            "with another algorithm object. To continue this run, give the same data, parts and "
            "algorithm as before"
        )
    try:
        return tree.restore(like, arrays), meta.get("known", {})  # of 0.2.0 nothing
    except CodecError as error:
        raise FolderError(f"{path}: {error}. Did the data change?") from None


def check_longer(folder: Path, rounds: int) -> None:
    """Of a comparison that goes on: runs of different lengths have no common median."""
    for path in sorted(folder.glob("**/checkpoint.npz")):
        if (done := _rounds_of(path)) > rounds:
            raise SpecError(
                f"{path.parent} already has {plural(done, 'round')}, so the comparison cannot end "
                f"after {plural(rounds, 'round')}: give <rounds> with {done} or more",
                settings={"rounds": None},
            )


def _rounds_of(path: Path) -> int:
    """What is damaged is named when the run is read."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            return int(file["t"])
    except Exception:  # zipfile and numpy raise nearly anything on damaged bytes
        return 0


def _fingerprint(spec: Spec) -> str:
    """Of all that determines the rounds; how many of them may change."""
    values = spec.to_dict()
    for name in ("rounds", "target_gap", "given", "eval_every"):
        values.pop(name, None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def origin(built: "Built") -> str:
    """The method and who holds which targets: a spec does not say it where Python gave them. Of a
    problem that is no table all that it holds counts, as does the start w."""
    problem, digest = built.federated.problem, hashlib.sha256()
    digest.update(eqx.tree_pformat(built.federation.algorithm).encode())
    stacks = stacks_of(problem)
    if isinstance(stacks[0], AbstractSamples):
        arrays = [x for f in stacks for x in (f.Y, f.s, f.rows)]  # pyright: ignore
    else:
        arrays = jax.tree.leaves((problem, built.federated.w))
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _savez(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.flush()
        os.fsync(file.fileno())


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
    path = folder / "compare.toml"
    try:
        values = tomllib.loads(path.read_text())
        check_names(values, ("algorithms", "base", "settings"), path, FolderError)
        return values["base"], values["algorithms"], values["settings"]
    except FileNotFoundError:
        raise FolderError(
            f"{folder} is not a folder of feddcd compare: {path} is missing"
        ) from None
    except (tomllib.TOMLDecodeError, KeyError, SpecError) as error:
        raise FolderError(f"{path} is damaged: {error}") from None
