"""From checked rows to sites and a model that the server can fit."""

from typing import Any, NamedTuple

import numpy as np

from ..losses import LOSSES
from . import settings
from .families import targets
from .frame import INTERCEPT, Table
from .points import Model
from .site import SiteRows


class Prepared(NamedTuple):
    model: Model
    sites: dict[str, SiteRows]
    labels: np.ndarray  # of the sites, as the user has them
    classes: tuple[Any, ...] | None


def prepare(data: Table, family: str, l2: Any, site_effects: bool, standardize: bool) -> Prepared:
    labels, code = _labels(data.site)
    if len(labels) < 2:
        raise ValueError(f"groups has one value only, {labels[0]!s}: need two sites")
    coded = targets(family, data.y, data.weight)
    s = np.ones(len(code)) if data.weight is None else data.weight
    sites = tuple(str(label) for label in labels)
    names, X = list(data.names), data.X
    effects = effect_names(names, sites) if site_effects else []
    if site_effects:
        X = np.hstack([X, effect_columns(sites, code, len(effects))])
    model = model_of(
        family, names + effects, coded.Y.shape[1], l2, sites, len(effects), standardize
    )
    rows = {
        site: SiteRows(X[part], coded.Y[part], s[part], data.offset[part])
        for i, site in enumerate(sites)
        for part in [np.flatnonzero(code == i)]
    }
    classes = None if coded.classes is None else tuple(coded.classes)
    return Prepared(model, rows, labels, classes)


def model_of(
    family: str, names: list[str], k: int, l2: Any, sites, effects: int, standardize: bool
) -> Model:
    P = settings.penalties(l2, names, effects)
    at = names.index(INTERCEPT) if INTERCEPT in names else None
    quadratic = LOSSES[family].quadratic
    return Model(family, tuple(names), k, P, tuple(sites), quadratic, at, effects, standardize)


def effect_names(names: list[str], sites) -> list[str]:
    """One column for each site; but for the first, if there is an intercept."""
    return [f"site[{site}]" for site in sites[1 if INTERCEPT in names else 0 :]]


def effect_columns(sites, code: np.ndarray, effects: int) -> np.ndarray:
    return np.eye(len(sites))[code][:, len(sites) - effects :]


def _labels(site: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        return np.unique(site, return_inverse=True)
    except TypeError:
        raise ValueError("groups mixes numbers and words; name the sites in one way") from None
