"""What a server remembers of its members, for methods that ask for it.

Where notes follow from rounds, all who were summed in one have the same: it is kept once. All of it
follows from the records, so nothing more is written down.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from ... import tree
from ..._types import Params
from ...algorithms import AbstractAlgorithm, Recalled, opened_now


class Notes(NamedTuple):
    first: PyTree  # of who was in no sum yet
    each: bool  # a note follows from the member's own uploads
    kept: Mapping[str, PyTree]  # by the round, or by the member
    last: Mapping[str, str]  # the key of a member's note


def new_notes(algorithm: AbstractAlgorithm, w: Params) -> Notes | None:
    """None where the method needs none."""
    first = algorithm.first_note(w)
    if first is None:
        return None
    return Notes(first, algorithm.follows == "uploads", {}, {})  # pyright: ignore


def note_of(notes: Notes, member: str) -> PyTree:
    return notes.kept[notes.last[member]] if member in notes.last else notes.first


def asked_parts(
    algorithm: AbstractAlgorithm, notes: Notes | None, member: str, down: PyTree
) -> tuple[bool, ...]:
    """Which extra parts this member's upload has, if it is sent this."""
    note = None if notes is None else note_of(notes, member)
    return tuple(bool(there) for there in algorithm.parts(down, note))


def recalled(
    algorithm: AbstractAlgorithm,
    state: PyTree,
    notes: Notes | None,
    mean: PyTree,
    members: Sequence[str],
    weights: Sequence[float],
) -> PyTree:
    """The mean for the server's step, with the reminders of these members."""
    if notes is None:
        return mean
    reminders: dict[str | None, PyTree] = {}
    for member in members:
        key = notes.last.get(member)
        if key not in reminders:
            note = note_of(notes, member)
            reminders[key] = algorithm.reminder(state, note)  # pyright: ignore
    held = [reminders[notes.last.get(member)] for member in members]
    return Recalled(mean, _mean(held, np.asarray(weights)))


@jax.jit
def _mean(values: list[PyTree], weights: Float[Array, " n"]) -> PyTree:
    return tree.weighted_mean(tree.stack(values), weights)


def after_round(
    algorithm: AbstractAlgorithm,
    state: PyTree,
    notes: Notes | None,
    round: int,
    members: Sequence[str],
    sent: Sequence[PyTree],
) -> Notes | None:
    """With the notes of who was summed in this round, as the server that asked takes them."""
    if notes is None:
        return None
    noted: Callable[..., PyTree] = algorithm.noted  # pyright: ignore
    if notes.each:
        pairs = zip(members, sent, strict=True)
        new = {id: noted(state, note_of(notes, id), opened_now(value)) for id, value in pairs}
        own = {id: id for id in members}
        return notes._replace(kept={**notes.kept, **new}, last={**notes.last, **own})
    key = str(round)
    kept = {**notes.kept, key: noted(state, notes.first, None)}
    return _needed(notes._replace(kept=kept, last={**notes.last, **dict.fromkeys(members, key)}))


def without(notes: Notes | None, gone: Iterable[str]) -> Notes | None:
    """Of who left nothing is remembered."""
    if notes is None:
        return None
    out = set(gone)
    return _needed(notes._replace(last={k: v for k, v in notes.last.items() if k not in out}))


def _needed(notes: Notes) -> Notes:
    used = set(notes.last.values())
    return notes._replace(kept={key: note for key, note in notes.kept.items() if key in used})
