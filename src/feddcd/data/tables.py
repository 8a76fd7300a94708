"""What one site of a federation holds, or a run shares out, from a table or a LIBSVM file."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._errors import DataError
from .._text import listed
from ._dataset import Dataset
from .agreement import SiteData, select
from .frames import (
    PLAIN,
    Frame,
    Reading,
    check_kind,
    composed,
    is_foreign,
    is_number,
    is_table,
    no_column,
    read_frame,
)
from .libsvm import is_dense, read_libsvm

MAX_LABEL = 200


def read_site(
    path: str | os.PathLike[str],
    label: str | None = None,
    index_base: int = 1,
    how: Reading = PLAIN,
) -> SiteData:
    """The rows of a .csv, .tsv (plain or packed), .xlsx or .parquet file; of LIBSVM with other
    names."""
    path = Path(path)
    if is_foreign(path):
        check_kind(path)
    if not is_table(path):
        if label is not None:
            raise DataError(
                f"{path}: label={label!r} is for .csv, .tsv, .xlsx and .parquet files; other files "
                "are read as LIBSVM, where the label is the first number of a line"
            )
        try:
            X, y = read_libsvm(path, index_base=index_base)
        except DataError as error:
            raise error.told("the site's data file cannot be read as LIBSVM") from error.__cause__
        return SiteData(X.toarray() if is_dense(X) else X, y, None, str(path))
    if index_base != 1:
        raise DataError(f"{path}: index_base is for LIBSVM files only, got index_base={index_base}")
    return site_of(read_frame(path, how=how), None if label is None else composed(label))


def read_dataset(
    path: str | os.PathLike[str],
    label: str | None,
    group: str | None = None,
    test: str | os.PathLike[str] | None = None,
    how: Reading = PLAIN,
) -> Dataset:
    """A table's rows with the label as y and the group column, if named, as groups.

    Labels that are words are numbered in sorted order, those of the test rows alike."""
    label, group = (None if name is None else composed(name) for name in (label, group))
    table = read_frame(path, () if group is None else (group,), how)
    site = site_of(table, label, group, divided=True)
    classes = np.unique(site.labels) if site.labels.dtype.kind == "U" else None
    y = _numbered(site, classes)
    groups = None if group is None else np.asarray(table.frame[group])
    data = Dataset(Path(path).name, site.X, y, groups, classes=classes)
    if test is None:
        return data
    held_out = read_frame(test, how=how)
    apart = group if group in held_out.frame.columns else None
    rows = select(site_of(held_out, label, apart), site.names or ())
    return data.with_test(rows.X, _numbered(rows, classes))


def write_rows(folder: Path, X: Any, y: np.ndarray) -> dict[str, str]:
    """data.svm for a sparse X, data.csv otherwise; what a site has to say of it."""
    if sparse.issparse(X):
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, y, str(folder / "data.svm"), zero_based=False)
        return {"data": "data.svm"}
    import pandas as pd

    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table["label"] = y
    table.to_csv(folder / "data.csv", index=False, float_format="%.17g")
    return {"data": "data.csv", "label": "label"}


def _numbered(site: SiteData, classes: np.ndarray | None) -> np.ndarray:
    if classes is None:
        return site.labels
    unknown = np.setdiff1d(site.labels, classes)
    if len(unknown):
        raise DataError(
            f"{site.file}: the label {str(unknown[0])!r} is not in the training data, which "
            f"have the labels {listed(classes)}"
        )
    return np.searchsorted(classes, site.labels).astype(float)


def site_of(
    table: Frame, label: str | None, group: str | None = None, *, divided: bool = False
) -> SiteData:
    """The label's column and the others, without that of the group. `divided`: the rows are of
    several clients, which a column may name."""
    file, frame = table.file, table.frame
    names = list(frame.columns)
    if group is not None and group == label:
        raise DataError(
            f"{file}: the column {group!r} is the label, so it cannot also be the group"
        )
    if group is not None and group not in names:
        raise no_column(table, group, " for the group")
    _check_label(table, label)
    features = tuple(name for name in names if name not in (label, group))
    if not features or not len(frame):
        lacking = "rows" if features else f"column beside {label!r}"
        raise DataError(f"{file}: no {lacking}", public=f"the site's data have no {lacking}")
    absent = frame.isna().to_numpy()
    if absent.any():
        row, column = np.argwhere(absent)[0]
        raise DataError(
            f"{file}: the column {names[column]!r} has no value {table.place(row)}; "
            f"missing values in the whole table: {absent.sum()} (empty or NA). Fill in these "
            "values, or remove these rows"
        )
    X = np.empty((len(frame), len(features)))
    for j, name in enumerate(features):
        X[:, j] = _feature(table, name, named=divided and group is None)
    return SiteData(X, _labels(table, str(label)), features, file)


def _check_label(table: Frame, label: str | None) -> None:
    names = list(table.frame.columns)
    if label in names:
        return
    if label is None:
        told = f"{table.file}: give <label>, the column to predict; the columns are {listed(names)}"
        public = "the site's settings have no `label`, the column to predict"
        raise DataError(told, public=public, settings={"label": ...})
    raise no_column(table, label)


def _feature(table: Frame, name: str, *, named: bool) -> np.ndarray:
    values = _numbers(table, name)
    if values is not None:
        return values
    public = f"the site's column {name!r} does not contain plain numbers"
    doubt = table.doubts.get(name)
    if doubt is not None and "na" not in doubt.settings:  # a training takes no missing value
        raise doubt.placed(table.file, table.place).told(public)
    column = [str(value) for value in table.frame[name]]
    row = next((i for i, value in enumerate(column) if not is_number(value)), 0)
    words = not any(map(is_number, column))
    todo = "turn the column into columns of 0 and 1" if words else "correct this value"
    group = ". If the values of this column are the names of the clients, give <group>" * named
    raise DataError(
        f"{table.file}: the column {name!r} must contain numbers, but has "
        f"{column[row][:50]!r} {table.place(row)}: {todo}, or remove the column{group}",
        public=public,
        settings={"group": name},
    )


def _numbers(table: Frame, name: str) -> np.ndarray | None:
    """The column as float64, True as 1; None where it is something else."""
    column = table.frame[name]
    if column.dtype == "category":
        column = column.astype(column.cat.categories.dtype)
    numeric = column.dtype.kind in "biuf"
    if not numeric and not all(isinstance(v, int | float | Decimal) for v in column):
        return None
    if numeric:
        values = column.to_numpy(np.float64)
    else:  # whole numbers beyond 64 bits; float of one beyond 1e308 raises, of its Decimal not
        values = np.array([float(Decimal(v)) for v in column])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(
            f"{table.file}: the column {name!r} has {values[bad[0]]} {table.place(bad[0])}; "
            f"infinite values in the column: {len(bad)}"
        )
    return values


def _labels(table: Frame, name: str) -> np.ndarray:
    values = _numbers(table, name)
    if values is not None:
        return values
    text = list(table.frame[name])
    for row, value in enumerate(text):
        if not isinstance(value, str) or not 0 < len(value.strip()) <= MAX_LABEL:
            raise DataError(
                f"{table.file}: the label column {name!r} must contain numbers or texts of 1 to "
                f"{MAX_LABEL} characters, but has {str(value)[:50]!r} {table.place(row)}"
            )
    return np.array([value.strip() for value in text])
