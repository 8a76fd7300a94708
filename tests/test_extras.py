"""What an import says where an extra is not installed."""

import json
import pkgutil
import subprocess
import sys

import feddcd
from feddcd._extras import EXTRAS

PARTS = [f"feddcd.{part.name}" for part in pkgutil.iter_modules(feddcd.__path__)]
# parts whose first import needs a library of an extra; the others load theirs where it is used
TRAIN = {"algorithms", "estimators", "measure", "participation", "problems", "solvers"}
IN_ONE = """
import importlib, json, sys
gone, parts = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(gone))
said = {}
for part in parts:
    try:
        importlib.import_module(part)
    except Exception as error:
        said[part] = [type(error).__name__, str(error)]
print(json.dumps(said))
"""


def test_a_part_without_its_extra_says_what_to_install():
    parts = [part for part in PARTS if part != "feddcd.__main__"]
    given = json.dumps([list(EXTRAS), parts])
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE, given], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    assert set(said) >= {"feddcd.flower", *(f"feddcd.{name}" for name in TRAIN)}
    for part, (kind, text) in said.items():
        extra = "flower" if part == "feddcd.flower" else "train"
        assert kind == "MissingExtra", f"{part}: {kind}: {text}"
        assert text.endswith(f"to install it: pip install 'feddcd[{extra}]'")
