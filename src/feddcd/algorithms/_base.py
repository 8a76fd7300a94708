"""What a federated algorithm is: five pure functions around one weighted mean.

One communication round with cohort I:

    down        = broadcast(server, key)                                server
    c_i, up_i   = client_step(f_i, c_i, down, key_i)     for i in I     client
    mean        = sum_I weight_i value_i / sum_I weight_i               the network
    server, ans = server_step(server, mean, share)                      server
    c_i         = client_receive(c_i, ans)               for i in I     client, needs no data

The server sees uploads only through `mean`, so any engine that can average (scan, Flower,
secure aggregation) can run any algorithm. `share` is the weight of the uploads that
really arrived over the weight of all members, so no algorithm relies on a cohort's size.
If `ans` is None nothing is sent back and the last line is skipped.
The weights are known beforehand: `weight(f_i)` is asked once, when a client joins.
The round's `key` is for what all clients draw in common; it travels as what is drawn from it.

When a member leaves for ever the others go on without its help, once their answers are received:

    total  = sum_i conserved(c_i, broadcast(server, key))     for all that remain
    server = rebalance(server, total, sum_i weight_i)                   server

and when one comes, server = joined(server, old weight / new weight).
"""

import abc
from typing import Generic, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..problems import curvature as power_iteration


class Upload(NamedTuple):
    value: PyTree  # what travels
    grad_norm: Scalar  # how well the client solved its local problem; for the log
    steps: Int[Array, ""]


Sends = Literal["model", "gradient", "hessian"]  # kinds of a site's policy

Server = TypeVar("Server")
Client = TypeVar("Client")
Down = TypeVar("Down")
Answer = TypeVar("Answer")


class AbstractAlgorithm(eqx.Module, Generic[Server, Client, Down, Answer]):
    """States are NamedTuples of arrays; `down` and `answer` may be None: nothing is sent."""

    sends: eqx.AbstractClassVar[Sends]  # what an upload tells; a site's policy may forbid it

    @property
    @abc.abstractmethod
    def rounds_per_iteration(self) -> int: ...

    @abc.abstractmethod
    def init_server(self, w: Params) -> Server: ...

    @abc.abstractmethod
    def init_client(self, f: AbstractProblem, w: Params) -> Client: ...

    @abc.abstractmethod
    def weight(self, f: AbstractProblem) -> Scalar:
        """The weight of this client's uploads in the mean."""

    @abc.abstractmethod
    def broadcast(self, server: Server, key: Key) -> Down: ...

    @abc.abstractmethod
    def client_step(
        self, f: AbstractProblem, client: Client, down: Down, key: Key
    ) -> tuple[Client, Upload]: ...

    @abc.abstractmethod
    def server_step(self, server: Server, mean: PyTree, share: Scalar) -> tuple[Server, Answer]: ...

    @abc.abstractmethod
    def client_receive(self, client: Client, answer: Answer) -> Client: ...

    @abc.abstractmethod
    def model(self, server: Server) -> Params:
        """The model that the server would publish now."""

    @abc.abstractmethod
    def witness(self, client: Client) -> Params | None:
        """The point at which a client offers a tangent to the certificate; None: the model."""

    @abc.abstractmethod
    def residuals(self, server: Server, clients: Client, weights: Array) -> list[Params]:
        """What must be zero, from all clients' states (stacked): empty if nothing is conserved."""

    @abc.abstractmethod
    def conserved(self, client: Client, down: Down) -> PyTree | None:
        """A member's part of the sum that must hold; None if there is none. It needs no data."""

    @abc.abstractmethod
    def rebalance(self, server: Server, total: PyTree, weight: Scalar) -> Server:
        """The server for the members whose `conserved` sum to `total` and weights to `weight`.

        At once or in the next answer, the residuals are zero again. The latest call counts.
        """

    @abc.abstractmethod
    def joined(self, server: Server, ratio: Scalar) -> Server:
        """The server after a client came, whose part in all sums is zero: the members' weight
        was `ratio` of what it is now, so what the server holds per weight shrinks."""

    @abc.abstractmethod
    def chosen(self, server: Server) -> dict[str, Scalar]:
        """The numbers that the method chose by itself, for the record."""

    @abc.abstractmethod
    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        """The stacked problems with whatever the local solver computes once."""


class Stateless(NamedTuple):
    """A client that keeps nothing between rounds."""


class AbstractStateless(AbstractAlgorithm[Server, Stateless, Down, None], Generic[Server, Down]):
    """A method whose clients keep nothing and hear nothing back, and which conserves no sum."""

    def init_client(self, f: AbstractProblem, w: Params) -> Stateless:
        return Stateless()

    def client_receive(self, client: Stateless, answer: None) -> Stateless:
        return client

    def witness(self, client: Stateless) -> None:
        return None

    def residuals(self, server: Server, clients: Stateless, weights: Array) -> list[Params]:
        return []

    def conserved(self, client: Stateless, down: Down) -> None:
        return None

    def rebalance(self, server: Server, total: None, weight: Scalar) -> Server:
        return server

    def joined(self, server: Server, ratio: Scalar) -> Server:
        return server

    def chosen(self, server: Server) -> dict[str, Scalar]:
        return {}


class Curvature(NamedTuple):
    """α and the largest curvature of the local problems, averaged over a cohort."""

    alpha: Scalar
    L: Scalar


def probe(f: AbstractProblem, w: Params, t: Int[Array, ""], key: Key) -> Curvature:
    """f's curvature at w, asked for in the first two rounds only: 20 power steps."""
    estimate = lambda: power_iteration(f, w, key).astype(f.mu.dtype)
    return Curvature(f.alpha, jax.lax.cond(t < 2, estimate, lambda: jnp.zeros_like(f.mu)))


def later_curvature(known: Curvature, mean: Curvature, t: Int[Array, ""]) -> Curvature:
    """The server's view: of w0 after round 0, of the first model from round 1 on."""
    return tree.where(t < 2, mean, known)
