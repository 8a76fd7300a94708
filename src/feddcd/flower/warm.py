"""Flower's SuperExec, whose client apps are forked where Flower starts each one anew.

    SuperExec           takes tasks from its SuperNode, as Flower's does
      nursery           has imported what a site needs; one thread; ends with the SuperExec
        client app      a process of its own for one message, as Flower's is

Importing Flower, JAX and this package takes two seconds, a fork some milliseconds. The token of a
task goes through a pipe, where Flower's own way shows it in the list of processes.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Any

import flwr.supercore.superexec.executor.factory as factory
from flwr.supercore.cli.flower_superexec import flower_superexec
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult
from flwr.supercore.tls import validate_and_resolve_root_certificates as resolved
from flwr.supernode.runtime.run_clientapp import run_clientapp

NEEDED = ("feddcd.flower", "feddcd.federation", "feddcd.federation.site.tables")
Task = Mapping[str, Any]


class Forking(SubprocessExecutor):
    """Flower's executor, except that the nursery starts the client apps, while it lives."""

    def __init__(self, tell: int):
        self._tell = tell

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        if spec.task_type != TaskType.CLIENT_APP or spec.runtime_dependency_install:
            return super().launch(spec)
        try:
            os.write(self._tell, (json.dumps(asdict(spec)) + "\n").encode())
        except BrokenPipeError:
            return super().launch(spec)
        return LaunchResult.accepted()


def nursery(work: Callable[[Task], None], needed: tuple[str, ...]) -> int:
    """Starts a process that forks one for each task written to the pipe that this returns."""
    heard, tell = os.pipe()
    if os.fork():
        os.close(heard)
        return tell
    os.close(tell)  # so that the pipe ends with the process that writes to it
    for name in needed:
        import_module(name)
    gc.freeze()  # the collector would touch, and so copy, what forks share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with open(heard, encoding="utf-8") as tasks:
        for line in tasks:
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                work(json.loads(line))
                sys.exit()
    sys.exit()


def client_app(task: Task) -> None:
    run_clientapp(
        task["runtime_api_address"],
        task["token"],
        task["insecure"],
        resolved(task["root_certificates_path"], task["insecure"]),
        task["parent_pid"],
        runtime_dependency_install=False,
    )


def main() -> None:
    """Takes the arguments of `flower-superexec`."""
    tell = nursery(client_app, NEEDED)
    # Flower has no setting for an executor of one's own
    factory.SubprocessExecutor = lambda: Forking(tell)  # pyright: ignore
    flower_superexec()


if __name__ == "__main__":
    main()
