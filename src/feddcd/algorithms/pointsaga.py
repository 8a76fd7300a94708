"""Mini-batch Point-SAGA: FedDCD with a proximal term, one download and one upload a round.

The server holds x and ḡ = (1/N) sum_i g_i and sends x̂ = x - ḡ/ρ; then

    w_i = argmin f_i(w) - <g_i, w> + (ρ/2)|w - x̂|²,    g_i = g_i + ρ (x̂ - w_i),    i in I
    ḡ = ḡ + ρ share (x̂ - mean_I w_i),    x = mean_I w_i

with 1/ρ = (sqrt((n-1)² + 4 n L/α) - (n-1)) / (2 L n), n = N/τ, L the mean largest local
curvature. In the first round there is no proximal term and g_i stays 0. The model is x.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._errors import SpecError
from .._settings import number
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import AbstractAlgorithm, Curvature, Method, Sends, Upload, later_curvature, probe


class SagaServer(NamedTuple):
    x: Params
    g: Params  # mean of the clients' g
    t: Int[Array, ""]
    curvature: Curvature


class SagaDown(NamedTuple):
    center: Params
    rho: Scalar  # 0 before the first commit
    t: Int[Array, ""]


class SagaClient(NamedTuple):
    g: Params
    w: Params


class PointSAGA(AbstractAlgorithm[SagaServer, SagaClient, SagaDown, None]):
    """ρ follows the formula, from curvature probed in the first two rounds, unless given."""

    sends: ClassVar[Sends] = "model"
    tau: int
    N: int
    solver: AbstractLocalSolver = NewtonCG()
    rho: float | None = None

    def __check_init__(self):
        if self.rho is not None and not self.rho > 0:
            raise SpecError(f"need rho > 0, got rho={self.rho}")

    def init_server(self, w: Params) -> SagaServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        return SagaServer(w, tree.zeros(w), jnp.zeros((), jnp.int32), Curvature(one, one))

    def init_client(self, f: AbstractProblem, w: Params) -> SagaClient:
        return SagaClient(tree.zeros(w), w)

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: SagaServer, key: Key) -> SagaDown:
        return self._down(server)

    def _down(self, server: SagaServer) -> SagaDown:
        rho = self._rho(server.curvature)
        return SagaDown(tree.axpy(-1 / rho, server.g, server.x), rho, server.t)

    def client_step(self, f, client: SagaClient, down: SagaDown, key: Key):
        rho = jnp.where(down.t > 0, down.rho, 0)
        local = f.tilted(client.g).proximal(rho, down.center)
        w, grad_norm, steps = self.solver(local, down.center, key)
        g = tree.axpy(rho, tree.sub(down.center, w), client.g)
        found = None if self.rho is not None else probe(f, down.center, down.t, key)
        return SagaClient(g, w), Upload((w, found), grad_norm, steps)

    def server_step(self, server: SagaServer, mean: tuple[Params, Curvature | None], share: Scalar):
        w, found = mean
        down = self._down(server)
        rho = jnp.where(server.t > 0, down.rho, 0)
        g = tree.axpy(rho * share, tree.sub(down.center, w), server.g)
        known = later_curvature(server.curvature, found, server.t)
        return SagaServer(w, g, server.t + 1, known), None

    def client_receive(self, client: SagaClient, answer: None) -> SagaClient:
        return client

    def adjusted(
        self, client: SagaClient, down: SagaDown, error: tuple[Params, Curvature | None]
    ) -> SagaClient:
        rho = jnp.where(down.t > 0, down.rho, 0)
        return SagaClient(tree.axpy(-rho, error[0], client.g), tree.add(client.w, error[0]))

    def model(self, server: SagaServer) -> Params:
        return server.x

    def witness(self, client: SagaClient) -> Params:
        return client.w

    def residuals(self, server: SagaServer, clients: SagaClient, weights: Array) -> list[Params]:
        return [tree.axpy(-weights.shape[0], server.g, tree.total(clients.g))]

    def conserved(self, client: SagaClient, down: SagaDown) -> Params:
        return client.g

    def rebalance(self, server: SagaServer, total: Params, weight: Scalar) -> SagaServer:
        return server._replace(g=tree.scale(1 / weight, total))

    def joined(self, server: SagaServer, ratio: Scalar) -> SagaServer:
        return server._replace(g=tree.scale(ratio, server.g))

    def chosen(self, server: SagaServer) -> dict[str, Scalar]:
        # where rho is given nothing is probed, so no curvature is known
        curvature = {} if self.rho is not None else {"curvature": server.curvature.L}
        return {"rho": self._rho(server.curvature), **curvature}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)

    def _rho(self, known: Curvature) -> Scalar:
        if self.rho is not None:
            return jnp.full_like(known.L, self.rho)
        n, L = self.N / self.tau, known.L
        return 2 * L * n / (jnp.sqrt((n - 1) ** 2 + 4 * n * L / known.alpha) - (n - 1))


POINTSAGA = Method(
    name="pointsaga",
    title="Point-SAGA",
    about="proximal FedDCD: the fewest uploads of the dual methods",
    reveals="what fits this site's rows near a known point",
    algorithm=PointSAGA,
    make=lambda given: PointSAGA(given.tau, given.N, given.solver, **given.settings),
    exact=True,
    settings={"rho": number()},
    solver="newton",
    solver_mlp="adam",
    needs_l2=True,
    look=("#009e73", "-"),
    usual=True,
)
