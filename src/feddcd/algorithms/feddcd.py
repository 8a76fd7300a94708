"""FedDCD (Fan, Fang & Friedlander 2022), Algorithm 1; its inexact form if the solver is inexact.

Coordinate descent on the dual  min sum_i f_i*(y_i)  subject to  sum_i y_i = 0:

    w_i = ∇f_i*(y_i) = argmin f_i(w) - <y_i, w>,         i in I
    y_i = y_i - η (w_i - w̄)/λ_i,    w̄ = sum_I (w_j/λ_j) / sum_I (1/λ_j)

with 1/λ_i = α_i unless `weights` says otherwise. The model is w̄ of the last round.

When a member leaves for ever, s = sum_i y_i over the others is not 0. The next answer is
w̄ - s/(η sum_I 1/λ_j) in place of w̄, so that its cohort takes s away.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree

from .. import tree
from .._errors import SpecError
from .._settings import number, word
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import AbstractAlgorithm, Answer, Client, Down, Given, Method, Sends, Server, Upload


class DualServer(NamedTuple):
    w: Params
    excess: Params | None = None  # s/sum_i(1/λ_i), from `rebalance` to the next answer


class DualClient(NamedTuple):
    y: Params
    w: Params  # ∇f*(y), also the next warm start
    weight: Scalar  # 1/λ


def strong_convexity(f: AbstractProblem) -> Scalar:
    return f.alpha


class AbstractDual(AbstractAlgorithm[Server, Client, Down, Answer]):
    """What both methods do alike: the server's state has `w` and `excess`, a client's has `w`."""

    def model(self, server: Any) -> Params:
        return server.w

    def witness(self, client: Any) -> Params:
        return client.w

    def rebalance(self, server: Any, total: PyTree, weight: Scalar) -> Any:
        return server._replace(excess=tree.scale(1 / weight, total))

    def joined(self, server: Any, ratio: Scalar) -> Any:
        if server.excess is None:
            return server
        return server._replace(excess=tree.scale(ratio, server.excess))


class FedDCD(AbstractDual[DualServer, DualClient, Params | None, Params]):
    """`start="model"` sends the model down as warm start; `"own"` keeps the client's last w."""

    sends: ClassVar[Sends] = "model"
    solver: AbstractLocalSolver = NewtonCG()
    eta: float = 1.0
    start: Literal["own", "model"] = "own"
    weights: Callable[[AbstractProblem], Scalar] = strong_convexity

    def __check_init__(self):
        if self.start not in ("own", "model"):
            raise SpecError(f"the setting 'start' must be 'own' or 'model', not {self.start!r}")
        if not 0 < self.eta < 2:
            raise SpecError(f"the setting 'eta' must be above 0 and below 2, got eta={self.eta}")

    def init_server(self, w: Params) -> DualServer:
        return DualServer(w)

    def init_client(self, f: AbstractProblem, w: Params) -> DualClient:
        return DualClient(tree.zeros(w), w, self.weights(f))

    def weight(self, f: AbstractProblem) -> Scalar:
        return self.weights(f)

    def broadcast(self, server: DualServer, key: Key) -> Params | None:
        return server.w if self.start == "model" else None

    def client_step(self, f, client: DualClient, down: Params | None, key: Key):
        start = client.w if down is None else down
        w, grad_norm, steps = self.solver(f.tilted(client.y), start, key)
        return client._replace(w=w), Upload(w, grad_norm, steps)

    def server_step(self, server: DualServer, mean: Params, share: Scalar):
        if server.excess is None:
            return DualServer(mean), mean
        return DualServer(mean), tree.axpy(-1 / (self.eta * share), server.excess, mean)

    def client_receive(self, client: DualClient, answer: Params) -> DualClient:
        d = tree.scale(client.weight, tree.sub(client.w, answer))
        return client._replace(y=tree.axpy(-self.eta, d, client.y))

    def adjusted(self, client: DualClient, down: Params | None, error: Params) -> DualClient:
        return client._replace(w=tree.add(client.w, error))

    def residuals(self, server: DualServer, clients: DualClient, weights) -> list[Params]:
        return [tree.total(clients.y)]

    def conserved(self, client: DualClient, down: Params | None) -> Params:
        return client.y

    def chosen(self, server: DualServer) -> dict[str, Scalar]:
        return {}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


@cache
def constant_step(step: float) -> Callable[[AbstractProblem], Scalar]:
    """`step` in place of α as the length of a dual step; one object for equal values."""
    return lambda f: jnp.full_like(f.mu, step)


def dual_settings(given: Given) -> dict[str, Any]:
    """The settings as arguments; a perceptron's clients start from the model by default."""
    arguments = ({"start": "model"} if given.mlp else {}) | given.settings
    if "step" in arguments:
        arguments["weights"] = constant_step(arguments.pop("step"))
    return arguments


FEDDCD = Method(
    name="feddcd",
    title="FedDCD",
    about="federated dual coordinate descent, the paper's Algorithm 1",
    reveals=(
        "a model that fits this site's rows, with a linear term in the loss that others may know"
    ),
    algorithm=FedDCD,
    make=lambda given: FedDCD(given.solver, **dual_settings(given)),
    exact=True,
    settings={"eta": number(), "start": word, "step": number()},
    solver="newton",
    solver_mlp="adam",
    needs_l2=True,
    look=("#0072b2", "-"),
    usual=True,
)
