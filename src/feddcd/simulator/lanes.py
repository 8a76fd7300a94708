"""Several runs side by side, one vmap lane each."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .._errors import SpecError
from ._rows import rows_of_zeros, traced
from .simulate import OPTIONS, Federation, Record, State, one_round


def lanes(runs: Sequence[PyTree]) -> tuple[PyTree, PyTree]:
    """Runs that differ in their seeds, or in settings that are arrays:
    (what differs between the runs, stacked; what they share). Leaves are shared where they
    are one object in all of them, so nothing is copied."""
    leaves, structures = zip(*map(jax.tree.flatten, runs), strict=True)
    if any(structure != structures[0] for structure in structures):
        raise SpecError(
            "runs can run at the same time only if they have the same method, the same settings, "
            "and arrays of the same shapes; the numbers in the arrays may differ"
        )
    columns = list(zip(*leaves, strict=True))
    same = [all(_equal(leaf, column[0]) for leaf in column) for column in columns]
    stacked = [None if s else jnp.stack(c) for s, c in zip(same, columns, strict=True)]
    shared = [c[0] if s else None for s, c in zip(same, columns, strict=True)]
    rebuild = lambda parts: jax.tree.unflatten(structures[0], parts)
    return rebuild(stacked), rebuild(shared)


def _equal(a, b) -> bool:
    return a is b or (not eqx.is_array(a) and not eqx.is_array(b) and a == b)


@eqx.filter_jit(donate="all-except-first", compiler_options=OPTIONS)  # pyright: ignore
def advance_lanes(
    runs: tuple[Federation, Federation],
    states: State,
    rounds: Int[Array, ""],
    room: int,
    wanted: Callable[[Record], PyTree] = lambda record: record,
) -> tuple[State, PyTree]:
    """`rounds` rounds (at most `room`) of every lane; a lane that is no longer finite goes on.
    What is not `wanted` of a record is not computed: a gradient of all rows, all clients' duals."""
    differ, shared = runs

    def every_lane(states: State) -> tuple[State, PyTree]:
        step = lambda own, state: one_round(eqx.combine(own, shared), state)
        states, record = eqx.filter_vmap(step)(differ, states)
        return states, wanted(record)

    go, (_, shapes) = traced(every_lane, states)
    trace = rows_of_zeros(shapes, room)

    def step(k, carry):
        states, trace = carry
        states, record = go(states)
        return states, jax.tree.map(lambda all_, new: all_.at[k].set(new), trace, record)

    return jax.lax.fori_loop(0, rounds, step, (states, trace))
