"""As users have it: XLA at its own level of optimisation, on all cores, nothing kept from other
tests. Each command is a process, in a folder with a space in its name."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas
import pytest

import apart
from docs_blocks import ROOT, write_patients

pytestmark = pytest.mark.smoke
README = (ROOT / "README.md").read_text()
FEDERATION = ("init fed --job", "simulate")
SMALL = "--data synthetic:n=80,d=3,groups=4 --clients 4 --tau 2 --l2 0.1 --loss 0.2"
SMALL += " --certify-every 10 --algorithm feddcd"


CHECKPOINT = "checkpoint.npz"
# one process for several commands, as it takes long to start
IN_ONE = """
import shlex
from feddcd.cli import main
for line in {lines}:
    try:
        main(shlex.split(line))
    except SystemExit as stop:
        assert not stop.code, line
"""
# and reports without their pictures, where the first of them has some; what the one compiles
# serves the other
QUICKER = """
import os
os.environ |= {
    "JAX_COMPILATION_CACHE_DIR": "compiled", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"
}
import feddcd.report.run
feddcd.report.run.panels = lambda *a: []
"""


class Shell:
    """Commands in a new folder, as they are printed."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        self.how = {"cwd": folder, "env": environment | {"PATH": path}, "text": True}

    def __call__(self, line: str) -> str:
        done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=600, **self.how)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    def fails(self, line: str) -> str:
        done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=600, **self.how)
        assert done.returncode == 2, f"{line}: {done.stderr}"
        return done.stderr

    def hide(self, libraries: Iterable[str]) -> None:
        """As if these were not installed."""
        start = self.folder.parent / "start"
        self.how["env"] = apart.without(libraries, start, self.how["env"])

    def python(self, code: str) -> str:
        (self.folder / "script.py").write_text(code)
        return self("python script.py")

    def stopped(self, line: str, sign: Path) -> str:
        """Ctrl-C, once the file `sign` is there; what was said."""
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(["bash", "-c", f"exec {line}"], **self.how, **both)
        try:
            until = time.monotonic() + 300
            while not sign.exists() and process.poll() is None:
                assert time.monotonic() < until
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 130
            return said
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def shell(tmp_path, plain_environment):
    folder = tmp_path / "a folder"
    folder.mkdir()
    return Shell(folder, plain_environment | {"FEDDCD_CACHE": str(tmp_path / "cache")})


def test_a_table_and_its_federation_need_no_extra(shell):
    """The README's commands as they stand: over sites the table is that of one process. They run
    with nothing but what `pip install feddcd` brings; what lacks is named by its extra."""
    write_patients(shell.folder)
    shell.hide(apart.hidden())
    printed = lambda start: re.findall(rf"^ {{4}}(feddcd {start} .*)$", README, re.MULTILINE)
    for start in ("glm", *(f"federation {c}" for c in FEDERATION)):
        (line,) = printed(start)
        shell(line)
    read = lambda path: pandas.read_csv(shell.folder / path / "coefficients.csv", index_col="name")
    pandas.testing.assert_frame_equal(read("fed/server/glm"), read("plan"), rtol=1e-8)
    assert "pip install 'feddcd[train]'" in shell.fails("feddcd run --data digits")
    # a federation for tables that come later: the first command of the page on deployment
    rest = [
        *printed("describe"), *printed("federation verify"),
        "feddcd federation init later --host fed.example.org",
        "feddcd federation invite later north",
    ]  # fmt: skip
    assert len(rest) == 4
    shell.python(IN_ONE.format(lines=[line.removeprefix("feddcd ") for line in rest]))


@pytest.mark.chaos
def test_ctrl_c_while_programs_are_compiled_does_not_crash(shell):
    said = shell.stopped("feddcd run --data digits --out a", shell.folder / "a" / "config.toml")
    assert "fault" not in said


@pytest.mark.chaos
def test_a_run_that_was_stopped_goes_on_bit_for_bit(shell):
    left = shell.folder / "stopped"
    said = shell.stopped(f"feddcd run {SMALL} --rounds 1000000 --out stopped", left / CHECKPOINT)
    with np.load(left / CHECKPOINT, allow_pickle=False) as arrays:
        done = int(arrays["t"])
    assert done > 0
    assert "Traceback" not in said
    assert f"stopped after round {done}; to continue: feddcd run --resume stopped" in said
    found = json.loads((left / "summary.json").read_text())
    assert (found["status"], found["rounds"]) == ("stopped", done)
    assert len(pandas.read_csv(left / "history.csv")) == done
    assert {"model.npz", "report.html"} <= {path.name for path in left.iterdir()}

    total = done + 30
    again = f"run --resume stopped --rounds {total} --quiet"
    both = (again, f"run {SMALL} --quiet --rounds {total} --out whole")
    shell.python(QUICKER + IN_ONE.format(lines=both))
    one, other = (pandas.read_csv(shell.folder / f / "history.csv") for f in ("stopped", "whole"))
    assert list(one["round"]) == list(range(1, total + 1))
    assert (one["seconds"].diff().dropna() >= 0).all()
    assert json.loads((left / "summary.json").read_text())["status"] == "finished"
    pandas.testing.assert_frame_equal(
        one.drop(columns="seconds"), other.drop(columns="seconds"), check_exact=True
    )
    models = [np.load(shell.folder / f / "model.npz")["w"] for f in ("stopped", "whole")]
    assert models[0].tobytes() == models[1].tobytes()
