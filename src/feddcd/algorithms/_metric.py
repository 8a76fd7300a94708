"""The metric of FedQN: one curvature for all sites, learned from sums.

    M = γ H₀ + l2 + damped BFGS pairs (s, y)

H₀ = C C' + diag(rest), from a Hessian, or for many parameters from its products with random signs.
Of a matrix w of p x K it may be one curvature of p inputs, the same for each output.
M is never a matrix: M v comes from the pairs' own products, M⁻¹ r from the two-loop recursion and
Woodbury's formula. All are pure functions of arrays.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import tree
from .._types import Scalar

Flat = Float[Array, " d"]
ENOUGH = 0.2  # of all weight, for a pair; of few sites more,
VISITS = 8  # as many sites as that,
MOST_ENOUGH = 0.5  # but not more of the weight
PATIENT = 10.0  # times as much more, the more sites differ; up to once all of it
STEEP = 10.0  # times H₀, along a pair: more was made up by sites that differ
DAMP = 0.2  # Powell's
GAMMA = (0.02, 1.0)  # least and most of γ
PAIRS = 100  # the most that are kept
NUMBERS = (
    16_000_000  # that pairs, or factors, may have: a server of millions of parameters has to fit
)
RATIOS = 5  # γ is a median of as many


class Base(NamedTuple):
    """H₀: C C' + diag(rest), of all d parameters, or of the p inputs of each of K outputs."""

    C: Float[Array, "p r"]
    rest: Float[Array, " p"]

    def columns(self, v: Flat) -> Float[Array, "p K"]:
        return v.reshape(len(self.rest), -1)


class Secants(NamedTuple):
    """The last pairs as they came, of the loss alone; rows from `n` on are empty."""

    s: Float[Array, "m d"]
    y: Float[Array, "m d"]
    n: Int[Array, ""]
    ratios: Float[Array, " k"]  # the last y'H₀⁻¹y / s'y; 0: none


class Metric(NamedTuple):
    """M = γ H₀ + l2 + sum_j y_j y_j'/(s_j'y_j) - u_j u_j'/(s_j'u_j), u_j = M_j s_j; the y_j are
    damped, and have l2 in them."""

    base: Base
    inner: Float[Array, "r r"]  # the factor of I + γ C'D⁻¹C
    gamma: Scalar
    s: Float[Array, "m d"]
    y: Float[Array, "m d"]
    u: Float[Array, "m d"]
    sy: Float[Array, " m"]  # 0 where there is no pair
    su: Float[Array, " m"]


class Gathered(NamedTuple):
    """Sums over visits since the last pair, over the weight of all."""

    s: Flat
    y: Flat
    weight: Scalar


class MetricState(NamedTuple):
    """All that is known of the curvature."""

    gathered: Gathered
    pairs: Secants
    metric: Metric


def pairs_of(d: int) -> int:
    """How many are kept."""
    return max(2, min(PAIRS, NUMBERS // d))


def enough_of(N: int) -> float:
    """The part of all weight that a pair needs: few sites may bend otherwise than the mean."""
    return max(ENOUGH, min(MOST_ENOUGH, VISITS / N))


def enough_where(enough: float, differ: Scalar | float) -> Scalar:
    """Where sites differ, a pair of a few of them says little of all."""
    return jnp.minimum(enough * (1 + PATIENT * jnp.asarray(differ)), max(enough, 1.0))


def nothing_learned(d: int, p: int, rank: int, memory: int, dtype) -> MetricState:
    zero = jnp.zeros(d, dtype)
    base = Base(jnp.zeros((p, rank), dtype), jnp.ones(p, dtype))
    pairs = no_pairs(d, memory, dtype)
    gathered = Gathered(zero, zero, jnp.zeros((), dtype))
    # as `assembled` has it: XLA would run its loop over constants while it compiles
    none, one = jnp.zeros(memory, dtype), jnp.ones((), dtype)
    inner = jnp.eye(rank, dtype=dtype)
    metric = Metric(base, inner, one, pairs.s, pairs.s, pairs.s, none, none)
    return MetricState(gathered, pairs, metric)


def learn(
    learned: MetricState,
    more: Gathered,
    l2: float,
    enough: float = ENOUGH,
    differ: Scalar | float = 0.0,
) -> MetricState:
    """With a pair, once enough weight is gathered: the more, the more sites differ."""
    gathered = tree.add(learned.gathered, more)

    def put() -> MetricState:
        s, y, weight = gathered
        base = learned.metric.base
        pairs = put_pair(learned.pairs, base, s / weight, y / weight, l2, differ)
        return MetricState(tree.zeros(gathered), pairs, assembled(base, pairs, l2))

    full = gathered.weight >= enough_where(enough, differ)
    return jax.lax.cond(full, put, lambda: learned._replace(gathered=gathered))


def no_pairs(d: int, memory: int, dtype) -> Secants:
    zeros = jnp.zeros((memory, d), dtype)
    return Secants(zeros, zeros, jnp.zeros((), jnp.int32), jnp.zeros(RATIOS, dtype))


def lifted(learned: MetricState, lift: Scalar, l2: float) -> MetricState:
    """With H₀ that much larger: all of it was too small."""

    def grown() -> MetricState:
        C, rest = learned.metric.base
        pairs = learned.pairs._replace(ratios=jnp.zeros_like(learned.pairs.ratios))
        base = Base(jnp.sqrt(lift) * C, lift * rest)
        return learned._replace(pairs=pairs, metric=assembled(base, pairs, l2))

    return jax.lax.cond(lift > 1, grown, lambda: learned)


def base_energy(metric: Metric, v: Flat, l2: float) -> Scalar:
    """|v|²/2 in H₀ + l2."""
    return (v @ _base_product(metric.base, v) + l2 * (v @ v)) / 2


def put_pair(
    pairs: Secants, base: Base, s: Flat, y: Flat, l2: float, differ: Scalar | float = 0.0
) -> Secants:
    """With (s, y), the oldest left out if there is no room; unchanged where s'y is not above 0, or,
    of sites that differ, so small that M would be far too large along y."""
    sy = s @ y
    shifted = _factored(base, jnp.ones((), s.dtype), 1e-3 * l2)
    ratio = y @ _base_solve(base, *shifted, y) / jnp.where(sy > 0, sy, 1)
    memory = len(pairs.s)
    full = pairs.n >= memory
    at = jnp.minimum(pairs.n, memory - 1)
    keep = lambda rows: jnp.where(full, jnp.roll(rows, -1, 0), rows)
    new = Secants(
        keep(pairs.s).at[at].set(s),
        keep(pairs.y).at[at].set(y),
        at + 1,
        jnp.roll(pairs.ratios, -1).at[-1].set(ratio),
    )
    good = (sy > 0) & jnp.isfinite(ratio) & (ratio * differ <= STEEP)
    return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, pairs)


def gamma_of(pairs: Secants) -> Scalar:
    found = jnp.nanmedian(jnp.where(pairs.ratios > 0, pairs.ratios, jnp.nan))
    return jnp.where(jnp.isfinite(found), jnp.clip(found, *GAMMA), 1.0)


def assembled(base: Base, pairs: Secants, l2: float) -> Metric:
    """M with all pairs, each damped against the M before it."""
    gamma = gamma_of(pairs)
    _, inner = _factored(base, gamma, l2)
    zero, none = jnp.zeros_like(pairs.s), jnp.zeros(len(pairs.s), pairs.s.dtype)
    first = Metric(base, inner, gamma, pairs.s, zero, zero, none, none)

    def step(j, metric: Metric) -> Metric:
        s = pairs.s[j]
        y, u = pairs.y[j] + l2 * s, product(metric, s, l2)
        su, sy = s @ u, s @ y
        t = jnp.where(sy < DAMP * su, (1 - DAMP) * su / (su - sy), 1.0)
        y = t * y + (1 - t) * u
        return metric._replace(
            y=metric.y.at[j].set(y),
            u=metric.u.at[j].set(u),
            sy=metric.sy.at[j].set(s @ y),
            su=metric.su.at[j].set(su),
        )

    return jax.lax.fori_loop(0, pairs.n, step, first)


def product(metric: Metric, v: Flat, l2: float) -> Flat:
    """M v."""
    Mv = metric.gamma * _base_product(metric.base, v) + l2 * v
    return (
        Mv + _over(metric.y @ v, metric.sy) @ metric.y - _over(metric.u @ v, metric.su) @ metric.u
    )


def solve(metric: Metric, r: Flat, l2: float) -> Flat:
    """M⁻¹ r, by the two-loop recursion."""
    m = len(metric.s)
    s, y, rho = metric.s, metric.y, _over(jnp.ones(m, r.dtype), metric.sy)

    def back(k, carry):
        q, a = carry
        j = m - 1 - k
        aj = rho[j] * (s[j] @ q)
        return q - aj * y[j], a.at[j].set(aj)

    q, a = jax.lax.fori_loop(0, m, back, (r, jnp.zeros(m, r.dtype)))
    diagonal = metric.gamma * metric.base.rest + l2
    z = _base_solve(metric.base, diagonal, metric.inner, q, metric.gamma)
    forth = lambda j, z: z + (a[j] - rho[j] * (y[j] @ z)) * s[j]
    return jax.lax.fori_loop(0, m, forth, z)


def _over(a: Array, b: Array) -> Array:
    """a/b, and 0 where b is not above 0."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)


def _base_product(base: Base, v: Flat) -> Flat:
    """H₀ v."""
    V = base.columns(v)
    return (base.C @ (base.C.T @ V) + base.rest[:, None] * V).reshape(-1)


def _factored(
    base: Base, gamma: Scalar, l2: float
) -> tuple[Float[Array, " p"], Float[Array, "r r"]]:
    """diag D and the Cholesky factor of I + γ C'D⁻¹C."""
    diagonal = gamma * base.rest + l2
    C = base.C / jnp.sqrt(diagonal)[:, None]
    return diagonal, jnp.linalg.cholesky(jnp.eye(C.shape[1], dtype=C.dtype) + gamma * C.T @ C)


def _base_solve(
    base: Base,
    diagonal: Float[Array, " p"],
    inner: Float[Array, "r r"],
    r: Flat,
    gamma: float | Scalar = 1.0,
) -> Flat:
    """(γ C C' + D)⁻¹ r, by Woodbury's formula."""
    D = diagonal[:, None]
    z = base.columns(r) / D
    t = jax.scipy.linalg.cho_solve((inner, True), base.C.T @ z)
    return (z - gamma * (base.C @ t) / D).reshape(-1)
