"""The tests of the protocol find mistakes in it, by assertions."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mutants import FOUND, MODULES, SURVIVED, mutants, mutated

SMALL = "def f(x):\n    if x < 1:\n        raise ValueError(f'{x + 1}')\n    return x + 2\n"
LEAST = 0.85  # some change nothing, or only the words of a refusal


def test_mistakes_are_made_one_at_a_time():
    words = [name.partition(": ")[0].partition(", ")[2] for name in mutants(SMALL)]
    assert words == ["never", "always", "compare", "one more", "dropped", "operator", "one more"]
    made = []
    for number in range(len(words)):
        names: dict = {}
        exec(compile(mutated(SMALL, number), "small", "exec"), names)
        made.append([_outcome(names["f"], x) for x in (0, 1)])
    assert made[0] == [2, 3]
    assert made[1] == ["ValueError", "ValueError"]
    assert made[2] == ["ValueError", "ValueError"]
    assert made[5] == ["ValueError", -1]
    assert made[6] == ["ValueError", 4]


def _outcome(function, x):
    try:
        return function(x)
    except ValueError:
        return "ValueError"


@pytest.mark.chaos
@pytest.mark.parametrize("module", MODULES)
def test_mistakes_in_the_protocol_are_found(module):
    """Mutants that only make Python stumble, or run for ever, count neither way."""
    script = Path(__file__).parents[1] / "worlds" / "mutants.py"
    done = subprocess.run([sys.executable, str(script), module], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ends = Counter(line.partition("\t")[0] for line in done.stdout.splitlines())
    assert ends[FOUND] >= LEAST * (ends[FOUND] + ends[SURVIVED]) > 0, done.stdout
