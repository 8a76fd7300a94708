"""Four machines from zero to connected, and to a first table: how long does it take?

Each machine is a folder with its own home and its own environment, into which a wheel of this
package is installed; the source tree is not on its path. The coordinator invites three hospitals,
each of them enrols, two people compare the words, and the sites connect. Then a study runs: at each
site a person agrees to the list of sites and to the job.

    python benchmarks/enrol.py
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from feddcd.cli._serving import LISTENS

ROOT = Path(__file__).parents[1]
SITES = ("north", "south", "east")
JOB = '[glm]\nformula = "y ~ age + bmi"\nfamily = "gaussian"\n'
LIMIT_S = 300.0  # of one command, or of one state that is waited for


class Machine:
    """A folder, a home, an environment; what it starts in the background it ends."""

    def __init__(self, folder: Path, wheel: Path):
        self.folder, self.home = folder / "work", folder / "home"
        for made in (self.folder, self.home):
            made.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.python = folder / "venv" / "bin" / "python"
        own = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", own, wheel]
        subprocess.run(pip, check=True)
        # the libraries come from the environment that runs this; the package does not
        libraries = [path for path in sys.path if path.endswith("site-packages")]
        (own / "libraries.pth").write_text("\n".join(libraries) + "\n")
        self.running: dict[Path, subprocess.Popen] = {}  # by log
        where = self.run("-c", "import feddcd; print(feddcd.__file__)").strip()
        if not Path(where).is_relative_to(folder.resolve()):
            raise SystemExit(f"the package of this machine is {where}")

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("LANG", "OPENBLAS_NUM_THREADS")}
        return {**kept, "HOME": str(self.home), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}

    def run(self, *words: str | Path) -> str:
        done = subprocess.run(
            [self.python, *words], cwd=self.folder, env=self.env, capture_output=True, text=True,
            timeout=LIMIT_S,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def feddcd(self, *words: str | Path) -> dict:
        return json.loads(self.run("-m", "feddcd", "federation", *words, "--json"))

    def start(self, *words: str) -> Path:
        """The log of a program that runs until the end."""
        path = self.folder / f"{words[0]}.log"
        with open(path, "ab") as log:
            self.running[path] = subprocess.Popen(
                [self.python, "-m", "feddcd", "federation", *words], cwd=self.folder,
                env=self.env, stdout=log, stderr=log,
            )  # fmt: skip
        return path

    def status(self, folder: str) -> dict:
        return self.feddcd("status", folder)

    def check(self) -> None:
        for log, process in self.running.items():
            if process.poll() is not None:
                raise SystemExit(f"ended with exit code {process.returncode}:\n{log.read_text()}")

    def end(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait(60)


def make_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, ROOT], check=True)
    return next(folder.glob("feddcd-*.whl"))


def patients(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    age, bmi = rng.normal(60, 10, 300).round(), rng.normal(27, 4, 300).round(1)
    y = (0.05 * age - 0.1 * bmi + rng.normal(0, 1, 300)).round(2)
    rows = "\n".join(f"{a:g},{b:g},{c:g}" for a, b, c in zip(age, bmi, y, strict=True))
    path.write_text(f"age,bmi,y\n{rows}\n")


def wait(what: str, condition, machines: Iterable[Machine] = (), pause: float = 1.0) -> None:
    """Until it is so, and no longer than the programs of these machines run."""
    until = time.monotonic() + LIMIT_S
    while not condition():
        for machine in machines:
            machine.check()
        if time.monotonic() > until:
            raise SystemExit(f"not in {LIMIT_S:g} s: {what}")
        time.sleep(pause)


def listens(log: Path) -> bool:
    """Whether `serve`, which has no --json, has said that its port is open."""
    return LISTENS in log.read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def play(folder: Path, say=print, study: bool = True) -> dict[str, float]:
    """Minutes until all were connected, and until there was a table."""
    began = time.monotonic()
    minutes = lambda: (time.monotonic() - began) / 60
    wheel = make_wheel(folder / "wheel")
    machines = {name: Machine(folder / name, wheel) for name in ("coordinator", *SITES)}
    center = machines["coordinator"]
    say(f"{minutes():.1f} min: four machines have the wheel {wheel.name}")
    try:
        center.feddcd("init", "fed", "--host", "localhost", "--port", str(free_port()))
        for name in SITES:
            center.feddcd("invite", "fed", name)
        log = center.start("serve", "fed")
        wait("the port", lambda: listens(log), [center])
        for seed, name in enumerate(SITES):
            site = machines[name]
            text = (center.folder / f"{name}.invite").read_bytes()  # as a mail would carry it
            (site.folder / f"{name}.invite").write_bytes(text)
            patients(site.folder / "patients.csv", seed)
            words = site.feddcd("enrol", f"{name}.invite", "--data", "patients.csv")["words"]
            center.feddcd("confirm", "fed", name, "--words", " ".join(words.split()[:3]))
            site.start("site", name)
        say(f"{minutes():.1f} min: three sites have enrolled and are confirmed")
        everyone = machines.values()
        wait("all sites", lambda: not center.status("fed")["missing"], everyone)
        for name in SITES:
            there = lambda name=name: machines[name].status(name)["state"] == "connected"
            wait(name, there, everyone)
        connected = minutes()
        say(f"{connected:.1f} min: connected")
        if not study:
            return {"connected": connected}
        (center.folder / "job.toml").write_text(JOB)
        center.feddcd("study", "fed", "first", "--job", "job.toml", "--no-follow")

        def done() -> bool:
            for name in SITES:
                for id in machines[name].status(name)["waits"]:
                    machines[name].feddcd("approve", name, id)
            (state,) = center.status("fed")["studies"]
            if state["state"] == "failed":
                raise SystemExit(f"the study failed: {state['reason']}")
            return state["state"] == "done"

        wait("the study", done, everyone)
        table = center.folder / "fed" / "studies" / "first" / "glm" / "summary.txt"
        say(table.read_text("utf-8"))
        for name in SITES:
            if machines[name].status(name)["results"] != ["first"]:
                raise SystemExit(f"the table did not come back to {name}")
        say(f"{minutes():.1f} min: the first table, at the coordinator and at the sites")
        return {"connected": connected, "table": minutes()}
    finally:
        for machine in reversed(machines.values()):
            machine.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-study", action="store_true", help="only until all are connected")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), study=not options.no_study)


if __name__ == "__main__":
    main()
