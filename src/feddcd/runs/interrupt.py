"""Ctrl-C: work that takes long ends between two of its steps, and keeps what it has."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Stop = Callable[[], bool]


class Interrupted(Exception):
    """Ctrl-C: what was finished is kept."""


def never() -> bool:
    return False


@contextmanager
def patient_interrupt() -> Iterator[Stop]:
    """Ctrl-C lets the current rounds finish: gives a function that says whether it was pressed; a
    second one ends at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def note(number, frame):
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
