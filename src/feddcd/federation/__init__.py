"""A federation across machines: sites that keep their data, a coordinator with a ledger.

The network is an `Exchange` (Flower's, in `engines/flower`); algorithms are the simulator's.
"""

from collections.abc import Mapping
from typing import Any

from .coordinator import coordinate
from .home import place_from
from .worker import answer

__all__ = ["answer_node", "coordinate"]


def answer_node(request: bytes, node: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    """A site's answer, wherever its network says that the site is."""
    return answer(request, place_from(node, run))
