"""The codebook: read, drafted, and a table held against it."""

import dataclasses
import tomllib
from pathlib import Path

import pytest
import tomli_w

from feddcd._errors import DataError, SpecError
from feddcd._settings import read_toml
from feddcd.data.codebook import Codebook, ColumnEntry, load_codebook, read_codebook
from feddcd.data.conform import CodebookError, check_table, conform, read_agreed
from feddcd.data.draft import draft
from feddcd.data.frames import read_frame

BOOK = """
[columns.id]
type = "identifier"
[columns.age]
type = "number"
unit = "years"
label = "Age at admission"
range = [0, 120]
missing = ["NA", "-9"]
[columns."n visits"]
type = "integer"
[columns.sex]
type = "category"
levels = ["male", "female", "other"]
reference = "female"
labels = {male = "men", female = "women"}
roles = ["predictor"]
[columns.stage]
type = "category"
levels = [1, 2, 3]
[columns.zip]
type = "category"
levels = ["01", "02"]
[columns.dead]
type = "boolean"
roles = ["outcome"]
[columns.day]
type = "date"
range = ["2020-01-01", "2024-12-31"]
"""
TABLE = """\
id,age,n visits,sex,stage,zip,dead,day
007,40.5,1,male,1,01,TRUE,2024-05-01
008,-9,2,female,2,02,FALSE,2020-01-01
009,60,,male,,01,NA,2023-12-31
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def book(text: str = BOOK) -> Codebook:
    Path("codebook.toml").write_text(text)
    return load_codebook("codebook.toml")


def table(text: str = TABLE, agreed: Codebook | None = None):
    Path("t.csv").write_text(text)
    return read_agreed("t.csv", agreed or book())


def test_what_fits():
    agreed = book()
    held = table()
    assert check_table(held, agreed) == []
    frame = conform(held, agreed, agreed.columns).frame
    assert frame["id"].tolist() == ["007", "008", "009"]
    assert frame["age"].dropna().tolist() == [40.5, 60]
    assert list(frame["sex"].cat.categories) == ["female", "male"]
    assert frame["zip"].tolist() == ["01", "02", "01"]
    assert list(frame["stage"].cat.categories) == [1, 2]
    assert frame["dead"].tolist() == [True, False, None]


def test_levels_and_references_come_from_it():
    assert book().levels(["sex", "stage", "age", "dead", "elsewhere"]) == {
        "dead": [False, True],
        "sex": ["female", "male", "other"],
        "stage": [1, 2, 3],
    }


def test_it_travels_as_plain_values():
    agreed = book()
    again = read_codebook(tomllib.loads(tomli_w.dumps(agreed.to_dict())))
    assert again == agreed
    assert "label" not in agreed.to_dict()["columns"]["sex"]


def test_missing_words_of_a_column_are_its_own():
    """Namibia is a country, and -9 is an age in no other column."""
    text = '[columns.c]\ntype = "category"\nlevels = ["NA", "DE"]\nmissing = []\n'
    held = table("c,x\nNA,-9\nDE,1\n,2\n", book(text))
    assert held.frame["c"].tolist()[:2] == ["NA", "DE"]
    assert held.frame["c"].isna().tolist() == [False, False, True]
    assert held.frame["x"].tolist() == [-9, 1, 2]


def test_booleans_by_one_rule():
    agreed = read_codebook({"columns": {"b": {"type": "boolean"}}})
    for written in ("TRUE\nFALSE", "true\nfalse", "1\n0", "True\nFalse"):
        held = table(f"b,x\n{written.replace(chr(10), ',1' + chr(10))},2\n", agreed)
        assert conform(held, agreed, ["b"]).frame["b"].tolist() == [True, False]


def changed(old: str, new: str) -> str:
    assert old in TABLE
    return TABLE.replace(old, new)


MISFITS = {  # what a person at the site reads, and what others may
    "an unknown level": (
        changed("male,1", "Male,1"),
        (
            "t.csv: in the column 'sex', 1 value is not a level; the first is 'Male' on line 2; "
            "the levels are 'male', 'female', 'other'"
        ),
        "column 'sex' has a level that is not in the codebook",
    ),
    "several": (
        changed("male", "m"),
        (
            "t.csv: in the column 'sex', 3 values are not a level; the first is 'm' on line 2; "
            "the levels are 'male', 'female', 'other'"
        ),
        "column 'sex' has a level that is not in the codebook",
    ),
    "a number that is no level": (
        changed("male,1", "male,4"),
        (
            "t.csv: in the column 'stage', 1 value is not a level; the first is 4 on line 2; "
            "the levels are "
            "1, 2, 3"
        ),
        "column 'stage' has a level that is not in the codebook",
    ),
    "a word among numbers": (
        changed("40.5", "old"),
        (
            "t.csv: in the column 'age', 1 value is not a number; the first is 'old' on line "
            "2; if this word means a missing value, list it in the codebook under missing = [...]"
        ),
        "column 'age' contains values that are not numbers",
    ),
    "NA where it is no missing word": (
        changed("-9", "n/a"),
        "column 'age', 1 value is not a number; the first is 'n/a' on line 3",
        "column 'age' contains values that are not numbers",
    ),
    "a share of a visit": (
        changed("40.5,1", "40.5,1.5"),
        (
            "t.csv: in the column 'n visits', 1 value is not a whole number; the first is "
            "1.5 on line 2"
        ),
        "column 'n visits' contains values that are not whole numbers",
    ),
    "out of range": (
        changed("40.5", "405"),
        "t.csv: in the column 'age', 1 value is outside 0 to 120; the first is 405.0 on line 2",
        None,
    ),
    "too early a day": (
        changed("2024-05-01", "1924-05-01"),
        (
            "t.csv: in the column 'day', 1 value is outside 2020-01-01 to 2024-12-31; the first is "
            "'1924-05-01' on line 2"
        ),
        None,
    ),
    "no day": (
        changed("2024-05-01", "1.5.2024"),
        (
            "t.csv: in the column 'day', 1 value is not a date; the first is '1.5.2024' on line 2; "
            "write a date as in 2024-12-31"
        ),
        "column 'day' contains values that are not dates",
    ),
    "words for true": (
        changed("TRUE", "yes"),
        (
            "t.csv: in the column 'dead', 1 value is not true, false, 1 or 0; the first is "
            "'yes' on "
            "line 2"
        ),
        "column 'dead' contains values that are not true or false",
    ),
    "a number for a zip": (
        changed(",01,", ",1,"),
        (
            "t.csv: in the column 'zip', 2 values are not a level; the first is '1' on line 2; "
            "the levels are '01', '02'"
        ),
        "column 'zip' has a level that is not in the codebook",
    ),
    "no column": (
        changed("stage", "Stage"),
        "t.csv: there is no column 'stage', which the codebook has",
        "there is no column 'stage'",
    ),
}


@pytest.mark.parametrize(("text", "told", "public"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit(text, told, public):
    agreed = book()
    held = table(text)
    (finding,) = check_table(held, agreed)
    assert told in str(finding.error(held))
    assert finding.public == public
    with pytest.raises(CodebookError if public else DataError):
        conform(held, agreed, agreed.columns)


def test_a_number_of_which_nobody_knows():
    agreed = read_codebook({"columns": {"x": {"type": "number"}}})
    held = table("x;y\n1,234;1\n", agreed)
    (finding,) = check_table(held, agreed)
    assert "'1,234' on line 2, which may mean 1234 or 1.234" in str(finding.error(held))


BAD = {
    "no column": (
        "",
        (
            "codebook.toml: the codebook has no column. Write a section for each column, for "
            "example [columns.age]"
        ),
    ),
    "a list": (
        "columns = 3",
        (
            "codebook.toml: the codebook has no column. Write a section for each column, for "
            "example [columns.age]"
        ),
    ),
    "another part": (
        "[column.x]\ntype = 'number'",
        "unknown setting 'column'; did you mean 'columns'?",
    ),
    "no settings": (
        "columns.x = 3",
        "column 'x': this column needs settings such as type = 'number'; got 3",
    ),
    "no type": (
        "[columns.x]\nunit = 'kg'",
        (
            "codebook.toml: the column 'x': the type is missing; give one of: boolean, "
            "category, date, identifier, integer, number"
        ),
    ),
    "another type": (
        "[columns.x]\ntype = 'numeric'",
        (
            "codebook.toml: the column 'x': there is no type 'numeric'; did you mean "
            "'number'? Known names: boolean, category, date, identifier, integer, number"
        ),
    ),
    "a setting": (
        "[columns.x]\ntype = 'number'\nunits = 'kg'",
        "unknown setting 'units'; did you mean",
    ),
    "a label": (
        "[columns.x]\ntype = 'number'\nlabel = 3",
        "column 'x': label should be text, got 3",
    ),
    "no levels": (
        "[columns.x]\ntype = 'category'",
        (
            "codebook.toml: the column 'x': a category needs its levels, for example levels = "
            "['f', 'm']"
        ),
    ),
    "mixed levels": (
        "[columns.x]\ntype = 'category'\nlevels = [1, 'a']",
        (
            "codebook.toml: the column 'x': levels must be all words or all whole numbers; got "
            "[1, 'a']"
        ),
    ),
    "a level twice": (
        "[columns.x]\ntype = 'category'\nlevels = ['a', 'a']",
        "codebook.toml: the column 'x': the level 'a' occurs twice",
    ),
    "a reference": (
        "[columns.x]\ntype = 'category'\nlevels = ['a', 'b']\nreference = 'c'",
        "the reference 'c' is not one of the levels 'a', 'b'",
    ),
    "labels": (
        "[columns.x]\ntype = 'category'\nlevels = ['a']\nlabels = {b = 'B'}",
        "labels has a text for 'b', which is not one of the levels 'a'",
    ),
    "levels of numbers": (
        "[columns.x]\ntype = 'number'\nlevels = [1]",
        (
            "codebook.toml: the column 'x': the setting levels is only for type = 'category', "
            "not for 'number'"
        ),
    ),
    "a range": (
        "[columns.x]\ntype = 'number'\nrange = [2, 1]",
        (
            "codebook.toml: the column 'x': range must be [smallest, largest], for example [0, "
            "120]; got (2, 1)"
        ),
    ),
    "half a range": (
        "[columns.x]\ntype = 'number'\nrange = [2]",
        (
            "codebook.toml: the column 'x': range must be [smallest, largest], for example [0, "
            "120]; got (2,)"
        ),
    ),
    "a range of words": (
        "[columns.x]\ntype = 'boolean'\nrange = [0, 1]",
        (
            "codebook.toml: the column 'x': range is only for numbers and dates, not for type = "
            "'boolean'"
        ),
    ),
    "roles": (
        "[columns.x]\ntype = 'number'\nroles = ['outcomes']",
        "there is no role 'outcomes'; did you",
    ),
    "missing": (
        "[columns.x]\ntype = 'number'\nmissing = -9",
        "missing should be a list of words, got -9",
    ),
    "no TOML": ("[columns", "codebook.toml: not a TOML file"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_bad_codebooks(text, message):
    with pytest.raises(SpecError) as error:
        book(text)
    assert "codebook.toml" in str(error.value)
    assert message in str(error.value)


def test_no_codebook():
    with pytest.raises(
        SpecError,
        match=(
            r"no\.toml: no such file; to make a first version, use `feddcd codebook DATA --out "
            r"codebook\.toml`"
        ),
    ):
        load_codebook("no.toml")


@pytest.mark.parametrize(
    ("name", "role", "message"),
    [
        (
            "id",
            "predictor",
            "not allow the role 'predictor' for the column 'id', because an identifier cannot have "
            "a role",
        ),
        (
            "sex",
            "outcome",
            "does not allow the role 'outcome' for the column 'sex'; allowed roles: 'predictor'",
        ),
        (
            "day",
            "predictor",
            "'day' is a date, which is neither a number nor a category; write the days or years",
        ),
        ("day", "outcome", "'day' is a date"),
        ("aeg", "outcome", "the codebook has no column 'aeg'; did you mean 'age'?"),
    ],
)
def test_roles(name, role, message):
    with pytest.raises(SpecError) as error:
        book().check_role(name, role)
    assert message in str(error.value)
    book().check_role("age", role)


def test_a_codebook_as_an_editor_saves_it():
    text = BOOK.replace('type = "date"', 'type = "date"\nlabel = "früh"')
    Path("b.toml").write_bytes(text.encode("utf-8-sig"))
    assert load_codebook("b.toml").columns["day"].label == "früh"
    Path("b.toml").write_bytes(text.encode("cp1252"))
    with pytest.raises(SpecError, match=r"b\.toml: not a TOML file: .*; save the file as UTF-8$"):
        load_codebook("b.toml")


@pytest.mark.parametrize(
    "path", [r"C:\Daten\x.csv", r"C:\Users\x.csv", r"C:\new.csv", r"\\server\x.csv"]
)
def test_a_path_of_windows(path):
    Path("site.toml").write_text(f'data = "{path}"\n')
    with pytest.raises(SpecError, match=r"; write a Windows path with /, for example C:/Daten"):
        read_toml(Path("site.toml"))


def test_a_draft_is_a_codebook_and_its_files_fit():
    text = "id,age,sex,ok,day,n,größe (cm),rare,empty\n" + "".join(
        f"p{i},{i + 0.5},{'fm'[i % 2]},{'TRUE' if i % 3 else 'FALSE'},2024-01-{i % 28 + 1:02d},"
        f"{i},1.5,{'x' if i else 'one'},\n"
        for i in range(60)
    )
    Path("t.csv").write_text(text)
    Path("u.csv").write_text(text.replace(",m,", ",d,").replace(",ok", ",fine"))
    drafted = draft([read_frame("t.csv"), read_frame("u.csv")])
    agreed = book(drafted)
    kinds = {name: entry.type for name, entry in agreed.columns.items()}
    assert kinds == {
        "id": "identifier", "age": "number", "sex": "category", "ok": "boolean", "day": "date",
        "n": "integer", "größe (cm)": "number", "rare": "category", "empty": "number",
        "fine": "boolean",
    }  # fmt: skip
    assert agreed.columns["sex"] == ColumnEntry("category", levels=("d", "f", "m"))
    assert '"one",  # fewer than 5 rows have this level' in drafted
    assert "# this column is missing in 'u.csv'" in drafted
    for number in ("59.5", "0.5,", "p1", "1.5"):  # the largest, the smallest, a person
        assert number not in drafted
    held = read_agreed("t.csv", agreed)
    assert [finding.column for finding in check_table(held, agreed)] == ["fine"]


def test_the_draft_quotes_what_toml_must_have_quoted():
    name = 'a "b" \\ [c]'
    Path("t.csv").write_text('"a ""b"" \\ [c]",x\n"\u2028é",1\n"\u2028é",2\n"z",2\n')
    agreed = book(draft([read_frame("t.csv")]))
    assert agreed.columns[name].levels == ("z", "\u2028é")


def test_entries_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ColumnEntry("number").type = "date"  # pyright: ignore
