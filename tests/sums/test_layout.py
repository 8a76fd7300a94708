"""The parts of an answer in one vector."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddcd._errors import DataError, Refused, SpecError
from feddcd.sums._canonical import canonical
from feddcd.sums.layout import Layout, Slot
from feddcd.sums.levels import Grid
from sum_sites import LAYOUT, PLAIN, some_values

NAMES = ("a", "b", "c")
SUM = Slot("x", "sum", (2,))


def test_sums_counts_and_maxima_come_back():
    values = some_values(NAMES, np.random.default_rng(0))
    found = LAYOUT.decode(LAYOUT.total(LAYOUT.encode(values[name]) for name in NAMES))
    assert list(found) == [slot.name for slot in LAYOUT.slots]
    for name in ("value", "g", "n", "nothing"):
        plain = np.sum([values[site][name] for site in NAMES], 0)
        assert found[name].shape == plain.shape
        assert np.allclose(found[name], plain, rtol=1e-14, atol=0)
    largest = max(values[site]["M"] for site in NAMES)
    assert largest <= found["M"] <= 2.1 * largest


@pytest.mark.parametrize(
    ("part", "value"),
    [("g", [1, np.nan, 2]), ("g", [1, np.inf, 2]), ("value", 1e40), ("n", [0.5, 1]),
     ("n", [2.0**51, 0]), ("M", np.nan)],
)  # fmt: skip
def test_a_site_that_cannot_tell_its_numbers_hides_the_others_too(part, value):
    values = some_values(NAMES, np.random.default_rng(0))
    values["b"][part] = np.asarray(value, float)
    words = {name: LAYOUT.encode(values[name]) for name in NAMES}
    total = LAYOUT.total(words.values())
    found = LAYOUT.decode(total)
    assert np.isnan(found["g"]).all()
    assert np.isnan(found["n"]).all()
    assert np.isinf(found["M"])
    others = LAYOUT.total([words["a"], words["c"]])
    assert not np.any(total == others), "all words are noise"


def test_as_json_and_back():
    again = Layout.from_json(LAYOUT.to_json())
    assert again == LAYOUT
    assert again.digest == LAYOUT.digest != PLAIN.digest
    assert hash(again) == hash(LAYOUT)


def test_words_travel_as_bytes():
    words = PLAIN.encode({"g": np.arange(4.0), "n": np.arange(3.0)})
    assert np.array_equal(PLAIN.from_bytes(PLAIN.to_bytes(words)), words)
    with pytest.raises(Refused, match="bytes"):
        PLAIN.from_bytes(PLAIN.to_bytes(words)[:-1])
    with pytest.raises(Refused, match="words"):
        PLAIN.decode(words[:-1])
    with pytest.raises(Refused, match="words"):
        PLAIN.total([words, words.astype(np.int64)])


@pytest.mark.parametrize(
    "slots",
    [[], [SUM, SUM], [Slot("x", "sum", (0,))], [Slot("x", "mean", (1,))], [Slot("", "sum", (1,))],
     [Slot("x", "sum", (-1,))], [Slot("x", "sum", (1.0,))], [Slot("x", "sum", (True,))],
     [Slot("x", "sum", [1])], [Slot("x", "max", (1,))], [Slot("x", "sum", (1,), Grid(1, 0, 1))],
     [Slot("x", "max", (1,), Grid(1, 1, 0))], [Slot("x" * 101, "sum", (1,))],
     [Slot(3, "sum", (1,))],
     [Slot("x", "sum", (2**22,))], [Slot("x", "sum", (2**20,) * 4)], [Slot("x", "sum", (1,) * 5)],
     [Slot(str(k), "sum", ()) for k in range(1001)]],
)  # fmt: skip
def test_odd_layouts_are_refused(slots):
    with pytest.raises(SpecError):
        Layout(slots)


@settings(max_examples=40)
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.just("sum"),
    lambda inner: st.lists(inner, max_size=5), max_leaves=12,
))  # fmt: skip
def test_whatever_a_layout_is_read_from_it_is_refused_by_name(value):
    try:
        Layout.from_json(canonical(value))
    except Refused:
        return
    assert isinstance(value, list)


@pytest.mark.parametrize(
    "values",
    [{"g": np.zeros(4)}, {"g": np.zeros(4), "n": np.zeros(3), "more": np.zeros(1)},
     {"g": np.zeros(3), "n": np.zeros(3)}, {"g": np.zeros((4, 1)), "n": np.zeros(3)}],
)  # fmt: skip
def test_answers_of_another_form_are_refused(values):
    with pytest.raises(DataError):
        PLAIN.encode(values)
