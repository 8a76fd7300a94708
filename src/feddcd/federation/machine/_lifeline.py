"""A program ends when the process that started it has gone, however it went.

The starter holds one end of a pipe, and the program reads the other end, its standard input. When
the starter ends, also by kill -9, the system closes its end, and the program reads the end of the
file.
"""

import os
import signal
import threading
import time

HELD = "FEDDCD_HELD"  # in the environment of a program with such a pipe as its standard input
GRACE_S = 5.0


def end_with_starter() -> None:
    """Called by a program; where nobody holds it, as by hand in a shell, nothing is done."""
    if os.environ.pop(HELD, ""):
        threading.Thread(target=_watch, name="lifeline", daemon=True).start()


def _watch() -> None:
    while os.read(0, 1024):
        pass
    if not hasattr(os, "killpg"):  # Windows
        os.kill(os.getpid(), signal.SIGTERM)
    os.killpg(0, signal.SIGTERM)  # the group is this program's own, with all that it started
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)
