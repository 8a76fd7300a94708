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

Weights = Float[Array, "d k"]


class Lazy(NamedTuple):
    """W = c V + e D; D is None where it is zero."""

    V: Weights
    D: Weights | None
    c: Scalar
    e: Scalar

    def predict(self, X: AbstractDesign) -> Float[Array, "b k"]:
        """X W."""
        z = self.c * X.matmul(self.V)
        return z if self.D is None else z + self.e * X.matmul(self.D)

    def decayed(self, eta: Scalar, mu: Scalar) -> "Lazy":
        """(1 - ημ) W + η D."""
        decay = _decay(eta, mu)
        return self._replace(c=decay * self.c, e=decay * self.e + eta)

    def plus(self, a: Scalar, X: AbstractDesign, R: Float[Array, "b k"]) -> "Lazy":
        """W + a X' R."""
        return self._replace(V=X.add_rmatmul(a / self.c, R, self.V))

    def dense(self) -> Weights:
        return self.c * self.V if self.D is None else self.c * self.V + self.e * self.D


def run_lazily(
    step: Callable[[Array, Lazy, PyTree], tuple[Lazy, PyTree]],
    start: tuple[Weights, Weights | None, PyTree],
    *,
    steps: Int[Array, ""],
    eta: Scalar,
    mu: Scalar,
) -> tuple[Weights, Weights | None, PyTree]:
    """`steps` times lazy, extra ← step(i, lazy, extra), from and to (W, D, extra)."""
    change = jnp.abs(jnp.log(jnp.abs(_decay(eta, mu))))
    most = jnp.clip(27 / change, 1, 2.0**30).astype(jnp.int32)
    one, zero = jnp.ones_like(eta), jnp.zeros_like(eta)

    def some(carry):
        i, (W, D, extra) = carry
        end = jnp.minimum(i + most, steps)
        once = lambda j, s: step(j, *s)
        lazy, extra = jax.lax.fori_loop(i, end, once, (Lazy(W, D, one, zero), extra))
        return end, (lazy.dense(), lazy.D, extra)

    first = (jnp.zeros_like(steps), start)
    return jax.lax.while_loop(lambda carry: carry[0] < steps, some, first)[1]


def _decay(eta: Scalar, mu: Scalar) -> Scalar:
    decay = 1 - eta * mu
    least = jnp.finfo(decay.dtype).eps
    return jnp.where(jnp.abs(decay) < least, least, decay)
