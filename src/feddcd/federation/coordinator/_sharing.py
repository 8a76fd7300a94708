"""The result of a study goes back to the sites that took part, where the study says so."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..._errors import FeddcdError
from ..._files import Disk
from ...analysis.registry import ANALYSES
from .. import wire
from ..folder import FederationFolder
from ..unshared import SHARED, UNSHARED, unshared
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
    if not files:  # somebody removed the table of an earlier study
        return
    told = {"study": folder.study or "federation", "files": files}
    message = wire.pack_message(Envelope("result", told, {}))
    for site, reply in nodes.ask(dict.fromkeys(sites, message), work=False, most=SMALL):
        took = reply is not None and reply.kind == "result"
        folder.note(SHARED if took else UNSHARED, site=site)


def share_earlier(folder: FederationFolder, nodes: Nodes) -> None:
    """The tables of earlier studies, to those who are here now and were away then."""
    for name in {"", *folder.studies()} - {folder.study}:
        study = folder.of_study(name)
        sites = [site for site in unshared(study) if site in nodes.here()]
        if sites:
            with suppress(FeddcdError, OSError):  # an earlier study stops no later one
                plan = study.config().plan
                if plan is not None:
                    share(study, nodes, study.results / ANALYSES[plan.analysis].part, sites)
