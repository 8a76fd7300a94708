"""What Scaffnew and TAMUNA share: local gradient steps, as many as all drew in common.

    x_i = K steps x ← x - γ_i (∇f_i(x) - h_i) from the model,    K ~ geometric(p),    i in I
    w = sum_I x_i/γ_i / sum_I 1/γ_i,    h_i = h_i + (η/γ_i) (w - x_i)

with γ_i = 1/β_i unless `lr` is given: each client has its own step, so what decides the rate is
the mean of β_i/α_i and not the largest β over the smallest α. Sum h_i is 0. In round 0, in which
κ is told, K and p are 1. The model is w.
"""

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import GradientDescent
from ._base import AbstractAlgorithm, Upload


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
    part: Params | None  # 1 where the coordinate was sent; None where all are
    weight: Scalar  # 1/γ


class SkipUpload(NamedTuple):
    x: Params
    part: Params | None
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
    def chosen_part(self, w: Params, key: Key) -> Params | None:
        """1 for the coordinates that a client sends; None: all."""

    def init_server(self, w: Params) -> SkipServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        return SkipServer(w, one, jnp.zeros((), jnp.int32), tree.zeros(w))

    def init_client(self, f: AbstractProblem, w: Params) -> SkipClient:
        part = self.chosen_part(w, jax.random.key(0))
        return SkipClient(tree.zeros(w), w, part, self.weight(f))

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.beta if self.lr is None else jnp.full_like(f.beta, 1 / self.lr)

    def broadcast(self, server: SkipServer, key: Key) -> SkipDown:
        p = self._p(server)
        return SkipDown(server.w, jax.random.geometric(key, p, dtype=jnp.int32), p)

    def client_step(self, f, client: SkipClient, down: SkipDown, key: Key):
        solver = GradientDescent(self.lr, steps=down.steps)
        x, grad_norm, steps = solver(f.tilted(client.h), down.w, key)
        part = self.chosen_part(x, key)
        sent = x if part is None else jax.tree.map(jnp.multiply, part, x)
        upload = SkipUpload(sent, part, client.weight / f.alpha)
        return client._replace(x=x, part=part), Upload(upload, grad_norm, steps)

    def server_step(self, server: SkipServer, mean: SkipUpload, share: Scalar):
        eta, part = self.chi * self._p(server), mean.part
        if part is None:
            w, excess = mean.x, tree.zeros(server.excess)
            shift = server.excess
        else:  # what nobody sent stays as it was
            over = lambda a, b, c: jnp.where(c > 0, a / jnp.where(c > 0, c, 1), b)
            w = jax.tree.map(over, mean.x, server.w, part)
            shift = jax.tree.map(over, server.excess, tree.zeros(w), part)
            excess = jax.tree.map(lambda e, c: jnp.where(c > 0, 0, e), server.excess, part)
        answer = SkipAnswer(tree.axpy(-1 / (eta * share), shift, w), eta)
        kappa = jnp.where(server.t == 0, mean.kappa, server.kappa)
        return SkipServer(w, kappa, server.t + 1, excess), answer

    def client_receive(self, client: SkipClient, answer: SkipAnswer) -> SkipClient:
        d = tree.sub(answer.w, client.x)
        d = d if client.part is None else jax.tree.map(jnp.multiply, client.part, d)
        return client._replace(h=tree.axpy(answer.eta * client.weight, d, client.h))

    def adjusted(self, client: SkipClient, down: SkipDown, error: SkipUpload) -> SkipClient:
        part = None if client.part is None else tree.add(client.part, error.part)
        return client._replace(x=tree.add(client.x, error.x), part=part)

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
