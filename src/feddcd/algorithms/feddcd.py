"""FedDCD (Fan, Fang & Friedlander 2022), Algorithm 1; its inexact form if the solver is inexact.

Coordinate descent on the dual  min sum_i f_i*(y_i)  subject to  sum_i y_i = 0:

    w_i = ∇f_i*(y_i) = argmin f_i(w) - <y_i, w>,         i in I
    y_i = y_i - η (w_i - w̄)/λ_i,    w̄ = sum_I (w_j/λ_j) / sum_I (1/λ_j)

with 1/λ_i = α_i unless `weights` says otherwise. The model is w̄ of the last round.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import AbstractAlgorithm, Upload


class DualClient(NamedTuple):
    y: Params
    w: Params  # ∇f*(y), also the next warm start
    weight: Scalar  # 1/λ


def strong_convexity(f: AbstractProblem) -> Scalar:
    return f.alpha


class FedDCD(AbstractAlgorithm[Params, DualClient, Params | None, Params]):
    """`start="model"` sends the model down as warm start; `"own"` keeps the client's last w."""

    solver: AbstractLocalSolver = NewtonCG()
    eta: float = 1.0
    start: Literal["own", "model"] = "own"
    weights: Callable[[AbstractProblem], Scalar] = strong_convexity

    def __check_init__(self):
        if self.start not in ("own", "model"):
            raise ValueError(f"start is own or model, not {self.start!r}")
        if not 0 < self.eta < 2:
            raise ValueError(f"need 0 < eta < 2, got eta={self.eta}")

    @property
    def rounds_per_iteration(self) -> int:
        return 1

    def init_server(self, w: Params) -> Params:
        return w

    def init_client(self, f: AbstractProblem, w: Params) -> DualClient:
        return DualClient(tree.zeros(w), w, self.weights(f))

    def weight(self, f: AbstractProblem) -> Scalar:
        return self.weights(f)

    def broadcast(self, server: Params) -> Params | None:
        return server if self.start == "model" else None

    def client_step(self, f, client: DualClient, down: Params | None, key: Key):
        start = client.w if down is None else down
        w, grad_norm, steps = self.solver(f.tilted(client.y), start, key)
        return client._replace(w=w), Upload(w, grad_norm, steps)

    def server_step(self, server: Params, mean: Params, share: Scalar):
        return mean, mean

    def client_receive(self, client: DualClient, answer: Params) -> DualClient:
        d = tree.scale(client.weight, tree.sub(client.w, answer))
        return client._replace(y=tree.axpy(-self.eta, d, client.y))

    def model(self, server: Params) -> Params:
        return server

    def witness(self, client: DualClient) -> Params:
        return client.w

    def residuals(self, server: Params, clients: DualClient, weights) -> list[Params]:
        return [tree.total(clients.y)]

    def chosen(self, server: Params) -> dict[str, Scalar]:
        return {}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)
