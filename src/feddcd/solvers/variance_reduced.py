"""Stochastic gradients with a variance that vanishes at the optimum: SVRG and SAGA.

Both converge linearly with a fixed step. L_j is the smoothness of row j's term,
n s_j |x_j|² times the link's, plus μ; the defaults are the theory's: SAGA 1/(3 max L_j)
(Defazio et al., 2014), SVRG 1/(2 (𝓛 + 2ρ)) with ρ = max L_j / b and
𝓛 = (1 - 1/b) β + ρ (Sebbouh et al., 2019).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem, Linear
from ._base import AbstractLocalSolver, AbstractStop, LocalSolution, check_rate, step_length
from ._epochs import batch_count, draw_rows, run_epochs, run_lazily

Table = Float[Array, "n k"]


class SVRG(AbstractLocalSolver):
    """w ← w - η (∇f_B(w) - ∇f_B(w̃) + ∇f(w̃)), w̃ the start of the epoch; a step is one batch.

    Runs `epochs` epochs or, given a `stop`, until it holds, but `max_epochs` at most.
    """

    lr: float | None = None
    epochs: int = 2
    batch_size: int = 8
    stop: AbstractStop | None = None
    max_epochs: int = 1000

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return check_rate(self.lr, f)

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        rho = _row_smoothness(f) / self.batch_size
        default = 1 / (2 * ((1 - 1 / self.batch_size) * f.beta + 3 * rho))
        eta = step_length(self.lr, f, default)
        length = batch_count(f, self.batch_size)

        def epoch(w, known, key):
            order = draw_rows(f, self.batch_size, key)
            if isinstance(f, Linear):
                w = _linear_svrg(f, w, known, order, eta, length)
            else:
                w = _svrg(f, w, known, order, eta, length)
            return w, _snapshot(f, w)

        return run_epochs(
            f,
            (w, _snapshot(f, w)),
            key,
            epoch,
            epochs=self.epochs if self.stop is None else self.max_epochs,
            length=length,
            stop=self.stop,
            gradient=lambda _, known: known[0],
        )


class SAGA(AbstractLocalSolver):
    """w ← w - η (n x_j' s_j (g_j - r_j) + X' s r + ∇(μ|w|²/2 - <q, w>)), r_j ← g_j, where r holds
    the ∇loss in z that every row of a linear model last had; a step is one row.

    Runs `epochs` epochs or, given a `stop`, until it holds, but `max_epochs` at most.
    """

    lr: float | None = None
    epochs: int = 2
    stop: AbstractStop | None = None
    max_epochs: int = 1000

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return check_rate(self.lr, _linear(f))

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        f = _linear(f)
        eta = step_length(self.lr, f, 1 / (3 * _row_smoothness(f)))
        length = batch_count(f, 1)
        g, table = _linear_snapshot(f, w)

        def epoch(w, known, key):
            order = draw_rows(f, 1, key)
            w, *known = run_lazily(
                lambda i, eta, *s: _saga(f, order[i], eta, *s),
                (w, *known),
                steps=length,
                eta=eta,
                mu=f.mu,
            )
            return w, tuple(known)

        return run_epochs(
            f,
            (w, (f.mu * w - g, table)),
            key,
            epoch,
            epochs=self.epochs if self.stop is None else self.max_epochs,
            length=length,
            stop=self.stop,
        )


def _snapshot(f: AbstractProblem, w: Params) -> tuple[Params, Params]:
    """∇f(w) and what ∇f_B(w) is found from: w, or a linear model's point P of every row."""
    return _linear_snapshot(f, w) if isinstance(f, Linear) else (jax.grad(f)(w), w)


def _svrg(f: AbstractProblem, w: Params, known: PyTree, order, eta: Scalar, length) -> Params:
    g, center = known

    def step(i, w):
        slope = jax.grad(f.batch(order[i]))
        d = tree.add(tree.sub(slope(w), slope(center)), g)
        return tree.axpy(-eta, d, w)

    return jax.lax.fori_loop(0, length, step, w)


def _linear_snapshot(f: Linear, W: Float[Array, "d k"]) -> tuple[Float[Array, "d k"], Table]:
    P = f.family.point(f.X.matmul(W))
    g = f.X.rmatmul(f.s[:, None] * f.family.gradient(P, f.Y)) + f.mu * W
    return g if f.q is None else g - f.q, P


def _linear_svrg(f: Linear, W: Float[Array, "d k"], known: PyTree, order, eta: Scalar, length):
    g, table = known

    def step(i, eta, lazy, _):
        b = f.batch(order[i])
        P = f.family.point(lazy.predict(b.X))
        R = b.s[:, None] * f.family.difference(P, table[order[i]], b.Y)
        return lazy.shrink(eta, f.mu).plus(-eta, b.X, R), None

    return run_lazily(step, (W, f.mu * W - g, None), steps=length, eta=eta, mu=f.mu)[0]


def _saga(f: Linear, row, eta: Scalar, lazy, table: Table):
    """With D = q - X' s r, which row j changes by -x_j' Δ, Δ = s_j (g_j - r_j); the table holds
    the points that r comes from."""
    x, s = f.X.take(row), f.s[row][:, None]
    P = f.family.point(lazy.predict(x))
    change = s * f.family.difference(P, table[row], f.Y[row])
    lazy = lazy.shrink(eta, f.mu)
    lazy = lazy.plus(lazy.e - eta * f.rows, x, change)
    D = x.add_rmatmul(-jnp.ones_like(eta), change, lazy.D)
    return lazy._replace(D=D), table.at[row].set(P)


def _row_smoothness(f: AbstractProblem) -> Scalar:
    """max_j L_j for linear models, else β."""
    if not isinstance(f, Linear):
        return f.beta
    squares = jax.tree.map(lambda x: x * x if eqx.is_inexact_array(x) else x, f.X)
    norms = squares.matmul(jnp.ones((f.X.shape[1], 1), f.s.dtype))[:, 0]
    return f.rows * jnp.max(f.s * norms) * f.family.smoothness + f.mu


def _linear(f: AbstractProblem) -> Linear:
    if not isinstance(f, Linear):
        raise TypeError(f"the solver saga works only with linear models, got {type(f).__name__}")
    return f
