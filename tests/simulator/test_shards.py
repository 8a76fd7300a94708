"""Clients are shared among several devices, and nothing else changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "worlds" / "shards.py"
METHODS = ["feddcd", "fedqn", "pointsaga", "accfeddcd", "fednewton", "scaffold", "tamuna"]
CASES = ["one by one", "side by side lossy", "stacks", "side by side stacks"]


def on_four_devices(methods, cases):
    """What the script says in a process with four devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, SCRIPT, ",".join(methods), ",".join(cases)],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(found):
    for name, one in found.items():
        assert one["devices"] == [1, 4], name
        # clients in several stacks are on every device
        assert one["data"] == ([1, 1] if name.endswith("stacks") else [1, 4]), name
        assert one["apart"] < 1e-12, name


@pytest.mark.parametrize("case", ["lossy", pytest.param("side by side", marks=pytest.mark.chaos)])
def test_four_devices_give_what_one_gives(case):
    check(on_four_devices(["simple"], [case]))


@pytest.mark.chaos
@pytest.mark.parametrize("case", CASES)
def test_four_devices_give_what_one_gives_for_every_method(case):
    check(on_four_devices(METHODS, [case]))
