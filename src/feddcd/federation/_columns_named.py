"""Columns that policy.toml names and that the data of the site do not have: a ban of `CRP` does not
hold for `crp`."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from .._files import shown, stamp
from .._text import closest, printable
from ..data.codebook import FILE as CODEBOOK
from ..data.codebook import load_codebook
from ..data.frames import Reading, is_table, read_frame
from .folder import load_place
from .site.policy import FILE as POLICY
from .site.policy import load_policy


def unknown_columns(folder: Path) -> Iterator[str]:
    """A sentence for each. They are compared as the site does: letter by letter."""
    policy, place = load_policy(folder / POLICY), load_place(folder)
    named = {"identifiers": policy.identifiers, "columns": policy.columns or ()}
    if not any(named.values()) or not is_table(place.data):
        return
    known = list(_names(place.data, place.how, stamp(place.data)))
    if (folder / CODEBOOK).exists():
        known += load_codebook(folder / CODEBOOK).columns
    for setting, names in named.items():
        for name in names:
            if name not in known:
                yield _told(setting, name, place.data, known)


def _told(setting: str, name: str, data: Path, known: Sequence[str]) -> str:
    has = f"{shown(data)} has no such column{closest(name, known)}"
    return printable(f"the setting {setting!r} in {POLICY} names the column {name!r}, but {has}")


@lru_cache(maxsize=8)  # a site is looked at every half minute, and its file is read once
def _names(data: Path, how: Reading, at: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, read_frame(data, how=how).frame.columns))
