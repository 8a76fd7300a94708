"""The result of a study goes back to the sites that took part, where the study says so."""

from collections.abc import Iterable
from pathlib import Path

from ..._files import Disk
from .. import wire
from ..folder import FederationFolder
from ..wire import RESULT_FILES, Envelope
from .nodes import Nodes

MOST_BYTES = 1 << 21  # of one file
SMALL = 1 << 16  # bytes of an answer


def share(folder: FederationFolder, nodes: Nodes, tables: Path, sites: Iterable[str]) -> None:
    """Text that is in the table anyway; no report: a site would have to trust its HTML."""
    if folder.config().share != "cohort":
        return
    held = {name: Disk().read(tables / name, MOST_BYTES) for name in RESULT_FILES}
    files = {name: data.decode() for name, data in held.items() if data is not None}
    told = {"study": folder.study or "federation", "files": files}
    message = wire.pack_message(Envelope("result", told, {}))
    for site, reply in nodes.ask(dict.fromkeys(sites, message), work=False, most=SMALL):
        took = reply is not None and reply.kind == "result"
        folder.note("shared" if took else "not shared", site=site)
