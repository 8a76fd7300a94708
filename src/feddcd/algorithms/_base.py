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

What the server can work out by itself does not travel. A method may have the engine keep a note of
each member, and gets the mean of what it makes of the cohort's notes beside that of the uploads:

    known       = sum_I weight_i reminder(server, note_i) / sum_I weight_i
    server, ans = server_step(server, Recalled(mean, known), share)
    note_i      = noted(server, note_i, value_i)         for i in I     server, as it was before
"""

import abc
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from .._errors import SpecError
from .._settings import Limit
from .._text import nearest
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import SOLVERS
from ._promise import Promise


class Upload(NamedTuple):
    """`value` is what travels: its arrays may be `Coded`, and a part of it `Extra`."""

    value: PyTree
    grad_norm: Scalar  # how well the client solved its local problem; for the log
    steps: Int[Array, ""]
    extra: Int[Array, ""] | None = None  # bytes of extra parts; engines fill it in


Sends = Literal["model", "gradient", "hessian"]  # kinds of a site's policy

Server = TypeVar("Server")
Client = TypeVar("Client")
Down = TypeVar("Down")
Answer = TypeVar("Answer")


class AbstractAlgorithm(eqx.Module, Generic[Server, Client, Down, Answer]):
    """States are NamedTuples of arrays; `down` and `answer` may be None: nothing is sent."""

    sends: eqx.AbstractClassVar[Sends]  # what an upload tells; a site's policy may forbid it
    kinds: ClassVar[int] = 1  # of uploads that take turns, such as gradients and models
    rough: ClassVar[bool] = False  # an upload's single numbers are estimates: 16 bits are enough

    @property
    def rounds_per_iteration(self) -> int:
        return 1

    def kind(self, down: Down) -> Int[Array, ""]:
        """The kind that is asked for, counted from 0; it does not depend on the round's key."""
        return jnp.zeros((), jnp.int32)

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
    def adjusted(self, client: Client, down: Down, error: PyTree) -> Client:
        """The client after `client_step`, as if its upload had been larger by `error`: what left
        was rounded, and what is conserved rests on what left."""

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
        """The server for members with these sums of `conserved` (`total`) and weights.

        At once or in the next answer, the residuals are zero again. The latest call counts.
        """

    @abc.abstractmethod
    def joined(self, server: Server, ratio: Scalar) -> Server:
        """The server after a client came with zeros in all sums: the members' weight
        was `ratio` of what it is now, so what the server holds per weight shrinks."""

    @abc.abstractmethod
    def chosen(self, server: Server) -> dict[str, Scalar]:
        """The numbers that the method chose by itself, for the record."""

    @abc.abstractmethod
    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        """The stacked problems with whatever the local solver computes once."""

    def first_note(self, w: Params) -> PyTree | None:
        """The note of a member that was in no sum yet; None: the method needs no notes."""
        return None

    def told(self, client: Client) -> PyTree | None:
        """A member's note from the client's own state: the two never differ."""
        return None

    def addressed(self, down: Down, place: Int[Array, ""], asked: Int[Array, ""]) -> Down:
        """What the member at this place of the cohort is sent, counted from 0; `asked` is how many
        are in it."""
        return down

    def parts(self, down: Down, note: PyTree) -> tuple[Bool[Array, ""], ...]:
        """Which extra parts an upload has, of the member with this note that is sent this."""
        return ()

    def promised(self, server: Server, t: Int[np.ndarray, " n"]) -> Promise | None:
        """After t rounds with all uploads; None: nothing, with these settings."""
        return None


class Stateless(NamedTuple):
    """A client that keeps nothing between rounds."""


class AbstractStateless(AbstractAlgorithm[Server, Stateless, Down, None], Generic[Server, Down]):
    """A method that conserves no sum; its clients keep nothing and hear nothing back."""

    def init_client(self, f: AbstractProblem, w: Params) -> Stateless:
        return Stateless()

    def client_receive(self, client: Stateless, answer: None) -> Stateless:
        return client

    def adjusted(self, client: Stateless, down: Down, error: PyTree) -> Stateless:
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


class AbstractAveraging(AbstractStateless[Params, Params]):
    """The server holds the model and sends it; uploads count as much as their rows."""

    def init_server(self, w: Params) -> Params:
        return w

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: Params, key: Key) -> Params:
        return server

    def model(self, server: Params) -> Params:
        return server


class Curvature(NamedTuple):
    """α and the largest curvature of the local problems, averaged over a cohort."""

    alpha: Scalar
    L: Scalar


class Given(NamedTuple):
    """What a method is made from."""

    settings: dict[str, Any]  # the method's own, checked
    solver: Any  # the local solver that was asked for; None where the row names none
    tau: int
    N: int
    w: Params  # any model, for its structure
    mlp: bool  # the model is a perceptron: no bounds, not convex
    l2: float | None = None  # of every client, where the weights sum to N; None: not known


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method as commands, policies, reports and tests know it."""

    name: str
    title: str  # as people call it
    about: str  # one line, for `feddcd list`
    reveals: str  # what an upload tells, for a site's policy.toml
    algorithm: type[AbstractAlgorithm]
    make: Callable[[Given], AbstractAlgorithm]
    exact: bool  # its fixed point is the optimum of the pooled data
    settings: Mapping[str, Limit] = field(default_factory=dict)
    solver: str | None = None  # the usual local solver; None: it takes none
    solver_mlp: str | None = None  # the usual one for perceptrons, if another
    needs_everyone: bool = False  # every client in every round
    needs_l2: bool = False  # strongly convex clients
    sums: bool | None = None  # may be trained in masked sums; None: unless it sends a Hessian
    needs_rate: bool = False  # its step comes from a bound on the curvature, or is given as lr
    matrix_up_to: int | None = None  # parameters: it keeps a matrix of them per client
    look: tuple[str, str] | None = None  # colour and dash of its lines; None: any that is free
    usual: bool = False  # `feddcd compare` takes it unless methods are named

    def __post_init__(self):
        if not re.fullmatch(r"[a-z][a-z0-9]*", self.name):
            raise SpecError(f"a method's name must be small letters and digits; got {self.name!r}")
        if (sends := getattr(self.algorithm, "sends", None)) not in get_args(Sends):
            known = ", ".join(get_args(Sends)) + ("" if sends is None else f"; got {sends!r}")
            raise SpecError(f"{self.algorithm.__name__}.sends must be one of {known}")
        if missing := sorted(getattr(self.algorithm, "__abstractmethods__", ())):
            raise SpecError(f"{self.algorithm.__name__} lacks {', '.join(missing)}")
        for name in {self.solver, self.solver_mlp} - {None, *SOLVERS}:
            told = f"the method {self.name} has the unknown solver {name!r}"
            raise SpecError(f"{told}{nearest(str(name), SOLVERS)}")
        taken = {"solver"}.union(*(row.settings for row in SOLVERS.values()))
        if self.solver is not None and (both := sorted(taken & set(self.settings))):
            told = f"{self.name} cannot have the setting {both[0]!r}, because local solvers have"
            raise SpecError(f"the method {told} a setting with this name: choose another name")

    @property
    def sends(self) -> Sends:
        return self.algorithm.sends

    @property
    def in_sums(self) -> bool:
        return self.sends != "hessian" if self.sums is None else self.sums

    @property
    def apart(self) -> bool:
        """Whether clients of one cohort may send different parts."""
        return self.algorithm.parts is not AbstractAlgorithm.parts
