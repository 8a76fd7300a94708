"""S-DANE (Jiang, Rodomanov & Stich 2024), stabilised DANE, with everyone; two exchanges a step.

    g = mean ∇f_i(v)
    x_i = argmin f_i(x) - <∇f_i(v) - g, x> + (λ/2)|x - v|²
    v = (v + mean (μ x_i - ∇f_i(x_i))/λ) / (1 + μ/λ)

If the clients' Hessians differ by δ, λ = 2 δ shrinks the distance by 1/(1 + μ/λ). δ is not
known. So a step counts if it is a proximal step on F up to half its own length (Solodov &
Svaiter 1999), |∇F(v⁺) + λ(v⁺ - v)| <= λ|v⁺ - v|/2, of which the next exchange tells; then λ
falls by a fifth. Else it is taken back and λ doubles. It starts at a tenth of the mean
largest curvature. A round without everyone changes nothing. The model is v.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .. import tree
from .._settings import number
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import AbstractLocalSolver, NewtonCG
from ._base import AbstractStateless, Curvature, Method, Sends, Stateless, Upload
from ._curvature import first_look, kept, unknown


class DaneServer(NamedTuple):
    v: Params  # the last accepted point
    g: Params  # mean ∇f_i(v)
    trial: Params
    lam: Scalar
    t: Int[Array, ""]
    curvature: Curvature


class DaneDown(NamedTuple):
    point: Params  # the trial in even rounds, v in odd ones
    g: Params
    lam: Scalar
    mu: Scalar
    t: Int[Array, ""]


class SDANE(AbstractStateless[DaneServer, DaneDown]):
    """λ as above unless given; then every step counts."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    kinds: ClassVar[int] = 2
    solver: AbstractLocalSolver = NewtonCG()
    lam: float | None = None

    @property
    def rounds_per_iteration(self) -> int:
        return 2

    def kind(self, down: DaneDown) -> Int[Array, ""]:
        return down.t % 2

    def init_server(self, w: Params) -> DaneServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        lam = one if self.lam is None else self.lam * one
        return DaneServer(w, tree.zeros(w), w, lam, jnp.zeros((), jnp.int32), unknown(w))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: DaneServer, key: Key) -> DaneDown:
        point = tree.where(server.t % 2 == 0, server.trial, server.v)
        return DaneDown(point, server.g, server.lam, server.curvature.alpha, server.t)

    def client_step(self, f, client: Stateless, down: DaneDown, key: Key):
        own = jax.grad(f)(down.point)
        found = first_look(f, () if self.lam is not None else (down.point,), down.t, key)

        def solved() -> tuple[Params, Scalar, Int[Array, ""]]:
            local = f.tilted(tree.sub(own, down.g)).proximal(down.lam, down.point)
            x, grad_norm, steps = self.solver(local, down.point, key)
            move = tree.axpy(-1.0, jax.grad(f)(x), tree.scale(down.mu, x))
            return move, grad_norm, steps

        plain = lambda: (own, tree.norm(own), jnp.ones((), jnp.int32))
        vector, grad_norm, steps = jax.lax.cond(down.t % 2 == 0, plain, solved)
        return client, Upload((vector, found), grad_norm, steps)

    def server_step(self, server: DaneServer, mean: tuple[Params, Curvature], share: Scalar):
        vector, found = mean
        known = kept(server.curvature, found, server.t)
        judged = self._judged(server, vector, known)
        lam, mu = server.lam, known.alpha
        step = tree.axpy(1 / lam, vector, server.v)
        moved = server._replace(trial=tree.scale(1 / (1 + mu / lam), step))
        new = tree.where(server.t % 2 == 0, judged, moved)._replace(curvature=known, t=server.t + 1)
        return tree.where(share > 1 - 1e-9, new, server), None

    def _judged(self, server: DaneServer, g: Params, known: Curvature) -> DaneServer:
        """The gradient at the trial is g."""
        first = server.t == 0
        accepted = server._replace(v=server.trial, g=g)
        if self.lam is not None:
            return accepted
        d, lam = tree.sub(server.trial, server.v), server.lam
        error = tree.norm(tree.axpy(lam, d, g))
        rounding = still(d, server.v)
        fine = (error <= lam * tree.norm(d) / 2) | first | rounding
        later = jnp.where(rounding, lam, 0.8 * lam)
        accepted = accepted._replace(lam=jnp.where(first, known.L / 10, later))
        return tree.where(fine, accepted, server._replace(lam=2 * lam))

    def model(self, server: DaneServer) -> Params:
        return server.v

    def chosen(self, server: DaneServer) -> dict[str, Scalar]:
        return {"lam": server.lam}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


def still(d: Params, v: Params) -> Bool[Array, ""]:
    """Whether a step is only rounding, of which nothing can be said."""
    size = 1 + tree.norm(v)
    return tree.norm(d) <= 1e4 * jnp.finfo(size.dtype).eps * size


SDANE_ROW = Method(
    name="sdane",
    title="S-DANE",
    about=(
        "clients solve local problems, corrected by the common gradient; needs all clients in "
        "every round"
    ),
    reveals=(
        "a gradient, and a model that fits this site's rows and is near coefficients that others "
        "know"
    ),
    algorithm=SDANE,
    make=lambda given: SDANE(given.solver, **given.settings),
    exact=True,
    settings={"lam": number()},
    solver="newton",
    solver_mlp="adam",
    needs_everyone=True,
    needs_l2=True,
    look=("#ddcc77", "-"),
)
