"""Steps on a linear model at the cost of their rows' non-zeros, never of all of W.

W ← (1 - ημ) W + η D - η X_B' R touches every entry, so W = c V + e D is kept instead, with

    c' = (1 - ημ) c,    e' = (1 - ημ) e + η,    V' = V - (η/c') X_B' R,

and is written out (c = 1, e = 0) after every run of steps, before c leaves [2^-40, 2^40].
Where ημ = 1 a decay of one rounding unit stands for 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from .._types import Scalar
from ..problems import AbstractDesign
from ._cg import on_cpu

Weights = Float[Array, "d k"]


class Lazy(NamedTuple):
    """W = c V + e D; D is None where it is zero."""

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
        decay = _decay(eta, mu)
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
    change = jnp.abs(jnp.log(jnp.abs(_decay(eta, mu))))
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
    """Whether clients run side by side: there a loop whose length differs between them would
    copy all of W in every step."""
    return not on_cpu()


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


def _decay(eta: Scalar, mu: Scalar) -> Scalar:
    decay = 1 - eta * mu
    least = jnp.finfo(decay.dtype).eps
    return jnp.where(jnp.abs(decay) < least, least, decay)
