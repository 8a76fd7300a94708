"""A site's part of a regression: the names and levels of its columns, then sums over its rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..._errors import DataError, Refused
from ..._files import stamp
from ...analysis.plan import Plan
from ...analysis.schema import Agreed, Misfit, Ready, offer, ready, used
from ...analysis.site import Question, answer
from ...data.frames import read_frame
from ...durable.codec import flatten
from ..wire import Opened
from .disclosure import Outgoing
from .policy import Check

METHOD = "newton"


class Source(NamedTuple):
    """Whose data, and where they are."""

    client: str
    data: Path


def columns(parcel: Opened, source: Source, check: Check) -> tuple[Opened, Outgoing]:
    """The kinds of the columns that the plan names, and their levels."""
    plan, frame = Plan.from_dict(parcel.meta["plan"]), _frame(source)
    with _guarded(source):
        entering = used(plan, list(frame.columns))
    out = Outgoing("columns", METHOD, entering, len(frame), 0, {}, {}, 0, {})
    check(out)
    with _guarded(source):
        said = offer(frame, plan)
    levels = {name: _counts(frame[name]) for name in said.levels}  # pyright: ignore
    told = {"client": source.client, **said._asdict()}
    return Opened("columns", told, {}), out._replace(levels=levels)


def sums(parcel: Opened, source: Source, check: Check) -> tuple[Opened, Outgoing]:
    """What the site says at a point; cells of few rows are left empty if its policy wants that."""
    meta = parcel.meta
    with _guarded(source):
        own = _ready(
            source, json.dumps(meta["plan"]), json.dumps(meta["agreed"]), *stamp(source.data)
        )
    asked = question(parcel.arrays, own.rows.X.shape[1], own.rows.Y.shape[1])
    kind = "moments" if asked.pilot else "hessian"
    out = Outgoing(
        kind, METHOD, own.columns, len(own.rows.s), asked.w.size, own.classes, own.levels,
        len(meta["agreed"]["sites"]), {},
    )  # fmt: skip
    policy = check(out)
    bins = policy.kinds is None or "bins" in policy.kinds
    least = policy.min_per_level if bins else len(own.rows.s) + 1
    said = flatten(answer(own.rows, meta["plan"].get("family", "binomial"), asked, least))
    told = {"client": source.client, "dropped": own.dropped}
    return Opened("sums", told, said), out._replace(arrays=said)


@contextmanager
def _guarded(source: Source) -> Iterator[None]:
    """What is wrong with the data: columns may be named to others, all else is for the own log."""
    try:
        yield
    except Misfit as error:
        raise Refused(f"{source.client}: {error}") from None
    except ValueError as error:
        raise DataError(f"{source.data}: {error}") from None


def question(arrays: dict[str, np.ndarray], d: int, k: int) -> Question:
    p = d * k
    shapes = {"w": (d, k), "seen": (d, k), "null": (k,), "scale": (), "pilot": ()}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise Refused(f"a question whose {name} has the shape {arrays[name].shape}")
    if arrays["V"].size not in (0, p * (p + 1) // 2):
        raise Refused("a question whose V has another size")
    held: dict[str, Any] = {name: arrays[name] for name in Question._fields}
    held["pilot"] = bool(arrays["pilot"])
    return Question(**held)


def _counts(values: pd.Series) -> dict[str, int]:
    return {str(k): int(v) for k, v in values.value_counts().items()}


def _frame(source: Source) -> pd.DataFrame:
    return _read(source.data, *stamp(source.data))


@lru_cache(maxsize=2)
def _read(data: Path, *_: int) -> pd.DataFrame:
    return read_frame(data).frame


@lru_cache(maxsize=32)  # one per site, of which `simulate` has all in one process
def _ready(source: Source, plan: str, agreed: str, *_: int) -> Ready:
    held: dict[str, Any] = json.loads(agreed)
    return ready(_frame(source), Plan.from_dict(json.loads(plan)), Agreed(**held), source.client)
