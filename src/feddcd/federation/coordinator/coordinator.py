"""The coordinator: an analysis or a training, over whatever network there is.

    greet the sites  ->  agree and found, or go on with the ledger  ->  rounds  ->  settle

All that must not be lost is on disk. Killed at any moment and started again, it goes on.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._errors import (
    DataError,
    FolderError,
    LedgerError,
    MissingExtra,
    Refused,
    SpecError,
    Stalled,
)
from ..._extras import needs
from ..about import ALONE, StudyEnd
from ..config import Config
from ..folder import FederationFolder
from ..wire import REGRESSION, Hello
from ._ending import end_of, remember, tell_end
from .nodes import Exchange, Nodes

FAILURES = (Stalled, DataError, SpecError, LedgerError, FolderError, MissingExtra, Refused)


def coordinate(
    exchange: Exchange,
    run: Mapping[str, Any],
    watch: Callable[[dict[str, Any]], None] = lambda event: print(json.dumps(event), flush=True),
) -> None:
    """The whole run of a federation. The run's configuration names its folder."""
    folder = FederationFolder(Path(str(run["folder"])), watch, str(run.get("study", "")))
    config = in_mode(folder.config(), str(run.get("mode", "")))
    folder.note("greeting", pid=os.getpid())
    kind = config.spec.model if config.plan is None else REGRESSION
    hello = Hello(config.name, kind, config.purpose)
    nodes = Nodes(exchange, folder, hello, config.deadline)
    try:
        if config.plan is not None:
            from ._tables import AnalysisRun  # with pandas

            AnalysisRun(folder, nodes, config, config.plan).run()
            return
        with needs("train"):
            from ._training import train  # with JAX

        train(folder, nodes, int(run.get("rounds", 0)))
    except FAILURES as error:  # sites hear first: who watches this process ends it then
        tell_end(folder, nodes, end_of(folder, error), folder.invited())
        folder.note("failed", reason=str(error))
        raise


def note_stopped(folder: FederationFolder) -> None:
    """A run that could not tell its end itself: sites hear of it with the next study."""
    remember(folder, StudyEnd(folder.study or ALONE, "stopped", {}), folder.invited())


def note_cancelled(folder: FederationFolder) -> None:
    """A study that nobody works on any more: its job does not go on, and sites hear of it with the
    next study."""
    from ._masked import JobFolder  # with what sums need

    if (job := JobFolder.current(folder)) is not None:
        job.close()
    remember(folder, StudyEnd(folder.study, "cancelled", {}), folder.invited())


def in_mode(config: Config, mode: str) -> Config:
    """With what the person who asks says for this run alone."""
    if not mode:
        return config
    if config.plan is None:
        raise SpecError(
            "--mode works for tables only; for a training, write the setting `answers` into "
            "federation.toml"
        )
    return dataclasses.replace(config, plan=dataclasses.replace(config.plan, answers=mode))
