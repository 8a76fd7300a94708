"""An algorithm whose functions are compiled one by one, for engines that send messages."""

from functools import partial
from typing import Any

import equinox as eqx

from ..algorithms import AbstractAlgorithm

NAMES = (
    "broadcast", "client_step", "server_step", "client_receive", "conserved", "rebalance", "joined"
)  # fmt: skip


@eqx.filter_jit
def _call(algorithm: AbstractAlgorithm, name: str, *args: Any) -> Any:
    return getattr(algorithm, name)(*args)


class Compiled:
    """Stands in for the algorithm; what is not compiled is the algorithm's own."""

    def __init__(self, algorithm: AbstractAlgorithm):
        self._algorithm = algorithm

    def __getattr__(self, name: str) -> Any:
        own = partial(_call, self._algorithm, name)
        found = own if name in NAMES else getattr(self._algorithm, name)
        setattr(self, name, found)  # Equinox binds a method anew each time, slowly
        return found
