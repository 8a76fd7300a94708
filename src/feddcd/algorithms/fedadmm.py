"""FedADMM (Zhou & Li 2021; Wang et al. 2022): consensus ADMM with a part of the clients a round.

    w_i = argmin f_i(w) + <y_i, w> + (ρ/2)|w - θ|²,    y_i = y_i + ρ (w_i - θ),    i in I
    θ = mean of w_i + y_i/ρ over all clients, those that were not asked included

with ρ = 3 sqrt(L α), L the mean largest local curvature, from round 0, in which there is no
proximal term and y_i stays 0. A client uploads the change of w_i + y_i/ρ. The model is θ.
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


class AdmmServer(NamedTuple):
    start: Params
    moved: Params  # mean over all clients, from the start
    t: Int[Array, ""]
    curvature: Curvature


class AdmmDown(NamedTuple):
    theta: Params
    rho: Scalar  # 0 in round 0
    t: Int[Array, ""]


class AdmmClient(NamedTuple):
    y: Params
    w: Params
    moved: Params  # w + y/ρ, from the start


class FedADMM(AbstractAlgorithm[AdmmServer, AdmmClient, AdmmDown, None]):
    """ρ follows the formula, from curvature probed in round 0, unless given."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    solver: AbstractLocalSolver = NewtonCG()
    rho: float | None = None

    def init_server(self, w: Params) -> AdmmServer:
        return AdmmServer(w, tree.zeros(w), jnp.zeros((), jnp.int32), unknown(w))

    def init_client(self, f: AbstractProblem, w: Params) -> AdmmClient:
        return AdmmClient(tree.zeros(w), w, tree.zeros(w))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: AdmmServer, key: Key) -> AdmmDown:
        rho = jnp.where(server.t > 0, self._rho(server.curvature), 0)
        return AdmmDown(self.model(server), rho, server.t)

    def client_step(self, f, client: AdmmClient, down: AdmmDown, key: Key):
        local = f.tilted(tree.scale(-1.0, client.y)).proximal(down.rho, down.theta)
        w, grad_norm, steps = self.solver(local, down.theta, key)
        y = tree.axpy(down.rho, tree.sub(w, down.theta), client.y)
        change = tree.axpy(_dual(down), tree.sub(w, down.theta), tree.sub(w, client.w))
        found = None if self.rho is not None else first_look(f, (down.theta, w), down.t, key)
        new = AdmmClient(y, w, tree.add(client.moved, change))
        return new, Upload((change, found), grad_norm, steps)

    def server_step(self, server: AdmmServer, mean: tuple[Params, Curvature | None], share: Scalar):
        moved = tree.axpy(share, mean[0], server.moved)
        known = kept(server.curvature, mean[1], server.t)
        return AdmmServer(server.start, moved, server.t + 1, known), None

    def client_receive(self, client: AdmmClient, answer: None) -> AdmmClient:
        return client

    def adjusted(
        self, client: AdmmClient, down: AdmmDown, error: tuple[Params, Curvature | None]
    ) -> AdmmClient:
        """As if w had been found a little elsewhere, from which y follows."""
        d = tree.scale(1 / (1 + _dual(down)), error[0])
        y, w = tree.axpy(down.rho, d, client.y), tree.add(client.w, d)
        return AdmmClient(y, w, tree.add(client.moved, error[0]))

    def model(self, server: AdmmServer) -> Params:
        return tree.add(server.start, server.moved)

    def witness(self, client: AdmmClient) -> Params:
        return client.w

    def residuals(self, server: AdmmServer, clients: AdmmClient, weights: Array) -> list[Params]:
        return [tree.axpy(-weights.shape[0], server.moved, tree.total(clients.moved))]

    def conserved(self, client: AdmmClient, down: AdmmDown) -> Params:
        return client.moved

    def rebalance(self, server: AdmmServer, total: Params, weight: Scalar) -> AdmmServer:
        return server._replace(moved=tree.scale(1 / weight, total))

    def joined(self, server: AdmmServer, ratio: Scalar) -> AdmmServer:
        return server._replace(moved=tree.scale(ratio, server.moved))

    def chosen(self, server: AdmmServer) -> dict[str, Scalar]:
        return {"rho": self._rho(server.curvature)}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)

    def _rho(self, known: Curvature) -> Scalar:
        usual = 3 * jnp.sqrt(known.L * known.alpha)
        return usual if self.rho is None else jnp.full_like(usual, self.rho)


def _dual(down: AdmmDown) -> Scalar:
    """Whether y moves."""
    return (down.rho > 0).astype(down.rho.dtype)


FEDADMM = Method(
    name="fedadmm",
    title="FedADMM",
    about="consensus ADMM in which only some clients take part in each round",
    reveals="as pointsaga",
    algorithm=FedADMM,
    make=lambda given: FedADMM(given.solver, **given.settings),
    exact=True,
    settings={"rho": number()},
    solver="newton",
    solver_mlp="adam",
    needs_l2=True,
    look=("#117733", "-"),
)
