"""FedNL-PP (Safaryan, Islamov, Qian & Richtárik 2022): Newton with Hessians learned bit by bit.

    D = ∇²f_i(x) - H_i,    S_i = C(D),    H_i = H_i + S_i,    l_i = |D - S_i|_F
    g_i = (H_i + l_i I) x - ∇f_i(x),                                            i in I
    x = (H + l I)⁻¹ g,    H, l, g the means of what clients hold, kept by their changes

C keeps the `rank` leading directions of D, found by subspace iteration, or its `top` largest
entries. They travel as such: rank (d + 1) numbers, or `top` numbers and their places. A client
that was never asked has no part in the means. The model is x.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .. import tree
from .._errors import SpecError
from .._settings import whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractAlgorithm, Method, Sends, Upload
from ._coding import Picked, Ranked, opened

MAX_PARAMETERS = 1000
SWEEPS = 20  # of subspace iteration: fewer compress a little worse, and stay true


class Learned(NamedTuple):
    H: Float[Array, " p_p_1_2"]  # the upper triangle
    shift: Scalar  # l
    g: Float[Array, " p"]


class LearnUpload(NamedTuple):
    H: Any  # Ranked or Picked; opened, a change of the upper triangle
    shift: Scalar
    g: Float[Array, " p"]


class LearnServer(NamedTuple):
    x: Float[Array, " p"]
    means: Learned
    t: Int[Array, ""]


class FedNLPP(AbstractAlgorithm[LearnServer, Learned, Float[Array, " p"], None]):
    sends: ClassVar[Sends] = "hessian"
    like: Params  # any w: gives the structure to the flat vectors
    rank: int = 1
    top: int | None = None

    def __check_init__(self):
        size = sum(x.size for x in jax.tree.leaves(self.like))
        if self.rank > size:
            raise SpecError(
                f"the setting 'rank' must be at most {size}, the number of parameters; "
                f"got rank={self.rank}"
            )
        if self.top is not None and self.top > size * (size + 1) // 2:
            most = size * (size + 1) // 2
            raise SpecError(f"the setting 'top' must be at most {most}, got top={self.top}")

    def init_server(self, w: Params) -> LearnServer:
        flat = ravel_pytree(w)[0]
        return LearnServer(flat, _nothing(flat), jnp.zeros((), jnp.int32))

    def init_client(self, f: AbstractProblem, w: Params) -> Learned:
        return _nothing(ravel_pytree(w)[0])

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: LearnServer, key: Key) -> Float[Array, " p"]:
        return server.x

    def client_step(self, f, client: Learned, down: Float[Array, " p"], key: Key):
        flat = lambda w: f(ravel_pytree(self.like)[1](w))
        grad = jax.grad(flat)(down)
        D = jax.hessian(flat)(down) - _full(client.H, down.size)
        sent = self._kept(D, key)
        S = opened(sent)
        H, shift = client.H + S, jnp.linalg.norm(D - _full(S, down.size))
        new = Learned(H, shift, _full(H, down.size) @ down + shift * down - grad)
        change = LearnUpload(sent, shift - client.shift, new.g - client.g)
        return new, Upload(change, jnp.linalg.norm(grad), jnp.ones((), jnp.int32))

    def _kept(self, D: Float[Array, "p p"], key: Key) -> Ranked | Picked:
        if self.top is not None:
            upper = D[jnp.triu_indices(len(D))]
            _, places = jax.lax.top_k(jnp.abs(upper), self.top)
            return Picked(upper[places], places.astype(jnp.int32), upper.size)
        start = jax.random.normal(key, (len(D), self.rank), D.dtype)
        V = jax.lax.fori_loop(0, SWEEPS, lambda _, V: jnp.linalg.qr(D @ V)[0], start)
        values, turn = jnp.linalg.eigh(V.T @ D @ V)
        return Ranked(V @ turn, values)

    def server_step(self, server: LearnServer, mean: LearnUpload, share: Scalar):
        return _solved(tree.axpy(share, Learned(*mean), server.means), server.t + 1), None

    def client_receive(self, client: Learned, answer: None) -> Learned:
        return client

    def adjusted(self, client: Learned, down: Float[Array, " p"], error: LearnUpload) -> Learned:
        return tree.add(client, Learned(*error))

    def model(self, server: LearnServer) -> Params:
        return ravel_pytree(self.like)[1](server.x)

    def witness(self, client: Learned) -> None:
        return None

    def residuals(self, server: LearnServer, clients: Learned, weights) -> list[Params]:
        return [tree.axpy(-weights.shape[0], server.means.g, tree.total(clients.g))]

    def conserved(self, client: Learned, down: Float[Array, " p"]) -> Learned:
        return client

    def rebalance(self, server: LearnServer, total: Learned, weight: Scalar) -> LearnServer:
        means = tree.scale(1 / weight, total)
        known = _solved(means, server.t)
        return tree.where(jnp.any(means.H != 0), known, server._replace(means=means))

    def joined(self, server: LearnServer, ratio: Scalar) -> LearnServer:
        return server._replace(means=tree.scale(ratio, server.means))  # x stays what it is

    def chosen(self, server: LearnServer) -> dict[str, Scalar]:
        return {"unlearned": server.means.shift}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f


def _nothing(w: Float[Array, " p"]) -> Learned:
    triangle = jnp.zeros(w.size * (w.size + 1) // 2, w.dtype)
    return Learned(triangle, jnp.zeros((), w.dtype), jnp.zeros_like(w))


def _full(triangle: Float[Array, " p_p_1_2"], p: int) -> Float[Array, "p p"]:
    upper = jnp.zeros((p, p), triangle.dtype).at[jnp.triu_indices(p)].set(triangle)
    return upper + jnp.triu(upper, 1).T


def _solved(means: Learned, t: Int[Array, ""]) -> LearnServer:
    p = means.g.size
    x = jnp.linalg.solve(_full(means.H, p) + means.shift * jnp.eye(p, dtype=means.g.dtype), means.g)
    return LearnServer(x, means, t)


FEDNLPP = Method(
    name="fednlpp",
    title="FedNL-PP",
    about=(
        "Newton's method that learns the Hessians in small parts; any number of clients can "
        "take part"
    ),
    reveals="changes of this site's Hessian (in small parts) and of this site's gradient",
    algorithm=FedNLPP,
    make=lambda given: FedNLPP(given.w, **given.settings),
    exact=True,
    settings={"rank": whole(), "top": whole()},
    needs_l2=True,
    matrix_up_to=MAX_PARAMETERS,
    look=("#ffaabb", "-"),
)
