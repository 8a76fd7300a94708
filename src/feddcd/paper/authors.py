"""The per-round results that the paper's authors published beside their code, and which of
their runs belongs to which cell."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from .._errors import DataError
from .._text import listed, plural
from ..data.files import cache_dir

NAME = "authors-results"
ABOUT = "per-round results of the paper's authors"
LICENCE = "MIT"
REPOSITORY = "https://github.com/ZhenanFanUBC/FedDCD.jl"
RUNS_FILE, CURVES_FILE = "runs.csv", "curves.csv"
RUNS = ("run", "experiment", "dataset", "model", "algorithm", "tau", "l2", "split", "rounds")
CURVES = ("run", "round", "objective", "accuracy")
PUBLISHED_RUNS = 64
# mean form, as in their code; the MLP's is the best value they ever saw
AUTHORS_OPTIMUM = {
    "mnist-softmax": 0.558481693,
    "rcv1-softmax": 0.418584773,
    "mnist-mlp": 0.504563,
}
_NAMES = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "Scaffold"}
_NAMES |= {"feddcd": "FedDCD", "accfeddcd": "AccFedDCD"}
_PRIMAL_RUNS = {  # by problem, split and tau
    ("mnist-softmax", "iid", 30): "exp1/{}_logReg_mnist_lambda1e-2",
    ("mnist-softmax", "iid", 10): "exp2/{}_logReg_mnist_lambda1e-2_tau1e-1",
    ("rcv1-softmax", "iid", 30): "exp1/{}_logReg_rcv1_lambda1e-2",
    ("rcv1-softmax", "iid", 10): "exp2/{}_logReg_rcv1_lambda1e-2_tau1e-1",
    ("mnist-mlp", "iid", 30): "exp1/{}_MLP_mnist_lambda1e-2_lr1e-1",
    ("mnist-mlp", "iid", 10): "exp2/{}_MLP_mnist_lambda1e-2_tau1e-1",
    ("mnist-softmax", "two-class", 30): "exp3/{}_logReg_mnist_lambda1e-2_noniid",
    ("mnist-mlp", "two-class", 30): "exp3/{}_MLP_mnist_lambda1e-2_lr1e-1_noniid_2nd",
}
_DUAL_RUNS = {
    ("mnist-softmax", "iid", 30): "exp1/{}_logReg_lambda1e-2",
    ("mnist-softmax", "iid", 10): "exp2/{}_logReg_mnist_lambda1e-2_tau1e-1",
    ("rcv1-softmax", "iid", 30): "exp1/{}_rcv1_lambda1e-3",
    ("rcv1-softmax", "iid", 10): "exp2/{}_rcv1_lambda1e-3_tau1e-1",
    ("mnist-mlp", "iid", 30): "exp1/{}_mnist_lambda1e-2",
    ("mnist-mlp", "iid", 10): "exp2/{}_mnist_lambda1e-2_tau1e-1",
    ("mnist-softmax", "two-class", 30): "exp3/{}_logReg_MNIST_niid",
    ("mnist-mlp", "two-class", 30): "exp3/{}_MLP_MNIST_niid_sgd_locallr1e-1_lr1e-1",
}


class AuthorsRun(NamedTuple):
    """One run; `objective` and `accuracy` have one value per round."""

    run: str
    experiment: str
    dataset: str
    model: str
    algorithm: str
    tau: int
    l2: float
    split: str
    rounds: int
    objective: np.ndarray
    accuracy: np.ndarray


class _Line(NamedTuple):
    """A line of a table, and how to refuse it."""

    file: Path
    number: int
    fields: dict[str, str]

    def refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self.file}:{self.number}: {what}")

    def whole(self, column: str) -> int:
        text = self.fields[column]
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**9):
            self.refuse(f"{column} must be a whole number >= 1, got {text!r}")
        return int(text)

    def number_in(self, column: str) -> float:
        text = self.fields[column]
        try:
            value = float(text)
        except ValueError:
            self.refuse(f"{column} must be a number, got {text!r}")
        if not np.isfinite(value):
            self.refuse(f"{column} must be finite, got {text!r}")
        return value


def authors_folder() -> Path:
    """FEDDCD_REFERENCE where it is set, else a folder in the cache."""
    named = os.environ.get("FEDDCD_REFERENCE")
    return Path(named) if named else cache_dir() / NAME


def authors_absent() -> DataError:
    """The error for results that are not here: what to put where."""
    variable = "the environment variable FEDDCD_REFERENCE"
    where = f"{cache_dir() / NAME}, or into another folder that you name in {variable}"
    if named := os.environ.get("FEDDCD_REFERENCE"):
        where = f"{named} (from {variable})"
    return DataError(
        f"{NAME}: feddcd needs the authors' results as two tables. It cannot download them, "
        f"because the authors' repository {REPOSITORY} does not have these tables. Put {RUNS_FILE} "
        f"(columns {', '.join(RUNS)}) and {CURVES_FILE} (columns {', '.join(CURVES)}) into {where}"
    )


def load_authors() -> dict[str, AuthorsRun] | None:
    """Every run by its name, or None where the two tables are absent."""
    folder = authors_folder()
    here = [name for name in (RUNS_FILE, CURVES_FILE) if (folder / name).is_file()]
    if not here:
        return None
    if len(here) == 1:
        other = CURVES_FILE if here == [RUNS_FILE] else RUNS_FILE
        raise DataError(
            f"the folder {folder} has {here[0]}, but {other} is missing; feddcd needs both files"
        )
    lines = _by_run(_lines(folder / RUNS_FILE, RUNS))
    curves = _curves(folder / CURVES_FILE, set(lines))
    return {run: _run(line, curves[run]) for run, line in lines.items()}


def _lines(file: Path, columns: tuple[str, ...]) -> Iterator[_Line]:
    try:
        with open(file, newline="", encoding="utf-8-sig", errors="replace") as stream:
            reader = csv.reader(stream, strict=True)
            try:
                header = next(reader, [])
                if missing := [column for column in columns if column not in header]:
                    noun = "column" if len(missing) == 1 else "columns"
                    told = f"the header does not have the {noun} {listed(missing)}"
                    _Line(file, 1, {}).refuse(told)
                for row in filter(None, reader):
                    line = _Line(file, reader.line_num, dict(zip(header, row, strict=False)))
                    if len(row) != len(header):
                        told = f"this line has {len(row)} fields, but the header has {len(header)}"
                        line.refuse(told)
                    if "\ufffd" in "".join(row):
                        line.refuse("is not UTF-8 text")
                    yield line
            except csv.Error as error:
                _Line(file, reader.line_num, {}).refuse(f"is not CSV: {error}")
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error}") from None


def _by_run(lines: Iterator[_Line]) -> dict[str, _Line]:
    by_run: dict[str, _Line] = {}
    for line in lines:
        run = line.fields["run"]
        if not run or run in by_run:
            line.refuse(f"run {run!r} occurs twice" if run else "run has no name")
        by_run[run] = line
    return by_run


def _curves(file: Path, runs: set[str]) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {run: [] for run in runs}
    for line in _lines(file, CURVES):
        run, number = line.fields["run"], line.whole("round")
        if run not in curves:
            line.refuse(f"run {run!r} is not in {RUNS_FILE}")
        if number != len(curves[run]) + 1:
            line.refuse(
                f"this line has round {number} of {run!r}, but round {len(curves[run]) + 1} "
                "was expected"
            )
        curves[run].append((line.number_in("objective"), line.number_in("accuracy")))
    return curves


def _run(line: _Line, curve: list[tuple[float, float]]) -> AuthorsRun:
    fields, rounds = line.fields, line.whole("rounds")
    if rounds != len(curve):
        line.refuse(
            f"the run {fields['run']!r} has {plural(rounds, 'round')} in this line, but "
            f"{len(curve)} in {CURVES_FILE}"
        )
    words = {name: fields[name] for name in ("run", "experiment", "dataset", "model", "algorithm")}
    objective, accuracy = np.array(curve, np.float64).reshape(-1, 2).T
    return AuthorsRun(
        **words, tau=line.whole("tau"), l2=line.number_in("l2"), split=fields["split"],
        rounds=rounds, objective=objective, accuracy=accuracy,
    )  # fmt: skip


def authors_run(
    problem: str, split: str, tau: int, algorithm: str, runs: Mapping[str, AuthorsRun] | None
) -> AuthorsRun | None:
    """The run behind the paper's number; None where there is none, or no files are at hand."""
    if runs is None or algorithm not in _NAMES:
        return None
    names = _DUAL_RUNS if algorithm in ("feddcd", "accfeddcd") else _PRIMAL_RUNS
    name = names.get((problem, "two-class" if split == "two-class" else "iid", tau), "")
    return runs.get(name.format(_NAMES[algorithm]))
