"""Losses on z = x'W, row by row.

A family says the loss of a row; its derivatives in z come from JAX. Those of the canonical link,
loss = A(z) - <y, z> + const(y), have them through `mean` = ∇A, which is computed once a point.
"""

import abc
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar

Z = Float[Array, "*n k"]
Targets = Literal["numbers", "binary", "classes"]


class AbstractFamily(eqx.Module):
    """`value`, `score`, `smoothness` and `convex` are enough for every solver.

    `targets` says what y is: the numbers as they are, 0 or 1 for two classes, or one column for
    each class. The certificate is only as true as `convex`: the loss is convex in z.
    """

    smoothness: eqx.AbstractClassVar[float]  # a bound on the eigenvalues of ∇²loss in z, or inf
    convex: eqx.AbstractClassVar[bool]
    targets: ClassVar[Targets] = "numbers"
    bounded: ClassVar[bool] = False  # ∇loss in z is, whatever z is

    @abc.abstractmethod
    def value(self, z: Z, y: Z) -> Float[Array, "*n"]:
        """The loss of every row."""

    @abc.abstractmethod
    def score(self, z: Z, y: Z, s: Float[Array, " n"]) -> Scalar:
        """Share of right labels, or share of the deviance explained; rows weigh s."""

    def point(self, z: Z) -> Z:
        """p, the part of z from which the derivatives below are computed."""
        return z

    def gradient(self, p: Z, y: Z) -> Z:
        """∇loss in z, at p = point(z)."""
        return jax.grad(lambda z: jnp.sum(self.value(z, y)))(p)

    def difference(self, p: Z, old: Z, y: Z) -> Z:
        """gradient(p, y) - gradient(old, y)."""
        return self.gradient(p, y) - self.gradient(old, y)

    def curvature(self, p: Z, y: Z, v: Z) -> Z:
        """∇²loss v, at p = point(z)."""
        return jax.jvp(lambda z: self.gradient(z, y), (p,), (v,))[1]


class AbstractCanonical(AbstractFamily):
    """loss = A(z) - <y, z> + const(y), A convex; `point` is the mean, ∇A(z)."""

    convex: ClassVar[bool] = True

    @abc.abstractmethod
    def mean(self, z: Z) -> Z:
        """∇A(z): what the model expects y to be."""

    @abc.abstractmethod
    def variance(self, p: Z, v: Z) -> Z:
        """∇²A v, at the z that has mean p."""

    def point(self, z):
        return self.mean(z)

    def gradient(self, p, y):
        return p - y

    def difference(self, p, old, y):
        return p - old

    def curvature(self, p, y, v):
        return self.variance(p, v)


class Softmax(AbstractCanonical):
    """One column per class: A(z) = log sum_k exp z_k; y is one-hot."""

    smoothness: ClassVar[float] = 0.5
    targets: ClassVar[Targets] = "classes"
    bounded: ClassVar[bool] = True

    def value(self, z, y):
        return jax.nn.logsumexp(z, -1) - jnp.sum(y * z, -1)

    def mean(self, z):
        return jax.nn.softmax(z, -1)

    def variance(self, p, v):
        return p * (v - jnp.sum(p * v, -1, keepdims=True))

    def score(self, z, y, s):
        return jnp.sum(s * (jnp.argmax(z, -1) == jnp.argmax(y, -1))) / jnp.sum(s)


class BaseSoftmax(AbstractCanonical):
    """Softmax, z = 0 for the first class: A(z) = log(1 + sum_k exp z_k); y has k columns, too."""

    smoothness: ClassVar[float] = 0.5
    targets: ClassVar[Targets] = "classes"
    bounded: ClassVar[bool] = True

    def value(self, z, y):
        return jax.nn.logsumexp(_with_base(z), -1) - jnp.sum(y * z, -1)

    def mean(self, z):
        return jax.nn.softmax(_with_base(z), -1)[..., 1:]

    def variance(self, p, v):
        return p * (v - jnp.sum(p * v, -1, keepdims=True))

    def score(self, z, y, s):
        label = jnp.where(jnp.sum(y, -1) > 0.5, 1 + jnp.argmax(y, -1), 0)
        return jnp.sum(s * (jnp.argmax(_with_base(z), -1) == label)) / jnp.sum(s)


class Logistic(AbstractCanonical):
    """One column: A(z) = log(1 + exp z); y is 0 or 1."""

    smoothness: ClassVar[float] = 0.25
    targets: ClassVar[Targets] = "binary"
    bounded: ClassVar[bool] = True

    def value(self, z, y):
        return jnp.sum(jax.nn.softplus(z) - y * z, -1)

    def mean(self, z):
        return jax.nn.sigmoid(z)

    def variance(self, p, v):
        return p * (1 - p) * v

    def score(self, z, y, s):
        return jnp.sum(s * jnp.all((z > 0) == (y > 0.5), -1)) / jnp.sum(s)


class LeastSquares(AbstractCanonical):
    """A(z) = z²/2, so the loss is (z - y)²/2."""

    smoothness: ClassVar[float] = 1.0

    def value(self, z, y):
        return jnp.sum((z - y) ** 2, -1) / 2

    def mean(self, z):
        return z

    def variance(self, p, v):
        return v

    def score(self, z, y, s):
        return _explained(self, z, y, jnp.sum(s[:, None] * y, 0) / jnp.sum(s), y, s)


class Poisson(AbstractCanonical):
    """A(z) = exp z; y is a count. Not smooth: ∇²A has no bound."""

    smoothness: ClassVar[float] = float("inf")

    def value(self, z, y):
        return jnp.sum(jnp.exp(z) - y * z, -1)

    def mean(self, z):
        return jnp.exp(z)

    def variance(self, p, v):
        return p * v

    def score(self, z, y, s):
        average = jnp.sum(s[:, None] * y, 0) / jnp.sum(s)
        return _explained(self, z, y, jnp.log(average), jnp.log(jnp.maximum(y, 1e-300)), s)


def _explained(family, z, y, null, perfect, s) -> Scalar:
    """1 - deviance / deviance of a constant model."""
    cost = lambda z: jnp.sum(s * family.value(jnp.broadcast_to(z, y.shape), y))
    return 1 - (cost(z) - cost(perfect)) / (cost(null) - cost(perfect))


def _with_base(z: Float[Array, "*n k"]) -> Float[Array, "*n k_plus_1"]:
    return jnp.concatenate([jnp.zeros_like(z[..., :1]), z], -1)


FAMILIES: dict[str, AbstractFamily] = {
    "softmax": Softmax(),
    "logistic": Logistic(),
    "ridge": LeastSquares(),
    "poisson": Poisson(),
}
