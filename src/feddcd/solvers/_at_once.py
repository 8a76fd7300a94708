"""Many steps of stochastic gradients at once, for linear models on accelerators.

Steps W ← δ W + η D - η x_r R_r, δ = 1 - ημ, on the rows of a block depend on each other through
the rows' products G = XX' alone. With Z and V, what W and D predict before the block,

    z_r = δ^r Z_r + e_r V_r - η sum_{i < r} δ^(r - i - 1) G_ri R_i,    R_i = s_i ∇loss(z_i),

e_r = η (1 + δ + ... + δ^(r - 1)). All rows are computed again and again from each other: after t
turns the first t are right, whatever the start was, so the end is what one step after the other
gives. A row changes the predictions of the next ones only a little: some fifteen turns do for a
hundred steps, and a turn, which is one product, costs what a single step costs there.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Scalar
from ..problems import AbstractProblem, Linear, rows_of
from . import _epochs
from .newton import has_room, plain_gram

BLOCK = 128  # rows: twice as many would need only a few turns more, but four times the products
MOST_ROWS = 2048  # of a client; G has the square of it
TURNS_PER_CHECK = 4  # asking whether to go on costs as much as a turn

Weights = Float[Array, "d k"]
Columns = Float[Array, "n k"]
Rows = Int[Array, " b"]


def with_products(f: AbstractProblem) -> AbstractProblem:
    """All clients with their rows' products, where steps will be taken at once; no jit."""
    if not _epochs.in_step() or not isinstance(f, Linear) or f.gram is not None:
        return f
    # a mean without bounds may overflow in the first turns
    if not f.family.bounded or f.capacity > MOST_ROWS or not has_room(f):
        return f
    return eqx.tree_at(lambda f: f.gram, f, plain_gram(f), is_leaf=lambda x: x is None)


def fits_at_once(f: Linear) -> bool:
    return _epochs.in_step() and f.family.bounded and f.gram is not None


class _Epoch(NamedTuple):
    """W is c W_0 + e D - X'A."""

    A: Columns
    c: Scalar
    e: Scalar


def epoch_at_once(
    f: Linear, W: Weights, order: Int[Array, "batches size"], eta: Scalar, length: Int[Array, ""]
) -> Weights:
    """An epoch of SGD on the batches of `order`, of which the first `length` have rows."""
    batches = min(max(1, BLOCK // order.shape[1]), len(order))
    blocks = -(-len(order) // batches)
    empty = blocks * batches - len(order)
    filled = jnp.pad(order, ((0, empty), (0, 0)), constant_values=f.capacity)
    Z, V = f.X.matmul(W), None if f.q is None else f.X.matmul(f.q)

    def some(k, now: _Epoch) -> _Epoch:
        some_batches = jax.lax.dynamic_slice_in_dim(filled, k * batches, batches)
        left = jnp.clip(length - k * batches, 0, batches)
        return _block(f, Z, V, some_batches, eta, left, now)

    first = _Epoch(jnp.zeros_like(Z), jnp.ones_like(eta), jnp.zeros_like(eta))
    end = jax.lax.fori_loop(0, blocks, some, first)
    kept = end.c * W if f.q is None else end.c * W + end.e * f.q
    return f.X.add_rmatmul(-jnp.ones_like(eta), end.A, kept)


def _block(
    f: Linear,
    Z: Columns,
    V: Columns | None,
    batches: Int[Array, "m size"],
    eta: Scalar,
    steps: Int[Array, ""],
    now: _Epoch,
) -> _Epoch:
    """`steps` steps on these rows. No row is twice in an epoch, so each has one place in A."""
    rows, step = batches.reshape(-1), jnp.arange(batches.size) // batches.shape[1]
    powers, sums = _powers(_epochs.decay_of(eta, f.mu), eta, steps, len(batches))
    G = rows_of(f.gram.G, rows)  # pyright: ignore
    by_step = lambda numbers: numbers[step][:, None]
    start = by_step(powers) * (now.c * rows_of(Z, rows) - G @ now.A)
    if V is not None:
        start = start + by_step(powers * now.e + sums) * rows_of(V, rows)
    ago = step[:, None] - step - 1
    before = jnp.where(ago >= 0, powers[jnp.maximum(ago, 0)], 0) * rows_of(G.T, rows).T
    R = _settled(f, batches, start, eta * before)
    new = eta * by_step(powers[jnp.maximum(steps - 1 - jnp.arange(len(batches)), 0)]) * R
    c, e = powers[steps], sums[steps]
    return _Epoch((c * now.A).at[rows].add(new, mode="drop"), c * now.c, c * now.e + e)


def _powers(
    decay: Scalar, eta: Scalar, steps: Int[Array, ""], most: int
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """δ^t and e_t for t = 0 to `most`; empty steps after `steps` change nothing."""
    real = jnp.arange(most) < steps
    powers = jnp.cumprod(jnp.where(real, decay, 1))
    powers = jnp.concatenate([jnp.ones_like(powers[:1]), powers])
    sums = jnp.cumsum(jnp.where(real, powers[:-1], 0)) * eta
    return powers, jnp.concatenate([jnp.zeros_like(sums[:1]), sums])


class _Turn(NamedTuple):
    P: Columns
    change: Scalar
    k: Int[Array, ""]


def _settled(
    f: Linear, batches: Int[Array, "m size"], start: Columns, before: Float[Array, "b b"]
) -> Columns:
    """R with R = s ∇loss(start - before R); `before` is zero on and above the diagonal."""
    (most, size), rows = batches.shape, batches.reshape(-1)
    present = jnp.maximum(jnp.sum(batches < f.capacity, 1), 1)
    share = jnp.repeat(f.rows / present, size).astype(f.s.dtype)
    Y, s = rows_of(f.Y, rows), (rows_of(f.s, rows) * share)[:, None]
    enough = 8 * jnp.finfo(start.dtype).eps  # of a mean; the next turn's change is smaller still
    slope = lambda P: s * f.family.gradient(P, Y)

    def once(t: _Turn) -> _Turn:
        P = f.family.point(start - before @ slope(t.P))
        return _Turn(P, jnp.max(jnp.abs(P - t.P)), t.k + 1)

    def some(t: _Turn) -> _Turn:
        for _ in range(TURNS_PER_CHECK):
            t = once(t)
        return t

    zero, far = jnp.zeros((), jnp.int32), jnp.full((), jnp.inf, start.dtype)
    unsettled = lambda t: (t.change > enough) & (t.k < most)
    return slope(jax.lax.while_loop(unsettled, some, _Turn(f.family.point(start), far, zero)).P)
