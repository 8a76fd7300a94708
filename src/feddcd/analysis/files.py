"""A table as `feddcd glm` takes it: which column is what, and what a file can have wrong."""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError
from .._text import listed, plural
from ..data.codes import missing_codes
from ..data.frames import Frame, check_used, composed, is_number, no_column
from ..formula import Formula, NoColumn
from ._lone import check_binary, lone_levels, shares_alone, unlike_codes
from ._outcome import outcome_of, unlike_case, words_of
from ._values import (
    FILL_IN,
    NO_PREDICTOR,
    check_mixed,
    check_spelling,
    column,
    complete,
    label,
    many_levels,
    whole_rows,
)
from .families import CLASSED, SHARES
from .plan import ModelSettings
from .protocol import TWO_SITES
from .table import CompleteRows, Roles, formula_for, read

MAX_LEVELS = 1000
ORDERED = "ordinal for words that have an order, multinomial for other words"


class FileRows(NamedTuple):
    rows: CompleteRows
    notes: tuple[str, ...]  # what a person should know of it
    formula: str | None  # with the columns that a dot stands for


def read_rows(table: Frame, roles: Roles, settings: ModelSettings) -> FileRows:
    """The complete rows of a file, checked, and what a person should know of them."""
    notes: list[str] = []
    _check_roles(table, settings.formula, roles)
    frame, sites, formula = table.frame, _sites(table, roles.group, notes), None
    if settings.formula is None:
        outcome, used = str(roles.label), _numeric(table, roles, notes)
        kept = (*used, roles.label, roles.weight, roles.offset, roles.cluster)
        frame = frame[[c for c in frame if c in kept]]
    else:
        formula = _named(table, settings.formula, roles)
        outcome, used = formula.outcome, formula.right_columns
        notes += [table.remarks[name] for name in used if name in table.remarks]
        frame = frame if sites is None else _restore(frame, roles.group, used)
        check_words(table._replace(frame=frame), used, notes)
        notes += many_levels(frame, used)
        if sites is not None and roles.group not in used:
            notes += (told for name in used if (told := lone_levels(frame, name, sites)))
    if outcome is not None:
        check_plain(table, [outcome])
        _check_words(table._replace(frame=frame), outcome, settings, notes, sites)
    notes += missing_codes(frame, dict.fromkeys([*used, *([] if outcome is None else [outcome])]))
    rows = read(frame, roles._replace(group=sites), formula, settings.missing)
    if settings.family in SHARES and words_of(rows.y, settings.event) is None:
        _check_binary(table, rows)
    return FileRows(rows, tuple(notes), None if formula is None else formula.text)


def check_plain(table: Frame, names: Iterable[str]) -> None:
    """Numbers and words; Parquet has dates and lists as well, and so do people."""
    names = list(names)
    check_used(table, names)
    for name in names:
        values = table.frame[name].dropna()
        odd = [v for v in values[:1] if not isinstance(v, str | bool | np.bool | Decimal)]
        if odd and not np.issubdtype(type(odd[0]), np.number):
            told = (
                f"the column {name!r} contains values such as {odd[0]!s:.50}, but a regression "
                "works only with numbers and words"
            )
            raise DataError(told, file=table.file, column=name, value=odd[0])


def check_words(table: Frame, names: tuple[str, ...], notes: list[str]) -> None:
    """Columns of words make categories: some, but not too many."""
    check_mixed(table.frame, names)
    for name in (name for name in names if _is_text(column(table.frame, name))):
        values = column(table.frame, name)
        check_alike(table, name, notes)
        if values.nunique() == 1:
            told = f"the column {name!r} is {values.dropna().iloc[0]!r} in every row"
            raise DataError(f"{told}, {NO_PREDICTOR}", file=table.file, column=name)
        if values.nunique() > MAX_LEVELS:
            told = (
                f"the column {name!r} has {values.nunique():,} different words, but a category "
                f"can have at most {MAX_LEVELS:,}"
            )
            raise DataError(told, file=table.file, column=name)
        if values.nunique() == values.count():
            told = f"the column {name!r} has {values.nunique():,} different words, and no word "
            told += "twice, so it cannot be a predictor: leave it out of the formula, for example "
            told += f"with '. - {name}'"
            raise DataError(told, file=table.file, column=name)


def only_complete(table: Frame, columns: tuple[str, ...]) -> Frame:
    """The rows with a value in all these columns, as a site takes them for a plan."""
    names = [composed(name) for name in columns]
    for name in names:
        if name not in table.frame.columns:
            raise no_column(table, name, " for --complete")
    frame, places = whole_rows(table.frame, names)
    if places is None or len(places) == len(table.frame):
        return table
    left = len(table.frame) - len(places)
    note = f"--complete left out {plural(left, 'row')} without a value in {listed(names)}"
    return table._replace(
        frame=frame, place=lambda row: table.place(int(places[row])), notes=(*table.notes, note)
    )


def with_incomplete(
    data: FileRows, whole: Frame, columns: tuple[str, ...], group: str | None
) -> FileRows:
    """Rows that --complete left out are counted as a federation counts them: with the others that
    lack a value. A row without a site is of no site."""
    if not columns:
        return data
    rows, names = data.rows, [composed(name) for name in columns]
    gone = whole.frame[~complete(whole.frame, names)]
    sites = np.full(len(gone), rows.site[0]) if group is None else gone[group].dropna()
    used = [name for name in dict.fromkeys([*rows.holes, *names]) if name in whole.frame]
    holes = {name: int(column(whole.frame, name).isna().sum()) for name in used}
    lacking = np.concatenate([np.asarray(rows.lacking, object), np.asarray(sites, object)])
    dropped = rows.dropped + len(sites)
    return data._replace(rows=rows._replace(dropped=dropped, lacking=lacking, holes=holes))


def _sites(table: Frame, group: str | None, notes: list[str]) -> np.ndarray | None:
    """The site of each row; None: all rows are one."""
    if group is None:
        notes.append("--group is not given, so all rows count as one site")
        return None
    check_plain(table, [group])
    check_alike(table, group, notes, "site")
    rows, note = table.frame[group].value_counts(), ""
    if len(rows) == 2:
        notes.append(TWO_SITES)
    if alone := int((rows == 1).sum()):
        note = (
            f"{alone:,} of {plural(len(rows), 'site')} in the column {group!r} "
            f"{'has' if alone == 1 else 'have'} only one row, and the sums would reveal such a "
            "row; --group must name the column with the hospital (or bank, ...) of each row"
        )
    empty = np.flatnonzero(table.frame[group].isna())
    if len(empty):
        told = f"the column {group!r} is empty <row>, but each row must have a site; rows without "
        told += f"a site: {len(empty)}. {note or FILL_IN}"
        raise DataError(told, file=table.file, row=int(empty[0]), column=group)
    notes += [note] if note else []
    return np.asarray(table.frame[group])


def check_alike(table: Frame, name: str, notes: list[str], what: str = "level") -> None:
    """One name written in two ways would be two sites, or two categories."""
    values = column(table.frame, name)
    found = values.dropna().unique()
    try:
        check_spelling(name, found, what, values)
    except DataError as error:
        raise error.placed(table.file, table.place) from None
    loose: dict[float, str] = {}
    for text in filter(is_number, map(str, found)):
        other = loose.setdefault(float(text), text)
        if other != text:
            notes.append(
                f"the column {name!r} has {other!r} and {text!r}, which feddcd reads as two "
                f"different {what}s"
            )


def _check_roles(table: Frame, formula: str | None, roles: Roles) -> None:
    file, names = table.file, list(table.frame.columns)
    if (formula is None) == (roles.label is None):
        told = "give --formula or --label, but not both"
        if formula is None:
            told = (
                "the outcome is missing: give --formula 'y ~ a + b', or give --label y to use all "
                f"other columns of numbers as predictors. The table has the columns {listed(names)}"
            )
        raise DataError(told, file=file)
    if roles.group is None and formula is None:
        told = (
            "feddcd must know the site of each row. Give --group COLUMN, where COLUMN has the "
            "site (the hospital, bank, ...) of each row. Or divide the rows among sites at "
            f"random with --clients. The table has the columns {listed(names)}"
        )
        raise DataError(told, file=file)
    for role, name in roles._asdict().items():
        if name is not None and name not in names:
            raise no_column(table, name, f" for --{role}")
    given = [name for name in roles if name is not None]
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        told = f"the column {twice[0]!r} is given twice; it can be only one of {_options(roles)}"
        raise DataError(told, file=file)
    if not len(table.frame):
        raise DataError("no rows; the file must have a line for each patient or case", file=file)


def _options(roles: Roles) -> str:
    named = [role for role, name in roles._asdict().items() if name is not None]
    return ", ".join(f"--{role}" for role in named)


def _check_binary(table: Frame, rows: CompleteRows) -> None:
    try:
        check_binary(rows)
    except DataError as error:
        raise error.placed(table.file, table.place) from None
    if told := shares_alone(rows):
        raise DataError(told, file=table.file, column=label(rows.y))


def _named(table: Frame, text: str, roles: Roles) -> Formula:
    """The formula, its columns checked before it is evaluated."""
    names = list(table.frame.columns)
    try:
        formula = formula_for(text, roles, names)
    except NoColumn as error:
        raise no_column(table, str(error.column), " for the formula") from None
    check_plain(table, (*formula.left_columns, *formula.right_columns))
    return formula


def _restore(frame: pd.DataFrame, group: str, used: tuple[str, ...]) -> pd.DataFrame:
    """Numbers again, where a column was read as words to keep the sites' names as they are."""
    if group not in used or not all(map(is_number, map(str, frame[group]))):
        return frame
    return frame.assign(**{group: pd.to_numeric(frame[group])})


def _numeric(table: Frame, roles: Roles, notes: list[str]) -> tuple[str, ...]:
    """All columns of numbers that have no other role."""
    rest = tuple(c for c in table.frame.columns if c not in roles)
    check_used(table, [c for c in rest if c in table.doubts and table.doubts[c].settings])
    check_mixed(table.frame, rest)
    used = tuple(c for c in rest if table.frame[c].dtype.kind in "biuf")
    if not used:
        told = (
            "no column of numbers is left for the predictors; the other columns are used for "
            f"{_options(roles)}"
        )
        raise DataError(told, file=table.file)
    left = [c for c in rest if c not in used]
    if left:
        notes.append(
            f"{'the column' if len(left) == 1 else 'the columns'} {listed(left)} "
            f"{'is' if len(left) == 1 else 'are'} left out, because the values are not numbers (a "
            "formula can use such columns)"
        )
    return used


def _check_words(
    table: Frame,
    name: str,
    settings: ModelSettings,
    notes: list[str],
    sites: np.ndarray | None,
) -> None:
    """An outcome of words: binomial takes two, and says which of them counts as 1."""
    values, family = column(table.frame, name), settings.family
    if family in CLASSED:
        return
    check_mixed(table.frame, (name,))
    if not _is_text(values) and settings.event is None:
        return
    words = words_of(values, settings.event) or []
    if family not in SHARES:
        told = (
            f"the outcome {name!r} contains words such as {words[0]!r}, but --family {family} "
            f"needs numbers. Use binomial for two words, {ORDERED}"
        )
        raise DataError(told, file=table.file, column=name)
    if len(words) > 2:
        told = unlike_codes(name, values, sites) or (
            f"the column {name!r} has {len(words)} different words, {listed(words, 5)}, but "
            f"--family {family} needs two{unlike_case(words) or f'. Use {ORDERED}'}"
        )
        raise DataError(told, file=table.file, column=name)
    other, event = outcome_of(name, words, settings.event)
    notes.append(f"in the outcome {name!r}, {event!r} counts as 1, and {other!r} counts as 0")


def _is_text(values: pd.Series) -> bool:
    return values.dtype.kind not in "biuf" and any(isinstance(v, str) for v in values)
