"""Data by name (embedded, synthetic, well-known files) or by the path of a file."""

from __future__ import annotations

import os
from pathlib import Path

from scipy.sparse import csr_array

from feddcd.data._cache import cache_dir
from feddcd.data._dataset import Dataset, shape_of
from feddcd.data._embedded import EMBEDDED, load_embedded
from feddcd.data._known import KNOWN, SUFFIXES, File, Source
from feddcd.data._synthetic import SYNTHETIC, make_synthetic
from feddcd.data.frames import is_table
from feddcd.data.libsvm import read_libsvm

from .._errors import DataError
from .._text import meant

DENSE_ABOVE = 0.1


def available() -> dict[str, str]:
    """Every name `load` knows, with one line on its size and what it is."""
    files = {
        name: f"{source.rows:,} x {source.features:,}, {source.about} (file {source.train.name})"
        for name, source in KNOWN.items()
    }
    return EMBEDDED | SYNTHETIC | files


def load(
    name_or_path: str | os.PathLike[str],
    *,
    test: str | os.PathLike[str] | None = None,
    index_base: int = 1,
    seed: int = 0,
    label: str | None = None,
    group: str | None = None,
) -> Dataset:
    """The named data set, or the file at a path; `seed` moves the synthetic ones only.

    A .csv, .tsv or .parquet file needs the name of its `label` column, and may have one whose
    values are the natural groups; files with other names are LIBSVM."""
    name = os.fspath(name_or_path)
    by_name = isinstance(name_or_path, str)
    if is_table(name) and os.path.exists(name):
        return _table(name, label, group, test, index_base)
    for what, value in (("label", label), ("group", group)):
        if value is not None and not is_table(name):
            raise DataError(f"{what} goes with .csv, .tsv and .parquet files, not with {name!r}")
    generated = by_name and (name in EMBEDDED or name.partition(":")[0] in SYNTHETIC)
    if generated and test is not None:
        raise DataError(f"{name} has its own test rows; test= goes with files, got {test!r}")
    if index_base != 1 and (generated or (by_name and name in KNOWN)):
        raise DataError(f"index_base goes with a path, got index_base={index_base} for {name!r}")
    if generated:
        return load_embedded(name) if name in EMBEDDED else make_synthetic(name, seed)
    if by_name and name in KNOWN:
        source = KNOWN[name]
        train = _required(source, source.train)
        held_out = _held_out(source) if test is None else test
        return _files(name, train, held_out, 1, source.features)
    if by_name and not os.path.exists(name):
        raise DataError(_unknown(name))
    return _files(Path(name).name, Path(name), test, index_base, None)


def _table(name: str, label, group, test, index_base: int) -> Dataset:
    from feddcd.data.tables import read_dataset

    if index_base != 1:
        raise DataError(f"{name}: index_base goes with LIBSVM files, got index_base={index_base}")
    return read_dataset(name, label, group, test)


def _unknown(name: str) -> str:
    names = list(available())
    hint = meant(name, names, most=3)
    return f"{name!r} is neither a data set nor a file; {hint}data sets: {', '.join(names)}"


def folders() -> list[Path]:
    """Where files are looked for; the first is where they are put."""
    named = os.environ.get("FEDDCD_DATA")
    return [Path(named), cache_dir()] if named else [cache_dir()]


def find(file: File) -> Path | None:
    """The file in whatever compression, or None where it is in none of the folders."""
    paths = (folder / f"{file.name}{suffix}" for folder in folders() for suffix in SUFFIXES)
    return next((path for path in paths if os.path.isfile(path)), None)


def placing(file: File) -> str:
    """What to put where."""
    named = os.environ.get("FEDDCD_DATA") or "not set"
    return (
        f"put the file {file.name} (plain, .bz2, .gz or .xz) into the folder that the "
        f"environment variable FEDDCD_DATA names ({named}) or into {cache_dir()}"
    )


def absent(source: Source, file: File) -> DataError:
    """The error for a file that is not here."""
    here = f"{source.name}: {placing(file)}"
    if file.address is None:
        return DataError(f"{here}; it has no public address")
    return DataError(
        f"{here}, or fetch it from {file.address} with the command: feddcd data fetch {source.name}"
    )


def _required(source: Source, file: File) -> Path:
    path = find(file)
    if path is None:
        raise absent(source, file)
    return path


def _held_out(source: Source) -> Path | None:
    if source.test is None:
        return None
    return _required(source, source.test) if source.needs_test else find(source.test)


def _files(
    name: str,
    train: Path,
    test: str | os.PathLike[str] | None,
    index_base: int,
    n_features: int | None,
) -> Dataset:
    X, y = read_libsvm(train, index_base=index_base, n_features=n_features)
    n, d = shape_of(X)
    dense = X.nnz > DENSE_ABOVE * n * d
    data = Dataset(name, X.toarray() if dense else X, y)
    if test is None:
        return data
    X_test, y_test = read_libsvm(test, index_base=index_base)
    X_test = _widen(X_test, d, os.fspath(test))
    return data.with_test(X_test.toarray() if dense else X_test, y_test)


def _widen(X: csr_array, d: int, file: str) -> csr_array:
    n, wide = shape_of(X)
    if wide > d:
        raise DataError(f"{file}: {wide} features, but the training data have {d}")
    return csr_array((X.data, X.indices, X.indptr), shape=(n, d))
