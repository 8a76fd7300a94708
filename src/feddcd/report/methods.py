"""What people call the methods, and how each is drawn: the same in every figure."""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Look(NamedTuple):
    title: str
    colour: str
    dash: str  # as matplotlib writes it


SPARE = [
    Look("", colour, dash)
    for dash in ("-", "--", "-.", ":")
    for colour in ("#7b6fd0", "#cc6677", "#999933", "#44aa99", "#a0522d", "#6b8e9f")
]


def find_look(name: str) -> Look | None:
    """A method's own, from its row in the catalogue; the line style tells apart what a printer
    makes grey."""
    from ..algorithms.catalogue import find_method  # with JAX, which not all reports need

    row = find_method(name)
    return None if row is None or row.look is None else Look(row.title, *row.look)


def title(name: str) -> str:
    """`feddcd` is FedDCD; a name of one's own stays as it is."""
    from ..algorithms.catalogue import find_method

    row = find_method(name)
    return name if row is None else row.title


def look(name: str) -> Look:
    return find_look(name) or SPARE[0]


def looks(labels: Sequence[str]) -> list[Look]:
    """One per label: a method's own, once, and spare ones for the rest."""
    chosen: dict[int, Look] = {}
    taken: set[str] = set()
    for key in (_plain, lambda label: _plain(re.split(r"[\s,;:(=]", label.strip())[0])):
        for i, label in enumerate(labels):
            own = None if i in chosen or key(label) in taken else find_look(key(label))
            if own is not None:
                chosen[i] = own
                taken.add(key(label))
    rest = [i for i in range(len(labels)) if i not in chosen]
    return [
        chosen[i] if i in chosen else SPARE[rest.index(i) % len(SPARE)] for i in range(len(labels))
    ]


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]", "", label.lower())
