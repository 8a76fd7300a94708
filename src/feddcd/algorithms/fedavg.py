"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020), of which FedAvg is m = 0.

    w_i = argmin f_i(w) + (m/2)|w - w̄|², roughly, from w̄;    w̄ = sum_I W_i w_i / sum_I W_i

W_i is the client's total row weight, by which its loss is divided. The model is w̄. Unless
all clients agree at the optimum, the fixed point is not the optimum.
"""

from typing import NamedTuple

from .._errors import SpecError
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import SGD, AbstractLocalSolver
from ._base import AbstractAlgorithm, Upload


class Stateless(NamedTuple):
    """A client that keeps nothing between rounds."""


class FedProx(AbstractAlgorithm[Params, Stateless, Params, None]):
    solver: AbstractLocalSolver = SGD()
    m: float = 0.01

    def __check_init__(self):
        if not self.m >= 0:
            raise SpecError(f"need m >= 0, got m={self.m}")

    @property
    def rounds_per_iteration(self) -> int:
        return 1

    def init_server(self, w: Params) -> Params:
        return w

    def init_client(self, f: AbstractProblem, w: Params) -> Stateless:
        return Stateless()

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: Params) -> Params:
        return server

    def client_step(self, f, client: Stateless, down: Params, key: Key):
        local = f.normalised()
        if self.m > 0:
            local = local.proximal(self.m, down)
        w, grad_norm, steps = self.solver(local, down, key)
        return client, Upload(w, grad_norm, steps)

    def server_step(self, server: Params, mean: Params, share: Scalar):
        return mean, None

    def client_receive(self, client: Stateless, answer: None) -> Stateless:
        return client

    def model(self, server: Params) -> Params:
        return server

    def witness(self, client: Stateless) -> None:
        return None

    def residuals(self, server: Params, clients: Stateless, weights) -> list[Params]:
        return []

    def conserved(self, client: Stateless, down: Params) -> None:
        return None

    def rebalance(self, server: Params, total: None, weight: Scalar) -> Params:
        return server

    def joined(self, server: Params, ratio: Scalar) -> Params:
        return server

    def chosen(self, server: Params) -> dict[str, Scalar]:
        return {}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


def FedAvg(solver: AbstractLocalSolver | None = None) -> FedProx:
    return FedProx(SGD() if solver is None else solver, m=0.0)
