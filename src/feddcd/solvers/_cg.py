"""Preconditioned conjugate gradients, and the Armijo rule that follows them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._types import Params, Scalar

FIRST_FORCING = 0.05  # |residual of the Newton system| / |gradient| in the first step


def next_forcing(new: Scalar, old: Scalar) -> Scalar:
    """Eisenstat and Walker's second choice, from the gradient norms of the last two points."""
    return jnp.clip(0.9 * (new / old) ** 2, 1e-4, FIRST_FORCING)


def accuracy(forced: Scalar, tol: Scalar) -> Scalar:
    """The residual to stop at: the one that is asked for or, if that is near tol, the last."""
    return jnp.where(forced < 10 * tol, 0.7 * tol, forced)


def on_cpu() -> bool:
    """Loops that end early are free on a CPU; elsewhere every look at a condition costs."""
    return jax.default_backend() == "cpu"


class _CGState(NamedTuple):
    x: Params
    r: Params
    p: Params
    rr: Scalar
    rz: Scalar  # <r, M⁻¹r>
    k: Int[Array, ""]


def cg(
    operator: Callable[[Params], Params],
    b: Params,
    *,
    tol: Scalar,
    max_steps: int,
    nearly_inverse: Callable[[Params], Params] | None = None,
) -> tuple[Params, Int[Array, ""]]:
    """x with |b - A x| <= tol, started from 0, and the steps it took; `nearly_inverse` is M⁻¹.

    Stops at a direction of negative curvature; the first such direction is M⁻¹b itself.
    """

    def unsolved(s: _CGState):
        return (s.rr > tol**2) & (s.k < max_steps)

    def turned(r: Params, rr: Scalar) -> tuple[Params, Scalar]:
        if nearly_inverse is None:
            return r, rr
        z = nearly_inverse(r)
        return z, tree.dot(r, z)

    def step(s: _CGState) -> _CGState:
        Ap = operator(s.p)
        pAp = tree.dot(s.p, Ap)
        bad = ~(pAp > 0)
        a = jnp.where(bad, jnp.where(s.k == 0, 1.0, 0.0), s.rz / pAp)
        r = tree.axpy(-a, Ap, s.r)
        rr = jnp.where(bad, 0.0, tree.dot(r, r))
        z, rz = turned(r, rr)
        p = tree.axpy(rz / s.rz, s.p, z)
        return _CGState(tree.axpy(a, s.p, s.x), r, p, rr, rz, s.k + 1)

    rr, zero = tree.dot(b, b), jnp.zeros((), jnp.int32)
    z, rz = turned(b, rr)
    end = jax.lax.while_loop(unsolved, step, _CGState(tree.zeros(b), b, z, rr, rz, zero))
    return end.x, end.k


def armijo(value: Callable[[Scalar], Scalar], now: Scalar, slope: Scalar) -> tuple[Scalar, Scalar]:
    """The largest of 1, 1/2, 1/4, ... that decreases `value` enough, and the value there."""
    slack = 8 * jnp.finfo(now.dtype).eps * jnp.abs(now)
    enough = lambda t, v: v <= now + 1e-4 * t * slope + slack
    if not on_cpu():  # all at once: a loop would ask after every trial whether to go on
        ts = 0.5 ** jnp.arange(16, dtype=now.dtype)
        values = jax.vmap(value)(ts)
        fine = enough(ts, values)
        best = jnp.where(jnp.any(fine), jnp.argmax(fine), len(ts) - 1)
        return ts[best], values[best]

    def too_long(carry):
        t, v = carry
        return ~enough(t, v) & (t > 1e-10)

    halve = lambda carry: (carry[0] / 2, value(carry[0] / 2))
    one = jnp.ones_like(now)
    return jax.lax.while_loop(too_long, halve, (one, value(one)))
