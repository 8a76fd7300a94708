"""Any equinox module, trained on the loss of one example."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._errors import SpecError
from .._types import Params, Scalar
from ._base import AbstractProblem
from .design import rows_of

Example = Callable[[Any, Array, Array], Any]  # (module, x, y) -> a number


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
            raise SpecError(f"{type(module).__name__} has no floating-point array to train")
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
                f"loss(model, x, y) and score(model, x, y) give one number for one example, not "
                f"an array of shape {numbers.shape[1:]}"
            )
        return numbers.astype(self.s.dtype)
