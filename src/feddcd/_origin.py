"""What the reports of this process are made by and from: the command as it was typed, the data."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Origin(NamedTuple):
    """Empty where it is not known; from Python there is no command."""

    command: str = ""
    data: str = ""


NOTHING = Origin()
_origin = ContextVar("_origin", default=NOTHING)


def origin() -> Origin:
    return _origin.get()


@contextmanager
def with_origin(**known: str) -> Iterator[None]:
    """Reports that are written within come from this `command`, or from these `data`."""
    before = _origin.set(_origin.get()._replace(**known))
    try:
        yield
    finally:
        _origin.reset(before)


def typed(arguments: Sequence[str]) -> str:
    """A command that can be given again."""
    return shlex.join(["feddcd", *arguments])
