"""Models fitted to rows of data: linear ones, the multilayer perceptron, and any equinox module."""

import abc
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._errors import SpecError
from .._types import Params, Scalar
from ._base import AbstractProblem
from .design import AbstractDesign, rows_of
from .family import AbstractFamily

Example = Callable[[Any, Array, Array], Any]  # (module, x, y) -> a number


class Gram(eqx.Module):
    """G = X X' and r leading Ritz pairs (U, λ) of it, for the sample-space solver."""

    G: Float[Array, "*N n n"]
    rough: Float[Array, "*N n n"]  # G in single precision, or G/unit in half precision
    vectors: Float[Array, "*N n r"]
    products: Float[Array, "*N n r"]  # G U
    values: Float[Array, "*N r"]
    unit: Float[Array, "*N"]  # the largest entry of G


class AbstractSamples(AbstractProblem):
    """loss(w) = sum_j s_j loss(z_j(w), y_j); rows with s_j = 0 are padding."""

    X: AbstractDesign
    Y: Float[Array, "*N n k"]
    s: Float[Array, "*N n"]
    family: AbstractFamily
    mu: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]
    q: Params | None = None

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
        changed = self.X.take(rows), rows_of(self.Y, rows), rows_of(self.s, rows) * share
        return eqx.tree_at(lambda f: (f.X, f.Y, f.s), self, changed)


class Linear(AbstractSamples):
    """z = X W, W with one column per class (or one): softmax, logistic, ridge, Poisson.

    `loss_beta` is a bound: smoothness of the link x sum_j s_j |x_j|²."""

    gram: Gram | None = None
    convex: ClassVar[bool] = True  # where the family is

    def predict(self, X: AbstractDesign, w: Float[Array, "d k"]) -> Float[Array, "n k"]:
        return X.matmul(w)

    def gradient(self, w: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """∇f(w) = X's∇loss(z) + μw - q, in fewer passes over w than autodiff takes."""
        R = self.s[:, None] * self.family.gradient(self.family.point(self.X.matmul(w)), self.Y)
        linear = self.mu * w if self.q is None else self.mu * w - self.q
        return self.X.add_rmatmul(jnp.ones_like(self.mu), R, linear)


class Regression(AbstractSamples):
    """z = X W + o, loss(W) = sum_j s_j loss(z_j, y_j) + sum_k P_k w_k²/2, P_k = 0 allowed."""

    offset: Float[Array, "*N n 1"] = eqx.field(kw_only=True)
    penalty: Float[Array, "*N d 1"] = eqx.field(kw_only=True)  # this client's share of P
    convex: ClassVar[bool] = True

    def predict(self, X: AbstractDesign, w: Float[Array, "d k"]) -> Float[Array, "n k"]:
        return X.matmul(w) + self.offset

    def loss(self, w: Float[Array, "d k"]) -> Scalar:
        return super().loss(w) + jnp.sum(self.penalty * w**2) / 2


class MLP(AbstractSamples):
    """Layers (W,) or (W, bias), ReLU between them. Not convex: α is μ, β unknown (inf)."""

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


class Architecture:
    """A module, the `loss(module, x, y)` of one example and, if there is one, its `score`.

    What is trained are the module's floating-point arrays; all else stays as it is. A row of data
    comes as x of the given `shape`. Equal only to itself, so it can be static under jit."""

    def __init__(
        self,
        module: Any,
        loss: Example,
        score: Example | None = None,
        shape: tuple[int, ...] | None = None,
    ):
        self.module, self.loss, self.score, self.shape = module, loss, score, shape
        if not jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array)):
            raise SpecError(
                f"the model (of the type {type(module).__name__}) has no array of floating-point "
                "numbers, so there "
                "is nothing to train"
            )
        self._fixed = eqx.filter(module, eqx.is_inexact_array, inverse=True)

    def reshape(self, shape: tuple[int, ...]) -> "Architecture":
        """The same for examples of this shape."""
        return Architecture(self.module, self.loss, self.score, shape)

    def start(self, dtype: type) -> Params:
        """The module's own numbers, where training begins."""
        trained = eqx.filter(self.module, eqx.is_inexact_array)
        return jax.tree.map(lambda x: jnp.asarray(x, dtype), trained)

    def assemble(self, w: Params) -> Any:
        """The module with the numbers w."""
        return eqx.combine(w, self._fixed)


class Network(AbstractProblem):
    """loss(w) = sum_j s_j loss(module(w), x_j, y_j). Not convex: α is μ, β unknown (inf)."""

    X: Float[Array, "..."]  # *N n, and the shape of an example
    Y: Float[Array, "*N n"]
    s: Float[Array, "*N n"]
    mu: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]
    architecture: Architecture = eqx.field(static=True)
    q: Params | None = None
    convex: ClassVar[bool] = False

    @property
    def capacity(self) -> int:
        return self.s.shape[-1]

    @property
    def weight(self) -> Scalar:
        return jnp.sum(self.s, -1)

    def loss(self, w: Params) -> Scalar:
        return jnp.sum(self.s * self._each(self.architecture.loss, w))

    def score(self, w: Params) -> Scalar:
        if self.architecture.score is None:
            return jnp.full_like(self.mu, jnp.nan)
        return jnp.sum(self.s * self._each(self.architecture.score, w)) / self.weight

    def normalised(self) -> Self:
        return eqx.tree_at(lambda f: f.s, self, self.s / self.weight[..., None])

    def batch(self, rows: Int[Array, " b"]) -> Self:
        present = jnp.maximum(jnp.sum(rows < self.capacity), 1)
        s = rows_of(self.s, rows) * (self.rows / present).astype(self.s.dtype)
        inside = jnp.minimum(rows, self.capacity - 1)  # zeros may be no example that a loss takes
        return eqx.tree_at(lambda f: (f.X, f.Y, f.s), self, (self.X[inside], self.Y[inside], s))

    def _each(self, function: Example, w: Params) -> Float[Array, " n"]:
        module = self.architecture.assemble(w)
        numbers = jnp.asarray(jax.vmap(lambda x, y: function(module, x, y))(self.X, self.Y))
        if numbers.shape != self.s.shape:
            raise SpecError(
                "loss(model, x, y) and score(model, x, y) must return one number for one "
                f"example, not an array of shape {numbers.shape[1:]}"
            )
        return numbers.astype(self.s.dtype)
