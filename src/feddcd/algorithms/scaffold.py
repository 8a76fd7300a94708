"""SCAFFOLD (Karimireddy et al. 2020), with both options for the control variates.

    w_i = K steps of length lr on f_i(w) - <c_i - c, w>, from the model w
    c_i⁺ = ∇f_i(w)                        option 1
    c_i⁺ = c_i - c + (w - w_i)/(K lr)     option 2
    w = w + sum_I W_i (w_i - w)/sum_I W_i,    c = c + share sum_I W_i (c_i⁺ - c_i)/sum_I W_i

W_i is the client's total row weight, by which its loss is divided. The model is w.
"""

from typing import ClassVar, Literal, NamedTuple

import jax
from jaxtyping import Array

from .. import tree
from .._errors import SpecError
from .._settings import number, whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import SGD, AbstractFixedRateSolver
from ._base import AbstractAlgorithm, Given, Method, Sends, Upload


class ScaffoldServer(NamedTuple):
    w: Params
    c: Params


class ScaffoldClient(NamedTuple):
    c: Params
    weight: Scalar  # W


class ScaffoldMove(NamedTuple):
    w: Params
    c: Params


class Scaffold(AbstractAlgorithm[ScaffoldServer, ScaffoldClient, ScaffoldServer, None]):
    sends: ClassVar[Sends] = "model"
    solver: AbstractFixedRateSolver = SGD()
    option: Literal[1, 2] = 2
    eta: float = 1.0  # the server's step

    def __check_init__(self):
        if self.option not in (1, 2):
            raise SpecError(f"the setting 'option' must be 1 or 2, not {self.option!r}")

    def init_server(self, w: Params) -> ScaffoldServer:
        return ScaffoldServer(w, tree.zeros(w))

    def init_client(self, f: AbstractProblem, w: Params) -> ScaffoldClient:
        return ScaffoldClient(tree.zeros(w), f.weight)

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: ScaffoldServer, key: Key) -> ScaffoldServer:
        return server

    def client_step(self, f, client: ScaffoldClient, down: ScaffoldServer, key: Key):
        f = f.normalised()
        w, grad_norm, steps = self.solver(f.tilted(tree.sub(client.c, down.c)), down.w, key)
        if self.option == 1:
            c = jax.grad(f)(down.w)
        else:
            drift = tree.scale(1 / (steps * self.solver.rate(f)), tree.sub(down.w, w))
            c = tree.add(tree.sub(client.c, down.c), drift)
        move = ScaffoldMove(tree.sub(w, down.w), tree.sub(c, client.c))
        return client._replace(c=c), Upload(move, grad_norm, steps)

    def server_step(self, server: ScaffoldServer, mean: ScaffoldMove, share: Scalar):
        w = tree.axpy(self.eta, mean.w, server.w)
        return ScaffoldServer(w, tree.axpy(share, mean.c, server.c)), None

    def client_receive(self, client: ScaffoldClient, answer: None) -> ScaffoldClient:
        return client

    def adjusted(
        self, client: ScaffoldClient, down: ScaffoldServer, error: ScaffoldMove
    ) -> ScaffoldClient:
        return client._replace(c=tree.add(client.c, error.c))

    def model(self, server: ScaffoldServer) -> Params:
        return server.w

    def witness(self, client: ScaffoldClient) -> None:
        return None

    def residuals(
        self, server: ScaffoldServer, clients: ScaffoldClient, weights: Array
    ) -> list[Params]:
        mean = tree.weighted_mean(clients.c, weights)
        return [tree.scale(weights.shape[0], tree.sub(mean, server.c))]

    def conserved(self, client: ScaffoldClient, down: ScaffoldServer) -> Params:
        return tree.scale(client.weight, client.c)

    def rebalance(self, server: ScaffoldServer, total: Params, weight: Scalar) -> ScaffoldServer:
        return server._replace(c=tree.scale(1 / weight, total))

    def joined(self, server: ScaffoldServer, ratio: Scalar) -> ScaffoldServer:
        return server._replace(c=tree.scale(ratio, server.c))

    def chosen(self, server: ScaffoldServer) -> dict[str, Scalar]:
        return {}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


def _make(given: Given) -> Scaffold:
    if not isinstance(given.solver, AbstractFixedRateSolver):
        name = type(given.solver).__name__
        raise SpecError(
            f"scaffold needs a solver with steps of a fixed size: use sgd or gd, not {name}"
        )
    return Scaffold(given.solver, **given.settings)


SCAFFOLD = Method(
    name="scaffold",
    title="SCAFFOLD",
    about="local SGD, corrected by control variates",
    reveals="the common model after training steps on this site's rows, and a gradient",
    algorithm=Scaffold,
    make=_make,
    exact=True,
    settings={"option": whole(), "eta": number()},
    solver="sgd",
    look=("#8c6d4f", "-."),
    usual=True,
)
