"""How a command ends: what is said of an error, and how an interrupted process leaves."""

import atexit
import os
import sys
from contextlib import suppress

from .._errors import FeddcdError
from ._terminal import as_option

INTERRUPTED = 130  # the exit status after Ctrl-C


def told(error: FeddcdError | OSError) -> str:
    if isinstance(error, FeddcdError):
        return str(error.placed(spell=as_option))
    if error.filename is None or not error.strerror:
        return str(error)
    return f"cannot read or write {os.fsdecode(error.filename)}: {error.strerror}"


def leave(code: int) -> None:
    """Without the last steps of Python, which crash after an interrupt cut the compiler short."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
