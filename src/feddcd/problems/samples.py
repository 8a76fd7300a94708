"""Models fitted to rows of data: linear ones and the multilayer perceptron."""

import abc
from itertools import pairwise
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Params, Scalar
from ._base import AbstractProblem
from .design import AbstractDesign
from .family import AbstractFamily


class Gram(eqx.Module):
    """G = X X' and r leading Ritz pairs (U, λ) of it, for the sample-space solver."""

    G: Float[Array, "*N n n"]
    rough: Float[Array, "*N n n"]  # G in single precision
    vectors: Float[Array, "*N n r"]
    products: Float[Array, "*N n r"]  # G U
    values: Float[Array, "*N r"]


class AbstractSamples(AbstractProblem):
    """loss(w) = sum_j s_j loss(z_j(w), y_j); rows with s_j = 0 are padding."""

    X: eqx.AbstractVar[AbstractDesign]
    Y: eqx.AbstractVar[Float[Array, "*N n k"]]
    s: eqx.AbstractVar[Float[Array, "*N n"]]
    family: eqx.AbstractVar[AbstractFamily]

    @abc.abstractmethod
    def predict(self, X: AbstractDesign, w: Params) -> Float[Array, "n k"]:
        """z, before the link."""

    @property
    def capacity(self) -> int:
        return self.s.shape[-1]

    def loss(self, w: Params) -> Scalar:
        return jnp.sum(self.s * self.family.value(self.predict(self.X, w), self.Y))

    def score(self, w: Params) -> Scalar:
        return self.family.score(self.predict(self.X, w), self.Y, self.s)

    @property
    def weight(self) -> Scalar:
        return jnp.sum(self.s, -1)

    def normalised(self) -> Self:
        parts = lambda f: (f.s, f.loss_alpha, f.loss_beta)
        W = self.weight
        return eqx.tree_at(
            parts, self, (self.s / W[..., None], self.loss_alpha / W, self.loss_beta / W)
        )

    def batch(self, rows: Int[Array, " b"]) -> Self:
        present = jnp.maximum(jnp.sum(rows < self.Y.shape[0]), 1)
        share = (self.rows / present).astype(self.s.dtype)
        s = self.s.at[rows].get(mode="fill", fill_value=0) * share
        Y = self.Y.at[rows].get(mode="fill", fill_value=0)
        return eqx.tree_at(lambda f: (f.X, f.Y, f.s), self, (self.X.take(rows), Y, s))


class Linear(AbstractSamples):
    """z = X W, W with one column per class (or one): softmax, logistic, ridge, Poisson."""

    X: AbstractDesign
    Y: Float[Array, "*N n k"]
    s: Float[Array, "*N n"]
    family: AbstractFamily
    mu: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]  # a bound: smoothness of the link x sum_j s_j |x_j|²
    q: Params | None = None
    gram: Gram | None = None
    convex: ClassVar[bool] = True  # where the family is

    def predict(self, X: AbstractDesign, w: Float[Array, "d k"]) -> Float[Array, "n k"]:
        return X.matmul(w)

    def gradient(self, w: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """∇f(w) = X's∇loss(z) + μw - q, in fewer passes over w than autodiff takes."""
        R = self.s[:, None] * self.family.gradient(self.family.point(self.X.matmul(w)), self.Y)
        linear = self.mu * w if self.q is None else self.mu * w - self.q
        return self.X.add_rmatmul(jnp.ones_like(self.mu), R, linear)


class MLP(AbstractSamples):
    """Layers (W,) or (W, bias), ReLU between them. Not convex: α is μ, β unknown (inf)."""

    X: AbstractDesign
    Y: Float[Array, "*N n k"]
    s: Float[Array, "*N n"]
    family: AbstractFamily
    mu: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]
    q: Params | None = None
    convex: ClassVar[bool] = False

    def predict(self, X: AbstractDesign, w: Params) -> Float[Array, "n k"]:
        z = X.matmul(w[0][0]) + sum(w[0][1:])
        for layer in w[1:]:
            z = jax.nn.relu(z) @ layer[0] + sum(layer[1:])
        return z


def mlp_params(widths: tuple[int, ...], key, dtype, bias: bool = False) -> Params:
    """He's initial weights for layers of the given widths, input and output included."""
    params = []
    for k, (fan_in, fan_out) in enumerate(pairwise(widths)):
        W = jax.random.normal(jax.random.fold_in(key, k), (fan_in, fan_out), dtype)
        layer = (W * jnp.sqrt(2 / fan_in).astype(dtype),)
        params.append((*layer, jnp.zeros(fan_out, dtype)) if bias else layer)
    return tuple(params)
