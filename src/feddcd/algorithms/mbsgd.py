"""Mini-batch SGD: a round is one gradient step.

    w = w - lr sum_I W_i ∇f_i(w; batch) / sum_I W_i

W_i is the client's total row weight, by which its loss is divided. The model is w.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from .. import tree
from .._settings import number, whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractAveraging, Method, Sends, Stateless, Upload


class Gradient(NamedTuple):
    g: Params
    beta: Scalar  # a bound on the smoothness, for the length of the step


class MinibatchSGD(AbstractAveraging):
    """`batch_size=None` takes all of a client's rows; `lr=None` is 1 over the mean β."""

    sends: ClassVar[Sends] = "gradient"
    rough: ClassVar[bool] = True
    lr: float | None = None
    batch_size: int | None = None

    def client_step(self, f, client: Stateless, down: Params, key: Key):
        f = f.normalised()
        if self.batch_size is not None:
            f = f.batch(jax.random.randint(key, (self.batch_size,), 0, f.rows))
        g = jax.grad(f)(down)
        return client, Upload(Gradient(g, f.beta), tree.norm(g), jnp.ones((), jnp.int32))

    def server_step(self, server: Params, mean: Gradient, share: Scalar):
        lr = 1 / mean.beta if self.lr is None else self.lr
        return tree.axpy(-lr, mean.g, server), None

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f


MBSGD = Method(
    name="mbsgd",
    title="mbsgd",
    about="one mini-batch gradient step in each round",
    reveals="the gradient of a batch of rows; a batch of one row reveals the row",
    algorithm=MinibatchSGD,
    make=lambda given: MinibatchSGD(**given.settings),
    exact=False,
    settings={"lr": number(), "batch_size": whole()},
    needs_rate=True,
    look=("#888888", ":"),
)
