"""The locks: every version of constraints.txt, with hashes, and no host."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIN = re.compile(
    r"^([A-Za-z0-9._-]+==\S+)( ; [^\\]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.M
)
LOCKS = [f"requirements{part}.lock" for part in ("", "-site", "-train")]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_pins_and_hashes_alone(name):
    text = (ROOT / name).read_text()
    head, _, rest = text.partition("\n")
    assert head.startswith("# made by tools/lock.py")
    assert PIN.sub("", rest) == "", "versions without a hash, or something else"
    assert "//" not in text


def test_the_locks_are_of_the_pinned_versions():
    pinned = set((ROOT / "constraints.txt").read_text().split())
    whole, site, train = (
        {pin[1] for pin in PIN.finditer((ROOT / name).read_text())} for name in LOCKS
    )
    build = {pin for pin in whole if pin.startswith("setuptools==")}
    assert len(build) == 1
    assert whole - build == pinned
    assert build < site < whole
    assert build < train < whole
    names = {pin.partition("==")[0] for pin in site}
    assert names >= {"flwr", "numpy", "pandas", "cryptography"}
    assert not names & {"jax", "jaxlib", "scikit-learn"}, "a site that gives tables needs none"


def test_a_demo_needs_no_more_than_trainings():
    """The first command of a stranger: tests, pages and Flower need another gigabyte."""
    pins = PIN.finditer((ROOT / "requirements-train.lock").read_text())
    names = {pin[1].partition("==")[0] for pin in pins}
    assert names >= {"jax", "scikit-learn", "matplotlib", "numpy", "setuptools"}
    assert not names & {"flwr", "ray", "pytest", "pyright", "mkdocs", "pyarrow"}


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_installs_what_a_command_needs(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)

    def locks(target: str) -> set[str]:
        done = subprocess.run(
            ["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return set(re.findall(r"requirements\S*\.lock", done.stdout))

    assert locks("demo") == {"requirements-train.lock"}
    assert locks("test") == {"requirements.lock"}
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.train").touch()
    assert locks("demo") == set()
    assert locks("test") == {"requirements.lock"}
    (tmp_path / ".venv/.train").unlink()
    (tmp_path / ".venv/.ready").touch()
    assert locks("demo") == locks("test") == set()
