"""Mime (Karimireddy et al. 2021): local steps that mimic centralised momentum; two exchanges.

    c = mean_I ∇f_i(x)                                               first exchange
    y_i = K steps y ← y - lr ((1-b)(∇f_i(y) - ∇f_i(x) + c) + b m) from x
    x = mean_I y_i,    m = (1-b) c + b m                             second exchange

Momentum m is held while clients step. With everyone and full local gradients its fixed point is
the optimum; with a part of the clients c is a sample, and it ends in a floor. The model is x.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._errors import SpecError
from .._settings import number
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractFixedRateSolver, GradientDescent
from ._base import AbstractStateless, Given, Method, Sends, Stateless, Upload


class MimeServer(NamedTuple):
    x: Params
    c: Params
    m: Params
    t: Int[Array, ""]


class Mime(AbstractStateless[MimeServer, MimeServer]):
    """A step of `solver` has the length lr (1 - momentum)."""

    sends: ClassVar[Sends] = "model"
    kinds: ClassVar[int] = 2
    solver: AbstractFixedRateSolver = GradientDescent(steps=5)
    momentum: float = 0.0

    @property
    def rounds_per_iteration(self) -> int:
        return 2

    def kind(self, down: MimeServer) -> Int[Array, ""]:
        return down.t % 2

    def init_server(self, w: Params) -> MimeServer:
        return MimeServer(w, tree.zeros(w), tree.zeros(w), jnp.zeros((), jnp.int32))

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: MimeServer, key: Key) -> MimeServer:
        return server

    def client_step(self, f, client: Stateless, down: MimeServer, key: Key):
        f = f.normalised()
        own = jax.grad(f)(down.x)

        def stepped():
            held = self.momentum / (1 - self.momentum)
            tilt = tree.axpy(-held, down.m, tree.sub(own, down.c))
            return tuple(self.solver(f.tilted(tilt), down.x, key))

        plain = lambda: (own, tree.norm(own), jnp.ones((), jnp.int32))
        return client, Upload(*jax.lax.cond(down.t % 2 == 0, plain, stepped))

    def server_step(self, server: MimeServer, mean: Params, share: Scalar):
        even, after = server.t % 2 == 0, server.t + 1
        m = tree.lerp(self.momentum, server.c, server.m)
        asked, moved = MimeServer(server.x, mean, server.m, after), MimeServer(mean, mean, m, after)
        return tree.where(even, asked, moved), None

    def model(self, server: MimeServer) -> Params:
        return server.x

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


def _make(given: Given) -> Mime:
    if not isinstance(given.solver, AbstractFixedRateSolver):
        name = type(given.solver).__name__
        raise SpecError(
            f"mime needs a solver with steps of a fixed size: use sgd or gd, not {name}"
        )
    return Mime(given.solver, **given.settings)


def _below_one(name: str, value: object) -> float:
    real = number(positive=False)(name, value)
    if real >= 1:
        raise SpecError(f"need 0 <= {name} < 1, got {name}={value}")
    return real


MIME = Method(
    name="mime",
    title="Mime",
    about=(
        "local steps with the server's momentum (the gap reaches zero only if all clients take "
        "part)"
    ),
    reveals="a gradient, and the common model after training steps on this site's rows",
    algorithm=Mime,
    make=_make,
    exact=False,
    settings={"momentum": _below_one},
    solver="sgd",
    look=("#ee8866", "--"),
)
