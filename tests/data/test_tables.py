"""A site's own file: what comes back, and what is refused and how."""

import bz2
import gzip
import lzma
import subprocess
import sys

import numpy as np
import pandas
import pytest
from scipy import sparse

from feddcd._errors import DataError
from feddcd.data import SiteData, read_site, select

PLAIN = "age,weight,y\n40,70.5,1\n50,80,0\n"
OTHER = "y\tweight\tage\n1\t70.5\t40\n0\t80\t50\n"
ROWS = [[40, 70.5], [50, 80]]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    with open(name, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return name


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("s.csv", PLAIN, ("age", "weight")),
        ("s.csv.gz", gzip.compress(PLAIN.encode(), mtime=0), ("age", "weight")),
        ("s.csv.bz2", bz2.compress(PLAIN.encode()), ("age", "weight")),
        ("s.CSV.xz", lzma.compress(PLAIN.encode()), ("age", "weight")),
        ("s.tsv", OTHER, ("weight", "age")),
        ("s.tsv.gz", gzip.compress(OTHER.encode(), mtime=0), ("weight", "age")),
        ("marked.csv", b"\xef\xbb\xbf" + PLAIN.encode(), ("age", "weight")),
        ("windows.csv", PLAIN.replace("\n", "\r\n"), ("age", "weight")),
        ("old-mac.csv", PLAIN.replace("\n", "\r"), ("age", "weight")),
        ("blank-lines.csv", "\n" + PLAIN.replace("\n", "\n\n"), ("age", "weight")),
        ("no-end.csv", PLAIN.removesuffix("\n"), ("age", "weight")),
        ("spaces.csv", PLAIN.replace(",", " , "), ("age", "weight")),
        ("quotes.csv", PLAIN.replace("age", '"age"').replace("70.5", '"70.5"'), ("age", "weight")),
    ],
)
def test_tables(name, content, names):
    site = read_site(write(name, content), "y")
    assert (site.names, site.labels.tolist(), site.file) == (names, [1, 0], name)
    assert site.X.dtype == site.labels.dtype == np.float64
    assert select(site, ("age", "weight")).X.tolist() == ROWS
    assert select(site, ("weight", "age")).X.tolist() == [row[::-1] for row in ROWS]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["1", "2", "1"], [1.0, 2.0, 1.0]),
        (["1", "2.5", "-1e3"], [1.0, 2.5, -1000.0]),
        (["True", "False", "true"], [1.0, 0.0, 1.0]),
        (["ill", "well", "ill"], ["ill", "well", "ill"]),
        (['" ill "', "well", "  ill "], ["ill", "well", "ill"]),
        (["1", "2", "x"], ["1", "2", "x"]),
        (["krank", "gesund", "größer"], ["krank", "gesund", "größer"]),
        (['"a,b"', "c", '"d\n"'], ["a,b", "c", "d"]),
    ],
)
def test_labels(values, labels):
    lines = "".join(f"{i},{value}\n" for i, value in enumerate(values))
    site = read_site(write("s.csv", f"a,y\n{lines}"), "y")
    assert site.labels.tolist() == labels
    assert site.labels.dtype.kind == ("U" if isinstance(labels[0], str) else "f")


def test_numbers_of_every_kind():
    big = "123456789012345678901234567890"
    site = read_site(write("s.csv", f"a,b,c,y\nTrue,{big},1e-300,0\nFalse,1,+2,1\n"), "y")
    assert site.X.tolist() == [[1, float(big), 1e-300], [0, 1, 2]]


def test_csv_round_trip_is_exact():
    X = np.random.default_rng(0).standard_normal((50, 3)) * 10.0 ** np.arange(-150, 150, 100)
    pandas.DataFrame(X, columns=list("abc")).assign(y=1).to_csv("s.csv", index=False)
    assert np.array_equal(read_site("s.csv", "y").X, X)


def test_parquet_round_trip():
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"b": [1.5, 2], "a": [True, False], "n": [1, 2], "y": ["u", "v "]})
    frame = frame.astype({"n": "Int64", "y": "category"})
    frame.to_parquet("s.parquet")
    site = read_site("s.parquet", "y")
    assert site.X.tolist() == [[1.5, 1, 1], [2, 0, 2]]
    assert (site.names, site.labels.tolist()) == (("b", "a", "n"), ["u", "v"])
    indexed = pandas.DataFrame({"a": [1, 2], "y": [0, 1]}, index=["p", "q"])
    indexed.to_parquet("s.parquet")
    assert read_site("s.parquet", "y").names == ("a",)
    write("bad.parquet", "PAR1")
    with pytest.raises(
        DataError,
        match=(
            r"bad\.parquet: this file cannot be read as Parquet: Could not open Parquet "
            r"input source "
            r"'bad\.parquet': Parquet file size is 4 bytes"
        ),
    ):
        read_site("bad.parquet", "y")


def test_libsvm():
    dense = read_site(write("s.svm", "1 1:40 2:70.5\n0 1:50 2:80\n"))
    thin = read_site(write("s.txt.gz", gzip.compress(b"-1 0:1 19:2\n1 3:4\n")), index_base=0)
    assert (dense.names, dense.labels.tolist(), dense.X.tolist()) == (None, [1, 0], ROWS)
    assert isinstance(thin.X, sparse.csr_array)
    assert select(dense, 4).X.tolist() == [[*row, 0, 0] for row in ROWS]
    assert select(dense, ("a", "b", "c")).X.tolist() == [[*row, 0] for row in ROWS]
    assert select(thin, 30).X.toarray()[:, [0, 3, 19, 29]].tolist() == [[1, 0, 2, 0], [0, 4, 0, 0]]
    assert select(dense, 2) is dense


def frame(**columns):
    """A stand-in for what pandas makes of a Parquet file: pyarrow may not be here."""
    return lambda *_, **__: pandas.DataFrame(columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0, None], "y": [1, 2]}, "column 'a' has no value in row 2; missing values in"),
        (
            {"a": ["1", "x"], "y": [1, 2]},
            "the column 'a' must contain numbers, but has 'x' in row 2",
        ),
        (
            {"a": pandas.to_datetime(["2024-01-02"]), "y": [1]},
            (
                "s.parquet: the column 'a' must contain numbers, but has '2024-01-02 00:00:00' in "
                "row 1"
            ),
        ),
        (
            {"a": [1], "y": [b"u"]},
            "the label column 'y' must contain numbers or texts of 1 to 200 characters",
        ),
        ({"a": [1j], "y": [1]}, "the column 'a' must contain numbers, but has '1j' in row 1"),
        ({"": [1], "y": [1]}, "s.parquet: column 1 of 2 has no name"),
    ],
)
def test_refuses_parquet(monkeypatch, columns, message):
    monkeypatch.setattr(pandas, "read_parquet", frame(**columns))
    with pytest.raises(DataError) as caught:
        read_site(write("s.parquet", ""), "y")
    assert message in str(caught.value)


def test_parquet_columns_of_every_kind(monkeypatch):
    made = frame(
        a=pandas.array([1, 2], "Int64"), b=pandas.array([True, False], "boolean"), y=[1, 2]
    )
    monkeypatch.setattr(pandas, "read_parquet", made)
    site = read_site(write("s.parquet", ""), "y")
    assert site.X.tolist() == [[1, 1], [2, 0]]


def test_parquet_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"s\.parquet: .* pip install 'feddcd\[parquet\]'"):
        read_site(write("s.parquet", ""), "y")


TOP = "a,b,y\n1,2,0\n"
BAD = [
    (
        "s.csv",
        "",
        "y",
        "s.csv: this file is empty; its first line must contain the names of the columns",
    ),
    (
        "s.csv",
        "\n\n",
        "y",
        "s.csv: this file is empty; its first line must contain the names of the columns",
    ),
    ("s.csv", "a,b,y\n", "y", "s.csv: no rows"),
    ("s.csv", "y\n1\n", "y", "s.csv: no column beside 'y'"),
    (
        "s.csv",
        TOP,
        None,
        "s.csv: give label=..., the column to predict; the columns are 'a', 'b', 'y'",
    ),
    ("s.csv", TOP, "z", "s.csv: there is no column 'z'; columns: 'a', 'b', 'y'"),
    ("s.csv", "age,sick\n1,2\n", "sic", "no column 'sic'; did you mean 'sick'? columns: 'age'"),
    ("s.csv", "1,2.5,0\n1,2,0\n", "y", "no column 'y'; the first line must contain the names"),
    ("s.csv", TOP, "", "s.csv: there is no column ''"),
    ("s.csv", "a,,y\n1,2,3\n", "y", "s.csv:1: column 2 of 3 has no name"),
    ("s.csv", "a, ,y\n1,2,3\n", "y", "s.csv:1: column 2 of 3 has no name"),
    ("s.csv", "a,b,y,\n1,2,3,\n", "y", "s.csv:1: column 4 of 4 has no name"),
    ("s.csv", "a,b,a,y\n1,2,3,4\n", "y", "s.csv:1: two columns have the name 'a'"),
    ("s.csv", "a,b, a,y\n1,2,3,4\n", "y", "s.csv:1: two columns have the name 'a'"),
    ("s.csv", "a,y,y\n1,2,3\n", "y", "s.csv:1: two columns have the name 'y'"),
    ("s.csv", TOP + "1,2\n", "y", "s.csv:3: this line has 2 fields, but the header has 3"),
    ("s.csv", TOP + "1,2,3,4\n", "y", "s.csv:3: this line has 4 fields, but the header has 3"),
    ("s.csv", "a,b,y\n1,2,0,9\n", "y", "s.csv:2: this line has 4 fields, but the header has 3"),
    ("s.csv", "a,b,y\n1,2,0,\n", "y", "s.csv:2: this line has 4 fields, but the header has 3"),
    ("s.csv", TOP + "\n\n1,2\n", "y", "s.csv:5: this line has 2 fields, but the header has 3"),
    ("s.csv", 'a,y\n1,"u\nv"\n2\n', "y", "s.csv:4: this line has 1 field, but the header has 2"),
    ("s.csv", "a:b:y\n1:2:0\n", "y", "no column 'y'; columns: 'a:b:y'"),
    (
        "s.csv",
        TOP + "1,,0\n",
        "y",
        "column 'b' has no value on line 3; missing values in the whole table: 1 (empty or "
        "NA). Fill in these values, or remove these rows",
    ),
    (
        "s.csv",
        TOP + "\n1,NA,0\n,2,\n",
        "y",
        "'b' has no value on line 4; missing values in the whole table: 3",
    ),
    ("s.csv", TOP + "1,2,\n", "y", "s.csv: the column 'y' has no value on line 3"),
    ("s.csv", "a,y\nTrue,1\n,2\n", "y", "s.csv: the column 'a' has no value on line 3"),
    (
        "s.csv",
        TOP + "1,inf,0\n1,-inf,0\n",
        "y",
        "'b' has inf on line 3; infinite values in the column: 2",
    ),
    (
        "s.csv",
        TOP + "1e999,2,0\n",
        "y",
        "s.csv: the column 'a' has inf on line 3; infinite values in the column: 1",
    ),
    ("s.csv", TOP + "1" * 400 + ",2,0\n", "y", "s.csv: the column 'a' has inf on line 3"),
    ("s.csv", TOP + "1,2,inf\n", "y", "s.csv: the column 'y' has inf on line 3"),
    ("s.csv", TOP + "1,red,0\n", "y", "column 'b' must contain numbers, but has 'red' on line 3"),
    (
        "s.csv",
        TOP + "1,1_000,0\n",
        "y",
        "column 'b' must contain numbers, but has '1_000' on line 3",
    ),
    (
        "s.csv",
        TOP + '1,"1,234",0\n',
        "y",
        "'b' has '1,234' on line 3, which may mean 1234 or 1.234",
    ),
    (
        "s.csv",
        TOP + "1,2024-05-01,0\n",
        "y",
        "column 'b' must contain numbers, but has '2024-05-01' on line 3",
    ),
    ("s.csv", TOP + "1,1+2j,0\n", "y", "column 'b' must contain numbers, but has '1+2j' on line 3"),
    ("s.csv", 'a,y\n1,u\n2,"  "\n', "y", "column 'y' has no value on line 3"),
    (
        "s.csv",
        f"a,y\n1,u\n2,{'v' * 201}\n",
        "y",
        (
            "s.csv: the label column 'y' must contain numbers or texts of 1 to 200 characters, but "
            "has 'vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv' on line 3"
        ),
    ),
    (
        "s.csv",
        'a,y\n1,"u"v\n',
        "y",
        "s.csv:2: feddcd cannot read this line (',' expected after '\"')",
    ),
    (
        "s.csv",
        'a,y\n1,2\n1,"u\n',
        "y",
        "s.csv:3: feddcd cannot read this line (unexpected end of data)",
    ),
    ("s.csv", "a,y\nä,2\n".encode() + b"\xe4,2\n", "y", "s.csv:3: byte 0xe4 is not UTF-8 text"),
    ("s.csv", TOP.encode("utf-16")[:-1], "y", "s.csv:2: byte 0x0a is not UTF-16 text"),
    ("s.csv", TOP + "\0,2,3\n", "y", "s.csv:3: this line contains a zero byte"),
    (
        "s.csv.gz",
        gzip.compress(TOP.encode(), mtime=0)[:-6],
        "y",
        "this is an incomplete or damaged gzip file",
    ),
    ("s.csv.xz", lzma.compress(TOP.encode())[:-6], "y", "this is an incomplete or damaged xz file"),
    ("s.tsv", TOP, "y", "s.tsv: there is no column 'y'; columns: 'a,b,y'"),
    (
        "s.svm",
        "1 1:2\n",
        "y",
        "s.svm: label='y' is for .csv, .tsv, .xlsx and .parquet",
    ),
    (
        "s.xls",
        "1",
        "y",
        (
            "s.xls: feddcd cannot read this file as a table, because its name does not end "
            "in .csv, "
            ".tsv (also with .gz, .bz2 or .xz), .xlsx or .parquet; save it as .xlsx or .csv"
        ),
    ),
    ("s.csv.zip", "1", "y", "xlsx or .parquet; unpack it first, or compress the .csv with gzip"),
    ("s.svm", "1 x:2\n", None, "s.svm:1:3: the index is not a whole number"),
    ("s.svm", "", None, "s.svm: no rows"),
    ("s.svm", "u 1:2\n", None, "s.svm:1:1: "),
]


@pytest.mark.parametrize(("name", "content", "label", "message"), BAD)
def test_refuses(name, content, label, message):
    with pytest.raises(DataError) as caught:
        read_site(write(name, content), label)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["s.csv", "s.tsv.gz", "s.parquet", "s.svm"])
def test_refuses_what_is_no_file(tmp_path, name):
    label = None if name == "s.svm" else "y"
    with pytest.raises(DataError, match=f"{name}: no such file"):
        read_site(name, label)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"{name}: this is a folder, but a "):
        read_site(tmp_path / name, label)


def test_refuses_index_base_of_a_table():
    with pytest.raises(DataError, match=r"s\.csv: index_base is for LIBSVM .* index_base=0"):
        read_site(write("s.csv", TOP), "y", index_base=0)


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        (
            ("a", "b"),
            ("a", "c"),
            "s.csv has no column 'c'; it has a column 'b' that the federation",
        ),
        (("a", "b"), ("a", "b", "c"), "s.csv has no column 'c'"),
        (("a", "b"), ("a",), "s.csv has a column 'b' that the federation does not have"),
        (
            ("a", "b"),
            2,
            (
                "s.csv has columns with names ('a', 'b'), but the federation has 2 features "
                "without names"
            ),
        ),
        (None, 1, "s.csv has 2 features, but the federation has 1"),
        (None, ("a",), "s.csv has 2 features, but the federation has 1"),
    ],
)
def test_select_refuses(names, wanted, message):
    with pytest.raises(DataError) as caught:
        select(SiteData(np.ones((3, 2)), np.ones(3), names, "s.csv"), wanted)
    assert message in str(caught.value)


def test_importing_the_readers_is_light():
    code = (
        "import sys, feddcd.data.tables, feddcd.data.agreement\n"
        "print([name for name in ('pandas', 'jax', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
