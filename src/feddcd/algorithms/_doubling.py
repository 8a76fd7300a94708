"""Epochs of 1, 1, 2, 4, 8, ... iterations: a constant that changes from one to the next changes
seldom, and all of its values are a short list."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._types import Scalar

EPOCHS = 16  # with iterations 0, 1, 2-3, 4-7, ...; the last one never ends


def epoch(k: Int[Array, ""]) -> Int[Array, ""]:
    """0 for iteration 0, then as many as the binary digits of k."""
    return 32 - jax.lax.clz(k)


def spans(epochs: int) -> tuple[Int[np.ndarray, " epochs"], Int[np.ndarray, " epochs"]]:
    """The first iteration of each epoch, and the first one after it."""
    ends = np.append(2 ** np.arange(epochs - 1), np.iinfo(np.int32).max)
    return np.append(0, ends[:-1]), ends


def followed(
    a: Float[Array, " epochs"],
    s: Float[Array, " epochs"],
    first: Int[Array, ""],
    now: Int[Array, ""],
) -> tuple[Scalar, Scalar]:
    """p and q of y + p (z - y) and z + q (y - z): AccFedDCD's iterations `first` to `now` - 1
    without a client."""
    begins, ends = spans(len(a))
    missed = jnp.clip(jnp.minimum(ends, now) - jnp.maximum(begins, first), 0)
    phi = (1 - a) * (1 - s)
    gone = (1 - phi ** missed.astype(phi.dtype)) / (1 - phi)

    def follow(moved, steps):
        (p, q), (py, qz) = moved, steps
        return (p + py * (1 - p - q), q + qz * (1 - p - q)), None

    none = jnp.zeros((), phi.dtype)
    return jax.lax.scan(follow, (none, none), (gone * a, gone * s * (1 - a)))[0]
