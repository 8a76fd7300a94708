"""The LIBSVM reader: what it refuses and where, what it accepts, and that it reads exactly."""

import bz2
import gzip
import io
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feddcd._errors import DataError
from feddcd.data import files, libsvm, read_libsvm
from feddcd.data._parse import Rules, parse_block, parse_lines
from feddcd.data.check import Counts, _agreeing
from feddcd.data.files import line_blocks
from feddcd.data.known import KNOWN

RELAXED = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(tmp_path: Path, content: bytes, name: str = "data.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


BAD = [
    (b"", "data.txt: no rows"),
    (b"\n\n", "data.txt: no rows"),
    (b"  \t\n\r\n", "data.txt: no rows"),
    (b"# only a comment\n", "data.txt: no rows"),
    (b"\xef\xbb\xbf", "data.txt: no rows"),
    (b"1\n-1\n", "data.txt: no row has a feature"),
    (b"abc 1:1\n", "data.txt:1:1: the label is not a number (at 'abc')"),
    (b"1 1:1\nabc 1:1\n", "data.txt:2:1: the label is not a number"),
    (b"1 1:1\n\n  abc 1:1\n", "data.txt:3:3: the label is not a number"),
    (b"1,2 1:1\n", "data.txt:1:1: the label is not a number (at '1,2')"),
    (b"1_0 1:1\n", "data.txt:1:1: the label is not a number"),
    (b"0x1 1:1\n", "data.txt:1:1: the label is not a number"),
    (b"1e 1:1\n", "data.txt:1:1: the label is not a number"),
    (b"+-1 1:1\n", "data.txt:1:1: the label is not a number"),
    (b". 1:1\n", "data.txt:1:1: the label is not a number"),
    ("−1 1:1\n".encode(), "data.txt:1:1: the label is not a number"),
    (b"nan 1:1\n", "data.txt:1:1: the label is not finite (at 'nan')"),
    (b"-inf 1:1\n", "data.txt:1:1: the label is not finite"),
    (b"1e999 1:1\n", "data.txt:1:1: the label is too large for a float64"),
    (b"1:1 2:1\n", "data.txt:1:1: this row has no label (at '1:1')"),
    (b"1 1:1\n :3\n", "data.txt:2:2: this row has no label (at ':3')"),
    (b"1 1:nan\n", "data.txt:1:3: the value is not finite (at '1:nan')"),
    (b"1 1:1 2:NaN\n", "data.txt:1:7: the value is not finite (at '2:NaN')"),
    (b"1 1:Infinity\n", "data.txt:1:3: the value is not finite"),
    (b"1 1:-Inf\n", "data.txt:1:3: the value is not finite"),
    (b"1 1:1e400\n", "data.txt:1:3: the value is too large for a float64"),
    (b"1 1:x\n", "data.txt:1:3: the value is not a number (at '1:x')"),
    (b"1 1:1_0\n", "data.txt:1:3: the value is not a number"),
    (b"1 1:1e5.5\n", "data.txt:1:3: the value is not a number"),
    (b"1 1:1.2.3\n", "data.txt:1:3: the value is not a number"),
    (b"1 1:1-2\n", "data.txt:1:3: the value is not a number"),
    (b"1 1:1,5\n", "data.txt:1:3: the value is not a number"),
    ("1 1:１\n".encode(), "data.txt:1:3: the value is not a number"),
    (b"1 1:1 2:\n", "data.txt:1:7: the value is missing (at '2:')"),
    (b"1 1: 2:3\n", "data.txt:1:3: the value is missing (at '1:')"),
    (b"1 1:1 :2\n", "data.txt:1:7: the index is missing (at ':2')"),
    (b"1 1 :2\n", "data.txt:1:3: this is not an index and a value (at '1')"),
    (b"1 1:2:3\n", "data.txt:1:3: this is not an index and a value (at '1:2:3')"),
    (b"1 1::3\n", "data.txt:1:3: this is not an index and a value (at '1::3')"),
    (b"1 1:1 7\n", "data.txt:1:7: this is not an index and a value (at '7'); expected index:value"),
    (b"1 2\n", "data.txt:1:3: this is not an index and a value (at '2')"),
    (b"1 a:1\n", "data.txt:1:3: the index is not a whole number (at 'a:1')"),
    (b"1 1.0:1\n", "data.txt:1:3: the index is not a whole number"),
    (b"1 1e2:1\n", "data.txt:1:3: the index is not a whole number"),
    (b"1 +1:1\n", "data.txt:1:3: the index is not a whole number"),
    (b"1 -3:1\n", "data.txt:1:3: the index -3 is negative (at '-3:1'); the first index is 1"),
    (
        b"1 0:1\n",
        (
            "data.txt:1:3: the index is 0, but the first index of this file should be 1 "
            "(at '0:1'); if the first index is 0, give index_base=0"
        ),
    ),
    (
        b"1 1:1\r\n1 1:1 00:1\r\n",
        "data.txt:2:7: the index is 0, but the first index of this file should be 1",
    ),
    (
        b"1 3:1 3:2\n",
        (
            "data.txt:1:7: the index 3 occurs twice (at '3:2'); an index may occur only once in "
            "a row"
        ),
    ),
    (
        b"1 3:1 1:1 3:2\n",
        (
            "data.txt:1:11: the index 3 occurs twice (at '3:2'); an index may occur "
            "only once in "
            "a row"
        ),
    ),
    (
        b"1 3:1 03:2\n",
        (
            "data.txt:1:7: the index 3 occurs twice (at '03:2'); an index may occur "
            "only once in "
            "a row"
        ),
    ),
    (b"1 2147483647:1\n", "data.txt:1:3: the index is too large"),
    (b"1 " + b"9" * 5000 + b":1\n", "data.txt:1:3: the index is too large"),
    (
        b"1 100000001:1\n",
        (
            "data.txt:1:3: with the index 100000001, the data would have more than 100000000 "
            "features"
        ),
    ),
    (
        b"1 qid:3 1:1\n",
        "data.txt:1:3: this row has a query id (at 'qid:3'); feddcd cannot read files with query",
    ),
    (b"1 1:1\n1 1:1 # caf\xe9\n", "data.txt:2:12: byte 0xe9 is not UTF-8"),
    (b"\xff\xfe1\x00 \x00", "data.txt:1:1: byte 0xff is not UTF-8"),
    (b"1 1:1\x00\n", "data.txt:1:6: there is a control character in this line (at '\\x00')"),
    (b"1 1:1\r-1 1:1\r", "data.txt:1:6: there is a control character in this line (at '\\r')"),
    (
        b"1 1:1\x0b2:1\n",
        (
            r"data.txt:1:6: there is a control character in this line (at '\x0b'); a "
            r"LIBSVM file "
            "is text with one row in each line"
        ),
    ),
    (
        b"PK\x03\x04",
        (
            r"data.txt:1:3: there is a control character in this line (at '\x03'); a "
            r"LIBSVM file "
            "is text with one row in each line"
        ),
    ),
    (b"1\xc2\xa01:1\n", "data.txt:1:1: this row has no label"),
    (b"1\t1:1\t\t2:y\n", "data.txt:1:8: the value is not a number (at '2:y')"),
    (
        b"\xef\xbb\xbf1 0:1\n",
        "data.txt:1:3: the index is 0, but the first index of this file should be 1",
    ),
    (
        b"# c\n1 1:1 # 0:1\n1 0:1 # c\n",
        "data.txt:3:3: the index is 0, but the first index of this file should be 1",
    ),
    (
        b"1 1:1\n" * 16 + b"1 " + b" " * 20 + b"0:1",
        "data.txt:17:23: the index is 0, but the first index of this file should be 1",
    ),
    (b"1 " + b"y" * 100 + b"\n", "(at '" + "y" * 40 + "...')"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_refuses(tmp_path, cache_folder, content, message):
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_libsvm(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")
    if "no row has a feature" not in message:
        assert not cache_folder.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index_base": 2}, "index_base must be 0 or 1, got 2"),
        ({"n_features": 0}, "n_features must be a whole number >= 1, got 0"),
        ({"n_features": 2.5}, "n_features must be a whole number >= 1, got 2.5"),
        ({"n_features": 2**31}, "n_features must be at most 2147483646"),
        ({"n_features": 4}, "data.txt:2:7: the index 5 is larger than n_features=4 (at '5:1')"),
        ({"n_features": 5, "index_base": 0}, "the index 5 is larger than n_features=5"),
    ],
)
@pytest.mark.parametrize("cached", [False, True])
def test_refuses_options(tmp_path, options, message, cached):
    path = write(tmp_path, b"1 1:1\n1 2:1 5:1\n")
    if cached:
        read_libsvm(path)
        read_libsvm(path, index_base=0)
    with pytest.raises(DataError) as caught:
        read_libsvm(path, **options)
    assert message in str(caught.value)


def test_a_cached_wide_file_still_needs_n_features(tmp_path):
    path = write(tmp_path, b"1 200000000:1\n")
    assert read_libsvm(path, n_features=200_000_000)[0].shape == (1, 200_000_000)
    with pytest.raises(
        DataError,
        match=(
            r"data\.txt:1:3: with the index 200000000, the data would have more than 100000000 "
            r"features \(at '200000000:1'\); if this index is right, give n_features"
        ),
    ):
        read_libsvm(path)


GZ = gzip.compress(b"1 1:1\n" * 5000)
BZ = bz2.compress(np.random.default_rng(0).bytes(2000).hex().encode() + b"\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GZ[:-8], "incomplete or damaged gzip"),
        (GZ[:20], "incomplete or damaged gzip"),
        (GZ[:-8] + b"\0" * 8, "incomplete or damaged gzip"),
        (GZ[:12] + b"\xff" * 9 + GZ[21:], "incomplete or damaged gzip"),
        (BZ[:-10], "incomplete or damaged bzip2"),
        (BZ[:4], "incomplete or damaged bzip2"),
        (BZ[:200] + b"\0" * 50 + BZ[250:], "incomplete or damaged bzip2"),
    ],
)
def test_refuses_damaged_compression(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_libsvm(write(tmp_path, content, "data.gz"))


def test_refuses_what_is_no_file(tmp_path):
    with pytest.raises(DataError, match="this is a folder"):
        read_libsvm(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        read_libsvm(tmp_path / "absent")
    with pytest.raises(DataError, match="no such file"):
        read_libsvm(tmp_path / ("x" * 400))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        read_libsvm(tmp_path / "pipe")


GOOD = [
    b"1 1:0.5 3:2\n-1 2:1e-3\n",
    b"+1 1:.5 3:2.\n-1 2:1E-3",
    b"\xef\xbb\xbf1 1:0.5 3:2\n-1 2:0.001\n",
    b"1 1:0.5 3:2\r\n-1 2:0.001\r\n",
    b"1 1:0.5 3:2\r\n-1 2:0.001\r",
    b"\n1\t1:0.5  3:2 \t\n\n  -1 2:+0.001  \n\n",
    "# café\n1 1:0.5 3:2# tail 1:nan\n#\n-1 2:0.001 # x\r\n".encode(),
    b"1.0 0000000000001:0.5 03:2\n-1e0 2:1e-3\n",
]


@pytest.mark.parametrize("content", GOOD)
@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
def test_accepts(tmp_path, content, pack):
    X, y = read_libsvm(write(tmp_path, pack(content), "data.bz2"))
    assert X.toarray().tolist() == [[0.5, 0, 2], [0, 0.001, 0]]
    assert y.tolist() == [1, -1]
    assert (X.data.dtype, y.dtype) == (np.float64, np.float64)


def test_rows_without_features_keep_their_place(tmp_path):
    X, y = read_libsvm(write(tmp_path, b"3\n1 2:5\n\n4\n"), n_features=4)
    assert X.toarray().tolist() == [[0] * 4, [0, 5, 0, 0], [0] * 4]
    assert y.tolist() == [3, 1, 4]


def test_index_base_zero(tmp_path):
    X, _ = read_libsvm(write(tmp_path, b"1 0:5 2:6\n"), index_base=0)
    assert X.toarray().tolist() == [[5, 0, 6]]


@pytest.mark.parametrize("third", [b"2 3:7 2:8 1:9\n", b"2 0000000000003:7 2:8 1:9\n"])
def test_unsorted_rows_are_sorted_with_one_warning(tmp_path, third):
    path = write(tmp_path, b"1 1:1\n\n" + third + b"3 2:1 1:4\n4 1:1\n")
    for _ in range(2):
        with pytest.warns(
            UserWarning, match=r"data\.txt:3: .*sorted the indices of 2 row"
        ) as caught:
            X, _ = read_libsvm(path)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert X.toarray().tolist() == [[1, 0, 0], [9, 8, 7], [4, 1, 0], [1, 0, 0]]


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 7)
    rows = [f"{i} {i + 1}:1.5" for i in range(40)]
    path = write(tmp_path, "\n".join(rows).encode())
    X, y = read_libsvm(path)
    assert y.tolist() == list(range(40))
    assert np.array_equal(X.toarray(), 1.5 * np.eye(40))
    path = write(tmp_path, "\n".join([*rows[:30], "1 0:1", *rows]).encode())
    with pytest.raises(
        DataError,
        match=(
            r"data\.txt:31:3: the index is 0, but the first index of this file should be 1 \(at "
            r"'0:1'\); if the first index is 0, give index_base=0"
        ),
    ):
        read_libsvm(path)
    path = write(tmp_path, "\n".join([*rows[:30], "1 2:1 1:1", *rows]).encode())
    with pytest.warns(UserWarning, match=r"data\.txt:31: .* 1 row"):
        read_libsvm(path)


def test_second_read_comes_from_the_cache(tmp_path, cache_folder, monkeypatch):
    path = write(tmp_path, b"1 1:0.1 3:2\n-1 2:3\n")
    X, y = read_libsvm(path)
    assert [file.suffix for file in cache_folder.iterdir()] == [".npz"]
    monkeypatch.setattr(libsvm, "line_blocks", lambda path: pytest.fail("read the text again"))
    again, labels = read_libsvm(path, n_features=5)
    assert again.shape == (2, 5)
    assert np.array_equal(again.toarray()[:, :3], X.toarray())
    assert np.array_equal(labels, y)


def test_a_changed_file_or_base_is_read_again(tmp_path):
    path = write(tmp_path, b"1 1:7\n")
    assert read_libsvm(path)[0].toarray().tolist() == [[7]]
    assert read_libsvm(path, index_base=0)[0].toarray().tolist() == [[0, 7]]
    path.write_bytes(b"1 1:8\n")
    os.utime(path, ns=(1, 1))
    assert read_libsvm(path)[0].toarray().tolist() == [[8]]


def test_cache_false_leaves_nothing(tmp_path, cache_folder):
    read_libsvm(write(tmp_path, b"1 1:7\n"), cache=False)
    assert not cache_folder.exists()


def packed(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


PARTS = {
    "y": np.array([1.0]),
    "data": np.array([7.0]),
    "indices": np.array([0], np.int32),
    "counts": np.array([1]),
    "unsorted": np.array(0),
    "first_unsorted": np.array(0),
}


@pytest.mark.parametrize(
    "change",
    [
        {"data": np.array([np.nan])},
        {"y": np.array([np.inf])},
        {"data": np.array([7.0, 8.0])},
        {"data": np.array([[7.0]])},
        {"data": np.array([7.0], np.float32)},
        {"indices": np.array([-1], np.int32)},
        {"counts": np.array([2])},
        {"y": np.array([1.0, 2.0]), "counts": np.array([2, -1])},
        {"unsorted": np.array([1, 2])},
        {"other": np.array(0)},
        {"y": np.array([object()], dtype=object)},
    ],
)
def test_nonsense_in_the_cache_is_ignored_and_rewritten(tmp_path, cache_folder, change):
    path = write(tmp_path, b"1 1:7\n")
    read_libsvm(path)
    (entry,) = cache_folder.iterdir()
    entry.write_bytes(packed(**(PARTS | change)))
    assert read_libsvm(path)[0].toarray().tolist() == [[7]]
    kept = files.load_arrays(entry)
    assert kept is not None
    assert {name: array.tolist() for name, array in kept.items()} == {
        name: array.tolist() for name, array in PARTS.items()
    }


@pytest.mark.parametrize("damage", [b"", b"junk", b"PK\x03\x04", packed(**PARTS)[:-30]])
def test_a_damaged_cache_file_is_ignored(tmp_path, cache_folder, damage):
    path = write(tmp_path, b"1 1:7\n")
    read_libsvm(path)
    (entry,) = cache_folder.iterdir()
    entry.write_bytes(damage)
    assert read_libsvm(path)[0].toarray().tolist() == [[7]]
    assert files.load_arrays(entry) is not None


def test_an_unwritable_cache_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(write(tmp_path, b"", "a-file")))
    assert read_libsvm(write(tmp_path, b"1 1:7\n"))[0].toarray().tolist() == [[7]]


def test_a_failed_write_leaves_no_temporary_file(tmp_path, cache_folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", full)
    assert read_libsvm(write(tmp_path, b"1 1:7\n"))[0].nnz == 1
    assert list(cache_folder.iterdir()) == []


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-9, 9, places=6).map(float),
    st.integers(-(10**20), 10**20).map(float),
)
rows = st.tuples(numbers, st.dictionaries(st.integers(1, 300), numbers, max_size=8))


@RELAXED
@given(
    table=st.lists(rows, min_size=1, max_size=20), text=st.sampled_from([repr, "{:.17e}".format])
)
def test_reads_back_exactly_what_was_written(tmp_path, table, text):
    lines = [
        " ".join([text(y), *(f"{index}:{text(row[index])}" for index in sorted(row))])
        for y, row in table
    ]
    path = write(tmp_path, "\n".join(lines).encode())
    X, y = read_libsvm(path, n_features=300, cache=False)
    assert y.tolist() == [float(line.split()[0]) for line in lines] == [label for label, _ in table]
    expected = np.zeros((len(table), 300))
    for i, (_, row) in enumerate(table):
        expected[i, [index - 1 for index in row]] = list(row.values())
    assert np.array_equal(X.toarray(), expected)


@RELAXED
@given(table=st.lists(rows, min_size=1, max_size=20))
def test_agrees_with_scikit_learn(tmp_path, table):
    from sklearn.datasets import load_svmlight_file

    lines = [f"{y!r} " + " ".join(f"{k}:{row[k]!r}" for k in sorted(row)) for y, row in table]
    path = write(tmp_path, "\n".join(lines).encode())
    X, y = read_libsvm(path, n_features=300, cache=False)
    theirs, labels = load_svmlight_file(str(path), n_features=300, zero_based=False)
    assert np.array_equal(y, labels)
    assert np.array_equal(X.indptr, theirs.indptr)
    assert np.array_equal(X.indices, theirs.indices)
    np.testing.assert_allclose(X.data, theirs.data, rtol=1e-15)


PIECES = [
    *("1", "-1", "0", "2:3", "1:1", "10:.5", "7:1e3", "00000000000005:1", "1e999", "qid:1", "3:"),
    *(":", "::", "+", "e", ".", "x", "é", "nan", "inf", "#", " ", "\t", "\n", "\r\n", "\r"),
]


@settings(max_examples=600, deadline=None)
@given(parts=st.lists(st.sampled_from(PIECES), max_size=14), base=st.integers(0, 1))
def test_the_fast_parser_never_disagrees_with_the_exact_one(parts, base):
    text = "".join(part if part.isspace() else part + " " * (i % 3) for i, part in enumerate(parts))
    rules, content = Rules("f", base, None), text.encode() + b"\n"
    fast = parse_block(content, 1, rules)
    try:
        exact = parse_lines(content, 1, rules)
    except DataError:
        assert fast is None
        return
    if fast is not None:
        assert [np.asarray(a).tolist() for a in fast] == [np.asarray(a).tolist() for a in exact]


def test_the_fast_parser_takes_ordinary_text():
    content = b"+1 1:0.5 7:1\r\n# note\n-1 3:1e-5 2:4 # tail\n\n0\n"
    rows = parse_block(content, 1, Rules("f", 1, None))
    assert rows is not None
    assert (rows.y.tolist(), rows.counts.tolist()) == ([1, -1, 0], [2, 2, 0])
    assert (rows.unsorted, rows.first_unsorted) == (1, 3)


def mnist_file() -> Path:
    folder = os.environ.get("FEDDCD_DATA")
    if not folder:
        pytest.skip("FEDDCD_DATA is not set, so there is no MNIST file to read")
    path = Path(folder) / "mnist.scale.t.bz2"
    if not path.is_file():
        pytest.skip("FEDDCD_DATA has no file mnist.scale.t.bz2")
    return path


@pytest.mark.chaos  # test_agrees_with_scikit_learn reads a smaller file
def test_mnist_in_full(monkeypatch):
    """Its test rows, five blocks of text, unpacked once, which takes most of the time;
    test_sources.py counts in the training rows."""
    path, texts = mnist_file(), []
    watched = lambda path: (texts.append(text) or text for text in line_blocks(path))
    monkeypatch.setattr(libsvm, "line_blocks", watched)
    X, y = read_libsvm(path)
    assert (X.shape, X.nnz) == ((10_000, 778), 1_511_219)
    assert np.array_equal(np.unique(y), np.arange(10))
    labels = dict(zip(*(part.tolist() for part in np.unique(y, return_counts=True)), strict=True))
    source, counts = KNOWN["mnist"], Counts(len(y), 778, X.nnz, labels)
    assert "These counts are right" in _agreeing(source.test, counts, source.features, path)
    lines = b"".join(texts).splitlines()
    assert len(lines) == 10_000
    for place in (slice(300), slice(-300, None)):
        values = [float(t.partition(b":")[2]) for line in lines[place] for t in line.split()[1:]]
        assert X[place].data.tolist() == values
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, labels = read_libsvm(path)
    assert (again != X).nnz == 0
    assert np.array_equal(labels, y)
