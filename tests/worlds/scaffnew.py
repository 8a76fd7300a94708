"""Scaffnew (ProxSkip, Mishchenko et al. 2022), whose clients take as many local steps as all drew
in common: what `broadcast`'s key and a traced number of steps are for.

    x_i = K steps x ← x - γ (∇f_i(x) - h_i) from the model,    K ~ geometric(p)
    w = mean of all x_i,    h_i = h_i + (p/γ) (w - x_i)

It needs everyone in every round. Sum h_i is 0.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from feddcd import tree
from feddcd.algorithms import AbstractAlgorithm, Sends, Upload
from feddcd.solvers import GradientDescent


class ScaffnewDown(NamedTuple):
    w: jax.Array
    steps: jax.Array


class ScaffnewClient(NamedTuple):
    h: jax.Array
    x: jax.Array


class Scaffnew(AbstractAlgorithm):
    sends: ClassVar[Sends] = "model"
    gamma: float
    p: float

    @property
    def rounds_per_iteration(self):
        return 1

    def init_server(self, w):
        return w

    def init_client(self, f, w):
        return ScaffnewClient(tree.zeros(w), w)

    def weight(self, f):
        return jnp.ones_like(f.mu)

    def broadcast(self, server, key):
        return ScaffnewDown(server, jax.random.geometric(key, self.p, dtype=jnp.int32))

    def client_step(self, f, client, down, key):
        solver = GradientDescent(self.gamma, steps=down.steps)
        x, grad_norm, steps = solver(f.tilted(client.h), down.w, key)
        return client._replace(x=x), Upload(x, grad_norm, steps)

    def server_step(self, server, mean, share):
        return mean, mean

    def client_receive(self, client, answer):
        h = tree.axpy(self.p / self.gamma, tree.sub(answer, client.x), client.h)
        return client._replace(h=h)

    def adjusted(self, client, down, error):
        return client._replace(x=tree.add(client.x, error))

    def model(self, server):
        return server

    def witness(self, client):
        return None

    def residuals(self, server, clients, weights):
        return [tree.total(clients.h)]

    def conserved(self, client, down):
        return client.h

    def rebalance(self, server, total, weight):
        return server

    def joined(self, server, ratio):
        return server

    def chosen(self, server):
        return {}

    def prepare(self, f):
        return f
