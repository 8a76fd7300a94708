"""Mini-batch SGD: a round is one gradient step.

    w = w - lr sum_I W_i ∇f_i(w; batch) / sum_I W_i

W_i is the client's total row weight, by which its loss is divided. The model is w.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractAlgorithm, Upload
from .fedavg import Stateless


class Gradient(NamedTuple):
    g: Params
    beta: Scalar  # a bound on the smoothness, for the length of the step


class MinibatchSGD(AbstractAlgorithm[Params, Stateless, Params, None]):
    """`batch_size=None` takes all of a client's rows; `lr=None` is 1 over the mean β."""

    lr: float | None = None
    batch_size: int | None = None

    @property
    def rounds_per_iteration(self) -> int:
        return 1

    def init_server(self, w: Params) -> Params:
        return w

    def init_client(self, f: AbstractProblem, w: Params) -> Stateless:
        return Stateless()

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: Params) -> Params:
        return server

    def client_step(self, f, client: Stateless, down: Params, key: Key):
        f = f.normalised()
        if self.batch_size is not None:
            f = f.batch(jax.random.randint(key, (self.batch_size,), 0, f.rows))
        g = jax.grad(f)(down)
        return client, Upload(Gradient(g, f.beta), tree.norm(g), jnp.ones((), jnp.int32))

    def server_step(self, server: Params, mean: Gradient, share: Scalar):
        lr = 1 / mean.beta if self.lr is None else self.lr
        return tree.axpy(-lr, mean.g, server), None

    def client_receive(self, client: Stateless, answer: None) -> Stateless:
        return client

    def model(self, server: Params) -> Params:
        return server

    def witness(self, client: Stateless) -> None:
        return None

    def residuals(self, server: Params, clients: Stateless, weights) -> list[Params]:
        return []

    def conserved(self, client: Stateless, down: Params) -> None:
        return None

    def rebalance(self, server: Params, total: None, weight: Scalar) -> Params:
        return server

    def joined(self, server: Params, ratio: Scalar) -> Params:
        return server

    def chosen(self, server: Params) -> dict[str, Scalar]:
        return {}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f
