"""The order of levels, as the page on the regression table states it."""

from pathlib import Path

import numpy as np
import pandas as pd

from feddcd import FederatedGLM
from feddcd.formula import sorted_levels

PAGE = Path(__file__).parents[2] / "docs" / "glm.md"


def test_words_are_sorted_as_the_page_says():
    words = ["zoo", "Ähre", "Zebra", "apfel"]
    in_order = sorted_levels(words)
    assert in_order == ["apfel", "Zebra", "zoo", "Ähre"]
    page = " ".join(PAGE.read_text("utf-8").split())
    example = f"For example, four words in this order are: {', '.join(in_order)}."
    assert f"Letters such as Ä come after Z. {example}" in page
    assert sorted_levels(["a", "1", "(x)", "B"]) == ["(x)", "1", "a", "B"]


def test_an_ordered_categorical_has_a_reference_unless_poly_is_written():
    levels = ["low", "mid", "high"]
    x = pd.Categorical(np.array(levels)[np.arange(60) % 3], levels, ordered=True)
    rows = pd.DataFrame({"x": x, "y": np.random.default_rng(0).normal(size=60)})
    names = lambda term: list(FederatedGLM("gaussian", f"y ~ {term}").fit(rows).table_.index)
    assert names("x") == ["Intercept", "x[T.mid]", "x[T.high]"]
    assert names("C(x, Poly)")[1:] != names("x")[1:]
