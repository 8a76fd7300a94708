"""Files as colleagues have them: read as they are meant, with a note of what was sniffed, or
refused with the place, the value and the remedy."""

import bz2
import gzip
import lzma
import sys
import unicodedata
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feddcd._errors import DataError
from feddcd.data._cells import any_number, fits
from feddcd.data._foreign import FOREIGN
from feddcd.data.frames import Reading, check_used, is_foreign, no_column, read_frame


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(content: str | bytes, name: str = "t.csv", **how: Any):
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_frame(name, how=Reading(**how))


R_CSV = '"","x","g","l"\n"1",1.5,"ü",TRUE\n"2",NA,"b",FALSE\n"3",3,NA,NA\n'
R_CSV2 = '"";"x";"g";"l"\n"1";1,5;"ü";TRUE\n"2";NA;"b";FALSE\n"3";3;NA;NA\n'
R_TABLE = "x\tg\tl\n1.5\tü\tTRUE\nNA\tb\tFALSE\n3\tNA\tNA\n"
ROWS = "the first column has no name, so feddcd does not use it (it may have names of rows)"
SAME = {  # what R's data.frame(x=c(1.5,NA,3), g=c("ü","b",NA), l=c(TRUE,FALSE,NA)) is written as
    "write.csv": (R_CSV.encode(), [ROWS]),
    "write.csv2": (R_CSV2.encode(), ["semicolons", "decimal commas", ROWS]),
    "write.table with tabs": (R_TABLE.encode(), ["tabs"]),
    "row.names = FALSE, na = ''": ('"x","g","l"\n1.5,"ü",TRUE\n,"b",FALSE\n3,,\n'.encode(), []),
    "UTF-8 with a mark": (b"\xef\xbb\xbf" + R_CSV.encode(), [ROWS]),
    "UTF-16": (R_CSV.encode("utf-16"), ["UTF-16", ROWS]),
    "UTF-16, big end first": (b"\xfe\xff" + R_CSV.encode("utf-16-be"), ["UTF-16"]),
    "UTF-32": (R_CSV.encode("utf-32"), ["UTF-32"]),
    "Latin-1": (R_CSV.encode("latin-1"), ["Windows-1252", ROWS]),
    "write.csv2 in Latin-1": (R_CSV2.encode("latin-1"), ["Windows-1252", "decimal commas"]),
    "Excel's sep= line": (b"sep=;\r\n" + R_CSV2.replace("\n", "\r\n").encode(), ["decimal commas"]),
    "bars": (R_TABLE.replace("\t", "|").encode(), ["bars"]),
    "gz": (gzip.compress(R_CSV2.encode(), mtime=0), ["semicolons"]),
    "old Macintosh": (R_CSV.replace("\n", "\r").encode(), [ROWS]),
    "blanks after commas": (R_CSV.replace(",", ", ").encode(), [ROWS]),
    "decomposed letters": (unicodedata.normalize("NFD", R_CSV).encode(), [ROWS]),
    "NaN for a number": (R_CSV.replace('2",NA', '2",NaN').encode(), [ROWS]),
    "quoted numbers": (R_CSV.replace("1.5", '"1.5"').encode(), [ROWS]),
    "true in small letters": (
        R_CSV.replace("TRUE", "true").replace("FALSE", "false").encode(),
        [ROWS],
    ),
}


@pytest.mark.parametrize(("content", "said"), SAME.values(), ids=SAME)
def test_one_table_written_in_many_ways(content, said):
    table = read(content, "t.csv.gz" if content.startswith(b"\x1f\x8b") else "t.csv")
    frame = table.frame
    assert list(frame.columns) == ["x", "g", "l"]
    assert frame["x"].dropna().tolist() == [1.5, 3]
    assert frame["g"].dropna().tolist() == ["ü", "b"]
    assert frame["l"].dropna().tolist() == [True, False]
    assert frame.isna().to_numpy().tolist() == [
        [False] * 3,
        [True, False, False],
        [False, True, True],
    ]
    assert len(table.notes) == bool(said)
    for part in said:
        assert part in table.notes[0]


NUMBERS = {  # a column as it is written, what it means, and a note of it
    "decimal commas": (["1,5", "2,25"], ";", [1.5, 2.25], "decimal commas"),
    "and points for thousands": (
        ["1.234,5", "12"],
        ";",
        [1234.5, 12],
        "thousands separators in the column 'x'",
    ),
    "points between semicolons": (["1.5", "2.25"], ";", [1.5, 2.25], "semicolons"),
    "thousands between semicolons": (["1,234.5", "2"], ";", [1234.5, 2], "thousands"),
    "millions": (["1,234,567", "2"], ";", [1234567, 2], "thousands separators"),
    "millions with points": (["1.234.567", "2"], ";", [1234567, 2], "thousands separators"),
    "quoted thousands": (['"1,234"', '"2.5"'], ",", [1234, 2.5], "thousands separators"),
    "quoted decimal commas": (['"1,5"', '"2,25"'], ",", [1.5, 2.25], "decimal commas"),
    "a leading zero": (["0,125", "3"], ";", [0.125, 3], "decimal commas"),
    "three decimals between commas": (["1.234", "2.345"], ",", [1.234, 2.345], None),
    "blanks in thousands": (["1 234", "2"], ",", [1234, 2], "thousands separators"),
    "Swiss thousands": (["1'234.5", "2"], ",", [1234.5, 2], "thousands separators"),
    "exponents": (["1e-3", "-2.5E+2"], ",", [0.001, -250], None),
    "exponents with commas": (["1,5e3", "2"], ";", [1500, 2], "decimal commas"),
    "signs": (["+1.5", "-.5"], ",", [1.5, -0.5], None),
}


@pytest.mark.parametrize(("written", "sep", "meant", "note"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(written, sep, meant, note):
    table = read(f"x{sep}g\n" + "".join(f"{value}{sep}a\n" for value in written))
    assert table.frame["x"].tolist() == meant
    assert not table.doubts
    assert (note in table.notes[0]) if note else not table.notes


@given(
    st.lists(st.floats(-1e7, 1e7).map(lambda x: round(x, 3)), min_size=1, max_size=6),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([".", ","]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_number_is_never_read_as_another(values, sep, decimal):
    """It is the one that was written, or the column is not used before somebody says."""
    written = [repr(value).replace(".", decimal) for value in values]
    lines = "".join(f'"{value}"{sep}a\n' for value in written)
    table = read(f"x{sep}g\n{lines}")
    if "x" not in table.doubts:
        assert table.frame["x"].tolist() == values
    told = read(f"x{sep}g\n{lines}", decimal=decimal, sep=sep)
    assert told.frame["x"].tolist() == values


def test_whole_numbers_and_words_stay_what_they_are():
    frame = read("a,b,c\n1,01,x\n2,02,1\n").frame
    assert frame["a"].tolist() == [1, 2]
    assert frame["a"].dtype.kind == "i"
    assert frame["c"].tolist() == ["x", "1"]


@pytest.mark.parametrize("word", ["None", "NULL", "n/a", "nan", "null", "N/A", "#N/A", "NaN"])
def test_words_that_others_take_for_missing_are_levels(word):
    """10 of the rows were dropped without a word."""
    text = "g,x\n" + f"{word},1\na,2\nb,3\n"
    assert read(text).frame["g"].tolist() == [word, "a", "b"]
    assert read(text, na=(word,)).frame["g"].isna().tolist() == [True, False, False]
    assert read(text.replace(word, "NA")).frame["g"].isna().sum() == 1


NAMES = [
    "bmi.at.entry",
    "blood pressure",
    "größe",
    "t(0)",
    "x[1]",
    "class",
    "if",
    "1st",
    "a`b",
    "m²",
]


def test_names_are_read_as_they_are():
    header = ",".join(
        unicodedata.normalize("NFD", name) if name == "größe" else name for name in NAMES
    )
    assert list(read(f"{header}\n{','.join('1' * len(NAMES))}\n").frame.columns) == NAMES


def test_a_file_of_more_rows_than_are_sniffed():
    text = "a;b\n" + '1,5;"x; y\nz"\n' * 30_000
    table = read(text)
    assert table.frame.shape == (30_000, 2)
    assert table.place(1) == "on line 4"


USED = {  # refused where the column x is used, and no sooner
    "an ISO date": (
        "x,y\n2024-05-01,1\n",
        "column 'x' has '2024-05-01' on line 2, which is a date or a time. Change such values to "
        "numbers, for example days or years",
    ),
    "a time stamp": (
        "x,y\n2024-05-01T12:30:00Z,1\n",
        "'2024-05-01T12:30:00Z' on line 2, which is a date",
    ),
    "a German date": (
        "x,y\n01.05.2024,1\n",
        "column 'x' has '01.05.2024' on line 2, which is a date or a time",
    ),
    "an American date": (
        "x,y\n5/1/2024,1\n",
        "column 'x' has '5/1/2024' on line 2, which is a date or a time",
    ),
    "a time": (
        "x,y\n12:30,1\n",
        (
            "column 'x' has '12:30' on line 2, which is a date or a time. Change such values to "
            "numbers"
        ),
    ),
    "a percent sign": (
        "x,y\n45%,1\n50%,2\n",
        (
            "column 'x' has '45%' on line 2: write numbers without other characters (write 45% as "
            "0.45 or as 45, in the same way at every site)"
        ),
    ),
    "a percent sign among numbers": ("x,y\n45,1\n50 %,2\n", "column 'x' has '50 %' on line 3"),
    "a currency": (
        "x,y\n€5,1\n€6.50,1\n",
        "column 'x' has '€5' on line 2: write numbers without other",
    ),
    "below detection": (
        "x,y\n<0.5,1\n0.7,1\n",
        (
            "column 'x' has '<0.5' on line 2, which is a limit and not a number. Replace such "
            "values by numbers. All sites must use the same rule, for example half of the limit"
        ),
    ),
    "years": (
        "x,y\n" + "".join(f"{40 + k} y,1\n" for k in range(13)),
        (
            "column 'x' has '40 y' on line 2: each value of this column is a number with 'y' "
            "behind it. If this is a column of numbers, write them without 'y'. If the "
            "column is a category with 13 levels, write a codebook with type = 'category'"
        ),
    ),
    "n/a among numbers": (
        "x,y\n1,1\n\nn/a,2\n3,1\n",
        (
            "t.csv: column 'x' has 'n/a' on line 4, but other values of this column are "
            "numbers: correct this value. If 'n/a' means a missing value, give na='n/a'. If the "
            "column is a category, write a codebook with type = 'category'"
        ),
    ),
    "mostly None": (
        "x,y\nNone,1\nNone,2\nNone,2\n3,1\n4,1\n",
        (
            "t.csv: column 'x' has 'None' on line 2, but other values of this column are "
            "numbers: correct this value. If 'None' means a missing value, give na='None'."
        ),
    ),
    "NULL": (
        "x,y\n1,1\nNULL,2\n",
        (
            "t.csv: column 'x' has 'NULL' on line 3, but other values of this column are "
            "numbers: correct this value. If 'NULL' means a missing value, give na='NULL'."
        ),
    ),
    "nan in small letters": (
        "x,y\n1,1\nnan,2\n",
        (
            "t.csv: column 'x' has 'nan' on line 3, but other values of this column are "
            "numbers: correct this value. If 'nan' means a missing value, give na='nan'."
        ),
    ),
    "Excel's error": (
        "x,y\n1,1\n#DIV/0!,2\n",
        (
            "t.csv: column 'x' has '#DIV/0!' on line 3, but other values of this column are "
            "numbers: correct this value. If '#DIV/0!' means a missing value, give na='#DIV/0!'."
        ),
    ),
    "a dot, as SAS writes": (
        "x,y\n1,1\n.,2\n",
        (
            "t.csv: column 'x' has '.' on line 3, but other values of this column are "
            "numbers: correct this value. If '.' means a missing value, give na='.'. If the "
            "column is a category, write a codebook with type = 'category'"
        ),
    ),
    "a question mark": (
        "x,y\n1,1\n?,2\n",
        (
            "t.csv: column 'x' has '?' on line 3, but other values of this column are "
            "numbers: correct this value. If '?' means a missing value, give na='?'. If the "
            "column is a category, write a codebook with type = 'category'"
        ),
    ),
    "a slip": (
        "x,y\n1,1\n2,1\n12o,2\n",
        (
            "t.csv: column 'x' has '12o' on line 4, but other values of this column are "
            "numbers: correct this value. If '12o' means a missing value, give na='12o'."
        ),
    ),
    "a letter for a digit": (
        "x,y\n1,1\n2,1\nl2,2\n",
        (
            "t.csv: column 'x' has 'l2' on line 4, but other values of this column are "
            "numbers: correct this value. If 'l2' means a missing value, give na='l2'."
        ),
    ),
    "two points": (
        "x,y\n1.2.3,1\n2,1\n3,1\n",
        (
            "t.csv: column 'x' has '1.2.3' on line 2, but other values of this column are "
            "numbers: correct this value. If '1.2.3' means a missing value, give na='1.2.3'."
        ),
    ),
    "thousands or decimals": (
        "x;y\n1,234;1\n",
        (
            "t.csv: column 'x' has '1,234' on line 2, which may mean 1234 or 1.234: set "
            "decimal to the decimal sign of this file"
        ),
    ),
    "the same with a point": (
        "x;y\n1.234;1\n",
        "column 'x' has '1.234' on line 2, which may mean 1234",
    ),
    "the same in quotes": (
        'x,y\n"1,234",1\n',
        "column 'x' has '1,234' on line 2, which may mean 1234",
    ),
    "both signs": (
        "x;y\n1.5;1,5\n",
        (
            "column 'x' has '1.5' on line 2, but in other columns the decimal sign is ',': "
            "write all numbers with ',' as decimal sign, here 1,5. If '.' is the decimal sign of "
            "all columns that you use, give decimal='.' instead"
        ),
    ),
    "the first of several": (
        'x,y\n"6,7",2.5\n"1,5",1\n',
        (
            "column 'x' has '6,7' on line 2, but in other columns the decimal sign is '.': write "
            "all numbers with '.' as decimal sign, here 6.7. If ',' is the decimal sign of all "
            "columns that you use, give decimal=',' instead"
        ),
    ),
    "both signs in one column": (
        "x;y\n1,5;1\n2.5;1\n",
        (
            "t.csv: column 'x' has '2.5' on line 3, but in other numbers of this column the "
            "decimal sign is ',': write all numbers with ',' as decimal sign, here 2,5"
        ),
    ),
    "Indian thousands": (
        'x,y\n"1,23,456",1\n1,1\n1,2\n',
        (
            "t.csv: column 'x' has '1,23,456' on line 2, but other values of this column are "
            "numbers: correct this value. If '1,23,456' means a missing value, give na='1,23,456'."
        ),
    ),
    "an underscore": (
        "x,y\n1_000,1\n2,2\n",
        (
            "t.csv: column 'x' has '1_000' on line 2, but other values of this column are "
            "numbers: correct this value. If '1_000' means a missing value, give na='1_000'."
        ),
    ),
    "Arabic digits": (
        "x,y\n١٢,1\n2,2\n",
        (
            "t.csv: column 'x' has '١٢' on line 2, but other values of this column are "
            "numbers: correct this value. If '١٢' means a missing value, give na='١٢'."
        ),
    ),
}


@pytest.mark.parametrize(("content", "message"), USED.values(), ids=USED)
def test_columns_that_are_not_to_be_used(content, message):
    table = read(content)
    check_used(table, ["y"] if "both" not in message and "elsewhere" not in message else [])
    with pytest.raises(DataError) as error:
        check_used(table, ["y", "x"])
    assert str(error.value).startswith("t.csv: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "values",
    [
        [f"{5 * k} mg" for k in range(1, 13)],  # doses
        [f"{k}{'ab'[k % 2]}" for k in range(20)],
        [f"ward {k}" for k in range(20)],
    ],
)
def test_numbers_with_letters_may_be_categories(values):
    table = read("x,y\n" + "".join(f"{value},1\n" for value in values))
    check_used(table, ["x"])


def test_a_decimal_sign_that_was_given_is_not_asked_for_again():
    Path("t.csv").write_text("x;y\n1,5;1\n2.5;1\n")
    for name in ("t.csv", book({"a": [["x", "y"], ["1.5", 1]]})):
        with pytest.raises(DataError) as error:
            check_used(read_frame(name, how=Reading(decimal=",")), ["x"])
        told = "but decimal=',' is given: write all numbers with ',' as decimal sign"
        assert str(error.value).endswith(told)


@pytest.mark.parametrize(
    ("content", "how", "meant"),
    [
        ("x;y\n1,234;1\n", {"decimal": ","}, [1.234]),
        ("x;y\n1,234;1\n", {"decimal": "."}, [1234]),
        ("x;y\n1.234;1\n", {"decimal": ","}, [1234]),
        ("x;y\n1.5;1,5\n", {"decimal": "."}, [1.5]),
        ("x,y\n1,1\nn/a,2\n", {"na": ("n/a",)}, [1.0]),
        ("x:y\n1.5:2\n", {"sep": ":"}, [1.5]),
        ("x y\n1.5 2\n", {"sep": " "}, [1.5]),
        ("x\ty\n1.5\t2\n", {"sep": "\\t"}, [1.5]),
        ("x,ÿ\n1.5,2\n".encode("latin-1"), {"encoding": "latin-1"}, [1.5]),
        ("x,y\n1.5,2\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, [1.5]),
        ("x,y\n1.5,é\n".encode("mac-roman"), {"encoding": "mac-roman"}, [1.5]),
    ],
)
def test_what_the_user_says_counts(content, how, meant):
    table = read(content, **how)
    assert table.frame["x"].dropna().tolist() == meant
    assert not table.doubts.keys() & {"x"}


@pytest.mark.parametrize(
    "codec", ["zlib", "base64", "hex", "rot13", "punycode", "undefined", "idna"]
)
def test_codecs_that_are_not_of_text(codec):
    with pytest.raises(DataError, match=f"^t.csv: there is no text encoding '{codec}'; "):
        read(b"x,y\n1,-2\n", encoding=codec)


@pytest.mark.parametrize("long", ["1" * 100_000, "1" * 100_000 + "a", "1,234" * 20_000, "0" * 401])
def test_a_long_cell_is_never_a_number(long):
    """One of 20,000 digits and a letter took half a minute."""
    table = read(f'x,y\n"{long}",1\nb,2\n')
    assert table.frame["x"].tolist() == [long, "b"]
    assert not any_number(long)


def test_no_pattern_looks_at_a_long_cell():
    class Form:
        def fullmatch(self, text: str) -> None:
            raise AssertionError(len(text))

    assert not fits(cast(Any, Form()), "1" * 401)


REFUSED = {
    "a broken letter": (
        ("x,y\nä,1\n".encode() + b"\xe4,2\n"),
        {},
        (
            "t.csv:3: byte 0xe4 is not UTF-8 text; correct this byte, or give the encoding of "
            "the file with encoding"
        ),
    ),
    "no western text": (
        b"x\n\x81\n",
        {},
        "t.csv:2: byte 0x81 is neither UTF-8 nor Windows-1252 text",
    ),
    "UTF-16 without a mark": (
        "x,y\n1,2\n".encode("utf-16-le"),
        {},
        (
            "t.csv:1: this line contains a zero byte, so feddcd cannot read the file as text; if "
            "the file is UTF-16 text, give encoding='utf-16-le'"
        ),
    ),
    "the wrong encoding": (
        "x,ä\n1,2\n".encode("latin-1"),
        {"encoding": "utf-8"},
        "t.csv:1: byte 0xe4 is not utf-8 text",
    ),
    "an unknown encoding": (
        b"x\n1\n",
        {"encoding": "latin1000"},
        (
            "t.csv: there is no text encoding 'latin1000'; encoding can be, for example, "
            "utf-8, utf-16, latin-1, windows-1252 or mac-roman"
        ),
    ),
    "a long separator": (
        b"x\n1\n",
        {"sep": "::"},
        "sep must be one character, such as ';' or '\\t' for a tab; got '::'",
    ),
    "another decimal": (
        b"x\n1\n",
        {"decimal": "'"},
        "t.csv: decimal must be '.' or ',' but is \"'\"",
    ),
    "a sheet of a text file": (
        b"x\n1\n",
        {"sheet": "one"},
        "t.csv: sheet works only for .xlsx files",
    ),
    "write.table with row names": (
        b'"x","y"\n"1",5,6\n"2",7,8\n',
        {},
        (
            "t.csv:2: this line has 3 fields, but the header has 2; if the first field is "
            "the name of the row, give the first column a name, or write the table with "
            "row.names = FALSE"
        ),
    ),
    "a comma in a field": (
        b"x,y\n1,2\nSmith, J,3\n",
        {},
        (
            "t.csv:3: this line has 3 fields, but the header has 2; put a field that "
            "contains the separator into quotes, or name the separator with sep"
        ),
    ),
    "decimal commas in a comma file": (
        b"x,y\n1,2\n1,5,3\n",
        {},
        "t.csv:3: this line has 3 fields, but the header has 2",
    ),
    "a line cut short": (
        b"x;y\n1;2\n1\n3;4\n",
        {},
        "t.csv:3: this line has 1 field, but the header has 2",
    ),
    "a quote that does not end": (
        b'x,y\n1,"2\n',
        {},
        "t.csv:2: feddcd cannot read this line (unexpected end of data); check the quotes in this "
        "line",
    ),
    "a comma at the end": (
        b"x,y,\n1,2,\n",
        {},
        "t.csv:1: column 3 of 3 has no name; give this column a name, or remove it",
    ),
    "a name twice": (b"x,y,x\n1,2,3\n", {}, "t.csv:1: two columns have the name 'x'; rename one"),
    "names that look alike": (
        "x²,x2\n1,2\n".encode(),
        {},
        "t.csv:1: the columns 'x²', 'x2' have names that look alike; rename one of them",
    ),
    "one name in two spellings": ("ä,a\u0308\n1,2\n".encode(), {}, "two columns have the name 'ä'"),
    "nothing": (
        b"",
        {},
        "t.csv: this file is empty; its first line must contain the names of the columns",
    ),
    "a mark alone": (
        b"\xef\xbb\xbf",
        {},
        "t.csv: this file is empty; its first line must contain the names of the columns",
    ),
}


@pytest.mark.parametrize(("content", "how", "message"), REFUSED.values(), ids=REFUSED)
def test_files_that_are_refused(content, how, message):
    with pytest.raises(DataError) as error:
        read(content, **how)
    assert message in str(error.value)


@pytest.mark.parametrize("suffix", FOREIGN)
def test_files_of_other_programs(suffix):
    name = f"t{suffix.upper()}"
    assert is_foreign(name)
    with pytest.raises(DataError) as error:
        read(b"", name)
    assert f"{name}: feddcd cannot read this file as a table, because" in str(error.value)
    assert str(error.value).endswith(FOREIGN[suffix])


@pytest.mark.parametrize("option", ["sep", "decimal", "encoding", "na", "sheet"])
def test_options_that_do_not_go_with_parquet(option):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"x": [1]}).to_parquet("t.parquet")
    value = {"na": ("-",), "decimal": ","}.get(option, ";")
    with pytest.raises(DataError, match=rf"t\.parquet: {option} works only for "):
        read_frame("t.parquet", how=Reading(**{option: value}))


def book(sheets: dict[str, list[list[Any]]], name: str = "t.xlsx") -> str:
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(name)
    return name


PATIENTS = [
    ["id", "age", "sick", "größe", None],
    ["01", 40.5, True, "a"],
    [],
    ["02", None, False, "b"],
]


def test_a_sheet_of_excel():
    table = read_frame(book({"patients": PATIENTS, "notes": []}), text=("id",))
    assert list(table.frame.columns) == ["id", "age", "sick", "größe"]
    assert table.frame["id"].tolist() == ["01", "02"]
    assert table.frame["age"].dropna().tolist() == [40.5]
    assert table.frame["sick"].tolist() == [True, False]
    assert table.place(1) == "in row 4"
    assert table.notes == ("t.xlsx: feddcd read this file with the sheet 'patients'",)


@pytest.mark.parametrize(
    ("sheets", "how", "message"),
    [
        (
            {"a": PATIENTS, "b": PATIENTS},
            {},
            "has the sheets 'a', 'b': choose one, for example with sheet='a'",
        ),
        (
            {"a": PATIENTS},
            {"sheet": "aa"},
            "no sheet 'aa'; did you mean 'a'? sheets in this file: 'a'",
        ),
        (
            {"a": []},
            {},
            "the sheet 'a' is empty; its first row must contain the names of the columns",
        ),
        ({"a": [["x", None, "y"], [1, 2, 3]]}, {}, "sheet 'a': column 2 of 3 has no name"),
        ({"a": [["x", "y"], [1, 2], [3, 4, 5]]}, {}, "sheet 'a': column 3 of 3 has no name"),
        ({"a": [["x", "x"], [1, 2]]}, {}, "sheet 'a': two columns have the name 'x'"),
        (
            {"a": [["x", "y"], [1, "=A2+1"]]},
            {},
            (
                "row 2 of the sheet 'a' contains the formula '=A2+1', but the file does not "
                "contain the result of this formula"
            ),
        ),
        (
            {"a": [["x", "y"], [1, 2], ["=A2", "=B2"]]},
            {},
            (
                "row 3 of the sheet 'a' contains the formula '=A2', but the file does not contain "
                "the result of this formula"
            ),
        ),
        ({"a": PATIENTS}, {"sep": ";"}, "sep works only for .csv and .tsv files"),
    ],
)
def test_sheets_that_are_refused(sheets, how, message):
    name = book(sheets)
    with pytest.raises(DataError) as error:
        read_frame(name, how=Reading(**how))
    assert str(error.value).startswith("t.xlsx: ")
    assert message in str(error.value)


def test_a_value_in_the_last_corner_of_excel():
    """A file of 5 kB, with billions of empty cells."""
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.load_workbook(book({"a": [["x", "y"], [1, 2]]}))
    made["a"]["XFD1048576"] = 1
    made.save("t.xlsx")
    with pytest.raises(
        DataError, match=r"^t\.xlsx: the sheet 'a' has more than 5,000,000 empty .*"
    ):
        read_frame("t.xlsx")
    del made["a"]["XFD1048576"]
    made["a"].cell(300_000, 2).value = 3
    made.save("t.xlsx")
    assert read_frame("t.xlsx").frame["y"].tolist() == [2, 3]


def test_a_large_part_of_an_excel_file(monkeypatch):
    monkeypatch.setattr("feddcd.data._excel.MOST_UNPACKED", 1000)
    with pytest.raises(
        DataError,
        match=(
            r"t\.xlsx: this file has 17 kB when it is unpacked, but feddcd reads at most 1 kB: "
            r"save the sheet as \.csv"
        ),
    ):
        read_frame(book({"a": PATIENTS}))


def test_hidden_rows_and_percent_cells_are_told():
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.load_workbook(book({"a": [["x", "spo2"], [1, 0.97], [2, 0.9], [3, 0.8]]}))
    made["a"].row_dimensions[3].hidden = True
    made["a"].row_dimensions[9].hidden = True
    made["a"]["B2"].number_format = "0%"
    made.save("t.xlsx")
    table = read_frame("t.xlsx")
    assert table.frame["x"].tolist() == [1, 2, 3]
    assert (
        "; Excel hides 1 row (by a filter or by hand), but feddcd also uses hidden rows"
        in table.notes[0]
    )
    assert "; Excel shows 'spo2' in per cent, but feddcd reads 97% as 0.97" in table.notes[0]


BOMBS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("end", BOMBS)
def test_a_packed_file_that_unpacks_to_too_much(end, monkeypatch):
    monkeypatch.setattr("feddcd.data.files.SMALL", 10_000)
    monkeypatch.setattr("feddcd.data.files.BLOCK", 5_000)
    packed = BOMBS[end](b"x,y\n" + b"1,2\n" * 1_000_000)
    with pytest.raises(
        DataError, match=rf"^t\.csv\.{end}: this file becomes larger than .* unpack it first"
    ):
        read(packed, f"t.csv.{end}")
    monkeypatch.setattr("feddcd.data.files.SMALL", 1 << 26)
    monkeypatch.setattr("feddcd.data.files.MOST_UNPACKED", 100_000)
    with pytest.raises(
        DataError,
        match=r"this file becomes larger than 100 kB when it is unpacked; if this file is a table",
    ):
        read(packed, f"t.csv.{end}")
    assert len(read(b"x,y\n" + b"1,2\n" * 30_000).frame) == 30_000  # a plain one is what it is


def test_text_that_is_a_number_in_a_cell():
    name = book({"a": [["x", "y"], ["1,5", 1.234]]})
    with pytest.raises(
        DataError,
        match=(
            r"t\.xlsx: column 'x' has '1,5' in row 2, but in other columns the decimal sign "
            r"is '\.': write all numbers with '\.' as decimal sign, here 1\.5\. If ',' is the "
            r"decimal sign of all columns that you use, give decimal=',' instead"
        ),
    ):
        check_used(read_frame(name), ["x"])
    assert read_frame(name, how=Reading(decimal=",")).frame.iloc[0].tolist() == [1.5, 1.234]


def test_dates_and_errors_of_excel():
    import datetime

    day = datetime.datetime(2024, 5, 1)
    table = read_frame(book({"a": [["day", "x"], [day, 1], [day, "#N/A"], [day, 2]]}))
    for name, message in (
        ("day", "'2024-05-01' in row 2, which is a date"),
        (
            "x",
            (
                r"t\.xlsx: column 'x' has '#N/A' in row 3, but other values of this "
                r"column are numbers: correct this value\. "
                r"If '#N/A' means a missing value, give na='#N/A'\. If the column is a "
                r"category, write a codebook with type = 'category'"
            ),
        ),
    ):
        with pytest.raises(DataError, match=message):
            check_used(table, [name])


def test_excel_without_its_reader(monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        DataError, match=r"t\.xlsx: .*pip install 'feddcd\[excel\]'; or save the sheet"
    ):
        read(b"", "t.xlsx")


def test_no_excel_file():
    pytest.importorskip("openpyxl")
    with pytest.raises(DataError, match=r"t\.xlsx: this file cannot be read as an Excel file: "):
        read(b"x,y\n", "t.xlsx")


def test_a_hint_far_down_is_a_doubt_at_most():
    """Of a long column its first values are looked at, in their order: the same in every run."""
    unsure = "".join(f"{i}.{j:03d};1\n" for i in range(1, 3) for j in range(900))
    assert read(f"x;y\n{unsure}1.5;1\n").doubts.keys() == {"x"}
    assert read(f"x;y\n1.5;1\n{unsure}").frame["x"].iloc[1] == 1.0
    assert read(f"x;y\n{unsure}1.5;1,5\n").doubts.keys() == {"x"}


@pytest.mark.parametrize("written", ["-9", "-9.0", " -9.00"])
def test_a_number_that_means_missing_does_so_in_every_spelling(tmp_path, written):
    """Rows with -9.0 kept a body mass of -9."""
    path = tmp_path / "a.csv"
    path.write_text(f"bmi,age\n21.5,30\n{written},40\n")
    found = read_frame(path, how=Reading(na=("-9",))).frame
    assert found["bmi"].isna().tolist() == [False, True]


def test_parquet_has_the_same_words_for_missing(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    rows = pd.DataFrame({"bmi": [21.5, -9.0], "arm": ["NA", "b"], "ward": ["?", "c"]})
    rows.to_parquet(path)
    found = read_frame(path, missing={"bmi": ["-9"], "ward": ["?"]}).frame
    assert found.isna().to_numpy().tolist() == [[False, True, True], [True, False, False]]


def test_zeros_in_front_are_told_to_who_uses_the_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("ward,n\n01,0\n1,10\n")
    assert list(read_frame(path).remarks) == ["ward"]
    assert "01 is 1" in read_frame(path).remarks["ward"]
    assert read_frame(path, text=["ward"]).remarks == {}


POLISH = "Płeć;Niska masa;bmi\nmężczyzna;1;20,5\nkobieta;0;21,5\n"
OTHER = (
    'if letters look wrong, give {} (Central Europe); at a site, write encoding = "cp1250" into '
    "site.toml"
)


def test_letters_of_a_guessed_encoding_may_be_wrong():
    guessed = read(POLISH.encode("cp1250"))
    assert list(guessed.frame["P³eæ"]) == ["mê¿czyzna", "kobieta"]
    assert guessed.notes[0].endswith(f"; {OTHER.format('--encoding cp1250')}")
    named = read(POLISH.encode("cp1250"), encoding="cp1250")
    assert list(named.frame["Płeć"]) == ["mężczyzna", "kobieta"]
    known = read(POLISH.encode("cp1250"), encoding="windows-1252")
    for table in (named, known, read(POLISH.encode()), read(b"a;b\n1;2\n")):
        assert "letters look wrong" not in " ".join(table.notes)


def test_a_column_that_is_lacking_may_have_other_letters():
    told, wanted = str(no_column(read(POLISH.encode("cp1250")), "Płeć")), "encoding='cp1250'"
    assert "there is no column 'Płeć'; " in told
    assert told.endswith(f"'P³eæ', 'Niska masa', 'bmi'; {OTHER.format(wanted)}")
    plain = POLISH.replace("Płeć", "sex").encode("cp1250")  # the names have no letter to be wrong
    for data in (POLISH.encode(), plain):
        assert "letters look wrong" not in str(no_column(read(data), "age"))
