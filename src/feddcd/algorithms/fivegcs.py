"""5GCS (Grudzień, Malinovsky & Richtárik 2023): local solves accelerate, with any cohort.

The server holds x and v = (1/N) sum_i u_i and sends x̂ = (x - γ v)/(1 + γ μ); then

    y_i = argmin f_i(y) - (μ/2)|y|² - <u_i, y> + (ρ/2)|y - x̂|²,    u_i = u_i + ρ (x̂ - y_i)
    v = v + ρ share (x̂ - mean_I y_i),    x = x̂ - γ ρ (x̂ - mean_I y_i)

with γ = (3/16) sqrt(τ/(N L μ)) and ρ = 1/(2 γ), L the mean largest local curvature. In round 0
there is no proximal term and u_i stays 0. The model is x.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._settings import number
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import AbstractAlgorithm, Curvature, Method, Sends, Upload
from ._curvature import first_look, kept, unknown


class GcsServer(NamedTuple):
    x: Params
    v: Params  # mean of the clients' u
    t: Int[Array, ""]
    curvature: Curvature


class GcsDown(NamedTuple):
    center: Params  # x̂
    rho: Scalar  # 0 in round 0
    mu: Scalar  # 0 in round 0
    t: Int[Array, ""]


class GcsClient(NamedTuple):
    u: Params
    y: Params


class FiveGCS(AbstractAlgorithm[GcsServer, GcsClient, GcsDown, None]):
    """γ follows the formula, from curvature probed in round 0, unless given."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    tau: int
    N: int
    solver: AbstractLocalSolver = NewtonCG()
    gamma: float | None = None

    def init_server(self, w: Params) -> GcsServer:
        return GcsServer(w, tree.zeros(w), jnp.zeros((), jnp.int32), unknown(w))

    def init_client(self, f: AbstractProblem, w: Params) -> GcsClient:
        return GcsClient(tree.zeros(w), w)

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: GcsServer, key: Key) -> GcsDown:
        return self._down(server)

    def _down(self, server: GcsServer) -> GcsDown:
        gamma, mu = self._gamma(server.curvature), server.curvature.alpha
        point = tree.scale(1 / (1 + gamma * mu), tree.axpy(-gamma, server.v, server.x))
        later = (server.t > 0).astype(gamma.dtype)
        center = tree.lerp(later, server.x, point)
        return GcsDown(center, later / (2 * gamma), later * mu, server.t)

    def client_step(self, f, client: GcsClient, down: GcsDown, key: Key):
        local = f.tilted(client.u).proximal(down.rho, down.center)
        local = local.proximal(-down.mu, tree.zeros(down.center))
        y, grad_norm, steps = self.solver(local, down.center, key)
        u = tree.axpy(down.rho, tree.sub(down.center, y), client.u)
        points = (down.center, y) if self.gamma is None else ()
        found = first_look(f, points, down.t, key)
        return GcsClient(u, y), Upload((y, found), grad_norm, steps)

    def server_step(self, server: GcsServer, mean: tuple[Params, Curvature], share: Scalar):
        y, found = mean
        down = self._down(server)
        v = tree.axpy(down.rho * share, tree.sub(down.center, y), server.v)
        half = tree.lerp(0.5, down.center, y)  # γ ρ = 1/2
        x = tree.where(server.t > 0, half, y)
        return GcsServer(x, v, server.t + 1, kept(server.curvature, found, server.t)), None

    def client_receive(self, client: GcsClient, answer: None) -> GcsClient:
        return client

    def adjusted(
        self, client: GcsClient, down: GcsDown, error: tuple[Params, Curvature]
    ) -> GcsClient:
        u = tree.axpy(-down.rho, error[0], client.u)
        return GcsClient(u, tree.add(client.y, error[0]))

    def model(self, server: GcsServer) -> Params:
        return server.x

    def witness(self, client: GcsClient) -> Params:
        return client.y

    def residuals(self, server: GcsServer, clients: GcsClient, weights: Array) -> list[Params]:
        return [tree.axpy(-weights.shape[0], server.v, tree.total(clients.u))]

    def conserved(self, client: GcsClient, down: GcsDown) -> Params:
        return client.u

    def rebalance(self, server: GcsServer, total: Params, weight: Scalar) -> GcsServer:
        return server._replace(v=tree.scale(1 / weight, total))

    def joined(self, server: GcsServer, ratio: Scalar) -> GcsServer:
        return server._replace(v=tree.scale(ratio, server.v))

    def chosen(self, server: GcsServer) -> dict[str, Scalar]:
        curvature = {} if self.gamma is not None else {"curvature": server.curvature.L}
        return {"gamma": self._gamma(server.curvature), **curvature}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)

    def _gamma(self, known: Curvature) -> Scalar:
        usual = 3 / 16 * jnp.sqrt(self.tau / (self.N * known.L * known.alpha))
        return usual if self.gamma is None else jnp.full_like(usual, self.gamma)


FIVEGCS = Method(
    name="fivegcs",
    title="5GCS",
    about=(
        "clients solve local problems, with acceleration (5GCS); any number of clients can "
        "take part"
    ),
    reveals="as pointsaga",
    algorithm=FiveGCS,
    make=lambda given: FiveGCS(given.tau, given.N, given.solver, **given.settings),
    exact=True,
    settings={"gamma": number()},
    solver="newton",
    solver_mlp="adam",
    needs_l2=True,
    look=("#cc6677", "-"),
)
