"""How a command ends: what is said of an error, and how an interrupted process leaves."""

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .._errors import Diverged, FeddcdError, MissingExtra, SpecError, in_python
from .._owners import to_own
from .._text import plural, printable
from ._habits import found, wordy
from ._terminal import as_option, say, warn

UNPROVEN = 1  # the exit status of a command that is done, with a result that is not as it should be
WRONG = 2  # of wrong input
INTERRUPTED = 130  # after Ctrl-C


def told(error: FeddcdError | OSError) -> str:
    if isinstance(error, FeddcdError):
        named = error.spell is not in_python  # a command with other names of options did it
        return str(error if named else error.placed(spell=as_option))
    if error.filename is None or not error.strerror:
        return str(error)
    text = f"cannot read or write {os.fsdecode(error.filename)}: {error.strerror}"
    return f"{text}; {todo}" if (todo := to_own(error)) else text


def complain(error: FeddcdError | OSError) -> int:
    """On stderr, mostly in one line; with -v also where in the code it was. The exit status says
    whether the input was wrong."""
    if wordy():
        traceback.print_exception(error)
    lines = error.lines if isinstance(error, FeddcdError) else ()
    first, *rest = lines or (told(error),)
    print(printable(f"error: {first}"), file=sys.stderr)
    for line in rest:
        print(f"  {printable(line)}", file=sys.stderr)
    return UNPROVEN if isinstance(error, Diverged) else WRONG


@contextmanager
def judged(verdict: str) -> Iterator[None]:
    """What is found wrong is a result, and said first in one word; what is missing is not wrong."""
    try:
        yield
    except (SpecError, MissingExtra):
        raise
    except FeddcdError as error:
        found(valid=False, reason=told(error))
        say(verdict)
        say(f"reason: {told(error)}")  # a file with the verdict has it, too
        if not (sys.stdout.isatty() and sys.stderr.isatty()):  # where a person would read it twice
            complain(error)
        sys.exit(UNPROVEN)


def end_fit(result: Any, quiet: bool) -> None:
    """A table that nobody can prove is done if the fit converged; one that can be proven, if the
    proof reaches --tol."""
    after = f"after {plural(result.n_exchanges, 'exchange')}"
    if result.unproven and (quiet or not result.converged):
        how = "converged" if result.converged else "did NOT converge"
        warn(f"not proven: {result.unproven}. Newton's method {how} {after}", grave=True)
    elif not result.converged:
        warn(
            f"{after}, feddcd cannot prove that the errors of the coefficients are below --tol "
            f"{result.tol:g}; summary.txt says why",
            grave=True,
        )
    if not result.converged:
        sys.exit(UNPROVEN)


def nothing_saved() -> str:
    return (
        "feddcd stopped before the first round, so nothing is saved. To start again, use the same "
        "command"
    )


@contextmanager
def told_when_stopped(how: Callable[[], str] = nothing_saved) -> Iterator[None]:
    """Ctrl-C in a moment in which work ends at once: `how` says what to do now."""
    try:
        yield
    except KeyboardInterrupt:
        say(how())
        sys.exit(INTERRUPTED)


@contextmanager
def importing() -> Iterator[None]:
    """While libraries are imported, some of which swallow a KeyboardInterrupt: Ctrl-C ends the
    process, in which nothing was saved yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number, frame):
        say(nothing_saved())
        leave(INTERRUPTED)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def say_stopping() -> None:
    """At once: the rounds that end before may take long."""
    with suppress(RuntimeError):  # where Ctrl-C came while a line was written
        print("feddcd stops soon; to stop at once, press Ctrl-C again", file=sys.stderr)


def leave(code: int) -> None:
    """Without the last steps of Python, which crash after an interrupt cut the compiler short."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
