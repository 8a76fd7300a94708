"""How the metric of FedQN begins: with the Hessian of a few sites, in few bits.

Up to 199 parameters it travels as its diagonal and correlations. Above, its products with random
signs do, which are the same everywhere: Nystroem's factors follow from them. Eight bits are enough,
whatever the changes of gradients have: the metric moves no fixed point, and more save no round.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._types import Scalar
from ._coding import Bits, code, code_square
from ._metric import NUMBERS, Base, Flat

SITES = 3  # of the first cohort
WHOLE = 199  # parameters, up to which the Hessian is sent as it is
RANK = 20  # random vectors whose products with it are sent else; fewer where d is very large
BITS: Bits = 8
ROUNDED = 0.1  # of the noise of rounding: smaller eigenvalues are raised to it
FLOOR = 1e-4  # of the diagonal, in every direction
CUT = 1e-3  # of the largest: smaller eigenvalues of a sketch are noise


def begins(place: Int[Array, ""], asked: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether a third of the cohort begins with it: neighbours may hold the same label."""
    return jnp.any(place == jnp.arange(SITES) * asked // SITES)


def rank_of(d: int) -> int:
    return d if d <= WHOLE else max(2, min(RANK, NUMBERS // d))


def measured(phi: Callable[[Flat], Scalar], x: Flat, wanted: Bool[Array, ""]) -> PyTree:
    """What a site sends of its Hessian at x; zeros where nobody asks for it."""

    def measure() -> PyTree:
        if x.size <= WHOLE:
            return code_square(jax.hessian(phi)(x), BITS)
        _, hvp = jax.linearize(jax.grad(phi), x)
        return code(jax.lax.map(hvp, _probes(x.size, x.dtype).T).T, BITS, columns=True)

    blank = lambda: jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(measure))
    return jax.lax.cond(wanted, measure, blank)


def base_from(sent: Array, d: int, rows: Scalar) -> tuple[Base, Flat]:
    """H₀ from the mean of what sites with so many rows sent, opened, and its diagonal."""
    if d <= WHOLE:
        return _whole_base(sent, d, rows)
    return _sketched_base(sent, _probes(d, sent.dtype))


def _probes(d: int, dtype) -> Float[Array, "d r"]:
    return jax.random.rademacher(jax.random.key(0), (d, rank_of(d)), dtype)


def _whole_base(upper: Float[Array, " d_d_1_2"], d: int, rows: Scalar) -> tuple[Base, Flat]:
    """H₀ from the upper triangle of a Hessian of so many rows, its correlations rounded, and its
    diagonal. Few rows say little of correlations."""
    H = jnp.zeros((d, d), upper.dtype).at[jnp.triu_indices(d)].set(upper)
    diagonal = _usual_where_zero(jnp.diag(H))
    root = jnp.sqrt(diagonal)
    H = H + jnp.triu(H, 1).T
    values, vectors = jnp.linalg.eigh(H / root / root[:, None])
    most = 2.0 ** (BITS - 1) - 1
    noise = 2 * jnp.sqrt(d / 12 / SITES) / most  # the norm of a mean of matrices of roundings
    floor, a = jnp.maximum(ROUNDED * noise, FLOOR), (d / (d + rows.astype(upper.dtype))) ** 2
    C = root[:, None] * vectors * jnp.sqrt((1 - a) * jnp.maximum(values - floor, 0))
    return Base(C, ((1 - a) * floor + a) * diagonal), diagonal


def _sketched_base(Y: Float[Array, "d r"], probes: Float[Array, "d r"]) -> tuple[Base, Flat]:
    """H₀ from products with random signs: Nystroem's factors, and what is left of the diagonal. No
    coordinate has less than the part of the trace that the factors miss."""
    diagonal = _usual_where_zero(jnp.maximum(jnp.mean(probes * Y, 1), 0))
    B = probes.T @ Y
    values, vectors = jnp.linalg.eigh((B + B.T) / 2)
    kept = values > CUT * values[-1]
    C = Y @ vectors * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1)), 0)
    left = jnp.maximum(diagonal - jnp.sum(C**2, 1), 0)
    # of each probe, what factors from all others miss of it: the mean estimates the missed trace
    sound = jnp.maximum(values, CUT * values[-1])
    missed = jnp.mean(1 / (vectors**2 @ (1 / jnp.where(sound > 0, sound, 1))))
    part = jnp.clip(missed / jnp.sum(diagonal), FLOOR, 1)
    return Base(C, jnp.maximum(left, part * diagonal)), diagonal


def _usual_where_zero(diagonal: Flat) -> Flat:
    """With the median of the others in place of zeros, of which the senders know nothing."""
    known = diagonal > 0
    usual = jnp.nanmedian(jnp.where(known, diagonal, jnp.nan))
    return jnp.where(known, diagonal, jnp.where(jnp.isfinite(usual), usual, 1.0))


def exponents(diagonal: Flat) -> Int[Array, " d"]:
    """Of the roots of curvatures, as powers of the root of 2."""
    return jnp.clip(jnp.round(jnp.log2(diagonal)), -126, 126).astype(jnp.int8)


def roots(exponents: Int[Array, " d"], dtype) -> Flat:
    return jnp.exp2(exponents.astype(dtype) / 2)
