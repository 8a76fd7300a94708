"""Mini-batch Point-SAGA: FedDCD with a proximal term, one download and one upload a round.

The server holds x and ḡ = (1/N) sum_i g_i and sends x̂ = x - ḡ/ρ; then

    w_i = argmin f_i(w) - <g_i, w> + (ρ/2)|w - x̂|²,    g_i = g_i + ρ (x̂ - w_i),    i in I
    ḡ = ḡ + ρ share (x̂ - mean_I w_i),    x = mean_I w_i

In the first round there is no proximal term and g_i stays 0. The model is x.

If all curvatures lie between α and L the best ρ is, with n = N/τ,

    1/ρ(α, L) = (sqrt((n-1)² + 4 n L/α) - (n-1)) / (2 L n)

It is taken for the curvatures that the cohorts meet (Barzilai and Borwein): g_i is ∇f_i(w_i), so
with s_i, y_i the changes of w_i and g_i since client i was last asked,

    log ρ = (1 - share) log ρ + share log ρ(α, L),
    α = sum <y_i, s_i> / sum |s_i|²,    L = sum |y_i|² / sum <y_i, s_i>

Without the mean of the logarithms ρ goes up and down: a large ρ ends the errors where f_i is steep,
a small one where it is flat, and only the others are met then. g_i and ḡ do not depend on ρ, so
that it may change in every round. ρ starts with its value for the worst case: ρ(α, L), where α is
the smallest curvature that f_i is known to have, and L is the largest curvature of a local problem
at the model, measured from time to time and averaged over clients. Later, ρ is at least half of
this value and at most 100 times this value.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .. import tree
from .._errors import SpecError
from .._settings import number
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import AbstractAlgorithm, Curvature, Method, Sends, Upload
from ._curvature import probe, probing

LEAST, MOST = 0.5, 100.0


class Bend(NamedTuple):
    """How much steeper f_i became along the clients' last moves, the mean: |s|², <y, s>, |y|²."""

    ss: Scalar
    ys: Scalar
    yy: Scalar


class SagaServer(NamedTuple):
    x: Params
    g: Params  # mean of the clients' g
    t: Int[Array, ""]
    curvature: Curvature
    rho: Scalar  # the next round's, unless given


class SagaDown(NamedTuple):
    center: Params
    rho: Scalar  # 0 before the first commit
    t: Int[Array, ""]


class SagaClient(NamedTuple):
    g: Params
    w: Params
    asked: Bool[Array, ""]  # before: g is the gradient at w


class SagaFound(NamedTuple):
    curvature: Curvature
    bend: Bend


class PointSAGA(AbstractAlgorithm[SagaServer, SagaClient, SagaDown, None]):
    """ρ follows the curvature that the cohorts meet, unless given."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    tau: int
    N: int
    solver: AbstractLocalSolver = NewtonCG()
    rho: float | None = None

    def __check_init__(self):
        if self.rho is not None and not self.rho > 0:
            raise SpecError(f"the setting 'rho' must be above 0, got rho={self.rho}")

    def init_server(self, w: Params) -> SagaServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        return SagaServer(w, tree.zeros(w), jnp.zeros((), jnp.int32), Curvature(one, one), one)

    def init_client(self, f: AbstractProblem, w: Params) -> SagaClient:
        return SagaClient(tree.zeros(w), w, jnp.zeros((), bool))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: SagaServer, key: Key) -> SagaDown:
        return self._down(server)

    def _down(self, server: SagaServer) -> SagaDown:
        rho = self._current_rho(server)
        return SagaDown(tree.axpy(-1 / rho, server.g, server.x), rho, server.t)

    def client_step(self, f, client: SagaClient, down: SagaDown, key: Key):
        rho = jnp.where(down.t > 0, down.rho, 0)
        local = f.tilted(client.g).proximal(rho, down.center)
        w, grad_norm, steps = self.solver(local, down.center, key)
        g = tree.axpy(rho, tree.sub(down.center, w), client.g)
        new = SagaClient(g, w, jnp.ones((), bool))
        found = None
        if self.rho is None:
            found = SagaFound(probe(f, down.center, self._asks(down.t), key), _bend(client, new))
        return new, Upload((w, found), grad_norm, steps)

    def server_step(self, server: SagaServer, mean: tuple[Params, SagaFound | None], share: Scalar):
        w, found = mean
        down = self._down(server)
        rho = jnp.where(server.t > 0, down.rho, 0)
        g = tree.axpy(rho * share, tree.sub(down.center, w), server.g)
        if found is None:
            return server._replace(x=w, g=g, t=server.t + 1), None
        known = tree.where(self._asks(server.t), found.curvature, server.curvature)
        rho = self._followed(server, known, found.bend, share)
        return SagaServer(w, g, server.t + 1, known, rho), None

    def _followed(self, server: SagaServer, known: Curvature, bend: Bend, share: Scalar) -> Scalar:
        """ρ a part of the way to the best for what the cohort met."""
        first, met = self._rho(known), (server.t >= 2) & (bend.ys > 0)
        ss, ys, yy = (jnp.where(met, x, 1) for x in bend)
        best = self._rho(Curvature(alpha=ys / ss, L=yy / ys))
        rho = server.rho * (best / server.rho) ** jnp.where(met, share, 0)
        return jnp.where(server.t >= 2, jnp.clip(rho, LEAST * first, MOST * first), first)

    def client_receive(self, client: SagaClient, answer: None) -> SagaClient:
        return client

    def adjusted(
        self, client: SagaClient, down: SagaDown, error: tuple[Params, SagaFound | None]
    ) -> SagaClient:
        rho = jnp.where(down.t > 0, down.rho, 0)
        g = tree.axpy(-rho, error[0], client.g)
        return client._replace(g=g, w=tree.add(client.w, error[0]))

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
        return {"rho": self._current_rho(server), **curvature}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)

    def _asks(self, t: Int[Array, ""]) -> Bool[Array, ""]:
        return probing(t)

    def _current_rho(self, server: SagaServer) -> Scalar:
        if self.rho is not None:
            return jnp.full_like(server.curvature.L, self.rho)
        return server.rho

    def _rho(self, known: Curvature) -> Scalar:
        """The best where all curvatures lie between α and L."""
        n, L = self.N / self.tau, known.L
        return 2 * L * n / (jnp.sqrt((n - 1) ** 2 + 4 * n * L / known.alpha) - (n - 1))


def _bend(old: SagaClient, new: SagaClient) -> Bend:
    """Nothing where the client is asked for the first time, or f_i is not convex on the way."""
    y, s = tree.sub(new.g, old.g), tree.sub(new.w, old.w)
    bend = Bend(tree.dot(s, s), tree.dot(y, s), tree.dot(y, y))
    return tree.where(old.asked & (bend.ys > 0), bend, tree.zeros(bend))


POINTSAGA = Method(
    name="pointsaga",
    title="Point-SAGA",
    about="proximal FedDCD: of the dual methods, it needs the fewest uploads to reach a small gap",
    reveals="a model that fits this site's rows and is near coefficients that others know",
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
