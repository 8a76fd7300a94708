"""What `rates` uses in place of the library's own: exact solves, τ as an array, a short chain."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Key, Params, Scalar
from ..participation import AbstractParticipation, Cohort
from ..problems import AbstractProblem, Quadratic
from ..solvers import AbstractLocalSolver, LocalSolution


class Exact(AbstractLocalSolver):
    """`solve(f, h)` is (A + μ I)^-1 h; a step is one of them."""

    solve: Callable[[Any, Array], Array]

    def __call__(self, f: Any, w: Params, key: Key) -> LocalSolution:
        h = f.b if f.q is None else f.b + f.q
        return LocalSolution(self.solve(f, h), jnp.zeros_like(f.mu), jnp.ones((), jnp.int32))


class SomeOf(AbstractParticipation):
    """UniformSubset with τ an array, so that one program serves every τ."""

    certain: ClassVar[bool] = False
    N: int
    tau: Int[Array, ""]

    def __call__(self, key: Key) -> Cohort:
        there = jax.random.permutation(key, self.N) < self.tau
        return Cohort(jnp.arange(self.N), there, there)


class Chain(AbstractProblem):
    """`worst_case_chain` in O(d): every A_i has blocks of one and of two coordinates."""

    diagonal: Float[Array, "*N d"]
    coupling: Float[Array, "*N d"]  # of a coordinate with the next one
    b: Float[Array, "*N d"]
    mu: Float[Array, "*N"]
    q: Params | None
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    convex: ClassVar[bool] = True

    def __init__(self, f: Quadratic):
        self.diagonal = jnp.diagonal(f.A, axis1=1, axis2=2)
        self.coupling = jnp.pad(jnp.diagonal(f.A, 1, axis1=1, axis2=2), ((0, 0), (0, 1)))
        self.b, self.mu, self.q, self.rows = f.b, f.mu, f.q, f.rows
        self.loss_alpha, self.loss_beta = f.loss_alpha, f.loss_beta

    @property
    def weight(self) -> Float[Array, "*N"]:
        return jnp.ones_like(self.mu)

    def loss(self, w: Float[Array, " d"]) -> Scalar:
        pairs = w * (self.diagonal * w / 2 + self.coupling * jnp.roll(w, -1))
        return jnp.sum(pairs - self.b * w)

    def batch(self, rows: Int[Array, " b"]) -> Self:
        return self

    def normalised(self) -> Self:
        return self


def dense(f: Quadratic, h: Float[Array, " d"]) -> Float[Array, " d"]:
    return jnp.linalg.solve(f.A + f.mu * jnp.eye(len(h)), h)


def by_blocks(f: Chain, h: Float[Array, " d"]) -> Float[Array, " d"]:
    """Cramer's rule for a coordinate and the neighbour that it is coupled with, if any."""
    a, before = f.diagonal + f.mu, jnp.roll(f.coupling, 1)
    c = f.coupling + before
    partner = lambda x: jnp.where(before != 0, jnp.roll(x, 1), jnp.roll(x, -1))
    return (partner(a) * h - c * partner(h)) / (a * partner(a) - c**2)
