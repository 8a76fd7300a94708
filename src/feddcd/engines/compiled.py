"""An algorithm whose functions are compiled one by one, for engines that send messages."""

from typing import Any

import equinox as eqx

from ..algorithms import AbstractAlgorithm

NAMES = (
    "broadcast", "client_step", "server_step", "client_receive", "conserved", "rebalance", "joined"
)  # fmt: skip


@eqx.filter_jit
def _call(algorithm: AbstractAlgorithm, name: str, args: tuple) -> Any:
    return getattr(algorithm, name)(*args)


class Compiled:
    """Stands in for the algorithm; what is not compiled is the algorithm's own."""

    def __init__(self, algorithm: AbstractAlgorithm):
        self._algorithm = algorithm

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            return lambda *args: _call(self._algorithm, name, args)
        return getattr(self._algorithm, name)
