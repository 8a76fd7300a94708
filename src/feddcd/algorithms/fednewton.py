"""Newton's method with remembered curvature; with everyone present it is IRLS.

A client keeps its latest quadratic model Q_i(w) = w'H_i w/2 - <b_i, w> + c_i, taken at some
earlier point, and uploads the change; the server keeps the means H, b, c and asks for

    w⁺ = w + t (argmin Q - w),    t = 1, 1/2, 1/4, ...

The cohort reports how much its true values at w⁺ exceed what its old models said. If that
eats up the decrease that Q promised, the step is taken back: w stays, everyone keeps the
old models and t is halved; so the method cannot run away. Works with l2 = 0: a singular H
gives the step of least length. The model is w, the last point that was accepted.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractAlgorithm, Upload


class Model(NamedTuple):
    """The upper triangle of H, b and c of w'Hw/2 - <b, w> + c."""

    H: Float[Array, " p*(p+1)/2"]
    b: Float[Array, " p"]
    c: Scalar


class NewtonServer(NamedTuple):
    w: Float[Array, " p"]  # the last accepted point
    trial: Float[Array, " p"]  # the point that the next cohort evaluates
    t: Scalar
    Q: Model


class NewtonClient(NamedTuple):
    Q: Model
    proposed: Model
    known: Bool[Array, ""]


class NewtonChange(NamedTuple):
    Q: Model
    excess: Scalar  # f(trial) - Q(trial), 0 for a client's first model


class FedNewton(AbstractAlgorithm[NewtonServer, NewtonClient, Params, Bool[Array, ""]]):
    like: Params  # any w: gives the structure to the flat vectors
    rounds_per_iteration: int = 1

    def init_server(self, w: Params) -> NewtonServer:
        flat = ravel_pytree(w)[0]
        return NewtonServer(flat, flat, jnp.ones((), flat.dtype), _nothing(flat))

    def init_client(self, f: AbstractProblem, w: Params) -> NewtonClient:
        Q = _nothing(ravel_pytree(w)[0])
        return NewtonClient(Q, Q, jnp.array(False))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: NewtonServer) -> Params:
        return server.trial

    def client_step(self, f, client: NewtonClient, down: Float[Array, " p"], key: Key):
        Q = self._expansion(f, down)
        excess = jnp.where(client.known, _value(Q, down) - _value(client.Q, down), 0)
        norm = jnp.linalg.norm(_matrix(Q, down.size) @ down - Q.b)
        change = NewtonChange(tree.sub(Q, client.Q), excess)
        return client._replace(proposed=Q), Upload(change, norm, jnp.ones((), jnp.int32))

    def server_step(self, server: NewtonServer, mean: NewtonChange, share: Scalar):
        promised = _value(server.Q, server.w) - _value(server.Q, server.trial)
        slack = 1e-12 * (1 + jnp.abs(server.Q.c))
        accept = share * mean.excess <= (1 - 1e-4) * promised + slack
        Q = tree.where(accept, tree.axpy(share, mean.Q, server.Q), server.Q)
        w = jnp.where(accept, server.trial, server.w)
        t = jnp.where(accept, jnp.minimum(1, 2 * server.t), server.t / 2)
        return NewtonServer(w, w + t * _step(Q, w), t, Q), accept

    def client_receive(self, client: NewtonClient, answer: Bool[Array, ""]) -> NewtonClient:
        Q = tree.where(answer, client.proposed, client.Q)
        return NewtonClient(Q, Q, client.known | answer)

    def model(self, server: NewtonServer) -> Params:
        return ravel_pytree(self.like)[1](server.w)

    def witness(self, client: NewtonClient) -> None:
        return None

    def residuals(self, server: NewtonServer, clients: NewtonClient, weights) -> list[Params]:
        return []

    def chosen(self, server: NewtonServer) -> dict[str, Scalar]:
        return {"damping": server.t}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f

    def _expansion(self, f: AbstractProblem, w: Float[Array, " p"]) -> Model:
        """f's second-order Taylor polynomial at w."""
        flat = lambda w: f(ravel_pytree(self.like)[1](w))
        value, g = jax.value_and_grad(flat)(w)
        H = jax.hessian(flat)(w)
        b = H @ w - g
        return Model(H[jnp.triu_indices(w.size)], b, value - g @ w + w @ H @ w / 2)


def _nothing(w: Float[Array, " p"]) -> Model:
    p = w.size
    return Model(jnp.zeros(p * (p + 1) // 2, w.dtype), jnp.zeros_like(w), jnp.zeros((), w.dtype))


def _matrix(Q: Model, p: int) -> Float[Array, "p p"]:
    upper = jnp.zeros((p, p), Q.H.dtype).at[jnp.triu_indices(p)].set(Q.H)
    return upper + jnp.triu(upper, 1).T


def _value(Q: Model, w: Float[Array, " p"]) -> Scalar:
    return w @ _matrix(Q, w.size) @ w / 2 - Q.b @ w + Q.c


def _step(Q: Model, w: Float[Array, " p"]) -> Float[Array, " p"]:
    """The shortest step from w to a minimiser of Q."""
    H = _matrix(Q, w.size)
    values, vectors = jnp.linalg.eigh(H)
    floor = 1e-11 * jnp.maximum(values[-1], 1e-300)
    inverse = jnp.where(values > floor, 1 / jnp.where(values > floor, values, 1), 0)
    return vectors @ (inverse * (vectors.T @ (Q.b - H @ w)))
