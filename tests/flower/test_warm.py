"""Client apps are forked by a process that has imported what they need, one for each message."""

import importlib
import json
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("flwr")
if sys.platform != "linux":
    pytest.skip("client apps are forked on Linux only", allow_module_level=True)

from feddcd.federation.machine.processes import environment
from feddcd.federation.machine.programs import node
from feddcd.federation.site.answer import SitePlace

# in a process of its own: this one has threads, which forks do not survive
SCRIPT = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.types import ExecutionSpec
from feddcd.flower.warm import ForkingExecutor, start_fork_server

folder = Path(sys.argv[1])

def work(task):
    if task["token"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    said = [os.getpid(), os.getppid(), "wave" in sys.modules, task["token"]]
    new = folder / f"new-{task['token']}"
    new.write_text(json.dumps(said))
    new.rename(folder / task["token"])

def launch(executor, token):
    task = TaskType.CLIENT_APP
    spec = ExecutionSpec(task, "127.0.0.1:1", token, True, None, False, None, False, task_id=1)
    return executor.launch(spec).status

tell = start_fork_server(work, ("wave",))
said = [launch(ForkingExecutor(tell), token) for token in ("one", "killed", "two")]
while not all((folder / token).exists() for token in ("one", "two")):
    time.sleep(0.05)
os.close(tell)
first, _ = os.wait()  # nobody will ask any more

tell = start_fork_server(work, ("no_such_module",))
second, status = os.wait()
subprocess.Popen = lambda args: said.append(args)
said.append(launch(ForkingExecutor(tell), "three"))
print(json.dumps([os.getpid(), first, "wave" in sys.modules, said]))
"""


def test_one_process_for_each_message(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    parent, server, known, said = json.loads(done.stdout)
    one, two = (json.loads((tmp_path / token).read_text()) for token in ("one", "two"))
    assert len({parent, server, one[0], two[0]}) == 4
    assert one[1:] == [server, True, "one"]
    assert two[1:] == [server, True, "two"]  # after one was killed
    assert not known  # what they need is imported in the fork server alone

    # without a fork server they are started as Flower does it
    *forked, command, started = said
    assert forked == ["accepted"] * 3
    assert command[0] == "flwr-clientapp"
    assert "three" in command
    assert started == "accepted"
    assert "no_such_module" in done.stderr


def test_a_supernode_finds_it_by_name(tmp_path):
    place = SitePlace("site-1", tmp_path / "a site", tmp_path / "data.csv")
    program = node(place, "127.0.0.1:1", tmp_path / "ca.crt", tmp_path / "key")
    ours = str(tmp_path / "a site" / "flower" / "bin" / "flower-superexec")
    assert shutil.which("flower-superexec", path=environment(program.extra)["PATH"]) == ours
    said = subprocess.run([ours, "--version"], capture_output=True, text=True, timeout=120)
    assert said.stdout.startswith("Flower version"), said.stderr


def test_what_the_fork_server_imports_is_there():
    """A name that is gone would end it, and each message would start a Python again, unnoticed."""
    from feddcd.flower.warm import NEEDED

    for name in NEEDED:
        importlib.import_module(name)
