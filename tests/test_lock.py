"""The locks: every version of constraints.txt, with hashes, and no host."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIN = re.compile(
    r"^([A-Za-z0-9._-]+==\S+)( ; [^\\]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.M
)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-site.lock"])
def test_a_lock_holds_pins_and_hashes_alone(name):
    text = (ROOT / name).read_text()
    head, _, rest = text.partition("\n")
    assert head.startswith("# made by tools/lock.py")
    assert PIN.sub("", rest) == "", "versions without a hash, or something else"
    assert "//" not in text


def test_the_locks_are_of_the_pinned_versions():
    pinned = set((ROOT / "constraints.txt").read_text().split())
    whole, site = (
        {pin[1] for pin in PIN.finditer((ROOT / f"requirements{name}.lock").read_text())}
        for name in ("", "-site")
    )
    build = {pin for pin in whole if pin.startswith("setuptools==")}
    assert len(build) == 1
    assert whole - build == pinned
    assert build < site < whole
    names = {pin.partition("==")[0] for pin in site}
    assert names >= {"flwr", "numpy", "pandas", "cryptography"}
    assert not names & {"jax", "jaxlib", "scikit-learn"}, "a site that gives tables needs none"
