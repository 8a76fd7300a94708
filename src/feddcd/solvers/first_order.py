"""Steps along gradients: of all rows, of mini-batches, and as optax transforms them."""

from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from .. import tree
from .._errors import SpecError
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem, Linear, rows_of
from ._at_once import epoch_at_once, fits_at_once, with_products
from ._base import (
    AbstractFixedRateSolver,
    AbstractLocalSolver,
    AbstractStop,
    LocalSolution,
    check_rate,
    step_length,
)
from ._epochs import batch_count, repeat, run_epochs, run_lazily, shuffle_rows, slope


class _AbstractRated(AbstractFixedRateSolver):
    lr: eqx.AbstractVar[float | None]

    def rate(self, f: AbstractProblem) -> Scalar:
        return step_length(self.lr, f)

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return check_rate(self.lr, f)


class GradientDescent(_AbstractRated):
    """w ← w - η ∇f(w), η = 1/β where `lr` is None; a step is one full gradient."""

    lr: float | None = None
    steps: int | Int[Array, ""] = 100  # at most; all of them where `stop` is None
    stop: AbstractStop | None = None

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        del key
        eta = self.rate(f)

        def unsolved(s: _DescentPoint):
            return (s.grad_norm > bound) & (s.k < self.steps)

        def step(s: _DescentPoint) -> _DescentPoint:
            return _descent_point(f, tree.axpy(-eta, s.g, s.w), s.k + 1)

        start = _descent_point(f, w, jnp.zeros((), jnp.int32))
        bound = -1 if self.stop is None else self.stop(f, start.grad_norm)
        end = jax.lax.while_loop(unsolved, step, start)
        return LocalSolution(end.w, end.grad_norm, end.k)


class _DescentPoint(NamedTuple):
    w: Params
    g: Params
    grad_norm: Scalar
    k: Int[Array, ""]


def _descent_point(f: AbstractProblem, w: Params, k: Int[Array, ""]) -> _DescentPoint:
    g = jax.grad(f)(w)
    return _DescentPoint(w, g, tree.norm(g), k)


class Optax(AbstractLocalSolver):
    """Any optax optimizer on mini-batches. Its state starts again with every call; a step is
    one mini-batch. `stop` is asked once an epoch, at the price of a full gradient."""

    optimizer: optax.GradientTransformation = eqx.field(static=True)
    epochs: int = 1
    batch_size: int = 32
    stop: AbstractStop | None = None

    def __check_init__(self):
        _check(self.epochs, self.batch_size)

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        length = batch_count(f, self.batch_size)

        def epoch(w, state, key):
            order = shuffle_rows(f, self.batch_size, key)

            def step(i, carry):
                w, state = carry
                move, state = self.optimizer.update(slope(f.batch(order[i]), w), state, w)
                return optax.apply_updates(w, move), state

            return repeat(step, (w, state), length=length, room=len(order))

        start = (w, self.optimizer.init(w))
        return run_epochs(f, start, key, epoch, epochs=self.epochs, length=length, stop=self.stop)


def adam(
    lr: float = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    epochs: int = 1,
    batch_size: int = 32,
    stop: AbstractStop | None = None,
) -> Optax:
    """Adam on mini-batches."""
    return Optax(_adam(lr, b1, b2), epochs, batch_size, stop)


_adam = cache(optax.adam)  # equal arguments give one object, so nothing is compiled twice


class SGD(_AbstractRated):
    """w ← w - η ∇f_B(w), η = 1/β where `lr` is None; a step is one mini-batch.

    Linear models pay for the non-zeros of a batch only. `stop` is asked once an epoch, at the
    price of a full gradient.
    """

    lr: float | None = None
    epochs: int = 1
    batch_size: int = 32
    stop: AbstractStop | None = None

    def __check_init__(self):
        _check(self.epochs, self.batch_size)

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return with_products(check_rate(self.lr, f))

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        eta, length = self.rate(f), batch_count(f, self.batch_size)

        def epoch(w, _, key):
            order = shuffle_rows(f, self.batch_size, key)
            if isinstance(f, Linear):
                run = epoch_at_once if fits_at_once(f) else _linear_epoch
                return run(f, w, order, eta, length), None
            step = lambda i, w: tree.axpy(-eta, slope(f.batch(order[i]), w), w)
            return repeat(step, w, length=length, room=len(order)), None

        return run_epochs(
            f, (w, None), key, epoch, epochs=self.epochs, length=length, stop=self.stop
        )


def _linear_epoch(
    f: Linear, W: Float[Array, "d k"], order: Array, eta: Scalar, length: Array
) -> Float[Array, "d k"]:
    tilt = None if f.q is None else f.X.matmul(f.q)

    def step(i, eta, lazy, _):
        b = f.batch(order[i])
        z = lazy.predict(b.X, None if tilt is None else rows_of(tilt, order[i]))
        R = b.s[:, None] * f.family.gradient(f.family.point(z), b.Y)
        return lazy.shrink(eta, f.mu).plus(-eta, b.X, R), None

    start, room = (W, f.q, None), len(order)
    return run_lazily(step, start, steps=length, eta=eta, mu=f.mu, room=room)[0]


def _check(epochs: int, batch_size: int) -> None:
    drawn = isinstance(epochs, jax.Array)  # by the method; traced, it has no value yet
    if (not drawn and epochs < 0) or batch_size < 1:
        raise SpecError(
            f"epochs must be >= 0 and batch_size must be >= 1, got epochs={epochs} and "
            f"batch_size={batch_size}"
        )
