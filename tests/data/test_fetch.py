"""Files of known sets: fetched from a server on this machine, checked, and the authors' tables."""

import bz2
import functools
import hashlib
import http.server
import lzma
import os
import shlex
import socket
import struct
import threading
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import numpy as np
import pytest

from feddcd._errors import DataError
from feddcd.cli.app import main
from feddcd.data import available, load
from feddcd.data import fetch as downloads
from feddcd.data.check import _sha256, check, count, examine
from feddcd.data.fetch import fetch
from feddcd.data.known import KNOWN, SUFFIXES, File, KnownSet, find
from feddcd.paper import authors
from slices import sliced

REAL = os.environ.get("FEDDCD_DATA")
REFERENCE = os.environ.get("FEDDCD_REFERENCE")
ROWS = np.random.default_rng(0).random((40, 3))
TEXT = "".join(f"{i % 2} 1:{a:.6f} 2:{b:.6f} 4:{c:.6f}\n" for i, (a, b, c) in enumerate(ROWS))
TEXT = TEXT.encode()
PACKED = bz2.compress(TEXT)
TINY = File(
    "tiny", 40, ((0, 20), (1, 20)), 120, 4, packed=".bz2", sha256=hashlib.sha256(TEXT).hexdigest()
)
TEST_TEXT = b"1 1:1 4:1\n0 2:1\n"
TEST = File("tiny.t", 2, ((0, None), (1, None)), packed=".xz")


class Shelf(http.server.ThreadingHTTPServer):
    """Serves `files`, as well or as badly as it is told."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.tag: str | None = '"one"'
        self.modified: str | None = None
        self.status = 0  # answer with this and nothing else
        self.cut: int | None = None  # bytes after which an answer ends
        self.reset = False  # end it with a reset rather than a close
        self.ranges = True  # whether Range is heeded
        self.heeds_if_range = True
        self.shift = 0  # where an answer to Range begins instead
        self.length = True  # whether Content-Length is told
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(http.server.BaseHTTPRequestHandler):
    server: Shelf

    def log_message(self, *args):
        pass

    def do_GET(self):
        shelf, wanted = self.server, self.headers.get("Range")
        name = self.path.removeprefix("/")
        shelf.asked.append((name, wanted))
        if shelf.status or name not in shelf.files:
            return self.send_error(shelf.status or 404)
        body, first = shelf.files[name], 0
        known = self.headers.get("If-Range") in (None, shelf.tag, shelf.modified)
        if wanted and shelf.ranges and (known or not shelf.heeds_if_range):
            first = int(wanted.removeprefix("bytes=").removesuffix("-")) + shelf.shift
            if first >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if shelf.tag:
            self.send_header("ETag", shelf.tag)
        if shelf.modified:
            self.send_header("Last-Modified", shelf.modified)
        if shelf.length:
            self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        end = len(body) if shelf.cut is None else first + shelf.cut
        self.wfile.write(body[first:end])
        if shelf.reset:
            self.wfile.flush()
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()


@pytest.fixture
def shelf():
    server = Shelf()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def source(shelf, monkeypatch):
    shelf.files = {"tiny.bz2": PACKED, "tiny.t.xz": lzma.compress(TEST_TEXT)}
    found = KnownSet(
        "tiny", "a toy", 4, "none", replace(TINY, base=shelf.url), replace(TEST, base=shelf.url)
    )
    monkeypatch.setitem(KNOWN, "tiny", found)
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDDCD_DATA", str(tmp_path / "mine"))
    monkeypatch.delenv("FEDDCD_REFERENCE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(downloads, "BLOCK", 50)
    return tmp_path / "mine"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def refused(source: KnownSet, **options) -> str:
    with pytest.raises(DataError) as caught:
        fetch(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_fetch_puts_the_files_where_load_finds_them(source, folder):
    seen = []
    paths = fetch(source, watch=lambda *step: seen.append(step))
    assert paths == [folder / "tiny.bz2", folder / "tiny.t.xz"]
    assert names(folder) == {"tiny.bz2", "tiny.t.xz"}
    assert paths[0].read_bytes() == PACKED
    mine = [done for name, done, total in seen if name == "tiny.bz2" and total == len(PACKED)]
    assert mine == [*range(0, len(PACKED), 50), len(PACKED)]
    data = load("tiny")
    assert (data.X.shape, data.X_test.shape) == ((40, 4), (2, 4))


def test_without_feddcd_data_files_go_to_the_cache(source, tmp_path, monkeypatch):
    monkeypatch.delenv("FEDDCD_DATA")
    assert fetch(source, test=False) == [tmp_path / "cache" / "tiny.bz2"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_here_is_used(source, shelf, folder, suffix):
    folder.mkdir()
    (folder / f"tiny{suffix}").write_bytes(b"anything")
    assert fetch(source, test=False) == [folder / f"tiny{suffix}"]
    assert shelf.asked == []


def test_which_test_files_come_along(source, shelf):
    assert len(fetch(replace(source, fetch_test=False))) == 1
    assert len(fetch(replace(source, fetch_test=False), test=True)) == 2
    assert [name for name, _ in shelf.asked] == ["tiny.bz2", "tiny.t.xz"]


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz"])
def test_another_compression_at_the_publisher_will_do(source, shelf, folder, suffix):
    shelf.files = {f"tiny{suffix}": lzma.compress(TEXT) if suffix == ".xz" else TEXT}
    assert fetch(source, test=False) == [folder / f"tiny{suffix}"]
    assert shelf.asked[0] == ("tiny.bz2", None)


@pytest.mark.parametrize("tag", ['"one"', 'W/"weak"', None])
@pytest.mark.parametrize("modified", [formatdate(10**9, usegmt=True), None])
@pytest.mark.parametrize("step", [100, len(PACKED) // 3, len(PACKED) - 1])
def test_a_cut_download_goes_on(source, shelf, folder, tag, modified, step):
    shelf.tag, shelf.modified, shelf.cut = tag, modified, step
    starts = range(0, len(PACKED), step)
    for start in starts[:-1]:
        message = refused(source, test=False)
        assert f"tiny.bz2 stopped at {start + step:,} of {len(PACKED):,} bytes" in message
        assert (
            f"keeps the downloaded part in {folder / 'tiny.bz2.part'}; use the same command"
            in message
        )
        assert names(folder) == {"tiny.bz2.part", "tiny.bz2.part.json"}
    shelf.cut = None
    fetch(source, test=False)
    assert (folder / "tiny.bz2").read_bytes() == PACKED
    assert names(folder) == {"tiny.bz2"}
    asked = [wanted for _, wanted in shelf.asked]
    assert asked == [None, *(f"bytes={start}-" for start in starts[1:])]


def test_a_reset_connection_keeps_what_came(source, shelf, folder):
    shelf.cut, shelf.reset = 200, True
    assert "feddcd keeps the downloaded part in" in refused(source, test=False)
    shelf.cut, shelf.reset = None, False
    fetch(source, test=False)
    assert (folder / "tiny.bz2").read_bytes() == PACKED


def test_ctrl_c_keeps_what_came(source, shelf, folder):
    def stop(name, done, total):
        if done >= 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(source, test=False, watch=stop)
    seen = []
    fetch(source, test=False, watch=lambda *step: seen.append(step))
    assert shelf.asked == [("tiny.bz2", None), ("tiny.bz2", "bytes=150-")]
    assert seen[0] == ("tiny.bz2", 150, len(PACKED))
    assert (folder / "tiny.bz2").read_bytes() == PACKED


def test_a_whole_part_is_not_asked_for_again(source, shelf, folder):
    with pytest.raises(KeyboardInterrupt):
        fetch(source, test=False, watch=lambda *step: raise_when(step[1] == step[2]))
    fetch(source, test=False)
    assert len(shelf.asked) == 1
    assert names(folder) == {"tiny.bz2"}


def raise_when(true):
    if true:
        raise KeyboardInterrupt


def ignore_range(shelf):
    shelf.ranges = False


def new_file(shelf):
    shelf.tag = '"two"'


def new_file_badly_told(shelf):
    shelf.tag, shelf.heeds_if_range = '"two"', False


def wrong_place(shelf):
    shelf.shift = 7


def beyond_the_end(shelf):
    shelf.shift = 10**6


@pytest.mark.parametrize(
    "change", [ignore_range, new_file, new_file_badly_told, wrong_place, beyond_the_end]
)
def test_starts_again_where_the_parts_would_not_fit(source, shelf, folder, change):
    """The first part is of another text, so going on would give a mixture."""
    shelf.files["tiny.bz2"] = PACKED if change is ignore_range else bz2.compress(TEXT[::-1])
    shelf.cut = 100
    refused(source, test=False)
    shelf.files["tiny.bz2"], shelf.cut = PACKED, None
    change(shelf)
    fetch(source, test=False)
    assert (folder / "tiny.bz2").read_bytes() == PACKED
    assert names(folder) == {"tiny.bz2"}


@pytest.mark.parametrize("notes", [None, b"", b"[]", b'{"a": 1}', b"\xff", b"null"])
def test_a_part_of_unknown_origin_is_begun_again(source, shelf, folder, notes):
    folder.mkdir()
    (folder / "tiny.bz2.part").write_bytes(b"x" * 30)
    if notes is not None:
        (folder / "tiny.bz2.part.json").write_bytes(notes)
    fetch(source, test=False)
    assert shelf.asked == [("tiny.bz2", None)]


def test_a_server_that_tells_no_length(source, shelf):
    shelf.length = False
    assert len(fetch(source)) == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>please log in</html>", "the label is not a number (at '<html>please')"),
        (PACKED[:-20], "this is an incomplete or damaged bzip2 file"),
        (bz2.compress(TEXT + b"1 1:1\n"), "rows: 41 instead of 40; non-zeros: 121 instead of 120"),
        (bz2.compress(TEXT.replace(b"1 1:", b"2 1:")), "the labels should be 0, 1, but are 0, 2"),
        (bz2.compress(TEXT.replace(b" 4:", b" 5:")), "the index 5 is larger than n_features=4"),
        (b"", "rows: 0 instead of 40"),
    ],
)
def test_what_is_not_the_file_is_removed(source, shelf, folder, body, why):
    shelf.files["tiny.bz2"] = body
    message = refused(source, test=False)
    assert (
        f"{shelf.url}/tiny.bz2 did not send the expected file, so feddcd deleted the download. "
        "The reason: " in message
    )
    assert why in message
    assert names(folder) == set()


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_refusals_of_the_server(source, shelf, status):
    shelf.status = status
    message = refused(source)
    assert f"{shelf.url}/tiny.bz2 answered with the error {status} " in message
    assert "put the file tiny (unpacked, or packed as .bz2, .gz or .xz) into" in message


def test_no_such_file_on_the_server(source, shelf, folder):
    shelf.files = {}
    message = refused(source)
    assert (
        f"{shelf.url}/tiny.bz2: the server does not have this file (404); put the file tiny"
        in message
    )
    assert [name for name, _ in shelf.asked] == ["tiny.bz2", "tiny", "tiny.gz", "tiny.xz"]
    assert names(folder) == set()


def test_no_network(source, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{free.getsockname()[1]}"
    message = refused(replace(source, train=replace(source.train, base=base)))
    assert f"feddcd cannot reach {base}/tiny.bz2 (" in message
    assert "put the file tiny (unpacked, or packed as .bz2, .gz or .xz) into " in message
    named = f"{tmp_path / 'mine'} (named in the environment variable FEDDCD_DATA)"
    assert f"into the folder {named} or into the folder {tmp_path / 'cache'}" in message


def test_a_folder_that_cannot_be_written(source, folder):
    folder.write_bytes(b"a file")
    assert f"feddcd cannot write to {folder}: " in refused(source)


def test_a_set_without_address(folder):
    message = refused(KNOWN["rcv1-subset"])
    assert message.startswith(
        "the data set rcv1-subset has no public address, so feddcd cannot download it: put the "
    )
    assert not folder.exists()


def test_every_address_is_the_publishers():
    for source in KNOWN.values():
        for file in source.files:
            assert (file.address is None) == (source.name == "rcv1-subset")
            kind = "multiclass" if source.name == "mnist" else "binary"
            start = f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/{kind}/{file.name}"
            assert file.address in (None, start, f"{start}.bz2")
            counts = [known for _, known in file.labels]
            assert None in counts or sum(counts) == file.rows
            assert (file.last or 0) <= source.features
    assert set(KNOWN) <= set(available())


def put(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def test_check_by_checksum_by_blob_and_by_counts(source, folder):
    path = put(folder, "tiny.gz", bz2.compress(TEXT))
    digest = hashlib.sha256(TEXT).hexdigest()
    assert examine(source, source.train, path) == (
        f"the sha256 of the text is right: {digest[:12]}..."
    )
    blob = hashlib.sha1(b"blob %d\0" % len(TEXT) + TEXT).hexdigest()
    by_blob = replace(source.train, sha256=None, blob=blob)
    assert f"git blob id of the text is right: {blob[:12]}" in examine(source, by_blob, path)
    by_counts = examine(source, replace(source.train, sha256="0" * 64), path)
    assert by_counts == (
        "the checksum of this file should be 000000000000..., but is another one, so feddcd "
        "compared counts. These counts are right: rows: 40; largest index: 4; non-zeros: 120; "
        "label 0: 20 times; label 1: 20 times"
    )
    vague = File("tiny", 40, ((0, None), (1, None)))
    assert examine(source, vague, path) == (
        "feddcd knows no checksum of this file, so it compared counts. These counts are right: "
        "rows: 40; no index above 4; labels: 0, 1. Not checked, because feddcd does not know the "
        "right numbers: largest index, non-zeros, how often each label occurs"
    )
    with pytest.raises(
        DataError, match=r"sha256 of the text is [0-9a-f]{64}, but 0{64} was expected"
    ):
        examine(source, replace(source.train, sha256="0" * 64, exact=True), path)


def test_check_names_the_file_that_it_really_is(source, folder):
    path = put(folder, "tiny.t", TEXT)
    with pytest.raises(
        DataError,
        match=r"tiny\.t: the content is that of the file 'tiny' of the data set 'tiny', "
        r"and not that of the file 'tiny\.t'",
    ):
        examine(source, source.test, path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rows": 39}, "rows: 40 instead of 39"),
        ({"last": 3}, "largest index: 4 instead of 3"),
        ({"nonzeros": 7}, "non-zeros: 120 instead of 7"),
        (
            {"labels": ((0, 19), (1, 21))},
            "the label 0 occurs 20 times instead of 19 times; the label 1 occurs",
        ),
        ({"labels": ((-1, None), (1, None))}, "the labels should be -1, 1, but are 0, 1"),
    ],
)
def test_check_says_what_differs(source, folder, change, why):
    path = put(folder, "tiny", TEXT)
    with pytest.raises(DataError) as caught:
        examine(source, replace(source.train, sha256=None, **change), path)
    assert str(caught.value).startswith(f"{path}: {why}")


def test_check_looks_at_every_file(source, folder):
    put(folder, "tiny", TEXT)
    train, test = check(source)
    assert (train.good, train.path, test.good, test.path) == (True, folder / "tiny", True, None)
    assert "this file is missing, but the data set can be used without this file" in test.says
    needed = check(replace(source, needs_test=True))[1]
    assert not needed.good
    assert "tiny: feddcd did not find the file tiny.t of this data set" in needed.says
    path = put(folder, "tiny.t", b"1 1:x\n")
    assert f"{path}:1:3: the value is not a number" in check(source)[1].says


def test_counts_need_no_more_than_a_block(tmp_path):
    path = put(tmp_path, "big", b"1 3:1\n-1\n2.5 1:0 2:1\n")
    assert count(path) == (3, 3, 3, {1.0: 1, -1.0: 1, 2.5: 1})


needs_files = pytest.mark.skipif(not REAL, reason="FEDDCD_DATA is not set: no files to check")


hashed = functools.cache(_sha256)


@pytest.fixture
def real(monkeypatch):
    """The real files, each read once for its checksum; test_sources.py counts in them."""
    monkeypatch.setenv("FEDDCD_DATA", str(REAL))
    monkeypatch.setattr("feddcd.data.check._sha256", hashed)


@needs_files
@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    "name", sliced(KNOWN, [n for n in KNOWN if n not in ("mnist", "rcv1-subset")])
)
def test_the_real_files_are_right(name):
    findings = check_or_skip(KNOWN[name])
    assert [finding.says for finding in findings if not finding.good] == []


@needs_files
@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("part", ["test", pytest.param("train", marks=pytest.mark.chaos)])
def test_the_subset_is_never_taken_for_rcv1(part):
    path, rcv1 = find(getattr(KNOWN["rcv1-subset"], part)), KNOWN["rcv1"]
    if path is None:
        pytest.skip("FEDDCD_DATA lacks rcv1-subset")
    with pytest.raises(
        DataError,
        match=(
            rf"is that of the file 'rcv1sub_{part}\.binary' of the data set 'rcv1-subset', "
            rf"and not that of the file "
            rf"'rcv1_"
        ),
    ):
        examine(rcv1, rcv1.train, path)


def check_or_skip(source):
    try:
        return check(source)
    except DataError as error:
        pytest.skip(f"FEDDCD_DATA lacks {source.name}: {error}")


RUNS = (
    "run,experiment,dataset,model,algorithm,tau,l2,learning_rates,local_epochs,mu,split,rounds\r\n"
    "exp1/a,exp1,mnist,softmax,FedDCD,30,0.01,0.99|0.001,,0,contiguous,2\r\n"
    "exp1/b,exp1,rcv1,softmax,FedAvg,10,0.001,0.1,5,0,contiguous,1\r\n"
)
CURVES = (
    "run,round,objective,accuracy\r\n"
    "exp1/a,1,0.6,0.85\r\nexp1/a,2,0.5,0.875\r\nexp1/b,1,0.7,0.8\r\n"
)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_REFERENCE", str(tmp_path / "ref"))
    put(tmp_path / "ref", "runs.csv", RUNS.encode())
    put(tmp_path / "ref", "curves.csv", CURVES.encode())
    return tmp_path / "ref"


def test_authors_runs(tables):
    runs = authors.load_authors()
    assert list(runs) == ["exp1/a", "exp1/b"]
    assert runs["exp1/a"][:9] == (
        "exp1/a", "exp1", "mnist", "softmax", "FedDCD", 30, 0.01, "contiguous", 2
    )  # fmt: skip
    assert runs["exp1/a"].objective.tolist() == [0.6, 0.5]
    assert runs["exp1/a"].accuracy.tolist() == [0.85, 0.875]


def test_authors_runs_may_be_absent(tables, tmp_path, monkeypatch):
    monkeypatch.delenv("FEDDCD_REFERENCE")
    assert authors.load_authors() is None
    (tmp_path / "cache").mkdir()
    tables.rename(tmp_path / "cache" / "authors-results")
    assert len(authors.load_authors()) == 2


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("runs.csv", "tau,", "tua,", "runs.csv:1: the header does not have the column 'tau'"),
        (
            "runs.csv",
            RUNS,
            "",
            "runs.csv:1: the header does not have the columns 'run', 'experiment'",
        ),
        (
            "runs.csv",
            "FedDCD,30,",
            "FedDCD,",
            "runs.csv:2: this line has 11 fields, but the header has 12",
        ),
        ("runs.csv", ",10,", ",ten,", "runs.csv:3: tau must be a whole number >= 1, got 'ten'"),
        ("runs.csv", "0.001,0.1", "nan,0.1", "runs.csv:3: l2 must be finite, got 'nan'"),
        ("runs.csv", "exp1/b", "exp1/a", "runs.csv:3: run 'exp1/a' occurs twice"),
        ("runs.csv", "exp1/b", "", "runs.csv:3: run has no name"),
        (
            "runs.csv",
            "us,1",
            "us,4",
            "runs.csv:3: the run 'exp1/b' has 4 rounds in this line, but 1 in curves.csv",
        ),
        ("runs.csv", "mnist", "mn\xefst", "runs.csv:2: is not UTF-8 text"),
        ("runs.csv", "mnist", 'mn"ist', None),
        ("runs.csv", "mnist", '"mnist', "is not CSV"),
        (
            "curves.csv",
            "a,2",
            "a,3",
            "curves.csv:3: this line has round 3 of 'exp1/a', but round 2 was expected",
        ),
        ("curves.csv", "0.5,", ",", "curves.csv:3: objective must be a number, got ''"),
        ("curves.csv", "0.8\r", "inf\r", "curves.csv:4: accuracy must be finite, got 'inf'"),
        ("curves.csv", "exp1/b", "exp1/c", "curves.csv:4: run 'exp1/c' is not in runs.csv"),
        (
            "curves.csv",
            "exp1/b,1,0.7,0.8\r\n",
            "",
            "the run 'exp1/b' has 1 round in this line, but",
        ),
    ],
)
def test_authors_tables_that_are_damaged(tables, file, old, new, message):
    text = (tables / file).read_bytes().decode()
    assert old in text
    (tables / file).write_bytes(text.replace(old, new, 1).encode("latin-1"))
    if message is None:
        assert len(authors.load_authors()) == 2
        return
    with pytest.raises(DataError) as caught:
        authors.load_authors()
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tables))


@pytest.mark.parametrize("file", ["runs.csv", "curves.csv"])
def test_one_table_is_not_enough(tables, file):
    (tables / file).unlink()
    with pytest.raises(DataError, match=rf", but {file} is missing; feddcd needs both files"):
        authors.load_authors()


@pytest.mark.skipif(not REFERENCE, reason="FEDDCD_REFERENCE is not set: no tables to read")
def test_the_real_tables(monkeypatch):
    monkeypatch.setenv("FEDDCD_REFERENCE", str(REFERENCE))
    runs = authors.load_authors()
    if runs is None:
        pytest.skip("the folder of FEDDCD_REFERENCE has no runs.csv and no curves.csv")
    assert len(runs) == authors.PUBLISHED_RUNS
    assert {run.dataset for run in runs.values()} == {"mnist", "rcv1"}
    # Table 2: the first round of FedDCD with a gap of at most 1e-3 to 0.558481693
    gap = runs["exp1/FedDCD_logReg_lambda1e-2"].objective - 0.558481693
    assert 20 <= np.argmax(gap <= 1e-3) + 1 <= 40


def feddcd(command: str, capsys, code: int = 0) -> str:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    out, err = capsys.readouterr()
    assert stop.value.code == code, err
    assert (err == "") == (code == 0)
    if code:
        assert err.startswith("error: ")
        assert err.count("\n") == 1
    return (out if code == 0 else err).replace("\n", " ")


def test_cli_fetches_and_checks(source, folder, capsys):
    said = feddcd("data fetch tiny --no-test", capsys)
    assert f"fetched and checked: {folder / 'tiny.bz2'}" in said
    said = feddcd("data fetch tiny", capsys)
    assert f"already here: {folder / 'tiny.bz2'}" in said
    assert f"fetched and checked: {folder / 'tiny.t.xz'}" in said
    said = feddcd("data check tiny", capsys)
    assert f"right    {folder / 'tiny.bz2'}" in said
    assert (
        "feddcd knows no checksum of this file, so it compared counts. These counts are "
        "right: rows: 2" in said
    )
    put(folder, "tiny.t.xz", b"1 1:1\n")
    said = feddcd("data check tiny", capsys, 2)
    assert "rows: 1 instead of 2" in said


def test_cli_says_what_was_left_out(source, monkeypatch, capsys):
    monkeypatch.setitem(KNOWN, "tiny", replace(source, fetch_test=False))
    said = feddcd("data fetch tiny", capsys)
    assert (
        "the large file tiny.t was not downloaded; to download it: feddcd data fetch tiny --test"
    ) in said


def test_cli_list(source, folder, tables, capsys):
    put(folder, "a9a.bz2", b"")
    said = feddcd("data list", capsys)
    words = said.split()
    assert {*KNOWN, "authors-results"} <= set(words)
    assert "32,561 x 123, 2.3 MB of text, licence: CC BY 4.0 (UCI)" in said
    assert "here: no" in said
    shown = "".join(words)  # long paths are folded
    assert f"here:{folder / 'a9a.bz2'}" in shown
    assert f"{tables / 'runs.csv'}{tables / 'curves.csv'}" in shown


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "fetch minst",
            "there is no data set 'minst'; did you mean 'mnist'? the data sets are mnist, rcv1",
        ),
        ("check wine", "the data set 'wine' is a part of feddcd, so there are no files"),
        ("check a9a", "binary/a9a, use the command: feddcd data fetch a9a"),
        (
            "check rcv1-subset",
            "rcv1-subset: feddcd did not find the file rcv1sub_train.binary of this data",
        ),
        (
            "fetch rcv1-subset",
            "rcv1-subset has no public address, so feddcd cannot download it: put the file rcv1sub",
        ),
        ("fetch authors-results", "https://github.com/ZhenanFanUBC/FedDCD.jl"),
        ("check authors-results", "Put runs.csv (columns run, experiment, dataset, model, algor"),
    ],
)
def test_cli_refuses(command, message, capsys):
    assert message in feddcd(f"data {command}", capsys, 2)


def test_cli_checks_the_authors_tables(tables, capsys):
    assert ("2 runs with 3 rounds in all. The authors published 64 runs") in feddcd(
        "data check authors-results", capsys
    )
    assert f"already here: {tables}" in feddcd("data fetch authors-results", capsys)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", ["list", "fetch", "check"]),
        ("list", ["licence"]),
        ("fetch", ["NAME", "--no-test", "FEDDCD_DATA"]),
        ("check", ["NAME"]),
    ],
)
def test_cli_help(command, words, capsys):
    shown = feddcd(f"data {command} --help", capsys)
    assert [word for word in words if word not in shown] == []
