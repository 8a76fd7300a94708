"""The page on the race has the numbers of the files beside it."""

import subprocess
import sys

from docs_blocks import ROOT


def test_the_tables_are_those_of_the_files():
    tool = [sys.executable, str(ROOT / "tools" / "race_tables.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
