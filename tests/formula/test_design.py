"""Columns that a formula makes, with R's model.matrix as the referee (facts.R made facts.csv)."""

import pickle
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddcd.formula import kinds_of, learn, read_formula
from slices import thinned

HERE = Path(__file__).parent
FORMS = [line.split("\t")[0] for line in (HERE / "forms.tsv").read_text().splitlines()]


@cache
def rows():
    return pd.read_csv(HERE / "rows.csv")


def matrices(text):
    """By form: R's columns."""
    found = {}
    for line in text.splitlines():
        form, n, d, *values = line.split(",")
        found[FORMS[int(form) - 1]] = np.array(values, float).reshape(int(d), int(n)).T
    return found


@cache
def facts():
    return matrices((HERE / "facts.csv").read_text())


def design(right, frame=None):
    frame = rows() if frame is None else frame
    right = right.removesuffix(" - y")  # R needs it where no y stands on the left
    formula = read_formula(f"y ~ {right}").named(list(frame.columns))
    return learn(formula, kinds_of(frame, formula.right_columns, formula.categories))


@pytest.mark.parametrize("right", FORMS)
def test_the_columns_of_r(right):
    made = design(right)
    X = made.matrix(rows())
    assert X.shape == facts()[right].shape, made.names
    assert X.shape[1] == len(made.names) == len(set(made.names))
    np.testing.assert_allclose(X, facts()[right], rtol=1e-12, atol=1e-12)


def test_there_are_many_forms():
    assert len(FORMS) >= 40


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not here")
def test_r_still_says_the_same():
    command = ["Rscript", "--vanilla", HERE / "facts.R", HERE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    live = matrices(done.stdout)
    assert list(live) == FORMS == list(facts())
    for form in FORMS:
        np.testing.assert_allclose(live[form], facts()[form], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("right", thinned(FORMS, 3))
def test_a_row_alone_has_the_same_columns(right):
    """No value depends on another row: what makes each site's rows those of the pooled table."""
    made, frame = design(right), rows()
    each = [made.matrix(frame.iloc[[i]]) for i in range(len(frame))]
    np.testing.assert_array_equal(np.vstack(each), made.matrix(frame))


@pytest.mark.parametrize("right", FORMS)
def test_a_design_can_be_stored(right):
    made = pickle.loads(pickle.dumps(design(right)))
    np.testing.assert_array_equal(made.matrix(rows()), design(right).matrix(rows()))
