"""Methods with a server that remembers its members: what it can work out does not travel."""

import abc
from typing import Generic, Literal, NamedTuple

import equinox as eqx
from jaxtyping import PyTree

from .._types import Params
from ._base import AbstractAlgorithm, Answer, Client, Down, Server
from ._coding import opened


class Recalled(NamedTuple):
    """What a step of a method with notes gets for the mean."""

    sent: PyTree  # of what arrived
    known: PyTree  # of the reminders of who sent it


class AbstractRecalling(
    AbstractAlgorithm[Server, Client, Down, Answer], Generic[Server, Client, Down, Answer]
):
    """A method with notes: `server_step` gets `Recalled` for its mean."""

    # what a note follows from: the rounds in which a member was summed, which all know; or each
    # upload of its own, so that sums over a cohort are not enough
    follows: eqx.AbstractClassVar[Literal["rounds", "uploads"]]

    @abc.abstractmethod
    def first_note(self, w: Params) -> PyTree: ...

    @abc.abstractmethod
    def noted(self, server: Server, note: PyTree, sent: PyTree | None) -> PyTree:
        """The note after a round in which the member's upload counted; `server` is what asked,
        `sent` the opened upload, None where notes follow from rounds."""

    @abc.abstractmethod
    def told(self, client: Client) -> PyTree:
        """The same note from the client's own state: the two never differ."""

    @abc.abstractmethod
    def reminder(self, server: Server, note: PyTree) -> PyTree:
        """What the server makes of one member's note."""


def first_mean(algorithm: AbstractAlgorithm, server: PyTree, w: Params, value: PyTree) -> PyTree:
    """What a server's step gets if this upload is all that arrives, from a member that is new."""
    note = algorithm.first_note(w)
    if note is None:
        return opened(value)
    return Recalled(opened(value), algorithm.reminder(server, note))  # pyright: ignore
