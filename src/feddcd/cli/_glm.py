"""What `feddcd glm` does: a table and a formula in, a regression table and a report out."""

import dataclasses
import itertools
import os
import re
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
from rich.console import Console

from .._errors import DataError
from .._files import fresh_folder
from ..analysis import FederatedGLM, settings
from ..analysis.federated import written
from ..analysis.given import Ready, load_table, ready
from ..analysis.given import Roles as Roles
from ..analysis.plan import Plan
from ..data.frames import Frame

console, errors = Console(), Console(stderr=True)
ROW = re.compile(r"at row (\d+)")
WORDS = {
    "sample_weight": "--weight",
    "missing='drop'": "--missing drop",
    "max_exchanges": "--max-exchanges",
    "random_state": "--seed",
    "give it l2 > 0": "give --l2 above 0",
    "give l2 > 0": "give --l2 above 0",
}


def glm_command(
    file: Path,
    roles: Roles,
    options: dict[str, Any],
    clients: int | None,
    out: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    folder = (
        fresh_folder(f"glm-{file.name.split('.')[0] or 'table'}")
        if out is None
        else _usable(out, force)
    )
    model = FederatedGLM(**options, verbose=console.is_terminal and not quiet)
    with _in_words():
        settings.check(model.get_params(deep=False))
    table, roles = load_table(file, roles, clients, model.random_state)
    with _in_words(table):
        data = ready(table, model.formula, roles, model.family)
        _fit(model, data, roles)
    if not quiet:
        _show(model, table, data)
    _write(model, roles, folder)
    if not model.converged_:
        _warn(f"not proven to --tol {model.tol:g} in {model.n_exchanges_} exchanges")
        sys.exit(1)


def _fit(model: FederatedGLM, data: Ready, roles: Roles) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "not certified to tol")  # said at the end
        model.fit(
            data.frame,
            y=roles.label,
            groups=data.sites,
            sample_weight=roles.weight,
            offset=roles.offset,
        )


@contextmanager
def _in_words(table: Frame | None = None):
    """Errors of a fit with lines of the file and options of the command."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        for word, option in WORDS.items():
            message = message.replace(word, option)
        found = list(ROW.finditer(message))
        if table is not None and found:
            start, end = found[-1].span()
            where = table.place(int(found[-1][1]))
            message = f"{table.file}: {message[:start]}{where}{message[end:]}"
        raise DataError(message) from None


def _show(model: FederatedGLM, table: Frame, data: Ready) -> None:
    for note in data.notes:
        _warn(note)
    if model.n_dropped_:
        holes = data.frame[list(data.used)].isna().sum()
        counts = ", ".join(f"{name} {n:,}" for name, n in holes.items() if n)
        _say(f"{model.n_dropped_:,} of {len(data.frame):,} rows lack a value ({counts})")
    choice = model.choice_
    _say(f"method: {choice.method} ({choice.reason})\n\n{model.summary()}\n")


def _write(model: FederatedGLM, roles: Roles, folder: Path) -> None:
    """Each file whole or not at all; the report last, as the others do not depend on it."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder) as new:
        for path in itertools.chain(_job(model, roles, new), written(model, Path(new))):
            _keep(path, folder)


def _job(model: FederatedGLM, roles: Roles, folder: str) -> list[Path]:
    """The same model for a federation: feddcd federation init DIR --job job.toml."""
    if model.formula is None:
        return []
    names = {field.name for field in dataclasses.fields(Plan)}
    held = {name: value for name, value in model.get_params().items() if name in names}
    plan = Plan(**held, weight=roles.weight, offset=roles.offset)
    path = Path(folder, "job.toml")
    path.write_text(tomli_w.dumps({"glm": plan.to_dict()}))
    return [path]


def _keep(path: Path, folder: Path) -> None:
    os.replace(path, folder / path.name)
    _say(str(folder / path.name))


def _usable(folder: Path, force: bool) -> Path:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file, not a folder")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty; choose another --out, or replace with --force")
    return folder


def _say(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def _warn(text: str) -> None:
    errors.print(f"note: {text}", style="yellow", soft_wrap=True, highlight=False, markup=False)
