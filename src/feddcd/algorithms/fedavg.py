"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020), of which FedAvg is m = 0.

    w_i = argmin f_i(w) + (m/2)|w - w̄|², roughly, from w̄;    w̄ = sum_I W_i w_i / sum_I W_i

W_i is the client's total row weight, by which its loss is divided. The model is w̄. Unless
all clients agree at the optimum, the fixed point is not the optimum.
"""

from typing import ClassVar

from .._errors import SpecError
from .._settings import number
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import SGD, AbstractLocalSolver
from ._base import AbstractAveraging, Method, Sends, Stateless, Upload


class FedProx(AbstractAveraging):
    sends: ClassVar[Sends] = "model"
    solver: AbstractLocalSolver = SGD()
    m: float = 0.01

    def __check_init__(self):
        if not self.m >= 0:
            raise SpecError(f"the setting 'm' must be at least 0, got m={self.m}")

    def client_step(self, f, client: Stateless, down: Params, key: Key):
        local = f.normalised()
        if self.m > 0:
            local = local.proximal(self.m, down)
        w, grad_norm, steps = self.solver(local, down, key)
        return client, Upload(w, grad_norm, steps)

    def server_step(self, server: Params, mean: Params, share: Scalar):
        return mean, None

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


def FedAvg(solver: AbstractLocalSolver | None = None) -> FedProx:
    return FedProx(SGD() if solver is None else solver, m=0.0)


FEDPROX = Method(
    name="fedprox",
    title="FedProx",
    about="FedAvg with a proximal term (its result is biased if clients differ)",
    reveals="as fedavg",
    algorithm=FedProx,
    make=lambda given: FedProx(given.solver, **given.settings),
    exact=False,
    settings={"m": number(positive=False)},
    solver="sgd",
    look=("#56b4e9", "--"),
    usual=True,
)
FEDAVG = Method(
    name="fedavg",
    title="FedAvg",
    about="local SGD, then the mean of the models (its result is biased if clients differ)",
    reveals="the common model after training steps on this site's rows",
    algorithm=FedProx,
    make=lambda given: FedAvg(given.solver),
    exact=False,
    solver="sgd",
    look=("#e69f00", "-"),
    usual=True,
)
