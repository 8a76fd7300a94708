"""A federation across machines: sites that keep their data, a coordinator with a ledger.

The network is an `Exchange` (Flower's, in `feddcd.flower`); algorithms are the simulator's.
"""

import sys
from collections.abc import Mapping
from typing import Any

from .._errors import SpecError
from .coordinator.nodes import Exchange
from .folder import place_of_node
from .site.answer import answer
from .wire import Refusal, pack_message

__all__ = ["answer_node", "coordinate"]


def coordinate(exchange: Exchange, run: Mapping[str, Any]) -> None:
    """The whole run of a federation; sites, which start again for every message, do not load it."""
    from .coordinator.coordinator import coordinate

    coordinate(exchange, run)


def answer_node(request: bytes, node: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    """A site's answer in Flower's simulation engine, which says where the site is."""
    try:
        place = place_of_node(node, run)
    except (SpecError, OSError, LookupError, ValueError) as error:
        print(f"this site cannot start: {error}", file=sys.stderr, flush=True)  # paths stay here
        reason = (
            "feddcd cannot use the settings of one SuperNode; the log of that SuperNode says why"
        )
        return pack_message(Refusal("?", reason))
    return answer(request, place)
