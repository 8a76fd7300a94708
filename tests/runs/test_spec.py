"""A run as data: what is written is what is read, and nothing else is taken."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddcd._errors import SpecError
from feddcd._settings import unquoted
from feddcd._text import nearest
from feddcd.runs.spec import OBJECTS, Spec, load_spec, parse_setting

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
COUNT = st.integers(-(2**40), 2**40)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
WORD = TEXT.filter(lambda text: not unquoted(text))  # a number in quotes is refused
SETTING = st.one_of(st.booleans(), COUNT, NUMBER, WORD)
SPECS = st.builds(
    Spec,
    data=TEXT,
    test_data=st.none() | TEXT,
    model=TEXT,
    partition=TEXT,
    clients=st.none() | COUNT,
    tau=st.none() | COUNT,
    algorithm=TEXT,
    settings=st.dictionaries(TEXT, SETTING, max_size=4),
    l2=NUMBER,
    weighting=TEXT,
    participation=TEXT,
    loss=st.floats(0, 1, exclude_max=True),
    rounds=st.integers(1, 2**40),
    target_gap=st.none() | st.floats(0, 1e300, exclude_min=True),
    certify_every=st.integers(1, 2**40),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["auto", "float32", "float64"]),
    given=st.lists(st.sampled_from(OBJECTS), unique=True).map(tuple),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("spec") / "config.toml"


@given(spec=SPECS)
def test_what_is_saved_is_loaded(spec, path):
    spec.save(path)
    # None is the absence of a key, and the default of `clients` is not None
    values = load_spec(path) | ({} if spec.clients is not None else {"clients": None})
    again = Spec(**values)
    assert again == spec
    kinds = lambda settings: {key: type(value) for key, value in settings.items()}
    assert kinds(again.settings) == kinds(spec.settings)


def test_a_file_may_say_little(path):
    path.write_text("l2 = 1\n")
    assert load_spec(path) == {"l2": 1}
    assert Spec(**load_spec(path)) == Spec(l2=1.0)
    assert isinstance(Spec(l2=1).l2, float)
    path.write_text("")
    assert Spec(**load_spec(path)) == Spec()


def test_a_spec_is_frozen():
    with pytest.raises(AttributeError):
        Spec().rounds = 3  # pyright: ignore


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("lr=0.1", "lr", 0.1),
        ("lr=1e-3", "lr", 1e-3),
        ("lr=.5", "lr", 0.5),
        ("lr=1.", "lr", 1.0),
        ("lr=-2", "lr", -2),
        ("epochs=3", "epochs", 3),
        ("epochs=1_000", "epochs", 1000),
        ("epochs = 3 ", "epochs", 3),
        ("epochs=007", "epochs", 7.0),
        ("flag=true", "flag", True),
        ("flag=True", "flag", "True"),
        ("solver=newton", "solver", "newton"),
        ("solver='newton'", "solver", "newton"),
        ('solver="a b"', "solver", "a b"),
        ("solver=a b", "solver", "a b"),
        ("fedavg.lr=0.1", "fedavg.lr", 0.1),
        ("key=a=b", "key", "a=b"),
        ("lr=inf", "lr", math.inf),
        ("lr=1e999", "lr", math.inf),
    ],
)
def test_settings_are_read_as_toml_or_words(text, key, value):
    found = parse_setting(text)
    assert found == (key, value)
    assert type(found[1]) is type(value)


def test_nan_is_read_as_a_number():
    assert math.isnan(parse_setting("lr=nan")[1])


@pytest.mark.parametrize("text", ["", "lr", "=1", "lr=", " = 1", "lr= "])
def test_malformed_settings(text):
    with pytest.raises(SpecError, match=re.escape(f"have the form key=value, not {text!r}")):
        parse_setting(text)


@pytest.mark.parametrize("value", ["[1]", "{a=1}", "1979-05-27"])
def test_settings_are_single_values(value):
    with pytest.raises(SpecError, match=re.escape(f"one number or one word, got {value!r}")):
        parse_setting(f"lr={value}")


@given(text=st.text(max_size=12))
def test_any_setting_is_read_or_refused(text):
    try:
        key, value = parse_setting(text)
    except SpecError:
        return
    assert key.strip() == key != ""
    assert isinstance(value, bool | int | float | str)


WRONG = {
    "data": (1, "a text", 1),
    "test_data": (Path("x"), "a text", Path("x")),
    "model": (None, "a text", None),
    "clients": ("4", "a whole number", "4"),
    "tau": (2.0, "a whole number", 2.0),
    "settings": ([1], "a table of names and values", [1]),
    "l2": ("0.1", "a number", "0.1"),
    "loss": (False, "a number", False),
    "rounds": (True, "a whole number", True),
    "target_gap": ("small", "a number", "small"),
    "seed": (None, "a whole number", None),
    "dtype": (32, "a text", 32),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types(name):
    value, kind, shown = WRONG[name]
    message = re.escape(f"the setting {name!r} should be {kind}, got {shown!r}")
    with pytest.raises(SpecError, match=message):
        Spec(**{name: value})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rounds = 1.5", "the setting 'rounds' should be a whole number, got 1.5"),
        ("rounds = true", "the setting 'rounds' should be a whole number, got True"),
        ("l2 = 'x'", "the setting 'l2' should be a number, got 'x'"),
        ("settings = 3", "the setting 'settings' should be a table of names and values, got 3"),
        ("data = 2020-01-01", "the setting 'data' should be a text"),
        ("roundz = 3", "unknown setting 'roundz'; did you mean 'rounds'?"),
        (
            "[feddcd]\neta = 1",
            "unknown setting 'feddcd'; known names: algorithm, certify_every",
        ),
        ("rounds = 1\nrounds = 2", "not a TOML file"),
    ],
)
def test_files_are_checked_by_name_and_type(line, message, path):
    path.write_text(line)
    with pytest.raises(SpecError, match=re.escape(f"{path}: {message}")):
        load_spec(path)


def test_a_file_that_is_not_text(path):
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not a TOML file"):
        load_spec(path)


def test_nearest():
    assert nearest("fedavgg", {"fedavg", "feddcd"}) == (
        "; did you mean 'fedavg'? Known names: fedavg, feddcd"
    )
    assert "did you mean 'a-1', 'a-2' or 'a-b-1'? Known" in nearest(
        "A", ["a-1", "a-2", "b", "a-b-1"]
    )
    assert nearest("x", ["b", "a"]) == "; known names: a, b"
    assert nearest("x", []) == "; there is nothing to choose from"
