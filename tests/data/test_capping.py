"""Values that every site caps and rounds, as the codebook says."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddcd._errors import SpecError
from feddcd.data.capping import Capping, cappings, is_guessable, notes, proposal
from feddcd.data.codebook import load_codebook, read_codebook
from feddcd.data.conform import changed_by_caps, conform, read_agreed
from feddcd.data.draft import draft
from feddcd.data.frames import read_frame

CAPS = {
    "both ends": (Capping((18, 90), 5), [18, 18, 18, 23, 88, 88, 88]),
    "no step": (Capping((18, 90)), [18, 18, 20, 21, 88, 90, 90]),
    "one end": (Capping(("none", 88), 10), [0, 20, 20, 20, 88, 88, 88]),
    "the other": (Capping((18, "none"), 2), [18, 18, 20, 22, 88, 90, 96]),
    "an end between steps": (Capping((18, 91), 5), [18, 18, 18, 23, 88, 88, 91]),
    "steps from 0": (Capping(None, 4), [4, 20, 20, 20, 88, 92, 96]),
}


@pytest.mark.parametrize(("capping", "expected"), CAPS.values(), ids=CAPS)
def test_values_by_hand(capping, expected):
    x = np.array([2.0, 18, 20, 21, 88, 90, 95])
    np.testing.assert_array_equal(capping.of(x), expected)


def test_a_value_in_the_middle_goes_up_and_decimals_are_those_that_are_written():
    assert Capping((0, 10), 2).of(np.array([1.0, 3, 5, 7])).tolist() == [2, 4, 6, 8]
    assert Capping(None, 0.1).of(np.array([0.29, 0.71, -0.32])).tolist() == [0.3, 0.7, -0.3]
    huge = np.array([1e300, -1e300, np.nan])
    np.testing.assert_array_equal(Capping(None, 1e-9).of(huge), huge)


CENTS = st.integers(-(10**6), 10**6)


@given(st.lists(CENTS, min_size=1), CENTS, st.integers(1, 10**6), st.integers(1, 10**5))
def test_against_fractions(cents, low, width, step):
    """In hundredths, of which doubles are sums of a rounding error: none is in the middle here."""
    capping = Capping((low / 100, (low + width) / 100), 0.01 * min(step, width))
    size, start = Fraction(repr(capping.step)), Fraction(low, 100)
    for value in cents:
        y = min(max(Fraction(value, 100), start), Fraction(low + width, 100))
        steps = (y - start) / size
        if abs(steps % 1 - Fraction(1, 2)) < 1e-6:
            continue
        expected = min(start + size * round(steps), Fraction(low + width, 100))
        own = capping.of(np.array([value / 100]))
        assert own[0] == pytest.approx(float(expected), abs=1e-9 * (1 + abs(float(expected))))
        np.testing.assert_array_equal(capping.of(own), own)  # again changes nothing
        assert capping.ends[0] <= own[0] <= capping.ends[1]


BAD = {
    "a word": ('cap = "18"', "cap must be [low, high], as in cap = [18, 90], or without a low end"),
    "one number": ("cap = [18]", "cap must be [low, high]"),
    "another word": ('cap = ["low", 90]', "cap must be [low, high]"),
    "the wrong way": ("cap = [90, 18]", "cap needs low < high"),
    "nothing between": ("cap = [18, 18]", "cap needs low < high"),
    "no end": ('cap = ["none", "none"]', "both ends of cap are 'none', so cap changes nothing"),
    "infinite": ("cap = [-inf, 90]", "cap must be [low, high]"),
    "no number": ("cap = [nan, 90]", "cap must be [low, high]"),
    "true": ("cap = [true, 90]", "cap must be [low, high]"),
    "too large": ("cap = [0, 1e16]", "cap must be [low, high]"),
    "a step of nothing": ("step = 0", "step must be a number from 1e-09 to 1e+15, as in step = 5"),
    "a step back": ("step = -5", "step must be a number"),
    "a step of words": ('step = "5"', "but '5' is a text: write it without quotes"),
    "an infinite step": ("step = inf", "step must be a number"),
    "a step that is no number": ("step = nan", "step must be a number"),
    "a step beyond the cap": (
        "cap = [18, 90]\nstep = 100",
        "larger than the distance between the two ends of cap = [18, 90]",
    ),
    "wider than the range": ("range = [0, 80]\ncap = [18, 90]", "must be inside range = [0, 80]"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_settings_that_no_site_can_use(text, message, tmp_path):
    path = tmp_path / "codebook.toml"
    path.write_text(f'[columns.age]\ntype = "number"\n{text}\n')
    with pytest.raises(SpecError) as error:
        load_codebook(path)
    assert "codebook.toml: the column 'age': " in str(error.value)
    assert message in str(error.value)
    assert len(str(error.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"type": "number", "cap": [0, 10**400]},
            "cap must be .low, high",
        ),  # as a message may have it
        ({"type": "number", "step": 10**400}, "step must be a number"),
        ({"type": "number", "cuts": [10**400]}, "cuts must be a list of numbers"),
        ({"type": "number", "range": [0, 10**400]}, "range must be .smallest, largest"),
        ({"type": "integer", "cap": [18.5, 90]}, "needs whole numbers in cap"),
        ({"type": "integer", "step": 0.5}, "needs a whole number as step"),
        ({"type": "boolean", "cap": [0, 1]}, "cap is only for numbers, not for type = 'boolean'"),
        ({"type": "category", "levels": [1, 2], "step": 2}, "step is only for numbers"),
        ({"type": "date", "cap": [1, 2]}, "cap is only for numbers"),
        ({"type": "identifier", "step": 5}, "step is only for numbers"),
    ],
)
def test_for_numbers_alone(settings, message):
    with pytest.raises(SpecError, match=message):
        read_codebook({"columns": {"x": settings}})


def held(text, entry, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    book = read_codebook({"columns": {"age": entry, "y": {"type": "number"}}})
    return book, read_agreed(path, book)


def test_a_column_as_all_else_sees_it(tmp_path):
    entry = {"type": "integer", "cap": [18, 90], "step": 5, "range": [0, 120]}
    book, table = held("age,y\n10,1\n,2\n42,3\n95,4\n", entry, tmp_path)
    made = conform(table, book, ["age", "y"]).frame
    assert made["age"].dropna().tolist() == [18, 43, 88]
    assert made["age"].isna().tolist() == [False, True, False, False]
    assert table.frame["age"].dropna().tolist() == [10, 42, 95]  # which stays
    assert changed_by_caps(table, book) == {"age": (2, 1)}
    book, table = held("age,y\n10,1\n95,2\n", entry, tmp_path)
    assert conform(table, book, ["age"]).frame["age"].dtype.kind == "i"
    assert conform(table, book, ["y"]).frame["age"].tolist() == [10, 95]
    assert conform(table, book, ["age"], caps={}).frame["age"].tolist() == [10, 95]


def test_it_travels_and_is_said_in_words():
    columns = {
        "age": {"type": "number", "cap": [18, 90], "step": 5},
        "los": {"type": "integer", "cap": ["none", 30]},
        "bmi": {"type": "number", "step": 0.5},
        "crp": {"type": "number"},
    }
    book = read_codebook({"columns": columns})
    plain = book.to_dict()
    assert plain == {"columns": columns}
    assert read_codebook(plain) == book
    assert list(cappings(plain["columns"])) == ["age", "los", "bmi"]
    assert notes(plain) == [
        "age was capped to 18..90 and rounded to steps of 5 at every site.",
        "los was capped to at most 30 at every site.",
        "bmi was rounded to steps of 0.5 at every site.",
    ]
    assert notes({}) == []


def ages(n=400, seed=0):
    x = np.clip(np.random.default_rng(seed).normal(60, 14, n).round(), 18, 88)
    x[0] = 95
    return x


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("n", [60, 400])
def test_a_proposal_leaves_no_value_to_few_rows(k, n):
    columns = [ages(n, seed) for seed in range(3)]
    found = proposal(columns, k)
    for x in columns:
        assert np.unique(found.of(x), return_counts=True)[1].min() >= k
        assert min(np.sum(x <= found.cap[0]), np.sum(x >= found.cap[1])) >= k
    assert not {95.0, float(max(x.max() for x in columns))} & {*map(float, found.cap)}


def test_where_there_is_nothing_to_propose():
    assert proposal([np.arange(9.0)], 5) is None
    assert proposal([np.repeat([1.0, 2.0], [10, 3])], 5) is None
    assert proposal([], 5) is None
    visits = np.repeat(np.arange(8.0), [150, 100, 70, 40, 20, 10, 6, 1])
    assert proposal([visits], 5) == Capping((0, 6))


def test_columns_of_which_the_values_can_be_listed():
    draw = np.random.default_rng(0)
    assert is_guessable(ages())
    assert is_guessable(ages(30))  # of whole numbers also where few rows share one
    assert is_guessable(draw.choice([0.5, 1.0, 1.5], 100))
    assert not is_guessable(draw.normal(size=100))
    assert not is_guessable(draw.integers(0, 10**6, 400).astype(float))
    assert not is_guessable(draw.choice([0.0, 1.0], 400))
    assert not is_guessable(np.array([1.0, 2.0, math.nan] * 9))


def test_a_draft_with_caps(tmp_path):
    rows = "".join(f"{a:g},{b:.3f},{int(a) % 2}\n" for a, b in zip(ages(), ages(), strict=True))
    (tmp_path / "t.csv").write_text(f"age,crp,sex\n{rows.replace('.000', '.125')}")
    table = read_frame(tmp_path / "t.csv")
    plain, capped = draft([table]), draft([table], cap_rare=5)
    assert "\ncap = " not in plain
    assert "but no other value" in plain
    assert "and caps that are computed from the data" in capped
    path = tmp_path / "codebook.toml"
    path.write_text(capped)
    book = load_codebook(path)
    assert (book.columns["age"].cap, book.columns["age"].step) == ((35, 85), 5)
    assert book.columns["sex"].cap is None
    assert "95" not in Path(path).read_text().replace(str(tmp_path), "")
    few = tmp_path / "few.csv"
    few.write_text("age\n" + "\n".join(map(str, range(7))) + "\n")
    assert "# feddcd found no cap and step that give each value at least 5 rows" in draft(
        [read_frame(few)], cap_rare=5
    )
