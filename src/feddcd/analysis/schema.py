"""What sites agree on before they add anything up: kinds of columns, their levels, the classes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from . import formula as formulas
from .families import coded
from .frame import Table, read
from .plan import Plan
from .prepare import effect_columns, effect_names
from .site import SiteRows


class Offer(NamedTuple):
    """What a site has: nothing but names."""

    levels: dict[str, list]  # of its categories
    numbers: list[str]  # its other columns that enter
    classes: list | None  # of a multinomial outcome


class Agreed(NamedTuple):
    levels: dict[str, list]
    classes: list | None
    names: list[str]  # of the design's columns, without site effects
    sites: list[str]


class Ready(NamedTuple):
    """A site's rows, and what its policy asks about them."""

    rows: SiteRows
    dropped: int
    columns: tuple[str, ...]
    classes: dict[str, int]
    levels: dict[str, dict[str, int]]


class Misfit(ValueError):
    """A site's data do not fit; the message names columns, and no value."""


def used(plan: Plan, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that enter; a missing one is named."""
    parts = formulas.split(plan.formula)
    text = " ".join([parts.response, parts.right, *parts.offsets])
    wanted = formulas.words(text) | {c for c in (plan.weight, plan.offset) if c}
    found = tuple(name for name in names if name in wanted)
    lacking = [c for c in (plan.weight, plan.offset, *plan.levels) if c and c not in names]
    if lacking:
        raise Misfit(f"there is no column {lacking[0]!r}")
    return found


def offer(frame: pd.DataFrame, plan: Plan) -> Offer:
    try:
        data = _read(frame, plan)
    except Misfit:
        raise
    except ValueError as error:
        if "not present in the dataset" in str(error) or "no column" in str(error):
            raise Misfit("a column that the formula names is not there") from error
        raise
    levels = _levels(data, frame)
    classes = None
    if plan.family == "multinomial":
        classes = _sorted(pd.unique(data.y))
    numbers = [c for c in used(plan, list(frame.columns)) if c not in levels]
    return Offer(levels, numbers, classes)


def agree(offers: Mapping[str, Offer], plan: Plan) -> tuple[Agreed, dict[str, str]]:
    """The union of levels and classes, and why some sites do not fit."""
    named = Counter(c for o in offers.values() for c in o.levels)
    kinds = {c for c, count in named.items() if 2 * count >= len(offers)}  # as most sites have it
    refused = {
        site: f"{site}: {why}" for site, o in offers.items() if (why := _odd(o, kinds, plan))
    }
    fitting = [o for site, o in offers.items() if site not in refused]
    levels = {
        c: plan.levels.get(c) or _sorted({v for o in fitting for v in o.levels[c]})
        for c in sorted(kinds)
        if fitting
    }
    classes = plan.classes
    if plan.family == "multinomial" and classes is None:
        classes = _sorted({v for o in fitting for v in o.classes or ()})
    sites = [site for site in offers if site not in refused]
    if not sites:
        return Agreed({}, None, [], []), refused
    numbers = sorted({c for o in fitting for c in o.numbers})
    return Agreed(levels, classes, design_names(plan, levels, numbers), sites), refused


def _odd(said: Offer, kinds: set[str], plan: Plan) -> str:
    """Why a site does not fit, or nothing."""
    for column in sorted(kinds ^ set(said.levels)):
        own, most = ("numbers", "categories") if column in kinds else ("categories", "numbers")
        return f"its column {column!r} holds {own}, and at most sites {most}"
    for column, declared in plan.levels.items():
        if other := _sorted(set(said.levels.get(column, ())) - set(declared)):
            return f"its column {column!r} has the level {other[0]!r}, which was not declared"
    unknown = set(said.classes or ()) - set(plan.classes or said.classes or ())
    if other := _sorted(unknown):
        return f"it has the class {other[0]!r}, which was not declared"
    return ""


def design_names(plan: Plan, levels: Mapping[str, list], numbers: Sequence[str]) -> list[str]:
    """The columns that the formula makes, from an invented frame with these kinds."""
    count = max([2, *(len(v) for v in levels.values())])
    frame = pd.DataFrame({c: np.linspace(1, 2, count) for c in numbers})
    for column, held in levels.items():
        values = [held[i % len(held)] for i in range(count)]
        frame[column] = pd.Categorical(values, categories=held)
    _, X = formulas.learn(formulas.split(plan.formula), frame)
    return [str(c) for c in X.columns]


def ready(frame: pd.DataFrame, plan: Plan, agreed: Agreed, site: str) -> Ready:
    """The site's rows of the agreed design."""
    frame = frame.copy()
    for column, held in agreed.levels.items():
        values = pd.Series(frame[column])
        if not set(values.dropna().unique()) <= set(held):
            raise Misfit(f"its column {column!r} has a level that was not agreed")
        frame[column] = pd.Categorical(values, categories=held)
    data = _read(frame, plan)
    if data.names != agreed.names:
        raise Misfit("the formula makes other columns here than elsewhere")
    Y = coded(plan.family, data.y, data.weight, agreed.classes)
    s = np.ones(len(Y)) if data.weight is None else data.weight
    X = data.X
    if plan.site_effects == "fixed":
        count = len(effect_names(agreed.names, agreed.sites))
        code = np.full(len(X), agreed.sites.index(site))
        X = np.hstack([X, effect_columns(agreed.sites, code, count)])
    counts = {} if plan.family in ("gaussian", "poisson") else _counts(data.y)
    chosen = frame.loc[data.y.index]
    levels = {c: _counts(chosen[c]) for c in agreed.levels}
    rows = SiteRows(X, Y, s, data.offset)
    return Ready(rows, data.dropped, used(plan, list(frame.columns)), counts, levels)


def _read(frame: pd.DataFrame, plan: Plan) -> Table:
    used(plan, list(frame.columns))
    here = np.zeros(len(frame))
    return read(frame, None, here, plan.weight, plan.offset, plan.formula, plan.missing)


def _levels(data: Table, frame: pd.DataFrame) -> dict[str, list]:
    found = {}
    for factor, (_, state) in data.design.spec.encoder_state.items():  # pyright: ignore
        if held := list(state.get("categories") or ()):
            for column in formulas.tokens(factor, frame):
                found[column] = _sorted(held)
    return found


def _counts(values: pd.Series) -> dict[str, int]:
    return {str(k): int(v) for k, v in values.value_counts().items()}


def _sorted(values: Any) -> list:
    plain = [v.item() if isinstance(v, np.generic) else v for v in values]
    return sorted(plain, key=lambda v: (isinstance(v, str), v))
