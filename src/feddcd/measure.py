"""What is said of a model: objective, score, certificate, dual residual."""

from collections.abc import Sequence
from typing import NamedTuple

from ._extras import needs

with needs("train"):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, PyTree

from . import tree
from ._types import Params, Scalar
from .algorithms import AbstractAlgorithm
from .problems import AbstractProblem, AbstractSamples, Clients, each, stacks_of, summed


class Measures(NamedTuple):
    objective: Scalar  # F/N
    score: Scalar  # nan where there is none
    dual_residual: Scalar  # of what is conserved, as below; nan where nothing is


class Measure(eqx.Module):
    """F/N on the clients' data (stacked), the score on the test data or else on the clients',
    and the dual residual."""

    problem: Clients
    test: AbstractProblem | None = None

    def __call__(
        self, algorithm: AbstractAlgorithm, server: PyTree, clients: PyTree, weights: Array
    ) -> Measures:
        w = algorithm.model(server)
        objective = jnp.mean(each(lambda f: f(w), self.problem))
        residual = dual_residual(algorithm, server, clients, weights)
        cast = lambda x: x.astype(objective.dtype)
        return Measures(objective, cast(self._score(w)), cast(residual))

    def _score(self, w: Params) -> Scalar:
        if self.test is not None:
            return self.test.score(w)
        stacks = stacks_of(self.problem)
        if all(isinstance(f, AbstractSamples) for f in stacks):
            return training_score(stacks, w)  # pyright: ignore
        weights, scores = each(lambda f: (f.weight, f.score(w)), self.problem)
        return jnp.sum(weights * scores) / jnp.sum(weights)


def training_score(stacks: Sequence[AbstractSamples], w: Params) -> Scalar:
    """The score on all clients' rows together."""
    z = [jax.vmap(lambda f: f.predict(f.X, w))(f) for f in stacks]
    flat = lambda parts: jnp.concatenate([x.reshape(-1, *x.shape[2:]) for x in parts])
    Y, s = flat([f.Y for f in stacks]), flat([f.s for f in stacks])
    return stacks[0].family.score(flat(z), Y, s)


class Certificate(NamedTuple):
    """objective >= optimum >= lower_bound, all in mean form (F/N)."""

    objective: Scalar
    lower_bound: Scalar

    @property
    def gap(self) -> Scalar:
        return self.objective - self.lower_bound


def is_convex(problem: Clients) -> bool:
    """Whether tangents lie below it, so that they prove something."""
    f = stacks_of(problem)[0]
    family = f.family.convex if isinstance(f, AbstractSamples) else True
    return f.convex and family


@eqx.filter_jit
def certify(problem: Clients, w: Params, points: Params | None) -> Certificate:
    """The better of two lower bounds on F*/N, from one scalar and one vector sum each:
    tangents of every f_i at its own client's point, and at the model w."""
    at_model = tangent_bound(problem, w, stacked=False)
    F = jnp.mean(each(lambda f: f(w), problem))
    if points is None:
        return Certificate(F, at_model)
    return Certificate(F, jnp.fmax(at_model, tangent_bound(problem, points, stacked=True)))


class Tangent(NamedTuple):
    """A client's part of the bound below; parts are added up."""

    constant: Scalar
    size: Scalar  # of what was added up in the constant
    slope: Params
    alpha: Scalar


def tangent(f: AbstractProblem, w: Params) -> Tangent:
    """f(x) >= f(w) + <g, x-w> + α|x-w|²/2 = constant - <slope, x> + α|x|²/2."""
    value, g = jax.value_and_grad(f)(w)
    parts = jnp.array([value, -tree.dot(g, w), f.alpha * tree.dot(w, w) / 2])
    slope = tree.axpy(f.alpha, w, tree.scale(-1.0, g))
    return Tangent(jnp.sum(parts), jnp.sum(jnp.abs(parts)), slope, f.alpha)


def tangent_bound(problem: Clients, w: Params, *, stacked: bool) -> Scalar:
    """The bound from one tangent per client, at its own point or all at one."""
    at_model = lambda f: tangent(f, w)
    total = summed(tangent, problem, w) if stacked else summed(at_model, problem)
    return lower_bound(total, problem.alpha.shape[0])


def lower_bound(total: Tangent, N: int) -> Scalar:
    """The clients' tangents, summed and minimised over x:

    F* >= sum(f_i(w_i) - <g_i,w_i> + α_i|w_i|²/2) - |sum(α_i w_i - g_i)|² / (2 sum α_i),

    less an allowance for rounding. Minus infinity where sum α_i is 0.
    """
    drop = tree.dot(total.slope, total.slope) / (2 * total.alpha)
    allowance = 64 * jnp.finfo(drop.dtype).eps * (total.size + drop)
    bound = (total.constant - drop - allowance) / N
    return jnp.where((total.alpha > 0) & jnp.isfinite(bound), bound, -jnp.inf)


def dual_residual(
    algorithm: AbstractAlgorithm, server: PyTree, clients: PyTree, weights: Array
) -> Scalar:
    """The largest norm of the sums that the method keeps at zero, as |sum_i y_i| of FedDCD: how far
    the clients' and the server's states disagree. Not a distance from the optimum, and not what
    the audit of a federation reports. nan where nothing is conserved."""
    norms = [tree.norm(r) for r in algorithm.residuals(server, clients, weights)]
    return jnp.max(jnp.array(norms)) if norms else jnp.array(jnp.nan)
