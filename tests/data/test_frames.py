"""Tables as frames and as data sets: types, places of rows, groups, and runs on them."""

import bz2
import gzip
import json
import lzma
import shlex
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd._errors import DataError, SpecError
from feddcd.cli.app import main
from feddcd.data import load
from feddcd.data.frames import is_table, read_frame
from feddcd.runs.build import build
from feddcd.runs.spec import Spec

TEXT = 'zip,name,"a b",x\n01234,"Ann, B",1,1.5\n\n00017,NA,,2\n99999,"two\nlines",3,\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("t.csv", lambda data: data),
        ("t.CSV.gz", lambda data: gzip.compress(data, mtime=0)),
        ("t.csv.bz2", bz2.compress),
        ("t.csv.xz", lzma.compress),
        ("t.tsv", lambda data: data.replace(b",", b"\t").replace(b"Ann\t", b"Ann,")),
    ],
)
def test_words_stay_words_and_empty_cells_are_missing(name, pack):
    table = read_frame(write(name, pack(TEXT.encode())), text=("zip", "not there"))
    frame = table.frame
    assert list(frame.columns) == ["zip", "name", "a b", "x"]
    assert frame["zip"].tolist() == ["01234", "00017", "99999"]
    assert frame["name"].tolist()[::2] == ["Ann, B", "two\nlines"]
    assert np.argwhere(frame.isna().to_numpy()).tolist() == [[1, 1], [1, 2], [2, 3]]
    assert [table.place(row) for row in range(3)] == ["on line 2", "on line 4", "on line 5"]
    assert read_frame(name).frame["zip"].tolist() == [1234, 17, 99999]


def test_parquet_keeps_its_types():
    pd.DataFrame({"zip": ["01", "02"], "x": [1, 2]}).to_parquet("t.parquet")
    table = read_frame("t.parquet", text=("x",))
    assert table.frame["zip"].tolist() == ["01", "02"]
    assert (table.frame["x"].tolist(), table.place(1)) == ([1, 2], "in row 2")


@pytest.mark.parametrize(
    ("name", "table"),
    [("a.csv", True), ("a.TSV.xz", True), ("a.parquet", True), ("a.parquet.gz", False),
     ("a.xlsx", True), ("a.xls", False),
     ("a.svm", False), ("a9a", False), ("a.gz", False)],
)  # fmt: skip
def test_tables_are_known_by_name(name, table):
    assert is_table(name) == table


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "t.txt",
            "a\n1\n",
            (
                "t.txt: feddcd cannot read this file as a table, because its name does not end "
                "in .csv, .tsv"
            ),
        ),
        (
            "t.csv",
            "",
            "t.csv: this file is empty; its first line must contain the names of the columns",
        ),
        ("t.csv", "a,b\n1,2\n3\n", "t.csv:3: this line has 1 field, but the header has 2"),
        ("t.csv", "a,b\n1,2\n\n3,4,5\n", "t.csv:4: this line has 3 fields, but the header has 2"),
        ("t.csv", 'a,b\n1,"2\n', "t.csv:2: feddcd cannot read this line (unexpected end of data)"),
        (
            "t.csv",
            "3,m,3\n4,f,5\n",
            "rename one of them. If the first line has data, add a new first line with the names",
        ),
        ("t.csv", "a,a\n1,2\n", "t.csv:1: two columns have the name 'a'"),
        ("t.csv", "a,,c\n1,2,3\n", "t.csv:1: column 2 of 3 has no name"),
        ("t.csv", b"a\n\x81\n", "t.csv:2: byte 0x81 is neither UTF-8 nor Windows-1252 text"),
        (
            "t.csv",
            b"a\n1\n\0\n",
            (
                "t.csv:3: this line contains a zero byte, so feddcd cannot read the file as text; "
                "if the file is UTF-16 text, give encoding='utf-16-le'"
            ),
        ),
        ("t.csv.gz", gzip.compress(b"a\n1\n" * 99, mtime=0)[:-9], "incomplete or damaged gzip"),
        ("t.parquet", "a,b\n", "t.parquet: this file cannot be read as Parquet"),
    ],
)
def test_what_cannot_be_read(name, content, message):
    write(name, content)
    with pytest.raises(DataError) as error:
        read_frame(name)
    assert message in str(error.value)


def test_what_is_no_file():
    Path("d.csv").mkdir()
    with pytest.raises(
        DataError,
        match=r"d\.csv: this is a folder, but a \.csv file is needed",
    ):
        read_frame("d.csv")
    with pytest.raises(DataError, match=r"no\.csv: no such file"):
        read_frame("no.csv")


def patients(rows: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.normal(size=rows), "y": ["yes", "no", "no"] * (rows // 3),
            "b": rng.normal(size=rows), "h": [f"0{i % 4}" for i in range(rows)],
        }
    )  # fmt: skip


def test_a_table_as_a_data_set():
    data = patients()
    data.to_csv("p.csv", index=False)
    data[:6].iloc[:, ::-1].to_csv("test.csv", index=False)
    data.to_parquet("p.parquet")
    for name in ("p.csv", Path("p.parquet")):
        loaded = load(name, label="y", group="h", test="test.csv")
        np.testing.assert_array_equal(loaded.X, data[["a", "b"]])
        assert loaded.y.tolist() == [1, 0, 0] * 8
        assert loaded.groups is not None
        assert loaded.groups.tolist() == data["h"].tolist()
        np.testing.assert_array_equal(loaded.X_test, data[["a", "b"]][:6])
        assert loaded.y_test is not None
        assert loaded.y_test.tolist() == [1, 0, 0] * 2
    assert load("p.csv", label="a", group="y").groups is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "p.csv: give label=..., the column to predict; the columns are 'a', 'y', 'b', 'h'"),
        ({"label": "yy"}, "p.csv: there is no column 'yy'; did you mean 'y'?"),
        ({"label": "y"}, None),
        ({"label": "y", "group": "hh"}, "no column 'hh' for the group; did you mean 'h'?"),
        (
            {"label": "h", "group": "h"},
            "the column 'h' is the label, so it cannot also be the group",
        ),
        (
            {"label": "a", "group": "h"},
            "the column 'y' must contain numbers, but has 'yes' on line 2",
        ),
        ({"label": "y", "group": "h", "index_base": 0}, "index_base is for LIBSVM files only"),
        ({"label": "y", "group": "h", "test": "other.csv"}, "other.csv"),
        ({"label": "y", "group": "h", "test": "new.csv"}, "label 'maybe' is not in the training"),
    ],
)
def test_refused_data_sets(options, message):
    patients().to_csv("p.csv", index=False)
    patients()[["a", "y"]].to_csv("other.csv", index=False)
    patients().replace({"y": {"no": "maybe"}}).to_csv("new.csv", index=False)
    if message is None:  # groups that look like numbers are numbers where they are not named
        assert load("p.csv", **options).X.shape == (24, 3)
        return
    with pytest.raises(DataError) as error:
        load("p.csv", **options)
    assert message in str(error.value)


def test_label_and_group_go_with_tables():
    with pytest.raises(
        DataError, match=r"setting 'label' works only for \.csv, \.tsv, \.xlsx and \.parquet"
    ):
        load("wine", label="y")
    with pytest.raises(
        DataError, match=r"setting 'group' works only for \.csv, \.tsv, \.xlsx and \.parquet"
    ):
        load("wine", group="h")


def test_each_value_of_the_group_is_a_client():
    patients().to_csv("p.csv", index=False)
    spec = Spec(data="p.csv", label="y", group="h", model="logistic", tau=2)
    assert (spec.partition, spec.clients) == ("group", None)
    assert Spec(**spec.to_dict()) == spec
    with jax.enable_x64(True):
        built = build(spec)
    assert built.N == 4
    X = np.asarray(built.federated.problem.X.X)  # pyright: ignore
    for i in range(4):
        np.testing.assert_allclose(X[i], patients()[["a", "b"]][i::4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"clients": 7},
            "with group='h', each value of this column is one client: leave out clients=7",
        ),
        ({"partition": "sorted"}, "leave out partition='sorted'"),
        ({"label": 3}, "the setting 'label' should be a text, got 3"),
    ],
)
def test_refused_specs(options, message):
    with pytest.raises(SpecError, match=message):
        Spec(**({"data": "p.csv", "label": "y", "group": "h"} | options))


def command(text: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(text))
    assert stop.value.code == code


@pytest.mark.chaos
def test_run_and_compare_take_tables(capsys, monkeypatch):
    """The same rounds as with arrays and the parts that the group column gives."""
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])  # no pictures
    data = patients()
    data.to_csv("p.csv", index=False)
    table = "--data p.csv --label y --group h --model logistic --tau 2 --certify-every 2 -q"
    command(f"run {table} --algorithm fednewton --rounds 2 --out a")
    command("run --resume a --rounds 3 -q")
    parts = [np.flatnonzero(data["h"] == site) for site in sorted(set(data["h"]))]
    arrays = (data[["a", "b"]].to_numpy(), (data["y"] == "yes").to_numpy(float))
    options = {"model": "logistic", "tau": 2, "certify_every": 2, "algorithm": "fednewton"}
    same = feddcd.run(arrays, parts=parts, rounds=3, **options)
    found = json.loads(Path("a/summary.json").read_text())
    assert found["objective"] == pytest.approx(same.summary["objective"], rel=1e-12)
    assert (found["clients"], found["rounds"]) == (4, 3)
    command(f"compare {table} --algorithm fednewton --rounds 3 --out b")
    again = json.loads(Path("b/fednewton/summary.json").read_text())
    assert again["objective"] == found["objective"]
    command("compare --resume b --rounds 3 -q")
    capsys.readouterr()
    for options, message in (
        ("--data p.csv", "p.csv: give --label, the column to predict; the columns are 'a', 'y'"),
        ("--data p.csv --label y --group hh", "no column 'hh' for the group; did you mean 'h'?"),
        ("--data p.csv --label y --group h --clients 3", "leave out --clients 3"),
        (
            "--data wine --group h",
            "setting 'group' works only for .csv, .tsv, .xlsx and .parquet files, not for 'wine'",
        ),
        ("--data nothing.csv --label y", "'nothing.csv': no such file"),
    ):
        command(f"run {options} --out c -q", code=2)
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("model", ["ridge", "poisson"])
def test_words_of_a_file_are_no_numbers_to_predict(model):
    patients().to_csv("p.csv", index=False)
    spec = Spec(data="p.csv", label="y", group="h", model=model, tau=2)
    with pytest.raises(DataError, match=f"p.csv: the model {model} needs numbers as labels, .*'"):
        build(spec)


def test_a_file_keeps_the_words_of_its_labels_and_the_names_of_its_groups():
    patients().to_csv("p.csv", index=False)
    with jax.enable_x64(True):
        built = build(Spec(data="p.csv", label="y", group="h", model="logistic", tau=2))
    assert built.federated.classes is not None
    assert built.federated.classes.tolist() == ["no", "yes"]
    assert built.names == tuple(sorted(set(map(str, patients()["h"]))))


def test_a_column_of_words_may_name_the_clients(capsys):
    patients().assign(site="a b").to_csv("p.csv", index=False)
    with pytest.raises(DataError, match=r"'site' must contain .*clients, give group='site'"):
        load("p.csv", label="y")
    with pytest.raises(DataError, match=r"'site' must contain .* 0 and 1, or remove the column$"):
        load("p.csv", label="y", group="h")
    command("run --data p.csv --label y -q", code=2)
    assert "are the names of the clients, give --group site" in capsys.readouterr().err
