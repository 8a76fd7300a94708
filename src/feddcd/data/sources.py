"""Data by name (embedded, synthetic, well-known files) or by the path of a LIBSVM file."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from scipy.sparse import csr_array

from feddcd.data._cache import cache_dir
from feddcd.data._dataset import DataError, Dataset, shape_of
from feddcd.data._embedded import EMBEDDED, load_embedded
from feddcd.data._synthetic import SYNTHETIC, make_synthetic
from feddcd.data.libsvm import read_libsvm

DENSE_ABOVE = 0.1
SUFFIXES = ("", ".bz2", ".gz")


@dataclass(frozen=True)
class Source:
    """A well-known set of files, looked for in FEDDCD_DATA and in the cache folder."""

    name: str
    about: str
    rows: int
    features: int
    train: str
    test: str | None = None


KNOWN = {
    source.name: source
    for source in (
        Source(
            "mnist",
            "handwritten digits 28 x 28, 10 classes",
            60_000,
            780,
            "mnist.scale",
            "mnist.scale.t",
        ),
        Source("a9a", "income of adults, 2 classes", 32_561, 123, "a9a"),
        Source("phishing", "phishing web sites, 2 classes", 11_055, 68, "phishing"),
        Source(
            "rcv1-subset",
            "news stories as term vectors, 2 classes",
            20_242,
            47_236,
            "rcv1sub_train.binary",
            "rcv1sub_test.binary",
        ),
    )
}


def available() -> dict[str, str]:
    """Every name `load` knows, with one line on its size and what it is."""
    files = {
        source.name: f"{source.rows:,} x {source.features:,}, {source.about} (file {source.train})"
        for source in KNOWN.values()
    }
    return EMBEDDED | SYNTHETIC | files


def load(
    name_or_path: str | os.PathLike[str],
    *,
    test: str | os.PathLike[str] | None = None,
    index_base: int = 1,
    seed: int = 0,
) -> Dataset:
    """The named data set, or the LIBSVM file at a path; `seed` moves the synthetic ones only."""
    name = os.fspath(name_or_path)
    by_name = isinstance(name_or_path, str)
    generated = by_name and (name in EMBEDDED or name.partition(":")[0] in SYNTHETIC)
    if generated and test is not None:
        raise DataError(f"{name} has its own test rows; test= goes with files, got {test!r}")
    if index_base != 1 and (generated or (by_name and name in KNOWN)):
        raise DataError(f"index_base goes with a path, got index_base={index_base} for {name!r}")
    if generated:
        return load_embedded(name) if name in EMBEDDED else make_synthetic(name, seed)
    if by_name and name in KNOWN:
        source = KNOWN[name]
        held_out = _find(source, source.test) if test is None and source.test else test
        return _files(name, _find(source, source.train), held_out, 1, source.features)
    if by_name and not os.path.exists(name):
        raise DataError(_unknown(name))
    return _files(Path(name).name, Path(name), test, index_base, None)


def _unknown(name: str) -> str:
    names = list(available())
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{name!r} is neither a data set nor a file; {hint}data sets: {', '.join(names)}"


def _find(source: Source, file: str) -> Path:
    named = os.environ.get("FEDDCD_DATA")
    folders = [Path(named)] if named else []
    folders.append(cache_dir())
    for folder in folders:
        for suffix in SUFFIXES:
            if os.path.isfile(path := folder / f"{file}{suffix}"):
                return path
    raise DataError(
        f"{source.name}: put the file {file} (plain, .bz2 or .gz) into the folder that the "
        f"environment variable FEDDCD_DATA names ({named or 'not set'}) or into {cache_dir()}"
    )


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
