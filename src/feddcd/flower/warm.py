"""Flower's SuperExec, whose client apps are forked where Flower starts each one anew.

    SuperExec           takes tasks from its SuperNode, as Flower's does
      fork server       has imported what a site needs; one thread; ends with the SuperExec
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
from flwr.supercore.tls import validate_and_resolve_root_certificates
from flwr.supernode.runtime.run_clientapp import run_clientapp

NEEDED = ("feddcd.flower", "feddcd.federation", "feddcd.federation.site._tables")
Task = Mapping[str, Any]


class ForkingExecutor(SubprocessExecutor):
    """Flower's executor, except that the fork server starts the client apps, while it lives."""

    def __init__(self, tasks: int):
        self._tasks = tasks  # the end of the pipe to which they are written

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        if spec.task_type != TaskType.CLIENT_APP or spec.runtime_dependency_install:
            return super().launch(spec)
        try:
            os.write(self._tasks, (json.dumps(asdict(spec)) + "\n").encode())
        except BrokenPipeError:
            return super().launch(spec)
        return LaunchResult.accepted()


def start_fork_server(work: Callable[[Task], None], needed: tuple[str, ...]) -> int:
    """Starts a process that forks one for each task written to the pipe that this returns."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return writing
    os.close(writing)  # so that the pipe ends with the process that writes to it
    for name in needed:
        import_module(name)
    gc.freeze()  # the collector would touch, and so copy, what forks share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with open(reading, encoding="utf-8") as tasks:
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
        validate_and_resolve_root_certificates(task["root_certificates_path"], task["insecure"]),
        task["parent_pid"],
        runtime_dependency_install=False,
    )


def main() -> None:
    """Takes the arguments of `flower-superexec`."""
    tasks = start_fork_server(client_app, NEEDED)
    # Flower has no setting for an executor of one's own
    factory.SubprocessExecutor = lambda: ForkingExecutor(tasks)  # pyright: ignore
    flower_superexec()


if __name__ == "__main__":
    main()
