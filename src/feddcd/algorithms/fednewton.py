"""Newton's method with remembered curvature; with everyone present it is IRLS.

A client keeps its latest quadratic model w'H_i w/2 - <b_i, w>, taken at some earlier point,
and uploads the change; the server keeps the means H, b and asks for

    w⁺ = w + t (H⁻¹b - w),    t = 1, 1/2, 1/4, ...

The cohort also reports how far f_i bends between w and w⁺: D = f(w) - f(w⁺) - <∇f(w⁺), w-w⁺>
and its quadratic guess q = |w-w⁺|²_H/2 with the curvature at w⁺. If D and q differ by more
than a factor 8, the step left the region where curvature means anything: it is taken back,
everyone keeps the old models and t is halved. So is a step that raises the objective when
everyone is there to say so. Thus the method cannot run away. Works with l2 = 0: a singular H
gives the step of least length. The model is w, the last point that was accepted.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractAlgorithm, Method, Sends, Upload

Flat = Float[Array, " p"]
MAX_PARAMETERS = 2000
STABLE = 8.0  # the largest D/q, and q/D, of a step that is accepted


class Taylor(NamedTuple):
    """A client's quadratic model w'Hw/2 - <b, w>."""

    H: Float[Array, " p_p_1_2"]  # the upper triangle
    b: Flat


class Points(NamedTuple):
    w: Flat  # the last accepted point
    trial: Flat  # the point to evaluate


class NewtonServer(NamedTuple):
    points: Points
    t: Scalar
    Q: Taylor


class NewtonClient(NamedTuple):
    Q: Taylor
    proposed: Taylor


class NewtonUpload(NamedTuple):
    change: Taylor
    rise: Scalar  # f(trial) - f(w)
    bend: Scalar  # D
    guess: Scalar  # q


class FedNewton(AbstractAlgorithm[NewtonServer, NewtonClient, Points, Bool[Array, ""]]):
    sends: ClassVar[Sends] = "hessian"
    like: Params  # any w: gives the structure to the flat vectors

    def init_server(self, w: Params) -> NewtonServer:
        flat = ravel_pytree(w)[0]
        return NewtonServer(Points(flat, flat), jnp.ones((), flat.dtype), _nothing(flat))

    def init_client(self, f: AbstractProblem, w: Params) -> NewtonClient:
        Q = _nothing(ravel_pytree(w)[0])
        return NewtonClient(Q, Q)

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: NewtonServer, key: Key) -> Points:
        return server.points

    def client_step(self, f, client: NewtonClient, down: Points, key: Key):
        (w, trial), flat = down, self._flat(f)
        value, g = jax.value_and_grad(flat)(trial)
        H = jax.hessian(flat)(trial)
        Q, d = Taylor(H[jnp.triu_indices(w.size)], H @ trial - g), w - trial
        rise = value - flat(w)
        upload = NewtonUpload(tree.sub(Q, client.Q), rise, -rise - g @ d, d @ H @ d / 2)
        one = jnp.ones((), jnp.int32)
        return client._replace(proposed=Q), Upload(upload, jnp.linalg.norm(g), one)

    def server_step(self, server: NewtonServer, mean: NewtonUpload, share: Scalar):
        (w, trial), slack = server.points, 1e-12 * (1 + jnp.abs(mean.rise))
        stable = mean.bend <= STABLE * mean.guess + slack
        stable &= mean.guess <= STABLE * mean.bend + slack
        lower = (share < 1 - 1e-9) | (mean.rise <= slack)
        accept = stable & lower
        Q = tree.where(accept, tree.axpy(share, mean.change, server.Q), server.Q)
        w = jnp.where(accept, trial, w)
        t = jnp.where(accept, jnp.minimum(1, 2 * server.t), server.t / 2)
        return _towards(w, t, Q), accept

    def client_receive(self, client: NewtonClient, answer: Bool[Array, ""]) -> NewtonClient:
        Q = tree.where(answer, client.proposed, client.Q)
        return NewtonClient(Q, Q)

    def adjusted(self, client: NewtonClient, down: Points, error: NewtonUpload) -> NewtonClient:
        return client._replace(proposed=tree.add(client.proposed, error.change))

    def model(self, server: NewtonServer) -> Params:
        return ravel_pytree(self.like)[1](server.points.w)

    def witness(self, client: NewtonClient) -> None:
        return None

    def residuals(self, server: NewtonServer, clients: NewtonClient, weights) -> list[Params]:
        return []

    def conserved(self, client: NewtonClient, down: Points) -> Taylor:
        return client.Q

    def rebalance(self, server: NewtonServer, total: Taylor, weight: Scalar) -> NewtonServer:
        return _towards(server.points.w, server.t, tree.scale(1 / weight, total))

    def joined(self, server: NewtonServer, ratio: Scalar) -> NewtonServer:
        return server._replace(Q=tree.scale(ratio, server.Q))  # the step stays what it is

    def chosen(self, server: NewtonServer) -> dict[str, Scalar]:
        return {"damping": server.t}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f

    def _flat(self, f: AbstractProblem):
        return lambda w: f(ravel_pytree(self.like)[1](w))


def _nothing(w: Flat) -> Taylor:
    return Taylor(jnp.zeros(w.size * (w.size + 1) // 2, w.dtype), jnp.zeros_like(w))


def _towards(w: Flat, t: Scalar, Q: Taylor) -> NewtonServer:
    return NewtonServer(Points(w, w + t * _step(Q, w)), t, Q)


def _step(Q: Taylor, w: Flat) -> Flat:
    """The shortest step from w to a minimiser of Q."""
    p = w.size
    upper = jnp.zeros((p, p), w.dtype).at[jnp.triu_indices(p)].set(Q.H)
    H = upper + jnp.triu(upper, 1).T
    r = Q.b - H @ w
    L = jnp.linalg.cholesky(H)
    pivots = jnp.diag(L) ** 2
    regular = jnp.min(pivots) > 1e-11 * jnp.max(pivots)  # false for nan, too
    solve = lambda: jax.scipy.linalg.cho_solve((L, True), r)
    return jax.lax.cond(regular, solve, lambda: _pseudo_solve(H, r))


def _pseudo_solve(H: Float[Array, "p p"], r: Flat) -> Flat:
    values, vectors = jnp.linalg.eigh(H)
    known = values > 1e-11 * jnp.maximum(values[-1], 1e-300)
    return vectors @ (jnp.where(known, vectors.T @ r, 0) / jnp.where(known, values, 1))


FEDNEWTON = Method(
    name="fednewton",
    title="FedNewton",
    about=(
        "Newton's method with the last known curvature of each client; the same as IRLS if all "
        "clients take part"
    ),
    reveals="in each round, how much this site's Hessian and gradient changed",
    algorithm=FedNewton,
    make=lambda given: FedNewton(given.w),
    exact=True,
    matrix_up_to=MAX_PARAMETERS,
    look=("#aa4499", "-"),
)
