"""Data by name and by path: what comes back, and what is refused and how."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from feddcd._errors import DataError
from feddcd.data import Dataset, available, load, read_libsvm
from feddcd.data.check import Counts, _agreeing
from feddcd.data.frames import read_frame
from feddcd.data.known import KNOWN, find

FOLDER = os.environ.get("FEDDCD_DATA")
CACHE = os.environ.get("FEDDCD_CACHE")


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDDCD_DATA", raising=False)


def write(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize(
    ("name", "train", "test", "d", "classes"),
    [
        ("digits", 1437, 360, 64, 10),
        ("breast-cancer", 455, 114, 30, 2),
        ("wine", 142, 36, 13, 3),
        ("synthetic-iid", 2000, 500, 20, 3),
        ("synthetic-heterogeneous", 2000, 500, 20, 3),
        ("synthetic:n=400,d=5,classes=2,groups=4", 400, 100, 5, 2),
    ],
)
def test_shapes(name, train, test, d, classes):
    data = load(name)
    assert (data.X.shape, data.X_test.shape) == ((train, d), (test, d))
    assert (data.y.shape, data.y_test.shape) == ((train,), (test,))
    assert np.unique(data.y).tolist() == list(range(classes))
    assert data.X.dtype == data.y.dtype == data.X_test.dtype == np.float64


@pytest.mark.parametrize("name", ["digits", "breast-cancer", "wine"])
def test_embedded_splits_are_stratified_and_ignore_the_seed(name):
    data, again = load(name, seed=1), load(name, seed=2)
    assert np.array_equal(data.X, again.X)
    share = np.bincount(data.y.astype(int)) / data.y.size
    held_out = np.bincount(data.y_test.astype(int)) / data.y_test.size
    assert np.abs(share - held_out).max() < 0.02


@pytest.mark.parametrize("name", ["breast-cancer", "wine"])
def test_columns_are_standardised_on_the_training_rows(name):
    data = load(name)
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1, rtol=1e-12)


def test_digits_are_sixteenths():
    X = load("digits").X
    assert (X.min(), X.max()) == (0, 1)
    assert np.array_equal(X * 16, np.round(X * 16))


def test_synthetic_is_reproducible_from_the_seed():
    first, again, other = (load("synthetic-heterogeneous", seed=s) for s in (3, 3, 4))
    for field in ("X", "y", "X_test", "y_test", "groups"):
        assert np.array_equal(getattr(first, field), getattr(again, field))
    assert not np.array_equal(first.X, other.X)
    assert not np.array_equal(first.y, other.y)


def test_the_dial_moves_means_and_class_shares():
    def spread(dial):
        data = load(f"synthetic:n=8000,heterogeneity={dial}")
        assert np.unique(data.groups).size == 20
        groups = [data.groups == g for g in range(20)]
        means = np.array([data.X[rows].mean(axis=0) for rows in groups])
        shares = np.array([np.bincount(data.y[rows].astype(int), minlength=3) for rows in groups])
        return means.std(axis=0).mean(), (shares / shares.sum(axis=1)[:, None]).std(axis=0).mean()

    (mean0, share0), (mean5, share5), (mean1, share1) = spread(0), spread(0.5), spread(1)
    # a group's mean over 400 rows strays by 1 / sqrt(400) = 0.05, and by h more for dial h
    assert mean0 < 0.07
    assert 0.4 < mean5 < 0.6
    assert 0.8 < mean1 < 1.2
    assert share0 < 0.05
    assert share0 < share5 < share1


def test_synthetic_can_be_learnt_and_groups_differ_in_their_model():
    def accuracy(name):
        data = load(name)
        Y = np.eye(3)[data.y.astype(int)] - 1 / 3
        W = np.linalg.lstsq(data.X, Y, rcond=None)[0]
        return np.mean(np.argmax(data.X_test @ W, axis=1) == data.y_test)

    iid, mixed = accuracy("synthetic-iid"), accuracy("synthetic-heterogeneous")
    assert iid > 0.7
    assert 0.4 < mixed < iid - 0.05


def test_every_available_name_is_described_and_sized():
    names = available()
    assert set(KNOWN) | {"digits", "breast-cancer", "wine", "synthetic-iid"} <= set(names)
    assert all(" x " in line and "\n" not in line for line in names.values())
    for name in ("digits", "breast-cancer", "wine"):
        data = load(name)
        n, d = data.y.size + data.y_test.size, data.X.shape[1]
        assert names[name].startswith(f"{n:,} x {d},")


def test_importing_does_not_import_scikit_learn():
    code = "import sys, feddcd.data; print('sklearn' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnst", "'mnst' is neither a data set nor a file; did you mean 'mnist'?"),
        ("nothing-like-it", "the data sets are digits, breast-cancer, wine, synthetic-iid"),
        ("", "'' is neither a data set nor a file"),
        ("./absent.txt", "'./absent.txt': no such file"),
        (Path("digits"), "digits: no such file"),
        (Path("."), "this is a folder"),
        (
            "synthetic:m=3",
            "the key 'm' in 'synthetic:m=3' is unknown; the keys are n, d, classes, groups, het",
        ),
        ("synthetic:n=3,n=4", "the key 'n' in 'synthetic:n=3,n=4' is there twice"),
        ("synthetic:n=abc", "n='abc' is not a whole number; the keys are n, d"),
        ("synthetic:n=2.5", "n='2.5' is not a whole number"),
        ("synthetic:n", "n='' is not a whole number"),
        ("synthetic:heterogeneity=x", "heterogeneity='x' is not a number"),
        ("synthetic:heterogeneity=1.5", "heterogeneity must be from 0 to 1, got 1.5"),
        ("synthetic:heterogeneity=nan", "heterogeneity must be from 0 to 1, got nan"),
        ("synthetic:n=0", "n must be at least 1, got 0"),
        ("synthetic:d=-2", "d must be at least 1, got -2"),
        ("synthetic:classes=1", "classes must be at least 2, got 1"),
        ("synthetic:n=5,groups=6", "groups must be at most n, got groups=6 and n=5"),
        ("synthetic:n=5,groups=1,classes=6", "classes must be at most n, got classes=6 and n=5"),
        (
            "synthetic:n=1000000000000",
            (
                "synthetic: n=1000000000000, d=20, classes=3, groups=20 would give more than "
                "1,073,741,824 numbers; use smaller values"
            ),
        ),
        ("synthetic:n=50,groups=1,classes=40", "of 40 classes occur in n=50 rows; use a larger n"),
        (
            "synthetic-iid:n=30",
            "'synthetic-iid' has no options, got 'synthetic-iid:n=30'; use 'synthetic:n=30'",
        ),
        ("mnist", "mnist: feddcd did not find the file mnist.scale of"),
        ("a9a", "Or put the file a9a (unpacked, or packed as .bz2, .gz or .xz) into "),
        ("rcv1-subset", "put the file rcv1sub_t"),
        ("rcv1-subset", "This file has no public address, so feddcd cannot download it: put"),
        ("rcv1", "binary/rcv1_train.binary.bz2, use the command: feddcd data fetch rcv1"),
    ],
)
def test_refuses_names(name, message):
    with pytest.raises(DataError) as caught:
        load(name)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digits", {"test": "t.txt"}, "'digits' has its own test rows"),
        ("synthetic-iid", {"test": "t.txt"}, "'synthetic-iid' has its own test rows"),
        (
            "wine",
            {"index_base": 0},
            "index_base works only for your own LIBSVM files, but 'wine' is a data set",
        ),
        (
            "a9a",
            {"index_base": 0},
            "but 'a9a' is a data set that feddcd knows: leave out index_base",
        ),
        ("synthetic-iid", {"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ("synthetic-iid", {"seed": 0.5}, "seed must be a whole number >= 0, got 0.5"),
    ],
)
def test_refuses_options(name, options, message):
    with pytest.raises(DataError) as caught:
        load(name, **options)
    assert message in str(caught.value)


def test_a_missing_file_says_where_to_put_it(tmp_path, monkeypatch):
    with pytest.raises(DataError) as caught:
        load("phishing")
    assert "another folder that you name in the environment variable FEDDCD_DATA" in str(
        caught.value
    )
    assert str(tmp_path / "cache") in str(caught.value)
    monkeypatch.setenv("FEDDCD_DATA", str(tmp_path / "mine"))
    with pytest.raises(DataError) as caught:
        load("phishing")
    assert (
        f"into the folder {tmp_path / 'mine'} (named in the environment variable FEDDCD_DATA)"
        in str(caught.value)
    )


@pytest.mark.parametrize("variable", ["FEDDCD_DATA", "FEDDCD_CACHE"])
@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".bz2", bz2.compress), (".gz", gzip.compress), (".xz", lzma.compress)],
)
def test_known_files_are_found(tmp_path, monkeypatch, variable, suffix, pack):
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    write(tmp_path / "mine", f"a9a{suffix}", pack(b"-1 3:1\n1 2:1\n"))
    data = load("a9a")
    assert (data.name, data.X.shape, data.y.tolist()) == ("a9a", (2, 123), [-1, 1])
    assert data.X_test is None


def test_known_test_files_come_along_or_are_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_DATA", str(tmp_path))
    write(tmp_path, "mnist.scale", b"1 780:1\n2 1:1\n")
    other = write(tmp_path, "other", b"3 5:1\n")
    assert load("mnist", test=other).y_test.tolist() == [3]
    with pytest.raises(DataError, match=r"mnist: feddcd did not find the file mnist\.scale\.t of "):
        load("mnist")
    write(tmp_path, "mnist.scale.t", b"2 778:1\n")
    assert load("mnist").X_test.shape == (1, 780)
    write(tmp_path, "mnist.scale", b"1 781:1\n")
    with pytest.raises(DataError, match=":1:3: the index 781 is larger than n_features=780"):
        load("mnist")


@pytest.mark.parametrize("name", ["rcv1", "a9a", "w8a", "ijcnn1"])
def test_the_newer_sets_do_without_their_test_file(tmp_path, monkeypatch, name):
    monkeypatch.setenv("FEDDCD_DATA", str(tmp_path))
    source = KNOWN[name]
    write(tmp_path, source.train.name, f"1 1:1 {source.features}:2\n-1 2:1\n".encode())
    data = load(name)
    assert (data.X.shape, data.X_test) == ((2, source.features), None)
    write(tmp_path, f"{source.test.name}.xz", lzma.compress(b"-1 2:1\n"))
    assert load(name).X_test.shape == (1, source.features)


XZ = lzma.compress(np.random.default_rng(0).bytes(2000).hex().encode() + b"\n")


@pytest.mark.parametrize("content", [XZ[:-8], XZ[:40], XZ[:60] + b"\xff" * 9 + XZ[69:]])
def test_refuses_damaged_xz(tmp_path, content):
    with pytest.raises(DataError, match="this is an incomplete or damaged xz file"):
        read_libsvm(write(tmp_path, "data.xz", content))


def test_density_decides_the_layout(tmp_path):
    dense = load(write(tmp_path, "dense", b"1 2:1\n2 1:1\n"))
    thin = load(write(tmp_path, "thin", b"1 10:1\n2 1:1\n"), test=tmp_path / "dense")
    assert isinstance(dense.X, np.ndarray)
    assert isinstance(thin.X, sparse.csr_array)
    assert isinstance(thin.X_test, sparse.csr_array)
    assert thin.X_test.toarray().tolist() == [[0, 1] + [0] * 8, [1, 0] + [0] * 8]


def test_files_by_path(tmp_path):
    train = write(tmp_path, "train.txt", b"1 0:1 2:4\n2 1:1\n")
    test = write(tmp_path, "test.txt", b"1 1:3\n")
    for path in (train, str(train)):
        data = load(path, test=test, index_base=0)
        assert data.name == "train.txt"
        assert data.X.tolist() == [[1, 0, 4], [0, 1, 0]]
        assert data.X_test.tolist() == [[0, 3, 0]]


def test_a_test_file_with_more_features_is_refused(tmp_path):
    train = write(tmp_path, "train.txt", b"1 3:1\n")
    test = write(tmp_path, "test.txt", b"1 5:1\n")
    with pytest.raises(
        DataError, match=r"test\.txt: the test data have 5 features, but the training data have 3"
    ):
        load(train, test=test)


ONES = np.ones((3, 2))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"y": np.ones(2)}, "d: y must have shape (3,), one value per row, got (2,)"),
        ({"y": np.ones((3, 1))}, "d: y must have shape (3,)"),
        ({"y": [0, np.nan, 1]}, "d: y has nan at row 1"),
        ({"y": ["a", "b", "c"]}, "d: y must be numbers"),
        ({"y": np.ones(3) * 1j}, "d: y must be real numbers"),
        ({"X": np.ones((0, 2)), "y": []}, "at least one row and one feature; got shape (0, 2)"),
        ({"X": np.ones((3, 0))}, "got shape (3, 0)"),
        (
            {"X": np.ones(3)},
            (
                "d: X must have two dimensions, with at least one row and one feature; got shape "
                "(3,)"
            ),
        ),
        ({"X": [[1, 2], [3], [4, 5]]}, "d: X must be numbers"),
        ({"X": np.array([[1, 2], [3, np.inf], [5, 6]])}, "d: X has inf at row 1, column 1"),
        ({"X": sparse.csr_array([[0, 0], [0, 0], [np.nan, 0]])}, "d: X has nan at row 2, column 0"),
        ({"X": sparse.csr_array(ONES * 1j)}, "d: X must be real numbers"),
        ({"groups": [1, 2]}, "d: groups must have shape (3,)"),
        ({"groups": [1, 2, np.nan]}, "d: groups has nan at row 2"),
        ({"X_test": ONES}, "d: give both X_test and y_test, or leave out both; got only one"),
        ({"X_test": ONES, "y_test": [1]}, "d: y_test must have shape (3,)"),
        (
            {"X_test": np.ones((3, 4)), "y_test": np.ones(3)},
            "d: X has 2 features, but X_test has 4",
        ),
    ],
)
def test_dataset_refuses(fields, message):
    with pytest.raises(DataError) as caught:
        Dataset(**({"name": "d", "X": ONES, "y": np.ones(3)} | fields))
    assert message in str(caught.value)


def test_dataset_takes_any_sparse_and_leaves_it_as_it_was():
    coo = sparse.coo_array(([1, 2, 3], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    unsorted = sparse.csr_array(([1.0, 2.0], [1, 0], [0, 2]), shape=(1, 2))
    data = Dataset("d", coo, np.array([1, 0]))
    assert isinstance(data.X, sparse.csr_array)
    assert data.X.toarray().tolist() == [[0, 3], [3, 0]]
    assert Dataset("d", unsorted, np.array([1])).X.indices.tolist() == [0, 1]
    assert unsorted.indices.tolist() == [1, 0]


def test_with_test_keeps_the_rest():
    data = Dataset("d", ONES, np.arange(3), groups=np.array(["a", "b", "a"]))
    more = data.with_test(np.zeros((1, 2)), [4])
    assert data.X_test is None
    assert (more.name, more.y_test.tolist()) == ("d", [4])
    assert more.X is data.X
    assert more.groups.tolist() == ["a", "b", "a"]


@pytest.mark.skipif(not FOLDER, reason="FEDDCD_DATA is not set, so there are no files to read")
@pytest.mark.parametrize(
    ("name", "n", "n_test", "d", "kind"),
    [
        # unpacking takes most of its time; test_libsvm.py reads the test rows
        pytest.param("mnist", 60_000, 10_000, 780, np.ndarray, marks=pytest.mark.chaos),
        ("a9a", 32_561, None, 123, np.ndarray),
        ("phishing", 11_055, None, 68, np.ndarray),
        pytest.param(
            *("rcv1-subset", 20_242, 3_507, 47_236, sparse.csr_array), marks=pytest.mark.chaos
        ),
    ],
)
def test_known_sets_in_full(monkeypatch, name, n, n_test, d, kind):
    monkeypatch.setenv("FEDDCD_DATA", str(FOLDER))
    if CACHE:
        monkeypatch.setenv("FEDDCD_CACHE", CACHE)  # read once for all tests
    source = KNOWN[name]
    files = source.files if source.needs_test else (source.train,)
    if absent := [file.name for file in files if find(file) is None]:
        pytest.skip(f"FEDDCD_DATA has no file {absent[0]}")
    data = load(name)
    assert (data.X.shape, type(data.X)) == ((n, d), kind)
    assert (source.rows, source.features) == (n, d)
    agrees(source, source.train, n_features=d)
    if n_test:
        assert (data.X_test.shape, type(data.X_test)) == ((n_test, d), kind)
        agrees(source, source.test)


@pytest.mark.skipif(not FOLDER, reason="FEDDCD_DATA is not set, so there are no files to read")
def test_the_test_rows_of_rcv1(monkeypatch):
    monkeypatch.setenv("FEDDCD_DATA", str(FOLDER))
    source = KNOWN["rcv1-subset"]
    assert source.test is not None
    path = find(source.test)
    if path is None:
        pytest.skip(f"FEDDCD_DATA has no file {source.test.name}")
    data = load(path)
    assert (data.y.shape, type(data.X)) == ((3_507,), sparse.csr_array)
    agrees(source, source.test)


def agrees(source, file, **options):
    """The counts of the table are those of the file, as `load` has read it."""
    path = find(file)
    assert path is not None
    X, y = read_libsvm(path, **options)
    labels = dict(zip(*(part.tolist() for part in np.unique(y, return_counts=True)), strict=True))
    counts = Counts(len(y), int(X.indices.max()) + 1, X.nnz, labels)
    assert "These counts are right" in _agreeing(file, counts, source.features, path)


@pytest.mark.parametrize("read", [load, read_frame])
def test_a_wrong_name_of_a_file_suggests_the_right_one(tmp_path, read):
    (tmp_path / "birthwt.csv").write_text("y,x\n1,2\n0,1\n")
    (tmp_path / "patients.csv").write_text("y,x\n1,2\n0,1\n")
    with pytest.raises(DataError, match=r"no such file.*; did you mean 'birthwt.csv'\?"):
        read(str(tmp_path / "brithwt.csv"))
    with pytest.raises(DataError, match=r"no such file.*; did you mean 'patients.csv'"):
        read(str(tmp_path / "patients.tsv"))
    for other in ("nothing.csv", "no/such/folder/birthwt.csv"):
        with pytest.raises(DataError, match="no such file") as found:
            read(str(tmp_path / other))
        assert "did you mean" not in str(found.value)
