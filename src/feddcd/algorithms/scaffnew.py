"""Scaffnew (ProxSkip, Mishchenko et al. 2022): local steps that accelerate.

    x_i = K steps x ← x - γ_i (∇f_i(x) - h_i) from the model,    K ~ geometric(p)
    w = mean of all x_i, each counting 1/γ_i,    h_i = h_i + (p/γ_i) (w - x_i)

with γ_i = 1/β_i and p = 1/sqrt(κ), κ the mean of β_i/α_i. It needs everyone in every round.
"""

from typing import ClassVar

from .._settings import number
from .._types import Key
from ._base import Method, Sends
from ._skipping import AbstractSkipping


class Scaffnew(AbstractSkipping):
    sends: ClassVar[Sends] = "model"
    rough: ClassVar[bool] = True

    @property
    def spread(self) -> float:
        return 1.0

    @property
    def chi(self) -> float:
        return 1.0

    def places(self, size: int, key: Key) -> None:
        return None


SCAFFNEW = Method(
    name="scaffnew",
    title="Scaffnew",
    about="accelerated local gradient steps (ProxSkip); needs all clients in every round",
    reveals="the common model after gradient steps on this site's rows",
    algorithm=Scaffnew,
    make=lambda given: Scaffnew(**given.settings),
    exact=True,
    settings={"lr": number(), "p": number(most=1)},
    needs_everyone=True,
    needs_l2=True,
    needs_rate=True,
    look=("#44aa99", "-"),
)
