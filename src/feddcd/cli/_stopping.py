"""Where a run or a comparison was stopped, and how it goes on."""

import shlex
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from .._text import plural
from ..runs.comparison import Comparison, Repeats
from ..runs.spec import Spec
from ._ending import INTERRUPTED, nothing_saved, told_when_stopped
from ._terminal import say


def seeds_told(done: int, wanted: int) -> str:
    """An interrupt may leave seeds that did not begin, or did not end."""
    if done == wanted:
        return f"medians over {plural(done, 'seed')}"
    return f"{done} of {plural(wanted, 'seed')} {'is' if done == 1 else 'are'} finished"


def complete(made: Repeats, methods: list[str]) -> int:
    """The seeds with which every method ran to its end."""
    return sum(not _unfinished(made[seed], methods) for seed in made)


def _unfinished(made: Comparison, methods: list[str]) -> str:
    """Where a comparison was stopped: in a run, or between two of them."""
    last, rounds = list(made)[-1], made[list(made)[-1]].history.rounds
    if made[last].summary["status"] == "stopped":
        return f"after round {rounds} of {last}" if rounds else f"before the first round of {last}"
    return f"after {last}" if len(made) < len(methods) else ""


def stopped_at(made: Comparison | Repeats, methods: list[str], seeds: int | None) -> str:
    if isinstance(made, Comparison):
        return _unfinished(made, methods)
    last = list(made)[-1]
    if where := _unfinished(made[last], methods):
        return f"{where} with seed {last}"
    return f"after seed {last}" if len(made) < (seeds or 0) else ""


def nothing_to_do(spec: Spec, rounds: int) -> str:
    if rounds >= spec.rounds:
        return (
            f"The run already has {plural(rounds, 'round')}. To continue the run, give a larger "
            "--rounds."
        )
    return (
        f"The run already reached its target gap of {spec.target_gap:g}. To continue the run, "
        "give a smaller --target-gap."
    )


def exit_stopped(where: str, folder: Path, command: str) -> NoReturn:
    say(f"stopped {where}; {_again(folder, command)}")
    sys.exit(INTERRUPTED)


def stoppable(folder: Path, command: str) -> AbstractContextManager[None]:
    """Says how to go on where Ctrl-C ends the work at once."""

    def how() -> str:
        if command == "compare" or (folder / "checkpoint.npz").exists():
            return f"stopped; {_again(folder, command)}"
        return nothing_saved()

    return told_when_stopped(how)


def _again(folder: Path, command: str) -> str:
    return f"to continue: feddcd {command} --resume {shlex.quote(str(folder))}"
