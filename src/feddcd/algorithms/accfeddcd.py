"""Accelerated FedDCD, Algorithm 2 of the paper. With r = (τ-1)/(N-1) and κ = α/β,

    a = sqrt(κ)/(1/r + sqrt(κ)),    b = a κ r²,    s = b/(a² + b),

    v = (1-a) y + a z,    u = (1-s) z + s v,    w_i = argmin f_i(w) - <v_i, w>
    first set     y_i = v_i - η α_i (w_i - w̄)
    second set    z_i = u_i - η (a r/(a²+b)) α_i (w_i - w̄)

Clients outside a set follow with y = v and z = u. That needs no data, so a client does it
when it is next called: (y, z) -> (v, u) conserves m = π_y y + π_z z and shrinks the rest
by φ = (1-a)(1-s), so k missed iterations of one κ are one step in closed form.

κ is chosen again before iterations 1, 2, 4, 8, ...: a client that was absent has to follow every
change, so they are few. With L_i the largest curvature at w_i,

    κ = α/(1.5 β),    β² = mean of L_i²,    the larger β of the last two times.

The steepest clients decide how fast it goes, and a cohort may have few of them. The plain mean of
one cohort's L_i is too small then; what the steepest one says is too large if it is alone.

Both sets see the same v. With `sets=2` they are two rounds, with `sets=1` one cohort moves
both y and z. The model is w̄ of the last round.

When a member leaves for ever, the others' sums are not 0. The next cohort takes them from its
y and z of the iteration's start, and from the moves that the first set has made since.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import tree
from .._errors import SpecError
from .._settings import number, whole, word
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import Method, Sends, Upload
from ._curvature import probe, probing
from ._doubling import EPOCHS, epoch, followed, spans
from ._promise import Promise
from .feddcd import AbstractDual, dual_settings, strong_convexity

Several = Float[Array, "*rounds"]  # one κ, or one for each round that was missed


class Duals(NamedTuple):
    y: Params
    z: Params
    dy: Params


CAUTION = 1.5  # too small a κ costs its root, too large a κ more


class Steepness(NamedTuple):
    """α, and the square of the largest curvature of the local problems: means over cohorts."""

    alpha: Scalar
    squared: Scalar


class AccServer(NamedTuple):
    w: Params
    t: Int[Array, ""]  # committed rounds
    steepness: Steepness  # as the last iteration that was asked for it has it
    before: Scalar  # the square as the one before had it
    kappas: Float[Array, " epochs"]
    excess: Duals | None = None  # the sums over the weights', from `rebalance` to the next answer


class AccDown(NamedTuple):
    t: Int[Array, ""]
    kappas: Float[Array, " epochs"]
    w: Params | None  # where to start, if not at the client's own last w


class AccAnswer(NamedTuple):
    w: Params
    t: Int[Array, ""]
    kappa: Scalar
    excess: Duals | None  # to take away per weight


class AccClient(NamedTuple):
    y: Params  # at the start of iteration k
    z: Params
    dy: Params  # this client's moves within iteration k
    dz: Params
    w: Params
    weight: Scalar  # 1/λ, α unless given otherwise
    k: Int[Array, ""]


class AccFedDCD(AbstractDual[AccServer, AccClient, AccDown, AccAnswer]):
    """κ comes from the local curvatures, probed at the cohort's own solutions from time to time,
    unless given; r is (τ-1)/(N-1) unless given; `start` and `weights` as in FedDCD.
    """

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    tau: int
    N: int
    solver: AbstractLocalSolver = NewtonCG()
    kappa: float | None = None
    r: float | None = None
    eta: float = 1.0
    sets: Literal[1, 2] = 2
    start: Literal["own", "model"] = "own"
    weights: Callable[[AbstractProblem], Scalar] = strong_convexity

    def __check_init__(self):
        if self.start not in ("own", "model"):
            raise SpecError(f"the setting 'start' must be 'own' or 'model', not {self.start!r}")
        if self.sets not in (1, 2):
            raise SpecError(f"the setting 'sets' must be 1 or 2, not {self.sets!r}")
        if self.kappa is not None and not 0 < self.kappa <= 1:
            raise SpecError(f"need 0 < kappa <= 1, got kappa={self.kappa}")

    @property
    def rounds_per_iteration(self) -> int:
        return self.sets

    def coefficients(self, kappa: Several) -> tuple[Several, Several, Several]:
        """a, s and the length of z's step."""
        a, r = self._gain(jnp.sqrt(kappa)), self._r
        b = a * kappa * r**2
        return a, b / (a**2 + b), a * r / (a**2 + b)

    @property
    def _r(self) -> float:
        return (self.tau - 1) / (self.N - 1) if self.r is None else self.r

    def _gain(self, root: Any) -> Any:
        return root / (1 / self._r + root)

    def init_server(self, w: Params) -> AccServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        kappas = jnp.ones(EPOCHS, one.dtype)
        if self.kappa is not None:
            kappas = jnp.full(1, self.kappa, one.dtype)
        unknown, none = Steepness(one, one), jnp.zeros_like(one)
        return AccServer(w, jnp.zeros((), jnp.int32), unknown, none, kappas)

    def init_client(self, f: AbstractProblem, w: Params) -> AccClient:
        zero = tree.zeros(w)
        return AccClient(zero, zero, zero, zero, w, self.weights(f), jnp.zeros((), jnp.int32))

    def weight(self, f: AbstractProblem) -> Scalar:
        return self.weights(f)

    def broadcast(self, server: AccServer, key: Key) -> AccDown:
        return self._down(server)

    def _down(self, server: AccServer) -> AccDown:
        w = server.w if self.start == "model" else None
        return AccDown(server.t, server.kappas, w)

    def client_step(self, f, client: AccClient, down: AccDown, key: Key):
        client = self.caught_up(client, down)
        a, _, _ = self.coefficients(self._kappa(down.kappas, client.k))
        v = tree.lerp(a, client.y, client.z)
        start = client.w if down.w is None else down.w
        w, grad_norm, steps = self.solver(f.tilted(v), start, key)
        found = None
        if self.kappa is None:
            alpha, L = probe(f, w, probing(self._iteration(down.t)), key)
            found = Steepness(alpha, L**2)
        return client._replace(w=w), Upload((w, found), grad_norm, steps)

    def server_step(self, server: AccServer, mean: tuple[Params, Steepness | None], share: Scalar):
        w, found = mean
        excess = None if server.excess is None else tree.scale(1 / share, server.excess)
        server = server._replace(w=w, t=server.t + 1, excess=None)
        if found is not None:
            server = self._chosen_anew(server, found)
        t = server.t - 1
        kappa = self._kappa(server.kappas, self._iteration(t))
        return server, AccAnswer(w, t, kappa, excess)

    def _chosen_anew(self, server: AccServer, found: Steepness) -> AccServer:
        """κ for the epochs to come. Iteration 0 begins at y = z = 0: all that κ does there is
        the length of z's step, so that it may come from the same round."""
        t = server.t - 1
        k = self._iteration(t)
        asked = probing(k)
        second = (self.sets == 2) & (t % 2 == 1)  # of the iteration's cohorts: their mean counts
        known = tree.where(second, tree.lerp(0.5, server.steepness, found), found)
        known = tree.where(asked, known, server.steepness)
        first = asked & ~second & (k > 0)
        before = jnp.where(first, server.steepness.squared, server.before)
        beta = CAUTION * jnp.sqrt(jnp.maximum(known.squared, before))
        later = (jnp.arange(EPOCHS) > epoch(k)) | (k == 0)
        kappas = jnp.where(asked & later, jnp.minimum(known.alpha / beta, 1), server.kappas)
        return server._replace(steepness=known, before=before, kappas=kappas)

    def client_receive(self, client: AccClient, answer: AccAnswer) -> AccClient:
        _, _, length = self.coefficients(answer.kappa)
        d = tree.scale(-self.eta * client.weight, tree.sub(client.w, answer.w))
        first = (self.sets == 1) | (answer.t % 2 == 0)
        second = (self.sets == 1) | (answer.t % 2 == 1)
        dy = tree.where(first, d, client.dy)
        dz = tree.where(second, tree.scale(length, d), client.dz)
        client = client._replace(dy=dy, dz=dz)
        return client if answer.excess is None else _without(client, answer.excess)

    def adjusted(
        self, client: AccClient, down: AccDown, error: tuple[Params, Steepness | None]
    ) -> AccClient:
        return client._replace(w=tree.add(client.w, error[0]))

    def residuals(self, server: AccServer, clients: AccClient, weights) -> list[Params]:
        down = self._down(server)
        ended = lambda client: self._finish(self.caught_up(client, down), down)
        y, z = jax.vmap(ended)(clients)
        return [tree.total(y), tree.total(z)]

    def conserved(self, client: AccClient, down: AccDown) -> Duals:
        """Caught up; between rounds dz is 0 then, so it has no part in the sums."""
        now = self.caught_up(client, down)
        return Duals(now.y, now.z, now.dy)

    def chosen(self, server: AccServer) -> dict[str, Scalar]:
        return {"kappa": self._kappa(server.kappas, self._iteration(server.t))}

    def promised(self, server: AccServer, t: Int[np.ndarray, " n"]) -> Promise | None:
        """1 - a an iteration, for dual steps of the length α."""
        if self.eta != 1 or self.weights is not strong_convexity:
            return None
        begins, ends = spans(len(server.kappas))
        a = self._gain(np.sqrt(np.asarray(server.kappas)))
        iterations = np.clip(t[:, None] / self.sets - begins, 0, ends - begins)
        return Promise("kappa", float(self.chosen(server)["kappa"]), iterations @ -np.log1p(-a))

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)

    def caught_up(self, client: AccClient, down: AccDown) -> AccClient:
        """The client at the start of the iteration that `down.t` belongs to."""
        now = self._iteration(down.t)
        y, z = self._finish(client, down)
        a, s, _ = self.coefficients(down.kappas)
        p, q = followed(a, s, client.k + 1, now)
        y, z = tree.lerp(p, y, z), tree.lerp(q, z, y)
        zero = tree.zeros(y)
        behind = client._replace(y=y, z=z, dy=zero, dz=zero, k=now)
        return tree.where(now <= client.k, client, behind)

    def _finish(self, client: AccClient, down: AccDown) -> tuple[Params, Params]:
        """(y, z) at the end of the client's iteration."""
        a, s, _ = self.coefficients(self._kappa(down.kappas, client.k))
        v = tree.lerp(a, client.y, client.z)
        return tree.add(v, client.dy), tree.add(tree.lerp(s, client.z, v), client.dz)

    def _iteration(self, t: Int[Array, ""]) -> Int[Array, ""]:
        return t // self.sets

    def _kappa(self, kappas: Float[Array, " epochs"], k: Int[Array, ""]) -> Scalar:
        return kappas[jnp.minimum(epoch(k), len(kappas) - 1)]


def _without(client: AccClient, excess: Duals) -> AccClient:
    now = tree.axpy(-client.weight, excess, Duals(client.y, client.z, client.dy))
    return client._replace(y=now.y, z=now.z, dy=now.dy)


ACCFEDDCD = Method(
    name="accfeddcd",
    title="AccFedDCD",
    about="FedDCD with Nesterov's acceleration, the paper's Algorithm 2",
    reveals="as feddcd",
    algorithm=AccFedDCD,
    make=lambda given: AccFedDCD(given.tau, given.N, given.solver, **dual_settings(given)),
    exact=True,
    settings={
        "kappa": number(),
        "r": number(most=1),
        "eta": number(),
        "sets": whole(),
        "start": word,
        "step": number(),
    },
    solver="newton",
    solver_mlp="adam",
    needs_l2=True,
    look=("#d55e00", "-"),
    usual=True,
)
