"""The sites side by side: what each has, and what it would estimate alone."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..formula import INTERCEPT
from ._coefficients import Shown
from ._own import own_words, read_own
from ._pilot import Pilot
from ._points import variances
from ._sums import NONE
from .families import COUNTS, SHARES
from .plan import ModelSettings

EVENTS = (*COUNTS, *SHARES)  # families with outcomes that can be counted


def site_counts(pilot: Pilot, sites: Sequence[str]) -> pd.DataFrame:
    """Rows, events and rows left out (-1: not known here) by site, and whether it has an estimate
    of its own. Where only sums are known, nothing is known of a site."""
    if pilot.model.summed:
        names = ["rows", *["events"] * (pilot.model.family in EVENTS), "missing"]
        told = dict.fromkeys(names, -1) | {"estimate": own_words(NONE)}
        return pd.DataFrame(told, index=pd.Index(list(sites), name="site"))
    moments = {site: a.moments for site, a in pilot.answers.items()}
    columns: dict[str, list] = {"rows": [int(m.n) for m in moments.values()]}  # pyright: ignore
    if pilot.model.family in EVENTS:
        columns["events"] = [float(m.y[0]) for m in moments.values()]  # pyright: ignore
    columns["missing"] = [-1] * len(moments)
    columns["estimate"] = [own_words(pilot.own[site]) for site in moments]
    return pd.DataFrame(columns, index=pd.Index(list(moments), name="site"))


def own_table(settings: ModelSettings, pilot: Pilot, shown: Shown) -> pd.DataFrame | None:
    """The fits of single sites that are finite. The constants of a model with site effects are
    left out, and those of standardised columns, which are about means that are not the site's."""
    model = pilot.model
    sd = np.sqrt(variances(model, pilot.raw)) if settings.standardize else 1.0
    units = np.repeat(sd * np.ones(len(model.names)), model.k)
    order = np.arange(model.p).reshape(-1, model.k).T.ravel()  # class by class
    effects = set(model.names[len(model.names) - model.effects :])
    constant = {*effects, INTERCEPT} if effects or settings.standardize else effects
    names = np.tile(np.array(model.names, object), model.k)
    rows = {}
    for site, block in pilot.own.items():
        own = read_own(block, model.p)
        if own is None:
            continue
        for at, label, name in zip(order, shown.labels, names, strict=True):
            if name not in constant:
                rows[label, site] = own[:, at] * units[at]
    if not rows:
        return None
    index = pd.MultiIndex.from_tuples(list(rows), names=["name", "site"])
    return pd.DataFrame(list(rows.values()), index=index, columns=["coef", "std_err"])
