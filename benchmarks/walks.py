"""How many files of the package a run, one exchange with a site and a table pass through.

    python benchmarks/walks.py

A file counts if one of its functions is called the second time round, when everything is
imported: it is what somebody opens who follows the walk from the outside in.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import feddcd

ROOT = Path(feddcd.__file__).parent


def files_of(walk: Callable[[], object]) -> list[str]:
    """The package's files in which a function is called."""
    seen: set[str] = set()

    def note(frame, event, _):
        if event == "call":
            seen.add(frame.f_code.co_filename)

    walk()
    jax.clear_caches()  # what is traced counts, too
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(str(Path(f).relative_to(ROOT)) for f in seen if f.startswith(str(ROOT)))


def run() -> None:
    """From the call to the run's folder with its report."""
    with tempfile.TemporaryDirectory() as folder:
        feddcd.run("digits", rounds=3, clients=4, tau=2, l2=0.01, out=Path(folder) / "run")


def exchange() -> None:
    """All that a coordinator and its sites do, as bytes; on Flower they travel by flower/, too."""
    from feddcd.cli.app import app

    fed = Path(tempfile.mkdtemp()) / "fed"
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        made = ["federation", "init", str(fed), "--sites", "3", "--data", "digits"]
        subprocess.run([sys.executable, "-m", "feddcd", *made], check=True, stdout=nowhere)
        app(["federation", "simulate", str(fed), "--rounds", "2"], standalone_mode=False)
    shutil.rmtree(fed.parent)


def table() -> None:
    """From a frame to the printed table."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(300, 3)), columns=list("abc"))
    frame["y"] = (random.random(300) < 0.5).astype(float)
    frame["site"] = np.arange(300) % 3
    feddcd.FederatedGLM(formula="y ~ a + b + c").fit(frame, groups="site").summary()


def main() -> None:
    for walk in (run, exchange, table):
        files = files_of(walk)
        print(f"{walk.__name__}: {len(files)} files\n  {' '.join(files)}")


if __name__ == "__main__":
    main()
