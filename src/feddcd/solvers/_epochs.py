"""Passes over a client's rows, of which each client may have another number, and lazy steps."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from .. import tree
from .._errors import SpecError
from .._types import Key, Params, Scalar
from ..problems import AbstractDesign, AbstractProblem
from ._base import AbstractStop, LocalSolution
from ._cg import on_cpu

Epoch = Callable[[Params, PyTree, Key], tuple[Params, PyTree]]
Weights = Float[Array, "d k"]


def row_count(f: AbstractProblem) -> int:
    """Rows of the arrays, padding included; a problem without rows is refused."""
    if f.capacity is None:
        raise SpecError(
            f"feddcd does not know how many rows a problem of the class {type(f).__name__} has, so "
            "the solver cannot draw mini-batches. Define the property `capacity` in this class, or "
            "use the solver gd, lbfgs or newton"
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


class Lazy(NamedTuple):
    """A linear model under steps at the cost of their rows' non-zeros, never of all of W.

    W ← (1 - ημ) W + η D - η X_B' R touches every entry, so W = c V + e D is kept instead, with

        c' = (1 - ημ) c,    e' = (1 - ημ) e + η,    V' = V - (η/c') X_B' R,

    and is written out (c = 1, e = 0) after every run of steps, before c leaves [2^-40, 2^40].
    Where ημ = 1 a decay of one rounding unit stands for 0. D is None where it is zero.
    """

    V: Weights
    D: Weights | None
    c: Scalar
    e: Scalar

    def predict(
        self, X: AbstractDesign, XD: Float[Array, "b k"] | None = None
    ) -> Float[Array, "b k"]:
        """X W; `XD` is X D where it is known."""
        z = self.c * X.matmul(self.V)
        if self.D is None:
            return z
        return z + self.e * (X.matmul(self.D) if XD is None else XD)

    def shrink(self, eta: Scalar, mu: Scalar) -> "Lazy":
        """(1 - ημ) W + η D."""
        decay = decay_of(eta, mu)
        return self._replace(c=decay * self.c, e=decay * self.e + eta)

    def plus(self, a: Scalar, X: AbstractDesign, R: Float[Array, "b k"]) -> "Lazy":
        """W + a X' R."""
        return self._replace(V=X.add_rmatmul(a / self.c, R, self.V))

    def dense(self) -> Weights:
        return self.c * self.V if self.D is None else self.c * self.V + self.e * self.D


def run_lazily(
    step: Callable[[Array, Scalar, Lazy, PyTree], tuple[Lazy, PyTree]],
    start: tuple[Weights, Weights | None, PyTree],
    *,
    steps: Int[Array, ""],
    eta: Scalar,
    mu: Scalar,
    room: int | None = None,
) -> tuple[Weights, Weights | None, PyTree]:
    """`steps` times lazy, extra ← step(i, η, lazy, extra), from and to (W, D, extra).

    `room`, the most steps that any client takes, says that a step with η = 0 changes nothing.
    """
    if room is not None and in_step():
        return _run_in_step(step, start, steps=steps, eta=eta, room=room)
    change = jnp.abs(jnp.log(jnp.abs(decay_of(eta, mu))))
    most = jnp.clip(27 / change, 1, 2.0**30).astype(jnp.int32)
    one, zero = jnp.ones_like(eta), jnp.zeros_like(eta)

    def some(carry):
        i, (W, D, extra) = carry
        end = jnp.minimum(i + most, steps)
        once = lambda j, s: step(j, eta, *s)
        lazy, extra = jax.lax.fori_loop(i, end, once, (Lazy(W, D, one, zero), extra))
        return end, (lazy.dense(), lazy.D, extra)

    first = (jnp.zeros_like(steps), start)
    return jax.lax.while_loop(lambda carry: carry[0] < steps, some, first)[1]


def in_step() -> bool:
    """Whether clients run side by side: there a loop of different lengths would
    copy all of W in every step, and ask the host whether to go on."""
    return not on_cpu()


def repeat(
    step: Callable[[Array, PyTree], PyTree], start: PyTree, *, length: Int[Array, ""], room: int
) -> PyTree:
    """`length` times state ← step(i, state); `room` is the most of any client."""
    if not in_step():
        return jax.lax.fori_loop(0, length, step, start)
    once = lambda i, state: tree.where(i < length, step(i, state), state)
    return jax.lax.fori_loop(0, room, once, start)


def slope(f: AbstractProblem, w: Params) -> Params:
    """∇f(w). Where clients run side by side, the loss's part is closed before μw - q is added:
    a compiler that adds them inside the last matrix product passes over w once more for it."""
    if not in_step():
        return jax.grad(f)(w)
    g = tree.axpy(f.mu, w, jax.lax.optimization_barrier(jax.grad(f.loss)(w)))
    return g if f.q is None else tree.sub(g, f.q)


def _run_in_step(step, start, *, steps: Int[Array, ""], eta: Scalar, room: int):
    """The same with loops of one length for all; so few steps between two writings of W that
    c stays a number even where every step divides it by the rounding unit."""
    stride = 16 if eta.dtype == jnp.float64 else 4
    one, zero = jnp.ones_like(eta), jnp.zeros_like(eta)

    def some(k, carry):
        W, D, extra = carry

        def once(j, s):
            i = k * stride + j
            return step(i, jnp.where(i < steps, eta, zero), *s)

        lazy, extra = jax.lax.fori_loop(0, stride, once, (Lazy(W, D, one, zero), extra))
        return lazy.dense(), lazy.D, extra

    return jax.lax.fori_loop(0, -(-room // stride), some, start)


def decay_of(eta: Scalar, mu: Scalar) -> Scalar:
    decay = 1 - eta * mu
    least = jnp.finfo(decay.dtype).eps
    return jnp.where(jnp.abs(decay) < least, least, decay)
