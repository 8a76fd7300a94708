"""Accelerated S-DANE (Jiang, Rodomanov & Stich 2024), with everyone; two exchanges a step.

With λ a² = (A + a)(1 + μ A) and y = (A x + a v)/(A + a),

    g = mean ∇f_i(y)
    x_i = argmin f_i(x) - <∇f_i(y) - g, x> + (λ/2)|x - y|²,    x = mean x_i
    v = ((1 + μ A) v + μ a x - a mean ∇f_i(x_i)) / (1 + μ (A + a)),    A = A + a

F(x) - F* <= |x_0 - x*|²/(2 A). λ is chosen as by `sdane`, from ∇F(x), which travels with the
next g. A round without everyone changes nothing. The model is x.
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
from .sdane import still


class AccDanePoint(NamedTuple):
    x: Params
    v: Params
    A: Scalar


class AccDaneServer(NamedTuple):
    safe: AccDanePoint  # the last that was accepted
    now: AccDanePoint  # to be judged by ∇F(x)
    y: Params  # from which now.x was found
    used: Scalar  # the λ of that
    g: Params  # ∇F at the next y
    lam: Scalar  # the next λ
    solve: Bool[Array, ""]  # the next round solves; else it asks for gradients
    t: Int[Array, ""]
    curvature: Curvature


class AccDaneDown(NamedTuple):
    x: Params
    y: Params
    g: Params
    lam: Scalar
    solve: Bool[Array, ""]
    t: Int[Array, ""]


class AccSDANE(AbstractStateless[AccDaneServer, AccDaneDown]):
    """λ is chosen unless given; then every step counts."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    kinds: ClassVar[int] = 2
    solver: AbstractLocalSolver = NewtonCG()
    lam: float | None = None

    @property
    def rounds_per_iteration(self) -> int:
        return 2

    def kind(self, down: AccDaneDown) -> Int[Array, ""]:
        return down.solve.astype(jnp.int32)

    def init_server(self, w: Params) -> AccDaneServer:
        one = jnp.ones((), tree.dot(w, w).dtype)
        lam, no = one if self.lam is None else self.lam * one, jnp.array(False)
        at = AccDanePoint(w, w, 0 * one)
        zero = jnp.zeros((), jnp.int32)
        return AccDaneServer(at, at, w, lam, tree.zeros(w), lam, no, zero, unknown(w))

    def weight(self, f: AbstractProblem) -> Scalar:
        return jnp.ones_like(f.mu)

    def broadcast(self, server: AccDaneServer, key: Key) -> AccDaneDown:
        y, _ = _between(server.now, server.lam, server.curvature.alpha)
        return AccDaneDown(server.now.x, y, server.g, server.lam, server.solve, server.t)

    def client_step(self, f, client: Stateless, down: AccDaneDown, key: Key):
        own = jax.grad(f)(down.y)
        found = first_look(f, () if self.lam is not None else (down.y,), down.t, key)

        def solved():
            local = f.tilted(tree.sub(own, down.g)).proximal(down.lam, down.y)
            x, grad_norm, steps = self.solver(local, down.y, key)
            return (x, jax.grad(f)(x)), grad_norm, steps

        def asked():
            return (own, jax.grad(f)(down.x)), tree.norm(own), jnp.ones((), jnp.int32)

        both, grad_norm, steps = jax.lax.cond(down.solve, solved, asked)
        return client, Upload((*both, found), grad_norm, steps)

    def server_step(
        self, server: AccDaneServer, mean: tuple[Params, Params, Curvature], share: Scalar
    ):
        one, two, found = mean
        known = kept(server.curvature, found, server.t)
        new = tree.where(
            server.solve,
            self._moved(server, one, two, known.alpha),
            self._judged(server, one, two, known),
        )
        new = new._replace(curvature=known, t=server.t + 1)
        return tree.where(share > 1 - 1e-9, new, server), None

    def _moved(self, server: AccDaneServer, x: Params, g: Params, mu: Scalar) -> AccDaneServer:
        """The clients found x, with gradients g."""
        now, lam = server.now, server.lam
        y, a = _between(now, lam, mu)
        rounding = still(tree.sub(x, y), y)
        v = tree.axpy(-a, g, tree.axpy(mu * a, x, tree.scale(1 + mu * now.A, now.v)))
        after = AccDanePoint(x, tree.scale(1 / (1 + mu * (now.A + a)), v), now.A + a)
        later = lam if self.lam is not None else jnp.where(rounding, lam, 0.8 * lam)
        return server._replace(
            safe=now, now=after, y=y, used=lam, lam=later, solve=jnp.array(False)
        )

    def _judged(
        self, server: AccDaneServer, g: Params, there: Params, known: Curvature
    ) -> AccDaneServer:
        """The gradients at the next y and at now.x have come."""
        accepted = server._replace(safe=server.now, g=g, solve=jnp.array(True))
        if self.lam is not None:
            return accepted
        first = server.t == 0
        d, lam = tree.sub(server.now.x, server.y), server.used
        fine = tree.norm(tree.axpy(lam, d, there)) <= lam * tree.norm(d) / 2
        rounding = still(d, server.y)  # or nothing was tried
        fine = fine | first | rounding
        # in round 0 y is the start, whatever λ is; later g is at the y of server.lam
        accepted = accepted._replace(lam=jnp.where(first, known.L / 10, server.lam))
        back = server._replace(now=server.safe, y=server.safe.x, lam=2 * lam, used=2 * lam)
        return tree.where(fine, accepted, back)

    def model(self, server: AccDaneServer) -> Params:
        return server.safe.x

    def chosen(self, server: AccDaneServer) -> dict[str, Scalar]:
        return {"lam": server.lam}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return self.solver.prepare(f)


def _between(at: AccDanePoint, lam: Scalar, mu: Scalar) -> tuple[Params, Scalar]:
    """y and a."""
    c = 1 + mu * at.A
    a = (c + jnp.sqrt(c**2 + 4 * lam * c * at.A)) / (2 * lam)
    return tree.lerp(a / (at.A + a), at.x, at.v), a


ACCSDANE = Method(
    name="accsdane",
    title="Acc-S-DANE",
    about="S-DANE with acceleration; needs all clients in every round",
    reveals="as sdane",
    algorithm=AccSDANE,
    make=lambda given: AccSDANE(given.solver, **given.settings),
    exact=True,
    settings={"lam": number()},
    solver="newton",
    solver_mlp="adam",
    needs_everyone=True,
    needs_l2=True,
    look=("#bbcc33", "-"),
)
