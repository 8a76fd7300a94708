"""A finished training as `feddcd run` leaves one: config.toml, history.csv, summary.json and
report.html beside model.npz, from what the coordinator noted round by round."""

import dataclasses
import json
import math
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .._origin import with_origin
from ..history import COLUMNS, COUNTS, UNCOUNTED, History
from .folder import FederationFolder, about_data

MEASURED = ("objective", "lower_bound", "certified_gap", "accuracy", "dual_residual")
FINISHED = "finished"  # as in the folder of a run
ACCURACY = {"accuracy_of": "training data", "accuracy_is": "share of right labels"}


def write_run(folder: FederationFolder) -> Path | None:
    """The path of the report; None where nothing was trained yet, or nothing can be drawn."""
    file = folder.results / "summary.json"
    if not file.exists():
        return None
    summary: dict[str, Any] = json.loads(file.read_text())
    history, config = history_of(folder, summary), folder.config()
    sites = len(summary["members"])
    spec = dataclasses.replace(config.spec, data=config.name, clients=sites, given=("data",))
    known = {name: summary.get(name) for name in MEASURED}
    full = known | {
        "clients": sites, "tau": spec.tau or sites, "iterations": history.rounds,
        "seconds": _known(history.last("seconds")), **ACCURACY,
    }  # fmt: skip
    full |= summary | {"status": FINISHED}
    folder.save(file, full)
    _save(folder, "config.toml", spec.save)
    _save(folder, "history.csv", history.save)
    if find_spec("matplotlib") is None:
        return None
    from ..report import RunEntry, write

    entry = RunEntry(spec.algorithm, history, full, _settings(folder))
    title = f"{spec.algorithm} in the federation {config.name}"
    with with_origin(data=about_data(folder, summary["members"])):
        _save(folder, "report.html", lambda path: write([entry], path, title=title))
    return folder.results / "report.html"


def history_of(folder: FederationFolder, summary: dict[str, Any]) -> History:
    """A row for each round that was summed. The ledger has the last word on what was sent: a crash
    may have taken a line of the events."""
    rows: list[dict[str, float]] = []
    sent = {"uploads": 0, "bytes_up": 0, "seconds": 0.0}
    mean = summary["bytes_up"] / max(summary["uploads"], 1)
    for _, event in folder.read_events():
        if event["event"] == "round" and event["summed"]:
            sent["uploads"] += len(event["summed"])
            sent["bytes_up"] += int(event.get("bytes", mean * len(event["summed"])))
            sent["seconds"] += event["seconds"]
            rows.append({"round": len(rows) + 1, "iteration": len(rows) + 1, **sent})
        elif event["event"] == "certified" and rows:
            rows[-1] |= {k: event[k] for k in MEASURED if event.get(k) is not None}
    if rows:
        rows[-1] |= {name: summary[name] for name in ("uploads", "bytes_up")}
        rows[-1]["round"] = summary["rounds"]
        # a certificate is of one model: that of an earlier round says nothing of the last one
        for name in MEASURED:
            rows[-1].pop(name, None)
            if summary.get(name) is not None:
                rows[-1][name] = summary[name]
    blank = lambda name: 0 if name in COUNTS - UNCOUNTED else math.nan
    return History({n: np.array([row.get(n, blank(n)) for row in rows]) for n in COLUMNS})


def _settings(folder: FederationFolder) -> dict[str, Any]:
    """What was said of this training, and nothing of simulations."""
    config, spec = folder.config(), folder.config().spec
    names = ("algorithm", "settings", "model", "l2", "weighting", "rounds", "tau", "target_gap")
    said = {name: getattr(spec, name) for name in names}
    said |= {
        "data": config.name,
        "answers": config.answers or "each",
        "sites": list(folder.invited()),
    }
    return {k: v for k, v in said.items() if v is not None}


def _save(folder: FederationFolder, name: str, write: Any) -> None:
    """Whole or not at all, and for the owner alone."""
    with tempfile.TemporaryDirectory() as place:
        write(Path(place, name))
        folder.save(folder.results / name, Path(place, name).read_bytes())


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
