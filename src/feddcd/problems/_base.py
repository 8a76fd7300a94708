"""A client's objective, in the one form that every algorithm needs."""

import abc
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import tree
from .._types import Key, Params, Scalar


class AbstractProblem(eqx.Module):
    """f(w) = loss(w) + (μ/2)|w|² - <q, w>, with α-strong convexity and β-smoothness.

    A problem is a pytree, so N clients are one problem with a leading axis N.
    `q` is None where it is zero. Algorithms change μ and q only, through `tilted`
    and `proximal`. `loss_alpha`, `loss_beta` bound the curvature of the loss alone; β may be inf.
    The certificate is only as true as `convex` and `loss_alpha`.
    """

    mu: eqx.AbstractVar[Float[Array, "*N"]]
    q: eqx.AbstractVar[Params | None]
    loss_alpha: eqx.AbstractVar[Float[Array, "*N"]]
    loss_beta: eqx.AbstractVar[Float[Array, "*N"]]
    rows: eqx.AbstractVar[Int[Array, "*N"]]  # rows of data, padding not counted
    convex: eqx.AbstractClassVar[bool]

    @property
    def capacity(self) -> int | None:
        """Rows of one client's arrays, padding included: what mini-batches are drawn from.
        None: the problem has no rows that `batch` could take, so no mini-batches."""
        return None

    @property
    @abc.abstractmethod
    def weight(self) -> Float[Array, "*N"]:
        """The sum of the row weights."""

    @abc.abstractmethod
    def loss(self, w: Params) -> Scalar:
        """The data's part of f."""

    @abc.abstractmethod
    def batch(self, rows: Int[Array, " b"]) -> Self:
        """f on some rows of the data, E[f_batch] = f; a row out of range is absent."""

    @abc.abstractmethod
    def normalised(self) -> Self:
        """f with its loss divided by the sum of its row weights."""

    def score(self, w: Params) -> Scalar:
        """How good w is on these rows, for the column accuracy; nan where nothing says it."""
        return jnp.full_like(self.mu, jnp.nan)

    def __call__(self, w: Params) -> Scalar:
        f = self.loss(w) + self.mu / 2 * tree.dot(w, w)
        return f if self.q is None else f - tree.dot(self.q, w)

    @property
    def alpha(self) -> Float[Array, "*N"]:
        return self.loss_alpha + self.mu

    @property
    def beta(self) -> Float[Array, "*N"]:
        return self.loss_beta + self.mu

    def tilted(self, y: Params) -> Self:
        """f(w) - <y, w>."""
        q = y if self.q is None else tree.add(self.q, y)
        return eqx.tree_at(lambda f: f.q, self, q, is_leaf=lambda x: x is None)

    def proximal(self, m: float | Scalar, center: Params) -> Self:
        """f(w) + (m/2)|w - center|², less a constant."""
        heavier = eqx.tree_at(lambda f: f.mu, self, self.mu + m)
        return heavier.tilted(tree.scale(m, center))


def curvature(f: AbstractProblem, w: Params, key: Key, steps: int = 20) -> Scalar:
    """An estimate, from below, of the largest eigenvalue of ∇²f(w): power iteration."""
    _, hvp = jax.linearize(jax.grad(f), w)
    leaves, structure = jax.tree.flatten(w)
    keys = jax.random.split(key, len(leaves))
    start = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]

    def step(_, v):
        return hvp(tree.scale(1 / jnp.maximum(tree.norm(v), 1e-300), v))

    return tree.norm(jax.lax.fori_loop(0, steps, step, jax.tree.unflatten(structure, start)))
