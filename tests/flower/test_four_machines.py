"""Enrolment on four machines with homes of their own, from a wheel, without the source tree."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from enrol import play


@pytest.mark.chaos
@pytest.mark.processes
def test_from_zero_to_a_table(tmp_path):
    """Fifteen minutes for people; programs need far less."""
    minutes = play(tmp_path)
    assert 0 < minutes["connected"] < minutes["table"]
