"""Rounds on several cores: each thread asks its part of the cohort.

A local solve is a chain of small products that keeps one core busy; XLA runs what does not
depend on each other one after the other all the same. So a round is three compiled functions
here: who is asked, a part of the cohort (on every thread at once), and what follows. It gives
what `advance` gives up to the order in which the uploads are summed.
"""

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from .. import tree
from .._errors import SpecError
from .._memory import check_fits
from ..algorithms import Upload
from . import simulate
from ._asking import Prompt, asking
from ._federation import Draw, Federation, Record, State
from ._rows import rows_of_zeros

THREADS = "FEDDCD_THREADS"
LINUX = hasattr(os, "sched_getaffinity")
WORTH = 4e6  # bytes that a round's clients hold; for fewer, handing the work out costs more

Advance = Callable[[Federation, State, int], tuple[State, Record, bool]]


def compiled(fed: Federation, state: State, room: int) -> Advance:
    """`rounds` rounds (at most `room`, for which the records may have rows), or fewer if the
    objective stops being finite, of any federation and state of these shapes; on as many
    threads as are worth their while."""
    threads = worthwhile_threads(fed)
    return _Parts(fed, state, threads) if threads > 1 else alone(fed, state, room)


def alone(fed: Federation, state: State, room: int) -> Advance:
    """The same in one program, on the thread that calls it."""
    program = simulate.advance.lower(fed, state, _count(0), room).compile()  # pyright: ignore
    check_work(program)

    def advance(fed: Federation, state: State, rounds: int) -> tuple[State, Record, bool]:
        state, trace, sound = program(fed, state, _count(rounds), room)
        return state, trace, bool(sound)

    return advance


def check_work(*programs: Any) -> None:
    """Refuses, before the first round, what compiled programs would not have room for at work."""
    found = [program.compiled.memory_analysis() for program in programs]
    if jax.default_backend() != "cpu" or None in found:  # a GPU has its own memory, and says so
        return
    need = sum(m.temp_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes for m in found)
    remedy = "use a method that stores less for each client, dtype = 'float32', or FEDDCD_THREADS=1"
    check_fits(need, "in addition to the data and the states of the clients, the rounds", remedy)


def worthwhile_threads(fed: Federation) -> int:
    tau, N, most = fed.participation.tau, fed.participation.N, cores()
    work = tau / N * sum(x.nbytes for x in jax.tree.leaves(fed.problem) if eqx.is_array(x))
    return 1 if fed.side_by_side or fed.mesh is not None or work < WORTH else min(most, tau)


def cores() -> int:
    """FEDDCD_THREADS, or the cores that this process may use."""
    given = os.environ.get(THREADS, "")
    if not given:
        return len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1
    if not given.isdecimal() or int(given) < 1:
        raise SpecError(f"{THREADS} must be the number of threads, at least 1, not {given!r}")
    return int(given)


class _Parts:
    """The three functions, compiled; a part of nobody shows what a part looks like."""

    def __init__(self, fed: Federation, state: State, threads: int):
        self.double = jnp.zeros(()).dtype == jnp.float64  # this thread's; others do not inherit it
        self.begin = _begin.lower(fed, state).compile()  # pyright: ignore
        draw, down = self._begun(fed, state)
        ends = np.linspace(0, len(draw.p), threads + 1).round().astype(int)
        self.ends, self.size = tuple(ends.tolist()), int(np.diff(ends).max())
        nobody = (fed, state.clients, down, draw, _count(0), _count(0), self.size)
        self.ask = _ask_part.lower(*nobody).compile()  # pyright: ignore
        parts = (self.ask(*nobody),) * threads
        self.end = _end.lower((fed, draw, parts), state, self.ends).compile()  # pyright: ignore
        check_work(self.begin, *(self.ask,) * threads, self.end)
        self.pool = ThreadPoolExecutor(threads)

    def __call__(self, fed: Federation, state: State, rounds: int) -> tuple[State, Record, bool]:
        records, sound = [], True
        while sound and len(records) < rounds:
            state, record = self._round(fed, state)
            records.append(jax.tree.map(np.asarray, record))
            sound = bool(records[-1].sound)
        return state, jax.tree.map(lambda *column: np.stack(column), *records), sound

    def _begun(self, fed: Federation, state: State) -> tuple[Draw, Prompt]:
        draw, down = self.begin(fed, state)
        return draw, Prompt(down, simulate.reminding(fed, state))  # the server is not copied

    def _round(self, fed: Federation, state: State) -> tuple[State, Record]:
        draw, down = self._begun(fed, state)

        def ask(first: int, last: int):
            with jax.enable_x64(self.double):
                args = (fed, state.clients, down, draw, _count(first), _count(last), self.size)
                return jax.block_until_ready(self.ask(*args))

        parts = tuple(self.pool.map(ask, self.ends[:-1], self.ends[1:]))
        return self.end((fed, draw, parts), state, self.ends)


@eqx.filter_jit
def _begin(fed: Federation, state: State) -> tuple[Draw, PyTree]:
    return simulate.draw_cohort(fed, state.t), simulate.broadcast(fed, state)


@eqx.filter_jit
def _ask_part(
    fed: Federation,
    clients: PyTree,
    down: Prompt,
    draw: Draw,
    first: Int[Array, ""],
    last: Int[Array, ""],
    size: int,
) -> tuple[PyTree, Upload]:
    """New states and numbers of clients first to last of the cohort, in `size` rows; the sum of
    their parts of the mean."""
    step, (new, up) = asking(fed.algorithm, fed.problem, clients, down, draw)
    rows = rows_of_zeros((new, up.grad_norm, up.steps, up.extra), size)

    def ask(k, carry):
        rows, mean = carry
        new, up, mean = step(clients, k, mean)
        put = lambda all_, x: jax.lax.dynamic_update_index_in_dim(all_, x, k - first, 0)
        return jax.tree.map(put, rows, (new, up.grad_norm, up.steps, up.extra)), mean

    (new, *numbers), mean = jax.lax.fori_loop(first, last, ask, (rows, up.value))
    return new, Upload(mean, *numbers)


@eqx.filter_jit(donate="all-except-first")
def _end(
    given: tuple[Federation, Draw, tuple[tuple[PyTree, Upload], ...]],
    state: State,
    ends: tuple[int, ...],
) -> tuple[State, Record]:
    """The round, when every part's answers are there."""
    fed, draw, parts = given
    sizes = [slice(b - a) for a, b in itertools.pairwise(ends)]
    rows = [tree.take(new, size) for (new, _), size in zip(parts, sizes, strict=True)]
    numbers = [
        tree.take((up.grad_norm, up.steps, up.extra), size)
        for (_, up), size in zip(parts, sizes, strict=True)
    ]

    def settle(clients: PyTree, answer: PyTree) -> PyTree:
        for new, a, b in zip(rows, ends[:-1], ends[1:], strict=True):
            kept = None if draw.kept is None else draw.kept[a:b]
            ids = draw.cohort.ids[a:b]
            clients = simulate.settle_new(fed, clients, new, answer, ids, kept)
        return clients

    mean = functools.reduce(tree.add, (up.value for _, up in parts))
    together = jax.tree.map(lambda *parts: jnp.concatenate(parts), *numbers)
    return simulate.close_round(fed, state, draw, Upload(mean, *together), settle)


def _count(rounds: int) -> jax.Array:
    return jnp.asarray(rounds, jnp.int32)
