"""Newton's method: directions by conjugate gradients, lengths by Armijo halving."""

from functools import partial
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from threadpoolctl import threadpool_limits

from .. import tree
from .._errors import SpecError
from .._memory import check_fits, free_memory
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem, Gram, Linear, gram
from ._base import AbstractLocalSolver, AbstractStop, LocalSolution, Tolerance
from ._cg import FIRST_FORCING, accuracy, armijo, cg, next_forcing, on_cpu
from ._hessian import few_parameters, inverse_hessian
from ._sample_space import solve_in_samples

# curvature / l2 up to which directions take G in half precision where reading G is what they wait
# for: MNIST with l2 = 1e-2 has 1e4, and needs no step more. Rounding moves them more beyond
HALF = 1.5e4


class NewtonCG(AbstractLocalSolver):
    """Newton-CG in the space of samples or of parameters; a step is one CG step.

    `space="auto"` takes samples for linear models with fewer than 2 d rows and l2 > 0, and
    goes on in parameters whatever is left over; `rank` is the preconditioner's.
    """

    stop: AbstractStop = Tolerance()
    max_steps: int = 50
    space: Literal["auto", "samples", "parameters"] = "auto"
    rank: int = 50

    def __check_init__(self):
        if self.space not in ("auto", "samples", "parameters"):
            raise SpecError(f"space must be 'auto', 'samples' or 'parameters', not {self.space!r}")

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        """With every client's Gram matrix, where the sample space will be used."""
        if not isinstance(f, Linear) or f.gram is not None or self.space == "parameters":
            return f
        n, d = f.X.shape
        possible = bool(np.all(np.asarray(f.mu) > 0))
        if self.space == "samples" and not possible:
            raise SpecError(
                "space='samples' needs l2 > 0, because this way of solving divides by l2"
            )
        if not possible or (self.space == "auto" and (n > 2 * d or not has_room(f))):
            return f
        found = _gram(f, min(self.rank, n // 4))
        return eqx.tree_at(lambda f: f.gram, f, found, is_leaf=lambda x: x is None)

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        del key
        tol = self.stop(f, tree.norm(jax.grad(f)(w)))
        if not isinstance(f, Linear) or f.gram is None or self.space == "parameters":
            return _solve_in_parameters(f, w, tol, self.max_steps)

        def go_on(carry: tuple[LocalSolution, Array]) -> tuple[LocalSolution, Array]:
            found, _ = carry
            rest = _solve_in_parameters(f, found.w, tol, self.max_steps)
            return rest._replace(steps=rest.steps + found.steps), jnp.array(True)

        # at most one turn; unlike a branch, a loop without a turn costs nothing under vmap
        found = solve_in_samples(f, f.gram, w, tol, self.max_steps)
        return jax.lax.while_loop(lambda carry: ~carry[1], go_on, found)[0]


class _NewtonPoint(NamedTuple):
    w: Params
    g: Params
    grad_norm: Scalar
    forcing: Scalar  # relative accuracy of the next direction
    newton: Int[Array, ""]
    steps: Int[Array, ""]
    progress: Bool[Array, ""]


def _solve_in_parameters(
    problem: AbstractProblem, w: Params, tol: Scalar, max_steps: int
) -> LocalSolution:
    def unsolved(s: _NewtonPoint):
        return (s.grad_norm > tol) & (s.newton < max_steps) & s.progress

    def step(s: _NewtonPoint) -> _NewtonPoint:
        # else what depends on the data alone is computed ahead of a loop that seldom runs
        f, _ = jax.lax.optimization_barrier((problem, s.w))
        _, hvp = jax.linearize(jax.grad(f), s.w)
        enough = accuracy(s.forcing * s.grad_norm, tol)
        b = tree.scale(-1.0, s.g)
        d, k = cg(hvp, b, tol=enough, max_steps=1000, nearly_inverse=nearly_inverse)
        now = f(s.w)
        t, _ = armijo(lambda t: f(tree.axpy(t, d, s.w)), now, tree.dot(s.g, d))
        w = tree.axpy(t, d, s.w)
        value, g = jax.value_and_grad(f)(w)
        norm = tree.norm(g)
        better = (value < now) | (norm < s.grad_norm)
        newton, steps = s.newton + 1, s.steps + k
        new = _NewtonPoint(w, g, norm, next_forcing(norm, s.grad_norm), newton, steps, better)
        return tree.where(better, new, s._replace(newton=newton, steps=steps, progress=better))

    g = problem.gradient(w) if isinstance(problem, Linear) else jax.grad(problem)(w)
    nearly_inverse = None
    if isinstance(problem, Linear) and few_parameters(problem, w):
        nearly_inverse = inverse_hessian(problem, w)
    zero = jnp.zeros((), jnp.int32)
    norm = tree.norm(g)
    first = jnp.full_like(norm, FIRST_FORCING)
    start = _NewtonPoint(w, g, norm, first, zero, zero, jnp.array(True))
    end = jax.lax.while_loop(unsolved, step, start)
    return LocalSolution(end.w, end.grad_norm, end.steps)


def has_room(f: Linear) -> bool:
    """Whether the Gram matrices take at most half of what is free, on a GPU of its own memory."""
    stats = jax.devices()[0].memory_stats() or {}
    own = stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    free = free_memory() if own is None else own
    return free is None or _gram_bytes(f) <= free / 2


def _gram_bytes(f: Linear) -> int:
    """Of G in full and in single precision."""
    return f.s.size * f.s.shape[-1] * (f.s.dtype.itemsize + 4)


def _gram(f: Linear, rank: int) -> Gram:
    """G of every client, with Ritz pairs where the curvature is far above l2."""
    what = f"the Gram matrices of {len(f.s)} clients with up to {f.s.shape[-1]} rows each"
    check_fits(_gram_bytes(f), what, "set space = 'parameters'")
    G = gram(f.X)
    stiffness = float(_stiffness(G, f.s, f.mu))
    found = plain_gram(f, G, half=not on_cpu() and stiffness <= HALF)
    if not rank or stiffness <= 100:  # nothing to factorise, and nothing to compile for it
        return found
    # several BLAS threads on small factorisations wait for each other: up to a hundred times
    # slower. JAX takes SciPy's BLAS, which can be limited only once it is there
    import scipy.linalg  # noqa: F401

    with threadpool_limits(1, user_api="blas"):
        pairs = jax.block_until_ready(_ritz_pairs(G, rank))
    return eqx.tree_at(lambda g: (g.vectors, g.products, g.values), found, pairs)


def plain_gram(f: Linear, G: Float[Array, "N n n"] | None = None, half: bool = False) -> Gram:
    """G of every client, without Ritz pairs."""
    G = gram(f.X) if G is None else G
    (N, n), put = f.s.shape, lambda *shape: jax.device_put(np.zeros(shape, G.dtype))
    rough, unit = _rough(G, half)
    return Gram(G, rough, put(N, n, 0), put(N, n, 0), put(N, 0), unit)


@partial(jax.jit, static_argnums=1)
def _rough(G: Float[Array, "N n n"], half: bool) -> tuple[Array, Array]:
    unit = jnp.max(jnp.abs(G), (1, 2))
    unit = jnp.where(unit > 0, unit, 1)
    return ((G / unit[:, None, None]).astype(jnp.float16) if half else G.astype(jnp.float32)), unit


@jax.jit
def _stiffness(G: Float[Array, "N n n"], s: Float[Array, "N n"], mu: Float[Array, " N"]) -> Scalar:
    """A bound on curvature / l2, the largest of all clients."""
    return jnp.max(jnp.max(jnp.sum(jnp.abs(G), 2), 1) * jnp.max(s, 1) / mu)


@partial(jax.jit, static_argnums=1)
def _ritz_pairs(G: Float[Array, "N n n"], rank: int) -> tuple[Array, Array, Array]:
    """Leading Ritz vectors U, G U and the Ritz values, by subspace iteration."""
    start = jax.random.normal(jax.random.key(0), (G.shape[1], rank), G.dtype)

    def pairs(G):
        U = start
        for _ in range(3):
            U, _ = jnp.linalg.qr(G @ U)
        values, rotation = jnp.linalg.eigh(U.T @ G @ U)
        real = values > 1e-12 * jnp.max(values, initial=0)  # fewer rows than the rank
        U = jnp.where(real, U @ rotation, 0)
        return U, G @ U, jnp.where(real, values, 1)

    return jax.lax.map(pairs, G)
