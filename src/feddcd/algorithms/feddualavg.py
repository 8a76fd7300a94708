"""Federated dual averaging (Yuan, Zaheer & Reddi 2021), with the l2 term as the regulariser.

    z_i = z,    K times: w = z_i/(1 + η μ),  z_i ← z_i - lr ∇loss_i(w),  η ← η + lr
    z = mean_I z_i,    η = lr K (rounds so far)

Duals are averaged, not models: z/(1 + η μ) minimises -<z, w> + |w|²/2 + η (μ/2)|w|², so the
regulariser stays outside of the average. lr = lr_0/sqrt(1 + t). Biased when clients differ, less
as lr falls. The model is z/(1 + η μ).
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._settings import number, whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractStateless, Method, Sends, Stateless, Upload


class AveragingServer(NamedTuple):
    z: Params
    eta: Scalar  # lengths of all steps so far
    beta: Scalar  # of the first cohort, mean
    mu: Scalar
    t: Int[Array, ""]


class AveragingDown(NamedTuple):
    z: Params
    eta: Scalar
    lr: Scalar  # 0 in round 0 if it is not yet known


class AveragingUpload(NamedTuple):
    move: Params
    beta: Scalar
    mu: Scalar


class FedDualAvg(AbstractStateless[AveragingServer, AveragingDown]):
    """`lr=None` is 1/β at first, from round 0, in which nothing moves; `fall` 0 keeps it."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    lr: float | None = None
    steps: int = 5
    fall: float = 0.5

    def init_server(self, w: Params) -> AveragingServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        return AveragingServer(w, 0 * one, one, 0 * one, jnp.zeros((), jnp.int32))

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: AveragingServer, key: Key) -> AveragingDown:
        return AveragingDown(server.z, server.eta, self._rate(server))

    def client_step(self, f, client: Stateless, down: AveragingDown, key: Key):
        f = f.normalised()
        tilt = tree.zeros(down.z) if f.q is None else f.q

        def step(k, z):
            w = tree.scale(1 / (1 + (down.eta + k * down.lr) * f.mu), z)
            return tree.axpy(-down.lr, tree.sub(jax.grad(f.loss)(w), tilt), z)

        move = tree.sub(jax.lax.fori_loop(0, self.steps, step, down.z), down.z)
        upload = AveragingUpload(move, f.beta, f.mu)
        return client, Upload(upload, jnp.zeros_like(f.mu), jnp.asarray(self.steps, jnp.int32))

    def server_step(self, server: AveragingServer, mean: AveragingUpload, share: Scalar):
        first, length = server.t == 0, self.steps * self._rate(server)
        beta = jnp.where(first, mean.beta, server.beta)
        z, mu = tree.add(server.z, mean.move), jnp.where(first, mean.mu, server.mu)
        return AveragingServer(z, server.eta + length, beta, mu, server.t + 1), None

    def model(self, server: AveragingServer) -> Params:
        return tree.scale(1 / (1 + server.eta * server.mu), server.z)

    def chosen(self, server: AveragingServer) -> dict[str, Scalar]:
        return {"lr": self._rate(server)}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f

    def _rate(self, server: AveragingServer) -> Scalar:
        t = server.t.astype(server.eta.dtype)
        if self.lr is not None:
            return self.lr * (1 + t) ** -self.fall
        return jnp.where(server.t > 0, 1 / server.beta, 0) * (1 + t) ** -self.fall


FEDDUALAVG = Method(
    name="feddualavg",
    title="FedDualAvg",
    about="federated dual averaging (its result is biased if clients differ)",
    reveals="the common model after training steps on this site's rows",
    algorithm=FedDualAvg,
    make=lambda given: FedDualAvg(**given.settings),
    exact=False,
    settings={"lr": number(), "steps": whole(), "fall": number(positive=False, most=1)},
    needs_rate=True,
    look=("#77aadd", "--"),
)
