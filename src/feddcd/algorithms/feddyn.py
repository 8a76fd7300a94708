"""FedDyn (Acar et al. 2021): each client's loss is bent until all agree on one minimiser.

    w_i = argmin f_i(w) - <g_i, w> + (a/2)|w - θ|²,    g_i = g_i - a (w_i - θ),    i in I
    h = h - a share (mean_I w_i - θ),    θ = mean_I w_i - h/a

with a = 3 sqrt(L α), L the mean largest local curvature. Put x̂ for θ, ρ for a and ḡ for h: it
is mini-batch Point-SAGA, with another constant. So it is one here, too.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .._settings import number
from .._types import Scalar
from ._base import Curvature, Given, Method
from .pointsaga import PointSAGA, SagaServer


class FedDyn(PointSAGA):
    """Point-SAGA's ρ is FedDyn's a, which does not change after the first two rounds give L."""

    def chosen(self, server):
        numbers = super().chosen(server)
        return {"a": numbers.pop("rho"), **numbers}

    def _asks(self, t: Int[Array, ""]) -> Bool[Array, ""]:
        return t < 2

    def _current_rho(self, server: SagaServer) -> Scalar:
        return self._rho(server.curvature)

    def _rho(self, known: Curvature) -> Scalar:
        if self.rho is not None:
            return jnp.full_like(known.L, self.rho)
        return 3 * jnp.sqrt(known.L * known.alpha)


def _make(given: Given) -> FedDyn:
    return FedDyn(given.tau, given.N, given.solver, rho=given.settings.get("a"))


FEDDYN = Method(
    name="feddyn",
    title="FedDyn",
    about=(
        "each client corrects its loss with earlier gradients; the same as Point-SAGA with "
        "another choice of rho"
    ),
    reveals="as pointsaga",
    algorithm=FedDyn,
    make=_make,
    exact=True,
    settings={"a": number()},
    solver="newton",
    solver_mlp="adam",
    needs_l2=True,
    look=("#5546b0", "-"),
)
