"""L-BFGS at the server (Nocedal 1980), from summed gradients and values; with everyone.

    g = mean ∇f_i(w),    p = -H g by the two-loop recursion over the last pairs (s, y)
    w = w + t p,    t the longest of 1, 1/4, 1/16, ... by Armijo's rule

The first direction is -g/|g|. One exchange a step, one more where t = 1 is too long. A pair
with s'y <= 0 is left out. A round without everyone changes nothing. The model is w.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from .. import tree
from .._settings import whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractStateless, Method, Sends, Stateless, Upload
from ._line_search import Along, Ray, along, judged


class Pairs(NamedTuple):
    """A ring of the last m; those not yet made are 0."""

    s: Float[Array, "m p"]
    y: Float[Array, "m p"]
    made: Int[Array, ""]


class LbfgsServer(NamedTuple):
    ray: Ray
    g: Params  # at ray.w
    pairs: Pairs
    first: Bool[Array, ""]


class LbfgsUpload(NamedTuple):
    g: Params
    seen: Along


class FedLBFGS(AbstractStateless[LbfgsServer, Ray]):
    sends: ClassVar[Sends] = "gradient"
    rough: ClassVar[bool] = True
    memory: int = 10

    def init_server(self, w: Params) -> LbfgsServer:
        flat, one = ravel_pytree(w)[0], jnp.ones((), tree.dot(w, w).dtype)
        none = jnp.zeros((self.memory, flat.size), flat.dtype)
        pairs = Pairs(none, none, jnp.zeros((), jnp.int32))
        return LbfgsServer(Ray(w, tree.zeros(w), one), tree.zeros(w), pairs, jnp.array(True))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: LbfgsServer, key: Key) -> Ray:
        return server.ray

    def client_step(self, f, client: Stateless, down: Ray, key: Key):
        g = jax.grad(f)(down.point)
        upload = LbfgsUpload(g, along(f, down))
        return client, Upload(upload, tree.norm(g), jnp.ones((), jnp.int32))

    def server_step(self, server: LbfgsServer, mean: LbfgsUpload, share: Scalar):
        ray = server.ray
        fine, t = judged(ray, server.g, mean.g, mean.seen)
        accepted = self._next(server, mean.g)
        shorter = server._replace(ray=ray._replace(t=t))
        new = tree.where(fine | server.first, accepted, shorter)
        return tree.where(share > 1 - 1e-9, new, server), None

    def _next(self, server: LbfgsServer, g: Params) -> LbfgsServer:
        """At the end of the ray, where the gradient is g."""
        (now, back), old = ravel_pytree(g), ravel_pytree(server.g)[0]
        s = server.ray.t * ravel_pytree(server.ray.p)[0]
        pairs = _added(server.pairs, s, now - old)
        start = -now / jnp.maximum(jnp.linalg.norm(now), 1e-300)
        p = jnp.where(pairs.made > 0, -_two_loops(pairs, now), start)
        ray = Ray(server.ray.point, back(p), jnp.ones_like(server.ray.t))
        return LbfgsServer(ray, g, pairs, jnp.array(False))

    def model(self, server: LbfgsServer) -> Params:
        return server.ray.w

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f


def _added(pairs: Pairs, s: Array, y: Array) -> Pairs:
    i = pairs.made % len(pairs.s)
    new = Pairs(pairs.s.at[i].set(s), pairs.y.at[i].set(y), pairs.made + 1)
    return tree.where(s @ y > 1e-14 * (s @ s), new, pairs)


def _two_loops(pairs: Pairs, g: Array) -> Array:
    """H g; the k-th latest pair is in row made - k of the ring."""
    m = len(pairs.s)
    row = lambda k: (pairs.made - 1 - k) % m
    over = jnp.sum(pairs.s * pairs.y, 1)
    rho = jnp.where(over > 0, 1 / jnp.where(over > 0, over, 1), 0)  # no pair, no part

    def backward(k, carry):
        q, a = carry
        i = row(k)
        a = a.at[i].set(rho[i] * (pairs.s[i] @ q))
        return q - a[i] * pairs.y[i], a

    def forward(k, r):
        i = row(m - 1 - k)
        return r + (a[i] - rho[i] * (pairs.y[i] @ r)) * pairs.s[i]

    q, a = jax.lax.fori_loop(0, m, backward, (g, jnp.zeros(m, g.dtype)))
    y = pairs.y[row(0)]
    gamma = over[row(0)] / jnp.maximum(y @ y, 1e-300)
    return jax.lax.fori_loop(0, m, forward, gamma * q)


FEDLBFGS = Method(
    name="fedlbfgs",
    title="L-BFGS",
    about="L-BFGS at the server with sums of gradients; needs all clients in every round",
    reveals="this site's gradient and objective at points that the server chose",
    algorithm=FedLBFGS,
    make=lambda given: FedLBFGS(**given.settings),
    exact=True,
    settings={"memory": whole()},
    needs_everyone=True,
    look=("#a03010", "--"),
)
