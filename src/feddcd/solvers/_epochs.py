"""Passes over a client's rows, whose number may differ from client to client."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .. import tree
from .._errors import SpecError
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractStop, LocalSolution

Epoch = Callable[[Params, PyTree, Key], tuple[Params, PyTree]]


def row_count(f: AbstractProblem) -> int:
    """Rows of the arrays, padding included; a problem without rows is refused."""
    if f.capacity is None:
        raise SpecError(
            f"{type(f).__name__} does not say how many rows it has, so no mini-batches can be "
            "drawn: give it the property `capacity`, or take the solver gd, lbfgs or newton"
        )
    return f.capacity


def batch_count(f: AbstractProblem, size: int) -> Int[Array, ""]:
    """Mini-batches in an epoch: the real rows / size, rounded up."""
    return (-(-f.rows // size)).astype(jnp.int32)


def shuffle_rows(f: AbstractProblem, size: int, key: Key) -> Int[Array, "batches size"]:
    """The real rows in random order, cut into batches and filled up with rows out of range.

    The order does not depend on the padding.
    """
    n = row_count(f)
    size = min(size, n)
    real = jnp.arange(n) < f.rows
    bits = jax.random.bits(key, (n,), jnp.uint32)
    order = jnp.argsort(jnp.where(real, bits, jnp.uint32(0xFFFFFFFF)), stable=True)
    order = jnp.where(real, order, n)
    return jnp.pad(order, (0, -n % size), constant_values=n).reshape(-1, size)


def draw_rows(f: AbstractProblem, size: int, key: Key) -> Int[Array, "batches size"]:
    """Real rows, drawn independently and with replacement, for an epoch."""
    count = -(-row_count(f) // size)
    return jax.random.randint(key, (count * size,), 0, f.rows).reshape(count, size)


class _EpochState(NamedTuple):
    w: Params
    extra: PyTree
    grad_norm: Scalar
    k: Int[Array, ""]


def run_epochs(
    f: AbstractProblem,
    start: tuple[Params, PyTree],
    key: Key,
    epoch: Epoch,
    *,
    epochs: int,
    length: Int[Array, ""],
    stop: AbstractStop | None,
    gradient: Callable[[Params, PyTree], Params] | None = None,
) -> LocalSolution:
    """w, extra ← epoch(w, extra, key): `epochs` times, or until |∇f(w)| is within `stop`.

    `length` is the number of steps in an epoch; `gradient` finds ∇f(w) where it is known.
    """
    gradient = (lambda w, _: jax.grad(f)(w)) if gradient is None else gradient
    norm = lambda w, extra: tree.norm(gradient(w, extra))
    if stop is None:
        once = lambda i, s: epoch(s[0], s[1], jax.random.fold_in(key, i))
        w, extra = jax.lax.fori_loop(0, epochs, once, start)
        return LocalSolution(w, norm(w, extra), epochs * length)
    given = norm(*start)
    bound = stop(f, given)

    def unsolved(s: _EpochState):
        return (s.grad_norm > bound) & (s.k < epochs)

    def another(s: _EpochState) -> _EpochState:
        w, extra = epoch(s.w, s.extra, jax.random.fold_in(key, s.k))
        return _EpochState(w, extra, norm(w, extra), s.k + 1)

    first = _EpochState(*start, given, jnp.zeros((), jnp.int32))
    end = jax.lax.while_loop(unsolved, another, first)
    return LocalSolution(end.w, end.grad_norm, end.k * length)
