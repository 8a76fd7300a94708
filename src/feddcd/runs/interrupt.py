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


heard: list[Callable[[], object]] = []  # what is done at once where Ctrl-C ends the work later
_outer: list[Stop] = []  # of the work in which this work is a step


@contextmanager
def patient_interrupt() -> Iterator[Stop]:
    """Ctrl-C lets the current rounds finish: gives a function that says whether it was pressed; a
    second one ends at once. Inside another one it is the same, so that no moment between two
    steps is left out."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def note(number, frame):
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        for told in heard:
            told()

    if _outer:
        yield _outer[-1]
        return
    before = signal.signal(signal.SIGINT, note)
    _outer.append(pressed.is_set)
    try:
        yield pressed.is_set
    finally:
        _outer.pop()
        signal.signal(signal.SIGINT, before)
