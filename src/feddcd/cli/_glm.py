"""What `feddcd glm` does: a table and a formula in, a regression table and a report out."""

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from .._errors import DataError, FeddcdError, SpecError
from .._files import fresh_folder
from .._origin import with_origin
from .._text import plural
from ..analysis import FederatedGLM
from ..analysis.agreed import with_codebook
from ..analysis.export import without_joblib
from ..analysis.files import FileRows, only_complete, read_rows, with_incomplete
from ..analysis.plan import RegressionPlan
from ..analysis.table import Roles as Roles
from ..data.codebook import Codebook, load_codebook
from ..data.conform import conform, read_agreed
from ..data.frames import PLAIN, Frame, check_kind, composed, is_foreign, is_number, is_table
from ..data.frames import Reading as Reading
from ..data.libsvm import read_libsvm
from ..formula import plain, read_formula
from ._ending import end_fit
from ._glm_wishes import Wishes, extend, predictions
from ._habits import as_json, found, tables_in, wordy
from ._keys import keys, of_the_sites
from ._terminal import as_option, say, say_lines, slow_lines, warn, width

PRETENDED = "(site)"


class Source(NamedTuple):
    """A file, how it is written, and the codebook of its columns."""

    file: Path
    how: Reading = PLAIN
    codebook: Path | None = None
    complete: tuple[str, ...] = ()  # columns in which every row that is used has a value


def glm_command(
    source: Source,
    roles: Roles,
    options: dict[str, Any],
    wishes: Wishes,
    clients: int | None,
    out: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    folder = (
        fresh_folder(f"glm-{source.file.name.split('.')[0] or 'table'}")
        if out is None
        else usable(out, force)
    )
    options = options | {"level": _share(options["level"])}
    model = FederatedGLM(**options)
    try:
        settings = model.settings()
        wishes.check(settings.covariance)
        book = None if source.codebook is None else load_codebook(source.codebook)
        table, roles = load_table(source, roles, clients, model.random_state, book)
        model.formula, roles = _with_offset(model.formula, roles, list(table.frame.columns))
        model.classes = _classes(model, table, roles)
        settings = model.settings()
        if book is not None:
            table = _conform(table, _plan(model, roles, source, book, model.formula), book)
        whole, table = table, only_complete(table, source.complete)
    except FeddcdError as error:
        raise error.placed(spell=as_option) from None
    for note in table.notes:
        warn(note)
    try:
        read = read_rows(table, roles, settings)
        data = with_incomplete(read, whole, source.complete, roles.group)
        with progress(f"feddcd fits the model to {plural(len(table.frame), 'row')}") as tell:
            model.fit_rows(data.rows, tell)
        extend(model, data.rows, wishes)
    except FeddcdError as error:
        where = error.file if error.row is None else table.file
        raise error.placed(where, table.place, as_option) from None
    plan = _plan(model, roles, source, book, data.formula)
    model.result_ = dataclasses.replace(model.result_, codebook=plan.codebook if plan else {})
    with with_origin(data=str(source.file)):
        # before anything is printed: `| head` ends the program
        written = _write(model, plan, folder)
    found(folder=folder, files=written, **dict(tables_in(folder)))
    found(converged=model.result_.converged, certified_error=model.result_.certified_error)
    if not quiet:
        _show(model, whole, data)
    for path in written:
        say(str(path))
    notes = (*keys(table, plan), *of_the_sites(plan, roles.group))
    left_out = without_joblib(model.result_) if wordy() else ""
    for told in (left_out, for_sites(source, plan), *notes):
        if told:
            warn(told)
    if wishes.predict is not None:
        table, _ = load_table(source._replace(file=wishes.predict), roles, None, 0, book)
        _predict(model, roles, table, plan, book, folder)
    end_fit(model.result_, quiet)


@contextmanager
def progress(start: str) -> Iterator[Callable[[str], None]]:
    """Lines about slow work; with --json there are none."""
    if as_json():
        yield lambda line: None
    else:
        with slow_lines(start) as tell:
            yield tell


def _share(percent: float) -> float:
    """0.95 is more likely meant as a share than as less than one per cent."""
    if not 50 <= percent <= 99.99:
        told = (
            f"--level must be from 50 to 99.99 (per cent), for example --level 95; got {percent!r}"
        )
        raise SpecError(told)
    return percent / 100


def load_table(
    source: Source, roles: Roles, clients: int | None, seed: int, book: Codebook | None = None
) -> tuple[Frame, Roles]:
    """A table with names, or a LIBSVM file: columns x1, x2, ... and label. With `clients` the rows
    are shared out at random, to plan with."""
    file, named = source.file, is_table(source.file)
    if is_foreign(file):
        check_kind(file)
    roles = Roles(*(None if name is None else composed(name) for name in roles))
    text = () if roles.group is None else (roles.group,)
    if book is not None and roles.group is not None:
        book.check_role(roles.group, "group")
    table = read_agreed(file, book, text, source.how) if named else _sparse(file)
    if not named and roles.label is None:
        roles = roles._replace(label="label")
    if clients is None:
        return table, roles
    if roles.group is not None:
        raise DataError("give --group, or --clients to divide the rows at random, but not both")
    if not 2 <= clients <= len(table.frame):
        raise DataError(
            f"--clients must be from 2 to {len(table.frame)}, the number of rows; got {clients}"
        )
    site = np.random.default_rng(seed).permutation(np.arange(len(table.frame)) % clients)
    frame = table.frame.assign(**{PRETENDED: [f"site-{i + 1}" for i in site]})
    return table._replace(frame=frame), roles._replace(group=PRETENDED)


def _with_offset(formula: str | None, roles: Roles, columns: list[str]) -> tuple[str | None, Roles]:
    """`--offset "log(days)"` is no column, but a term of the formula."""
    offset = roles.offset
    if formula is None or offset is None or offset in columns or "(" not in offset:
        return formula, roles
    return f"{formula} + offset({offset})", roles._replace(offset=None)


def _classes(model: FederatedGLM, table: Frame, roles: Roles) -> list[Any] | None:
    """`--classes 1,2,3` are numbers where the outcome has numbers."""
    text = model.formula
    names = (roles.label,) if text is None else read_formula(text).left_columns
    known = [name for name in names if name in table.frame.columns]
    if model.classes is None or len(known) != 1 or table.frame[known[0]].dtype.kind not in "iuf":
        return model.classes  # pyright: ignore
    return [plain(float(c)) if is_number(c) else c for c in model.classes]


def _sparse(file: Path) -> Frame:
    import pandas

    X, y = read_libsvm(file)
    dense = X.toarray()
    frame = pandas.DataFrame(dense, columns=[f"x{j + 1}" for j in range(dense.shape[1])])
    kinds = np.unique(y)
    frame["label"] = (y == kinds[1]).astype(float) if len(kinds) == 2 else y  # as -1 and 1
    return Frame(str(file), frame, lambda row: f"line {row + 1}")


def _show(model: FederatedGLM, table: Frame, data: FileRows) -> None:
    for note in data.notes:
        warn(note)
    result = model.result_
    if result.n_dropped:
        counts = ", ".join(f"{name} ({n:,})" for name, n in data.rows.holes.items() if n)
        say(
            f"feddcd leaves out {result.n_dropped:,} of {len(table.frame):,} rows, because values "
            f"are missing in these columns: {counts}"
        )
    choice = result.choice
    say(f"method: {choice.method} ({choice.reason})")
    say_lines(f"\n{result.summary(width())}\n")


def _write(model: FederatedGLM, plan: RegressionPlan | None, folder: Path) -> list[Path]:
    """Each file whole or not at all; the report last, as the others do not depend on it."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder) as new:
        files = itertools.chain(_job(plan, new), model.result_.write(Path(new)))
        return [_keep(path, folder) for path in files]


def _plan(
    model: FederatedGLM, roles: Roles, source: Source, book: Codebook | None, formula: str | None
) -> RegressionPlan | None:
    """The model as sites get it; one without a formula is for one machine."""
    if formula is None:
        return None
    settings = dataclasses.replace(model.settings(), formula=formula)
    columns: Any = {name: getattr(roles, name) for name in ("weight", "offset", "cluster")}
    complete = [composed(name) for name in source.complete]
    plan = RegressionPlan(**vars(settings), **columns, complete=complete)
    return plan if book is None else with_codebook(plan, book)


def _conform(table: Frame, plan: RegressionPlan | None, book: Codebook) -> Frame:
    """The columns that the plan takes, as the codebook has them."""
    if plan is None:
        raise DataError(
            "--codebook needs --formula, because the formula says which columns are used"
        )
    outcome = read_formula(plan.formula).left_columns
    named = set(plan.levels) - set(outcome)  # a table names those of its levels that have no row
    return conform(table, book, plan.codebook["columns"], whole=named)


def _predict(
    model: FederatedGLM,
    roles: Roles,
    table: Frame,
    plan: RegressionPlan | None,
    book: Codebook | None,
    folder: Path,
) -> None:
    """Means of new rows, as a file beside the others."""
    try:
        if plan is not None and book is not None:
            there = [name for name in plan.codebook["columns"] if name in table.frame.columns]
            table = conform(table, book, there)
        frame = predictions(model, table.frame, roles)
    except FeddcdError as error:
        raise error.placed(table.file, table.place, as_option) from None
    with TemporaryDirectory(prefix=".", dir=folder) as new:
        path = Path(new, "predictions.csv")
        frame.to_csv(path, index=False, lineterminator="\n")
        found(predictions=_keep(path, folder))
        if empty := int(frame.iloc[:, 1:].isna().all(axis=1).sum()):
            told = f"{path.name} has no prediction for {plural(empty, 'row')} with missing values"
            warn(told, grave=True)
        say(str(folder / path.name))


def _job(plan: RegressionPlan | None, folder: str) -> list[Path]:
    """The same model for a federation: feddcd federation init DIR --job job.toml."""
    if plan is None:
        return []
    path = Path(folder, "job.toml")
    path.write_text(tomli_w.dumps({"glm": plan.to_dict()}))
    return [path]


def for_sites(source: Source, plan: Any) -> str:
    """What a plan does not have: how a site's own file is read."""
    if plan is None or not source.how.na:
        return ""
    return (
        "job.toml does not contain the words that you gave with --na. In a federation, each site "
        "with these words in its data needs this line in its site.toml: na = "
        f"{json.dumps(list(source.how.na))}"
    )


def _keep(path: Path, folder: Path) -> Path:
    os.replace(path, folder / path.name)
    return folder / path.name


def usable(folder: Path, force: bool) -> Path:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file, not a folder")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise DataError(
            f"{folder} is not empty; choose another --out, or use --force to replace its files"
        )
    return folder
