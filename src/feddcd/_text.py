"""Words for people: names that were meant, lists, and counts with their nouns."""

import difflib
from collections.abc import Iterable
from typing import Any


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...' or the list of what there is."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 1)
    listing = f"there are {', '.join(sorted(known))}" if known else "there are none"
    return f"; did you mean {close[0]!r}? {listing}" if close else f"; {listing}"


def meant(name: str, known: Iterable[str], most: int = 1) -> str:
    """'did you mean ...? ' with up to so many names, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=most)
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


def listed(values: Iterable[Any], most: int = 20) -> str:
    """Names in quotes and numbers without, at most so many."""
    shown = [repr(str(v)) if isinstance(v, str) else f"{v:.12g}" for v in values]
    more = [f"and {len(shown) - most} more"] if len(shown) > most else []
    return ", ".join(shown[:most] + more)


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
