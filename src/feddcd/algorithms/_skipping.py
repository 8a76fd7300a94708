"""What Scaffnew and TAMUNA share: local gradient steps, as many as all drew in common.

    x_i = K steps x ← x - γ_i (∇f_i(x) - h_i) from the model,    K ~ geometric(p),    i in I
    w = sum_I x_i/γ_i / sum_I 1/γ_i,    h_i = h_i + (η/γ_i) (w - x_i)

with γ_i = 1/β_i unless `lr` is given: each client has its own step, so what decides the rate is
the mean of β_i/α_i and not the largest β over the smallest α. Sum h_i is 0. In round 0, in which
κ is told, K and p are 1. The model is w.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import GradientDescent
from ._base import AbstractAlgorithm, Upload
from ._coding import Coded, Picked


class SkipServer(NamedTuple):
    w: Params
    kappa: Scalar  # 1/(γ_i α_i), mean
    t: Int[Array, ""]
    excess: Params  # sum h_i over the weights', to be taken away by the next answer


class SkipDown(NamedTuple):
    w: Params
    steps: Int[Array, ""]
    p: Scalar


class SkipAnswer(NamedTuple):
    w: Params
    eta: Scalar


class SkipClient(NamedTuple):
    h: Params
    x: Params
    part: Array | None  # flat, 1 where the coordinate was sent; None where all are
    weight: Scalar  # 1/γ


class SkipUpload(NamedTuple):
    """Where only a part is sent, x is flat and zero elsewhere, and `part` says where: the mean of
    the one over that of the other is the mean over those who sent a coordinate."""

    x: Any
    part: Any
    kappa: Scalar


class AbstractSkipping(AbstractAlgorithm[SkipServer, SkipClient, SkipDown, SkipAnswer]):
    lr: float | None = None
    p: float | None = None

    @property
    @abc.abstractmethod
    def spread(self) -> float:
        """p = sqrt(spread/κ)."""

    @property
    @abc.abstractmethod
    def chi(self) -> float:
        """η = χ p."""

    @abc.abstractmethod
    def places(self, size: int, key: Key) -> Int[Array, " k"] | None:
        """The coordinates that a client sends; None: all."""

    def init_server(self, w: Params) -> SkipServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        return SkipServer(w, one, jnp.zeros((), jnp.int32), tree.zeros(w))

    def init_client(self, f: AbstractProblem, w: Params) -> SkipClient:
        flat = ravel_pytree(w)[0]
        some = self.places(flat.size, jax.random.key(0)) is not None
        part = jnp.zeros_like(flat) if some else None
        return SkipClient(tree.zeros(w), w, part, self.weight(f))

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.beta if self.lr is None else jnp.full_like(f.beta, 1 / self.lr)

    def broadcast(self, server: SkipServer, key: Key) -> SkipDown:
        p = self._p(server)
        return SkipDown(server.w, jax.random.geometric(key, p, dtype=jnp.int32), p)

    def client_step(self, f, client: SkipClient, down: SkipDown, key: Key):
        solver = GradientDescent(self.lr, steps=down.steps)
        x, grad_norm, steps = solver(f.tilted(client.h), down.w, key)
        flat, kappa = ravel_pytree(x)[0], client.weight / f.alpha
        places = self.places(flat.size, key)
        if places is None:
            return client._replace(x=x), Upload(SkipUpload(x, None, kappa), grad_norm, steps)
        part = jnp.zeros(flat.size, jnp.int8).at[places].set(1)
        sent = SkipUpload(Picked(flat[places], places, flat.size), Coded(part, None), kappa)
        new = client._replace(x=x, part=part.astype(flat.dtype))
        return new, Upload(sent, grad_norm, steps)

    def server_step(self, server: SkipServer, mean: SkipUpload, share: Scalar):
        eta, part = self.chi * self._p(server), mean.part
        if part is None:
            w, excess = mean.x, tree.zeros(server.excess)
            shift = server.excess
        else:  # what nobody sent stays as it was
            (old, back), left = ravel_pytree(server.w), ravel_pytree(server.excess)[0]
            over = lambda a, b: jnp.where(part > 0, a / jnp.where(part > 0, part, 1), b)
            w, shift = back(over(mean.x, old)), back(over(left, jnp.zeros_like(left)))
            excess = back(jnp.where(part > 0, 0, left))
        answer = SkipAnswer(tree.axpy(-1 / (eta * share), shift, w), eta)
        kappa = jnp.where(server.t == 0, mean.kappa, server.kappa)
        return SkipServer(w, kappa, server.t + 1, excess), answer

    def client_receive(self, client: SkipClient, answer: SkipAnswer) -> SkipClient:
        d = tree.sub(answer.w, client.x)
        if client.part is not None:
            flat, back = ravel_pytree(d)
            d = back(client.part * flat)
        return client._replace(h=tree.axpy(answer.eta * client.weight, d, client.h))

    def adjusted(self, client: SkipClient, down: SkipDown, error: SkipUpload) -> SkipClient:
        if client.part is None:
            return client._replace(x=tree.add(client.x, error.x))
        flat, back = ravel_pytree(client.x)
        return client._replace(x=back(flat + error.x), part=client.part + error.part)

    def model(self, server: SkipServer) -> Params:
        return server.w

    def witness(self, client: SkipClient) -> None:
        return None

    def residuals(self, server: SkipServer, clients: SkipClient, weights: Array) -> list[Params]:
        return [tree.axpy(-jnp.sum(weights), server.excess, tree.total(clients.h))]

    def conserved(self, client: SkipClient, down: SkipDown) -> Params:
        return client.h

    def rebalance(self, server: SkipServer, total: Params, weight: Scalar) -> SkipServer:
        return server._replace(excess=tree.scale(1 / weight, total))

    def joined(self, server: SkipServer, ratio: Scalar) -> SkipServer:
        return server._replace(excess=tree.scale(ratio, server.excess))

    def chosen(self, server: SkipServer) -> dict[str, Scalar]:
        return {"p": self._p(server), "condition": server.kappa}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f

    def _p(self, server: SkipServer) -> Scalar:
        if self.p is not None:
            return jnp.full_like(server.kappa, self.p)
        usual = jnp.minimum(1, jnp.sqrt(self.spread / server.kappa))
        return jnp.where(server.t > 0, usual, 1)
