"""The closing exchange: what each site says of its rows at one point w.

Beside value, gradient and Hessian these are two numbers that bound the leverage of its rows,

    M_i = max_j x_j' H⁻¹ x_j,  m_i = max_j |x_j'(w - w_i)|,

H being the Hessian that the server remembers, a sum of ∇²f_i(w_i). As e^{m_i} ∇²f_i(w) >=
∇²f_i(w_i), no leverage at w exceeds e^{max m_i} max M_i. M_i is rounded up to a power of two,
so that it says little about the row it comes from. With several classes x_j' is replaced by
(e_k - e_l)' (x) x_j', for all pairs, the base class included.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar
from ..problems import Regression


class Answer(NamedTuple):
    value: Scalar  # sum_j s_j loss_j, the penalty not counted
    g: Float[Array, " p"]  # nor here
    H: Float[Array, "p p"]  # nor here
    M: Scalar
    m: Scalar
    before: Scalar  # the value at w_i
    size: Scalar  # of what cancels in g: the largest component's sum of absolute values


@eqx.filter_jit
def answers(
    problem: Regression, w: Float[Array, "d k"], seen: Float[Array, "N d k"], inverse: Array
) -> Answer:
    """Every site's answer; `inverse` is H⁻¹ as d k by d k, `seen` holds the w_i."""
    return jax.lax.map(lambda one: answer(one[0], w, one[1], inverse), (problem, seen))


def answer(
    f: Regression, w: Float[Array, "d k"], seen: Float[Array, "d k"], inverse: Float[Array, "p p"]
) -> Answer:
    X = f.X.matmul(jnp.eye(f.X.shape[1]))
    z = f.predict(f.X, w)
    p, (d, k) = f.family.mean(z), w.shape
    g = X.T @ (f.s[:, None] * (p - f.Y))
    curvature = lambda v: f.family.curvature(p, jnp.broadcast_to(v, p.shape))
    C = jax.vmap(curvature, out_axes=2)(jnp.eye(k))
    H = jnp.einsum("n,nd,nkl,ne->dkel", f.s, X, C, X, optimize="optimal").reshape(d * k, d * k)
    M = jnp.max(_leverage(X, inverse.reshape(d, k, d, k)))
    M = 2.0 ** jnp.ceil(jnp.log2(jnp.maximum(M, 1e-300)))
    real = f.s > 0
    m = jnp.max(jnp.where(real, _spread(X @ (w - seen)), 0))
    doubt = jnp.abs(p) + jnp.abs(f.Y) + jnp.diagonal(C, axis1=1, axis2=2) * (abs(X) @ abs(w))
    size = jnp.max(jnp.abs(X).T @ (f.s[:, None] * doubt))
    return Answer(f.data_loss(w), g.reshape(-1), H, M, m, f.data_loss(seen), size)


def _leverage(X: Float[Array, "n d"], inverse: Float[Array, "d k d k"]) -> Float[Array, " n"]:
    """max over pairs k, l of |(e_k - e_l) (x) x|² in the metric of the inverse."""
    T = jnp.einsum("nd,dkel,ne->nkl", X, inverse, X, optimize="optimal")
    T = jnp.pad(T, ((0, 0), (1, 0), (1, 0)))  # the base class
    own = jnp.diagonal(T, axis1=1, axis2=2)
    return jnp.max(own[:, :, None] + own[:, None, :] - T - jnp.swapaxes(T, 1, 2), (1, 2))


def _spread(v: Float[Array, "n k"]) -> Float[Array, " n"]:
    """max over pairs k, l of |v_k - v_l|, the base class at 0 included."""
    return jnp.maximum(jnp.max(v, -1), 0) - jnp.minimum(jnp.min(v, -1), 0)
