"""Any method in fewer bits: changes of what a client sent before, rounded.

    q_i = code(value_i - h_i),    h_i = h_i + opened(q_i)        client, and the server's note of it
    mean = sum_I weight_i (h_i + q_i) / sum_I weight_i           server

h_i is what the server takes for the client's value. The client goes on as if it had sent just that
(`adjusted`), so that what a method conserves stays so. Single numbers are no changes: they travel
in 16 bits where the method calls them `rough`, and else as they are. Where kinds of uploads take
turns there is an h_i for each, or no change between two would ever be small.
"""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from .. import tree
from .._errors import SpecError
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractAlgorithm, Sends
from ._coding import (
    BITS,
    Bits,
    Brief,
    Coded,
    Extra,
    Picked,
    Ranked,
    Square,
    code,
    code_brief,
    opened,
)
from ._promise import Promise
from ._recalling import AbstractRecalling, Recalled
from .fedqn import FedQN


class ShortClient(NamedTuple):
    own: PyTree
    h: PyTree  # of all kinds, stacked if there are several


class Shortened(AbstractRecalling[PyTree, ShortClient, PyTree, PyTree]):
    sends: ClassVar[Sends] = "model"  # who asks for the kind asks the method's row
    follows: ClassVar[Literal["rounds", "uploads"]] = "uploads"
    method: AbstractAlgorithm
    bits: Bits
    nothing: PyTree  # an upload of zeros

    @property
    def rounds_per_iteration(self) -> int:
        return self.method.rounds_per_iteration

    def init_server(self, w: Params) -> PyTree:
        return self.method.init_server(w)

    def init_client(self, f: AbstractProblem, w: Params) -> ShortClient:
        return ShortClient(self.method.init_client(f, w), self.first_note(w))

    def weight(self, f: AbstractProblem) -> Scalar:
        return self.method.weight(f)

    def broadcast(self, server: PyTree, key: Key) -> PyTree:
        return self.method.broadcast(server, key)

    def addressed(self, down: PyTree, place: Int[Array, ""], asked: Int[Array, ""]) -> PyTree:
        return self.method.addressed(down, place, asked)

    def client_step(self, f, client: ShortClient, down: PyTree, key: Key):
        own, up = self.method.client_step(f, client.own, down, key)
        kind = self.method.kind(down)
        coded = jax.tree.map(self._code, up.value, self._of(client.h, kind))
        h = self._follow(client.h, opened(coded), kind)
        gap = lambda h, x: h - x if x.ndim else jnp.zeros_like(x)
        error = jax.tree.map(gap, self._of(h, kind), up.value)
        return ShortClient(self.method.adjusted(own, down, error), h), up._replace(value=coded)

    def _code(self, x: Array, h: Array) -> PyTree:
        if x.ndim:
            return code(x - h, self.bits)
        if not self.method.rough:
            return x
        return code_brief(x) if self.bits < 32 else code(x, 32)

    def _of(self, h: PyTree, kind: Int[Array, ""]) -> PyTree:
        return h if self.method.kinds == 1 else tree.take(h, kind)

    def _follow(self, h: PyTree, sent: PyTree, kind: Int[Array, ""]) -> PyTree:
        one = self.method.kinds == 1
        more = lambda h, x: h + x if one else h.at[kind].add(x)
        return jax.tree.map(lambda h, x: more(h, x) if x.ndim else h, h, sent)

    def _asked(self, server: PyTree) -> Int[Array, ""]:
        """The kind that this server asks for, whatever the key."""
        return self.method.kind(self.method.broadcast(server, jax.random.key(0)))

    def first_note(self, w: Params) -> PyTree:
        kinds = self.method.kinds
        return self.nothing if kinds == 1 else tree.stack([self.nothing] * kinds)

    def noted(self, server: PyTree, note: PyTree, sent: PyTree) -> PyTree:
        return self._follow(note, sent, self._asked(server))

    def told(self, client: ShortClient) -> PyTree:
        return client.h

    def reminder(self, server: PyTree, note: PyTree) -> PyTree:
        return self._of(note, self._asked(server))

    def server_step(self, server: PyTree, mean: Recalled, share: Scalar):
        return self.method.server_step(server, tree.add(mean.sent, mean.known), share)

    def client_receive(self, client: ShortClient, answer: PyTree) -> ShortClient:
        return client._replace(own=self.method.client_receive(client.own, answer))

    def adjusted(self, client: ShortClient, down: PyTree, error: PyTree) -> ShortClient:
        own = self.method.adjusted(client.own, down, error)
        return ShortClient(own, self._follow(client.h, error, self.method.kind(down)))

    def model(self, server: PyTree) -> Params:
        return self.method.model(server)

    def witness(self, client: ShortClient) -> Params | None:
        return self.method.witness(client.own)

    def residuals(self, server: PyTree, clients: ShortClient, weights: Array) -> list[Params]:
        return self.method.residuals(server, clients.own, weights)

    def conserved(self, client: ShortClient, down: PyTree) -> PyTree | None:
        return self.method.conserved(client.own, down)

    def rebalance(self, server: PyTree, total: PyTree, weight: Scalar) -> PyTree:
        return self.method.rebalance(server, total, weight)

    def joined(self, server: PyTree, ratio: Scalar) -> PyTree:
        return self.method.joined(server, ratio)

    def chosen(self, server: PyTree) -> dict[str, Scalar]:
        return self.method.chosen(server)

    def promised(self, server: PyTree, t: Int[np.ndarray, " n"]) -> Promise | None:
        return self.method.promised(server, t)

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.method.prepare(f)


def _is_plain(value: PyTree) -> bool:
    """Whether an upload is numbers, none of which is coded or a part already."""
    coded = lambda x: isinstance(x, Brief | Coded | Extra | Picked | Ranked | Square)
    leaves = jax.tree.leaves(value, is_leaf=coded)
    real = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
    return not any(map(coded, leaves)) and all(map(real, leaves))


def in_bits(method: AbstractAlgorithm, bits: Any, f: AbstractProblem, w: Params) -> Any:
    """The same method in this many bits: with its own setting, if it has one."""
    if isinstance(method, FedQN):
        return dataclasses.replace(method, bits=bits)
    return method if bits == 64 else shortened(method, bits, f, w)


def shortened(method: AbstractAlgorithm, bits: Any, f: AbstractProblem, w: Params) -> Shortened:
    """The method in this many bits; f are problems like those it is for, stacked."""
    if bits not in BITS:
        raise SpecError(f"the setting 'bits' must be 8, 16, 32 or 64, got bits={bits}")

    def upload(f: AbstractProblem, w: Params) -> PyTree:
        one, key = tree.take(f, 0), jax.random.key(0)
        down = method.broadcast(method.init_server(w), key)
        return method.client_step(one, method.init_client(one, w), down, key)[1].value

    like = eqx.filter_eval_shape(upload, f, w)
    if isinstance(method, AbstractRecalling) or not _is_plain(like):
        name = type(method).__name__
        raise SpecError(
            f"{name} cannot use the setting 'bits', because its clients send more than plain "
            "vectors"
        )
    return Shortened(method, bits, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like))
