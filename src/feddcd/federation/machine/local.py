"""A network in one process, to try a federation out, and with messages that get lost."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..site.answer import SitePlace, answer


class LocalExchange:
    """Each request, and each answer, is lost with probability `loss`; `ask` is put before a person
    by each site before anything leaves."""

    def __init__(
        self,
        places: Sequence[SitePlace],
        *,
        loss: float = 0.0,
        seed: int = 0,
        ask: Callable[[str], str] | None = None,
    ):
        self._places, self._loss, self._ask = dict(enumerate(places, 1)), loss, ask
        self._random = random.Random(seed)

    def nodes(self) -> dict[int, bytes]:
        return dict.fromkeys(self._places, b"")

    def ask(
        self, requests: Mapping[int, bytes], seconds: float, work: bool, stop: Callable[[], bool]
    ) -> Iterator[tuple[int, bytes | None]]:
        for node, request in requests.items():
            data = None if self._lost() else answer(request, self._places[node], self._ask)
            yield node, None if data is None or self._lost() else data

    def _lost(self) -> bool:
        return self._random.random() < self._loss
