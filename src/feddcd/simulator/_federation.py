"""What a run is made of: what stays as it is, what changes, and what is noted of a round."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._types import Key, Scalar
from ..algorithms import AbstractAlgorithm
from ..measure import Measures
from ..participation import AbstractParticipation, Cohort
from ..problems import Clients


class Federation(eqx.Module):
    """What does not change during a run. `problem` is all N clients'."""

    algorithm: AbstractAlgorithm
    problem: Clients
    participation: AbstractParticipation
    measure: Callable[[AbstractAlgorithm, PyTree, PyTree, Array], Measures]
    weights: Array
    key: Key
    side_by_side: bool = eqx.field(static=True)
    every: int = eqx.field(static=True, default=1)  # rounds between two looks at the objective
    mesh: Mesh | None = eqx.field(
        static=True, default=None
    )  # devices among which clients are shared


class State(NamedTuple):
    server: PyTree
    clients: PyTree  # leading axis N
    t: Int[Array, ""]  # rounds done


class Record(NamedTuple):
    """One round; with a leading axis, several."""

    asked: Int[Array, ""]
    arrived: Int[Array, ""]
    steps: Int[Array, ""]
    extra: Int[Array, ""]  # bytes of what only some of the uploads had
    grad_norm: Scalar  # the worst local solve
    objective: Scalar  # nan where it was not looked at, as are those below
    score: Scalar
    dual_residual: Scalar
    sound: Bool[Array, ""]  # the objective is finite, or was not looked at


class Draw(NamedTuple):
    """Who takes part in a round, and how much each counts."""

    cohort: Cohort
    kept: Bool[Array, " m"] | None  # None where all of them always are
    p: Float[Array, " m"]  # parts of the mean
    share: Scalar  # of all clients' weight
    enough: Bool[Array, ""]
    key: Key
    places: Int[Array, " m"]  # in the order of who was asked
    asked: Int[Array, ""]  # how many
