"""Newton's method for linear models on one column of A per sample, where w' = (q' + A X)/μ.

With G = XX' (once per client), Z = (q'X' + AG)/μ and R = A + s ∇loss(Z):

    ∇f' = RX,    |∇f|² = <R, RG>,    D + S(DG)/μ = -R,    S_j = s_j ∇²loss(z_j),

solved by conjugate gradients in the inner product <a, bG>: the iterates of the parameter
space at n²k a step, whatever d is. Gradients, values and steps are in full precision;
the directions need none, so they are found in single precision, and with G in half precision
where that is faster and good enough.
Arrays are k by n here: products with G are then 1.6 times faster on a CPU.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .. import tree
from .._types import Scalar
from ..problems import AbstractFamily, Gram, Linear
from ._base import LocalSolution
from ._cg import FIRST_FORCING, accuracy, armijo, next_forcing, on_cpu

Columns = Float[Array, "k n"]
MAX_CG_STEPS = 500
STEPS_PER_CHECK = 4  # on accelerators, where asking whether to go on costs more than a step
LARGEST = 6e4  # of half precision, nearly
FAR = 100.0  # a start with a gradient this much larger than the given one's is not worth it


class _Local(eqx.Module):
    """What of a client's problem the iterations see."""

    G: Float[Array, "n n"]
    rough: Float[Array, "n n"]
    unit: Scalar
    Xq: Columns
    Y: Columns
    s: Float[Array, " n"]
    mu: Scalar
    family: AbstractFamily

    def point(self, AG: Columns) -> Columns:
        return _by_columns(self.family.point)((self.Xq + AG) / self.mu)

    def slope(self, P: Columns) -> Columns:
        """s ∇loss."""
        return self.s * _by_columns(self.family.gradient)(P, self.Y)

    def value(self, A: Columns, AG: Columns) -> Scalar:
        """f(w) + |q|²/(2μ)."""
        losses = _by_columns(self.family.value)((self.Xq + AG) / self.mu, self.Y)
        return jnp.sum(self.s * losses) + jnp.vdot(A, AG) / (2 * self.mu)

    def roughly(self, D: Float[Array, "k n"], size: Scalar) -> Float[Array, "k n"]:
        """D G for a D of about this size in the norm <d, dG>."""
        if self.rough.dtype != jnp.float16:
            return D @ self.rough
        unit = self.unit.astype(D.dtype)
        scale = jnp.sqrt(unit * len(self.s)) / size  # entries near 1: far from what half can hold
        near = jnp.clip(scale * D, -LARGEST, LARGEST).astype(jnp.float16)
        return jnp.matmul(near, self.rough, preferred_element_type=D.dtype) * (unit / scale)


class _SamplePoint(NamedTuple):
    A: Columns
    AG: Columns
    value: Scalar
    P: Columns
    R: Columns
    RG: Columns
    grad_norm: Scalar
    forcing: Scalar
    newton: Int[Array, ""]
    steps: Int[Array, ""]
    progress: Bool[Array, ""]


class _Search(NamedTuple):
    x: Columns
    r: Columns
    rG: Columns
    p: Columns
    pG: Columns
    rr: Scalar
    k: Int[Array, ""]


def solve_in_samples(
    f: Linear, gram: Gram, w: Float[Array, "d k"], tol: Scalar, max_steps: int
) -> tuple[LocalSolution, Bool[Array, ""]]:
    """A better w, or w itself if the sample space has no good start; and whether |∇f| there is at
    most tol whatever the rounding, so that nobody has to compute it in the parameter space."""
    k = w.shape[1]
    q = jnp.zeros_like(w) if f.q is None else f.q
    both = f.X.matmul(jnp.concatenate([w, q], 1)).T
    Xw, Xq = both[:k], both[k:]
    local = _Local(gram.G, gram.rough, gram.unit, Xq, f.Y.T, f.s, f.mu, f.family)
    A = -local.slope(_by_columns(f.family.point)(Xw))
    AG = A @ gram.G
    residual = f.mu * w - q
    given = jnp.vdot(residual, residual) - 2 * jnp.vdot(f.mu * Xw - Xq, A) + jnp.vdot(A, AG)
    A, AG = _nearer(gram, A, AG, f.mu * Xw - Xq)
    start = _point(local, A, AG, local.value(A, AG))
    given = jnp.sqrt(jnp.maximum(given, tol**2))
    good = start.grad_norm <= FAR * given
    end = _newton(local, start._replace(progress=good), tol, max_steps)
    move = f.X.add_rmatmul(-jnp.ones_like(f.mu), end.A.T, residual) / f.mu  # w - (q + X'A')/μ
    better = good & (end.grad_norm <= given)
    solved = better & (end.grad_norm + _rounding(f, w, Xq, end) <= tol)
    return LocalSolution(jnp.where(better, w - move, w), end.grad_norm, end.steps), solved


def _rounding(f: Linear, w: Float[Array, "d k"], Xq: Columns, end: _SamplePoint) -> Scalar:
    """What |RX| may lack of |∇f| at the rounded w: in exact arithmetic the two are the same, and
    an entry of Z or of w is a sum of at most n products, each known to eps."""
    size = jnp.linalg.norm(Xq) + f.mu * tree.norm(w) + jnp.sqrt(jnp.abs(jnp.vdot(end.A, end.AG)))
    return len(f.s) * jnp.finfo(w.dtype).eps * (f.beta / f.mu) * size


def _by_columns(function: Callable) -> Callable:
    """A family's function of rows, for arrays that are k by n; no array is transposed."""
    return jax.vmap(function, in_axes=-1, out_axes=-1)


def _nearer(gram: Gram, A: Columns, AG: Columns, target: Columns) -> tuple[Columns, Columns]:
    """A with AG nearer to the target (the warm start's μXw - Xq), along G's Ritz pairs:
    A itself starts at w - ∇f(w)/μ, which is far off where the curvature is well above μ."""
    shift = ((target - AG) @ gram.vectors) / gram.values
    return A + shift @ gram.vectors.T, AG + shift @ gram.products.T


def _point(local: _Local, A: Columns, AG: Columns, value: Scalar) -> _SamplePoint:
    P = local.point(AG)
    R = A + local.slope(P)
    RG = R @ local.G
    norm = jnp.sqrt(jnp.maximum(jnp.vdot(R, RG), 0))
    zero = jnp.zeros((), jnp.int32)
    first = jnp.full_like(norm, FIRST_FORCING)
    return _SamplePoint(A, AG, value, P, R, RG, norm, first, zero, zero, jnp.array(True))


def _newton(local: _Local, start: _SamplePoint, tol: Scalar, max_steps: int) -> _SamplePoint:
    def unsolved(s: _SamplePoint):
        return (s.grad_norm > tol) & (s.newton < max_steps) & s.progress

    def step(s: _SamplePoint) -> _SamplePoint:
        D, k = _direction(local, s, accuracy(s.forcing * s.grad_norm, tol))
        DG = D @ local.G
        along = lambda t: local.value(s.A + t * D, s.AG + t * DG)
        t, value = armijo(along, s.value, jnp.vdot(s.RG, D) / local.mu)
        new = _point(local, s.A + t * D, s.AG + t * DG, value)
        forcing = next_forcing(new.grad_norm, s.grad_norm)
        progress = (new.value < s.value) | (new.grad_norm < s.grad_norm)
        return new._replace(
            forcing=forcing, newton=s.newton + 1, steps=s.steps + k, progress=progress
        )

    return jax.lax.while_loop(unsolved, step, start)


def _direction(local: _Local, s: _SamplePoint, tol: Scalar) -> tuple[Columns, Int[Array, ""]]:
    """D with |(D + S(DG)/μ + R) X| <= tol, in single precision, scaled by |∇f|."""
    low = jnp.float32
    unit = 1 / s.grad_norm
    P, Y, weights = s.P.astype(low), local.Y.astype(low), (local.s / local.mu).astype(low)
    enough = jnp.maximum((tol * unit) ** 2, 1e-30).astype(low)

    curvature = _by_columns(local.family.curvature)

    def unsolved(c: _Search):
        return (c.rr > enough) & (c.k < MAX_CG_STEPS)

    def once(c: _Search) -> _Search:
        going = c.rr > enough
        Ap = c.p + weights * curvature(P, Y, c.pG)
        a = jnp.where(going, c.rr / jnp.vdot(c.pG, Ap), 0)
        r, rG = c.r - a * Ap, c.rG - a * local.roughly(Ap, jnp.sqrt(jnp.maximum(c.rr, enough)))
        rr = jnp.vdot(r, rG)
        b = rr / c.rr
        return _Search(c.x + a * c.p, r, rG, r + b * c.p, rG + b * c.pG, rr, c.k + going)

    def step(c: _Search) -> _Search:
        for _ in range(1 if on_cpu() else STEPS_PER_CHECK):
            c = once(c)
        return c

    r, rG = (-unit * s.R).astype(low), (-unit * s.RG).astype(low)
    rr, zero = jnp.ones((), low), jnp.zeros((), jnp.int32)
    first = _Search(jnp.zeros_like(r), r, rG, r, rG, rr, zero)
    end = jax.lax.while_loop(unsolved, step, first if on_cpu() else step(first))
    return end.x.astype(s.R.dtype) * s.grad_norm, end.k
