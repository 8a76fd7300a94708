"""GIANT (Wang et al. 2018): the clients' own Newton directions, averaged; with everyone.

    g = mean ∇f_i(w)                                                 first exchange
    p_i = -(∇²f_i(w))⁻¹ g,    p = mean p_i                           second exchange
    w = w + t p,    t the longest of 1, 1/4, 1/16, ... by Armijo's rule

The values that the rule needs come with the gradient at w + p, which is the next iteration's g if
t = 1; else one exchange more. A round without everyone changes nothing. The model is w.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .. import tree
from .._settings import number, whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractStateless, Method, Sends, Stateless, Upload
from ._line_search import Along, Ray, along, judged


class GiantServer(NamedTuple):
    ray: Ray  # from the last accepted point
    g: Params  # there
    ask: Bool[Array, ""]  # for directions; else for the gradient at the ray's point
    first: Bool[Array, ""]


class GiantDown(NamedTuple):
    ray: Ray
    g: Params
    ask: Bool[Array, ""]


class GiantUpload(NamedTuple):
    vector: Params  # a gradient or a direction
    seen: Along


class Giant(AbstractStateless[GiantServer, GiantDown]):
    """Directions by conjugate gradients, to `tol` of |g| or `max_steps`."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    kinds: ClassVar[int] = 2
    tol: float = 1e-8
    max_steps: int = 200

    @property
    def rounds_per_iteration(self) -> int:
        return 2

    def kind(self, down: GiantDown) -> Int[Array, ""]:
        return down.ask.astype(jnp.int32)

    def init_server(self, w: Params) -> GiantServer:
        zero, one = tree.zeros(w), jnp.ones((), tree.dot(w, w).dtype)
        return GiantServer(Ray(w, zero, one), zero, jnp.array(False), jnp.array(True))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: GiantServer, key: Key) -> GiantDown:
        return GiantDown(server.ray, server.g, server.ask)

    def client_step(self, f, client: Stateless, down: GiantDown, key: Key):
        def direction() -> Params:
            _, hvp = jax.linearize(jax.grad(f), down.ray.w)
            b, most = tree.scale(-1.0, down.g), self.max_steps
            return jax.scipy.sparse.linalg.cg(hvp, b, tol=self.tol, maxiter=most)[0]

        vector = jax.lax.cond(down.ask, direction, lambda: jax.grad(f)(down.ray.point))
        nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(lambda: along(f, down.ray)))
        seen = jax.lax.cond(down.ask, lambda: nothing, lambda: along(f, down.ray))
        upload = GiantUpload(vector, seen)
        return client, Upload(upload, jnp.zeros_like(f.mu), jnp.ones((), jnp.int32))

    def server_step(self, server: GiantServer, mean: GiantUpload, share: Scalar):
        ray, one = server.ray, jnp.ones_like(server.ray.t)
        # a direction has come: ask for the gradient at its end
        tried = server._replace(ray=Ray(ray.w, mean.vector, one), ask=jnp.array(False))
        # a gradient has come: ask for directions there, or for the gradient nearer by
        fine, t = judged(ray, server.g, mean.vector, mean.seen)
        there = Ray(ray.point, tree.zeros(ray.p), one)
        no = jnp.array(False)
        accepted = GiantServer(there, mean.vector, jnp.array(True), no)
        shorter = server._replace(ray=ray._replace(t=t))
        new = tree.where(fine | server.first, accepted, shorter)
        new = tree.where(server.ask, tried, new)
        return tree.where(share > 1 - 1e-9, new, server), None

    def model(self, server: GiantServer) -> Params:
        return server.ray.w

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f


GIANT = Method(
    name="giant",
    title="GIANT",
    about="the mean of local Newton directions; needs all clients in every round",
    reveals="a gradient and a Newton direction of this site",
    algorithm=Giant,
    make=lambda given: Giant(**given.settings),
    exact=True,
    settings={"tol": number(), "max_steps": whole()},
    needs_everyone=True,
    needs_l2=True,
    look=("#999933", "-"),
)
