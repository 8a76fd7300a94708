"""A client's rows of a generalised linear model: offset, penalty per coefficient, base class."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Params, Scalar
from .design import AbstractDesign
from .family import AbstractCanonical, AbstractFamily, Targets
from .samples import AbstractSamples


class BaseSoftmax(AbstractCanonical):
    """Softmax, z = 0 for the first class: A(z) = log(1 + sum_k exp z_k); y has k columns, too."""

    smoothness: ClassVar[float] = 0.5
    targets: ClassVar[Targets] = "classes"

    def value(self, z, y):
        return jax.nn.logsumexp(_with_base(z), -1) - jnp.sum(y * z, -1)

    def mean(self, z):
        return jax.nn.softmax(_with_base(z), -1)[..., 1:]

    def variance(self, p, v):
        return p * (v - jnp.sum(p * v, -1, keepdims=True))

    def score(self, z, y, s):
        label = jnp.where(jnp.sum(y, -1) > 0.5, 1 + jnp.argmax(y, -1), 0)
        return jnp.sum(s * (jnp.argmax(_with_base(z), -1) == label)) / jnp.sum(s)


class Regression(AbstractSamples):
    """z = X W + o, loss(W) = sum_j s_j loss(z_j, y_j) + sum_k P_k w_k²/2, P_k = 0 allowed."""

    X: AbstractDesign
    Y: Float[Array, "*N n k"]
    s: Float[Array, "*N n"]
    family: AbstractFamily
    mu: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]
    offset: Float[Array, "*N n 1"]
    penalty: Float[Array, "*N d 1"]  # this client's share of P
    q: Params | None = None
    convex: ClassVar[bool] = True

    def predict(self, X: AbstractDesign, w: Float[Array, "d k"]) -> Float[Array, "n k"]:
        return X.matmul(w) + self.offset

    def loss(self, w: Float[Array, "d k"]) -> Scalar:
        return self.data_loss(w) + jnp.sum(self.penalty * w**2) / 2

    def data_loss(self, w: Float[Array, "d k"]) -> Scalar:
        return jnp.sum(self.s * self.family.value(self.predict(self.X, w), self.Y))


def _with_base(z: Float[Array, "*n k"]) -> Float[Array, "*n k_plus_1"]:
    return jnp.concatenate([jnp.zeros_like(z[..., :1]), z], -1)
