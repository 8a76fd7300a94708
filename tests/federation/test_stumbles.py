"""What an administrator reads, and what a coordinator does not."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import feddcd._files as files
from feddcd._errors import Refused, SpecError
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.data.codebook import read_codebook
from feddcd.federation.site import _masked
from feddcd.federation.site._roles import _check_constants
from feddcd.federation.site._words import describe_job
from feddcd.federation.site.approval import approve, deny, require, waiting
from feddcd.federation.site.disclosure import told


def test_a_broken_message_is_refused_without_a_value(tmp_path, monkeypatch):
    """The error of a library may hold whatever it stumbled over."""

    def broken(place):
        return None

    def found(*args):
        raise ValueError("could not convert 'Miller, 1958-03-02' to float")

    monkeypatch.setattr(_masked, "_member", broken)
    monkeypatch.setattr(_masked, "JobRules", lambda *args: None)
    monkeypatch.setattr(_masked, "_found", found)
    release = types.SimpleNamespace(disk=None)
    place = types.SimpleNamespace(folder=tmp_path)
    envelope = types.SimpleNamespace(kind="job", meta={"id": "a" * 32})
    release.disk = files.Disk()
    with pytest.raises(Refused) as refusal:
        _masked.respond(envelope, place, release, b"")  # pyright: ignore
    assert "Miller" not in str(refusal.value)
    assert "Miller" in str(refusal.value.__cause__)


def test_an_approval_shows_all_that_is_asked():
    plan = RegressionPlan(
        "y ~ age", "gaussian", weight="w8", offset="exposure", cluster="ward",
        covariance="cluster", complete=["crp"],
    )  # fmt: skip
    columns = {name: np.arange(9.0) for name in ("Intercept", "age", "(outcome)", "(weight)")}
    rows = SiteRows(plan, None, 9, columns=("age", "y"))
    lines = "\n".join(describe_job(rows, columns, "sum", 50, ("east", "north"), ()))
    for said in ("'w8'", "'exposure'", "'ward'", "['crp']", "standard errors: 'cluster'"):
        assert said in lines
    assert "sums over 2 columns of the model, and over 'outcome', 'weight' beside them" in lines


def test_who_approves_what_was_denied_hears_so(tmp_path):
    for id in ("aaaa1111", "bbbb2222"):
        with pytest.raises(Exception, match="waits"):
            require(tmp_path, id, "this job", {"shown": []})
    deny(tmp_path, "aaaa1111")
    with pytest.raises(SpecError, match="was denied here, and stays so"):
        approve(tmp_path, "aaaa1111")
    approve(tmp_path, "bbbb")
    with pytest.raises(SpecError, match="was approved here before; nothing waits"):
        approve(tmp_path, "bbbb")
    with pytest.raises(SpecError, match="'cccc' does not wait for approval"):
        deny(tmp_path, "cccc")
    assert not waiting(tmp_path)


def test_signed_messages_are_told_in_words():
    line = {"job": "ab" * 16, "exchange": 3, "sha256": "00"}
    assert told(line) == "SIGNED   exchange 3 of job abababab: a masked answer"
    assert "the same bytes" in told(line | {"again": "00"})
    assert "a random number and a signature" in told(line | {"digest": "00"})


class FakeLocks(types.ModuleType):
    """As Windows' module: one byte of an open file, held by who came first."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__("msvcrt")
        self.held: set[tuple[int, int]] = set()

    def locking(self, handle: int, mode: int, size: int) -> None:
        place = (files.os.fstat(handle).st_ino, files.os.lseek(handle, 0, files.os.SEEK_CUR))
        if place in self.held:
            raise PermissionError(13, "Permission denied")
        self.held.add(place)


def test_files_are_locked_on_windows_without_its_missing_module(tmp_path, monkeypatch):
    """The module is loaded anew as on Windows, where there is no fcntl."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)  # an import of it fails
    monkeypatch.setitem(sys.modules, "msvcrt", FakeLocks())
    spec = importlib.util.spec_from_file_location("feddcd._files_there", Path(files.__file__))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    disk = there.Disk()
    with disk.lock(tmp_path / "lock"), pytest.raises(there.Locked, match=str(files.os.getpid())):
        disk.lock(tmp_path / "lock")
    there.save(disk, tmp_path / "a.json", {"a": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}


@pytest.mark.parametrize(
    "column",
    [
        "I(age > (TRUE + TRUE + TRUE)^(TRUE + TRUE + TRUE + TRUE) - TRUE)",
        "I(age > bmi / bmi * crp)",
        "I(age > bmi)",
        "I(age > exp(age - age))",
        "I(TRUE + TRUE > age)",
        "I(2 * age > 122)",
    ],
)
def test_a_threshold_without_a_numeral_is_one_nevertheless(column):
    """Rules on constants read numbers; these are made of none."""
    own = read_codebook({"columns": {"age": {"type": "number", "cuts": [61]}}})
    with pytest.raises(Refused, match="constants = 'codebook'"):
        _check_constants(own, f"y ~ {column}")
    for allowed in ("I(age > 61)", "I(sex == 'm')", "I(flag == TRUE)", "I(age / bmi)"):
        _check_constants(own, f"y ~ {allowed}")
