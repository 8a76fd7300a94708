"""Data by name (embedded, synthetic, well-known files) or by the path of a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from .._errors import DataError
from .._text import meant, plural
from ._dataset import Dataset, shape_of, widen
from .files import near
from .frames import PLAIN, Reading, check_kind, is_foreign, is_table
from .known import KNOWN, File, KnownSet, absent, find
from .libsvm import is_dense, read_libsvm
from .partition import generator
from .tables import read_dataset

EMBEDDED = {
    "digits": "1,797 x 64, handwritten digits 8 x 8, 10 classes, pixels / 16",
    "breast-cancer": "569 x 30, tumour measurements, 2 classes, standardised columns",
    "wine": "178 x 13, chemical analysis of wines, 3 classes, standardised columns",
}
SPLIT_SEED = 0
SYNTHETIC = {
    "synthetic-iid": "2,000 x 20, 3 classes, 20 groups with the same distribution",
    "synthetic-heterogeneous": "2,000 x 20, 3 classes, 20 groups with very different distributions",
    "synthetic": "n x d (rows x columns), as you choose, for example "
    "synthetic:n=2000,d=20,classes=3,groups=20,heterogeneity=0.5",
}
DIALS = {"synthetic-iid": 0.0, "synthetic-heterogeneous": 1.0}
MAX_VALUES = 2**30
SIGNAL = 3.0


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
    how: Reading = PLAIN,
) -> Dataset:
    """Read a known data set by its name, or a file by its path.

    Args:
        name_or_path: A name from `feddcd data list`, such as "wine", or the path of a file. Files
            that do not end in .csv, .tsv, .xlsx or .parquet are LIBSVM files.
        test: A file with rows for the test. If not given: the test rows of the data set, if it has
            any.
        index_base: The number of the first feature in a LIBSVM file, 0 or 1.
        seed: The seed of synthetic data sets, a whole number >= 0. Other data do not use it.
        label: The column of a table that the model predicts; tables need it.
        group: The column of a table with the natural groups, for example hospitals.
        how: The format of a table: separator, decimal sign, encoding, words for a missing value,
            and the sheet. What is not given, feddcd finds.

    Returns:
        A `Dataset`.

    Raises:
        DataError: There is no such name or file, or a value cannot be used; the message has its
            place.

    Examples:
        >>> wine = feddcd.load("wine")
        >>> wine.X.shape, wine.X_test.shape
        ((142, 13), (36, 13))
    """
    name = os.fspath(name_or_path)
    by_name = isinstance(name_or_path, str)
    generated = by_name and (name in EMBEDDED or name.partition(":")[0] in SYNTHETIC)
    table = not generated and is_table(name)
    if table and os.path.exists(name):
        if index_base != 1:
            raise DataError(
                f"{name}: index_base is for LIBSVM files only, got index_base={index_base}"
            )
        return read_dataset(name, label, group, test, how)
    if not generated and is_foreign(name) and os.path.exists(name):
        check_kind(name)
    for what, value in {"label": label, "group": group, **how._asdict()}.items():
        if value not in (None, ()) and not table:
            told = "works only for .csv, .tsv, .xlsx and .parquet files, not for"
            raise DataError(f"the setting {what!r} {told} {name!r}")
    if generated and test is not None:
        raise DataError(f"{name!r} has its own test rows, so leave out test={test!r}")
    if index_base != 1 and (generated or (by_name and name in KNOWN)):
        raise DataError(
            f"index_base works only for your own LIBSVM files, but {name!r} is a data set that "
            "feddcd knows: leave out index_base"
        )
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


SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet", ".txt", ".svm", ".libsvm")


def _unknown(name: str) -> str:
    if Path(name).suffix in SUFFIXES or os.sep in name:
        told = f"{name!r}: no such file, and no data set of `feddcd list data` has this name"
        return told + near(Path(name))
    names = list(available())
    hint = meant(name, names, most=3)
    return f"{name!r} is neither a data set nor a file; {hint}the data sets are {', '.join(names)}"


def _required(source: KnownSet, file: File) -> Path:
    path = find(file)
    if path is None:
        raise absent(source, file)
    return path


def _held_out(source: KnownSet) -> Path | None:
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
    dense, d = is_dense(X), shape_of(X)[1]
    data = Dataset(name, X.toarray() if dense else X, y)
    if test is None:
        return data
    X_test, y_test = read_libsvm(test, index_base=index_base)
    if (wide := shape_of(X_test)[1]) > d:
        raise DataError(
            f"{os.fspath(test)}: the test data have {plural(wide, 'feature')}, but the training "
            f"data have {d}"
        )
    X_test = widen(X_test, d)
    return data.with_test(X_test.toarray() if dense else X_test, y_test)


def load_embedded(name: str) -> Dataset:
    """The named set; columns are scaled by the training rows alone."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    read = getattr(datasets, f"load_{name.replace('-', '_')}")
    X, y = read(return_X_y=True)
    rows, held_out = train_test_split(
        np.arange(len(y)), test_size=0.2, stratify=y, random_state=SPLIT_SEED
    )
    if name == "digits":
        shift, scale = 0.0, 16.0
    else:
        shift, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
    X = (X - shift) / scale
    return Dataset(name, X[rows], y[rows]).with_test(X[held_out], y[held_out])


@dataclass(frozen=True)
class Options:
    """n training rows, d features; heterogeneity in [0, 1], 0 for groups that are all alike."""

    n: int = 2000
    d: int = 20
    classes: int = 3
    groups: int = 20
    heterogeneity: float = 0.5

    def __post_init__(self) -> None:
        for key, least in (("n", 1), ("d", 1), ("classes", 2), ("groups", 1)):
            if getattr(self, key) < least:
                told = f"synthetic: {key} must be at least {least}, got {getattr(self, key)}"
                raise DataError(told)
        if not 0 <= self.heterogeneity <= 1:
            raise DataError(
                f"synthetic: heterogeneity must be from 0 to 1, got {self.heterogeneity}"
            )
        for key in ("groups", "classes"):
            if (many := getattr(self, key)) > self.n:
                told = f"{key} must be at most n, got {key}={many} and n={self.n}"
                raise DataError(f"synthetic: {told}")
        if max(self.n, self.groups * self.classes) * max(self.d, self.classes) > MAX_VALUES:
            asked = f"n={self.n}, d={self.d}, classes={self.classes}, groups={self.groups}"
            raise DataError(
                f"synthetic: {asked} would give more than {MAX_VALUES:,} numbers; use "
                "smaller values"
            )


def parse_options(name: str) -> Options:
    """Options of `synthetic:n=2000,d=20`, or of one of the two named sets."""
    if name in DIALS:
        return Options(heterogeneity=DIALS[name])
    kind, _, text = name.partition(":")
    if kind in DIALS:
        raise DataError(f"{kind!r} has no options, got {name!r}; use 'synthetic:{text}'")
    kinds = {field.name: int if field.type == "int" else float for field in fields(Options)}
    values = {}
    for part in filter(None, text.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in kinds or key in values:
            what = "there twice" if key in values else "unknown"
            told = f"the key {key!r} in {name!r} is {what}; the keys are {', '.join(kinds)}"
            raise DataError(f"synthetic: {told}")
        try:
            values[key] = kinds[key](value)
        except ValueError:
            kind = "a whole number" if kinds[key] is int else "a number"
            raise DataError(
                f"synthetic: {key}={value!r} is not {kind}; the keys are {', '.join(kinds)}"
            ) from None
    return Options(**values)


def make_synthetic(name: str, seed: int) -> Dataset:
    """Class ~ softmax(c (W + h dW_g)' x + log p_g) for x ~ N(h mu_g, I) in group g, dial h."""
    options = parse_options(name)
    rng = generator(seed)
    d, K, G, h = options.d, options.classes, options.groups, options.heterogeneity
    mean = h * rng.standard_normal((G, d))
    weights = rng.standard_normal((d, K)) + h * rng.standard_normal((G, d, K))
    mixture = (1 - h) / K + h * rng.dirichlet(np.full(K, 0.5), G)
    offset = np.log(np.maximum(mixture, 1e-9))

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = np.arange(n) * G // n
        X = mean[group] + rng.standard_normal((n, d))
        logits = np.empty((n, K))
        for g in np.unique(group):
            rows = group == g
            logits[rows] = SIGNAL / np.sqrt(d) * X[rows] @ weights[g] + offset[g]
        y = np.argmax(logits + rng.gumbel(size=(n, K)), axis=1)
        return X, y, group

    X, y, group = draw(options.n)
    seen = np.unique(y).size
    if seen < K:
        raise DataError(
            f"{name}: only {seen} of {K} classes occur in n={options.n} rows; use a larger n"
        )
    X_test, y_test, _ = draw(max(options.n // 4, 1))
    return Dataset(name, X, y, group).with_test(X_test, y_test)
