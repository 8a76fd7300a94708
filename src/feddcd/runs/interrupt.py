"""Ctrl-C that lets the current rounds finish."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def patient_interrupt() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether Ctrl-C was pressed; a second one ends at once."""
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
