"""Quadratics with a known optimum: random ones, and the paper's worst case."""

from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from .._errors import SpecError
from .._types import Params, Scalar
from ._base import AbstractProblem


class Quadratic(AbstractProblem):
    """loss(w) = w'Aw/2 - b'w; α and β are exact."""

    A: Float[Array, "*N d d"]
    b: Float[Array, "*N d"]
    mu: Float[Array, "*N"]
    q: Params | None
    loss_alpha: Float[Array, "*N"]
    loss_beta: Float[Array, "*N"]
    rows: Int[Array, "*N"]
    convex: ClassVar[bool] = True

    def __init__(self, A: ArrayLike, b: ArrayLike):
        self.A, self.b = jax.device_put((A, b))
        self.loss_alpha, self.loss_beta = _extremes(self.A)
        self.mu, self.q = jnp.zeros_like(self.loss_alpha), None
        self.rows = jnp.ones_like(self.mu, int)

    @property
    def capacity(self) -> int:
        return 1

    @property
    def weight(self) -> Float[Array, "*N"]:
        return jnp.ones_like(self.mu)

    def loss(self, w: Float[Array, " d"]) -> Scalar:
        return w @ self.A @ w / 2 - self.b @ w

    def batch(self, rows: Int[Array, " b"]) -> Self:
        return self

    def normalised(self) -> Self:
        return self


@jax.jit
def _extremes(A: Float[Array, "*N d d"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
    eigenvalues = jnp.linalg.eigvalsh(A)
    return eigenvalues[..., 0], eigenvalues[..., -1]


def optimum(f: Quadratic) -> Float[Array, " d"]:
    """argmin of the sum of N quadratics, stacked."""
    return jnp.linalg.solve(jnp.sum(f.A, 0), jnp.sum(f.b, 0))


def random_quadratics(
    N: int, d: int, *, alpha: float, beta: float, spread: float = 1.0, seed: int = 0
) -> Quadratic:
    """N quadratics with random eigenvectors and optima; eigenvalues from α_i to β, where α_i
    runs over a factor `spread` upwards from α."""
    random = np.random.default_rng(seed)
    A = np.empty((N, d, d))
    for i, low in enumerate(alpha * np.geomspace(1, spread, N)):
        basis, _ = np.linalg.qr(random.normal(size=(d, d)))
        inner = random.uniform(low, beta, max(d - 2, 0))
        A[i] = basis * np.r_[low, inner, beta][:d] @ basis.T
    centers = random.normal(size=(N, d))
    return Quadratic((A + A.swapaxes(1, 2)) / 2, np.einsum("nij,nj->ni", A, centers))


def worst_case_chain(N: int, d: int, *, alpha: float, beta: float) -> Quadratic:
    """The paper's lower bound (β > N α): coordinates i and i+1 are coupled by client i mod N
    alone, so knowledge walks one step along the chain only when its keeper takes part.

    On the infinite chain w*_i = q^i, q = (s-1)/(s+1), s = sqrt(β/(N α)); d cuts it off.
    """
    if not beta > N * alpha > 0:
        raise SpecError(
            f"the worst-case chain needs beta > N alpha > 0, got alpha={alpha}, beta={beta}, N={N}"
        )
    M = np.zeros((N, d, d))
    M[0, 0, 0] = 1
    for i in range(d - 1):
        M[i % N, i : i + 2, i : i + 2] += [[1, -1], [-1, 1]]
    c = (beta - N * alpha) / 4
    b = np.zeros((N, d))
    b[0, 0] = c
    return Quadratic(c * M + alpha * np.eye(d), b)
