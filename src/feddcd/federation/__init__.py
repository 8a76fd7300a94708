"""A federation across machines: sites that keep their data, a coordinator with a ledger.

The network is an `Exchange` (Flower's, in `feddcd.flower`); algorithms are the simulator's.
"""

import sys
from collections.abc import Mapping
from typing import Any

from .._errors import SpecError
from .coordinator.nodes import Exchange
from .folder import place_from
from .site.answer import answer
from .wire import Refusal, packed

__all__ = ["answer_node", "coordinate"]


def coordinate(exchange: Exchange, run: Mapping[str, Any]) -> None:
    """The whole run of a federation; sites, which start anew for every message, do not load it."""
    from .coordinator.coordinator import coordinate

    coordinate(exchange, run)


def answer_node(request: bytes, node: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    """A site's answer, wherever its network says that the site is."""
    try:
        place = place_from(node, run)
    except (SpecError, OSError, LookupError) as error:
        print(f"this site cannot start: {error}", file=sys.stderr, flush=True)  # paths stay here
        return packed(
            Refusal("?", "a site's node config cannot be used; its SuperNode's log says why")
        )
    return answer(request, place)
