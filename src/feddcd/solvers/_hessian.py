"""The inverse of a small Hessian at the warm start: a preconditioner for clients of many rows.

Where a client weighs much beside l2, it needs hundreds of CG steps, each with two passes over its
rows. Its Hessian costs as much as d such passes, but at the speed of a matrix product and in
single precision. With its inverse a few steps are enough, also at the later points of the same
solve.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..problems import Dense, Linear

MOST = 512  # parameters
ROWS = 4  # for each parameter: with fewer rows the inverse costs more than the steps that it saves
STIFF = 3e4  # bound on curvature / l2: a9a in equal parts has 3.5e3, and needs few steps without
LEAST = {"float64": 1e-6, "float32": 1e-3}  # eigenvalue over the largest, or rounding decides


def few_parameters(f: Linear, w: Float[Array, "d k"]) -> bool:
    """Whether the Hessian is small beside the data: one column, and many rows."""
    n, d = f.X.shape
    small = w.shape[1] == 1 and d <= min(MOST, n // ROWS)
    return small and isinstance(f.X, Dense) and f.gram is None


def inverse_hessian(f: Linear, w: Float[Array, "d 1"]) -> Callable[[Array], Array]:
    """v -> (X'SX + μI)⁻¹ v, nearly, with S_j = s_j ∇²loss(z_j) at w; v itself if f is not stiff."""
    same = lambda: jnp.eye(len(w), dtype=w.dtype)
    inverse = jax.lax.cond(f.loss_beta > STIFF * f.mu, lambda: _inverse(_hessian(f, w)), same)
    return lambda v: inverse @ v


def _hessian(f: Linear, w: Float[Array, "d 1"]) -> Float[Array, "d d"]:
    assert isinstance(f.X, Dense)
    P = f.family.point(f.X.matmul(w))
    S = f.s * f.family.curvature(P, f.Y, jnp.ones_like(P))[:, 0]
    rows = (jnp.sqrt(jnp.maximum(S, 0))[:, None] * f.X.X).astype(jnp.float32)
    H = (rows.T @ rows).astype(w.dtype)
    ridge = f.mu + LEAST[w.dtype.name] * jnp.trace(H)
    return H + ridge * jnp.eye(len(H), dtype=H.dtype)


def _inverse(A: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Of a positive matrix, by one sweep for each column. On a CPU a factorisation by LAPACK may
    wait for its own threads, up to a hundred times as long as it works."""
    place = jnp.arange(len(A))

    def sweep(k, A):
        column, here = A[k], place == k
        pivot = column[k]
        scaled = column / pivot
        new = A - scaled[:, None] * column
        edge = jnp.where(here, -1 / pivot, scaled)
        new = jnp.where(here[:, None], edge, new)
        return jnp.where(here, edge[:, None], new)

    return -jax.lax.fori_loop(0, len(A), sweep, A)
