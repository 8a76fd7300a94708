"""TAMUNA (Condat, Agarský, Malinovsky & Richtárik 2023): Scaffnew with a part of the clients, of
which each may send a part of its coordinates.

    x_i = K steps x ← x - γ_i (∇f_i(x) - h_i) from the model,    K ~ geometric(p),    i in I
    w = mean of the x_i, coordinate by coordinate over those who sent it
    h_i = h_i + (η/γ_i) (w - x_i) in the coordinates that i sent

with p = min(1, sqrt(N/(s κ))) and η = p N (s-1)/(s (N-1)), if s of the cohort's τ send each
coordinate. A client does not know who else was asked, so it draws its s d/τ coordinates by
itself: s of τ holds in the mean, where the paper has it in each round. A coordinate travels with
its place.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._errors import SpecError
from .._settings import number, whole
from .._types import Key
from ._base import Method, Sends
from ._skipping import AbstractSkipping


class Tamuna(AbstractSkipping):
    """`s=None`: every client of the cohort sends all coordinates."""

    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True
    tau: int = 2
    N: int = 2
    s: int | None = None

    def __check_init__(self):
        if not 2 <= self._s <= self.tau:
            raise SpecError(
                "s must be at least 2 and at most tau (the number of clients in a round), got "
                f"s={self._s}, tau={self.tau}"
            )

    @property
    def _s(self) -> int:
        return self.tau if self.s is None else self.s

    @property
    def spread(self) -> float:
        return self.N / self._s

    @property
    def chi(self) -> float:
        return self.N * (self._s - 1) / (self._s * (self.N - 1))

    def places(self, size: int, key: Key) -> Int[Array, " k"] | None:
        if self._s == self.tau:
            return None
        few = math.ceil(size * self._s / self.tau)
        return jax.random.permutation(key, size)[:few].astype(jnp.int32)


TAMUNA = Method(
    name="tamuna",
    title="TAMUNA",
    about="Scaffnew in which only some clients take part, and each sends only some coordinates",
    reveals="as scaffnew",
    algorithm=Tamuna,
    make=lambda given: Tamuna(tau=given.tau, N=given.N, **given.settings),
    exact=True,
    settings={"lr": number(), "p": number(most=1), "s": whole(2)},
    needs_l2=True,
    needs_rate=True,
    look=("#88ccee", "-"),
)
