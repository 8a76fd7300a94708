"""A regression table over sites that are all in this process."""

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .._errors import SpecError
from .._text import upper
from ._model import model_for
from ._regression import RegressionTable
from ._result import TableResult
from ._schema import Prepared, narrowed
from .adding import add_up
from .plan import ModelSettings
from .protocol import converse, in_process
from .replay import Replay

MUCH = 1e9  # multiplications a site and exchange, below which threads cost more than they save
Watch = Callable[[dict[str, Any]], None]


def fitted(
    settings: ModelSettings, prepared: Prepared, absent: float, random_state: int, watch: Watch
) -> TableResult:
    """What the sites' answers give; `absent` is the share that misses an exchange."""
    if settings.answers == "sum":
        if absent:
            raise SpecError("answers='sum' needs the answer of every site, so absent must be 0")
        return _from_sums(settings, prepared, watch)
    cohort, sites, _ = prepared

    def train(pilot, rounds, log):
        from ._pointsaga import pointsaga  # JAX is for this alone

        own = {site: each.data for site, each in sites.items()}
        return pointsaga(own, pilot, rounds, log, absent, random_state)

    alone = len(sites) < 2
    if alone and settings.algorithm == "pointsaga":
        raise SpecError(
            "algorithm='pointsaga' needs at least two sites, but there is only one site"
        )
    analysis = RegressionTable()
    talk = analysis.talk(settings, cohort, watch, absent=absent, train=None if alone else train)
    p = model_for(settings, cohort).p
    few = max(each.n for each in sites.values()) * p**2 < MUCH
    with threadpool_limits(1 if few else None, user_api="blas"):
        return converse(talk, in_process(analysis, sites, absent, random_state))


def _from_sums(settings: ModelSettings, prepared: Prepared, watch: Watch) -> TableResult:
    """From exact sums over the sites, as masked answers add up to them."""
    analysis = RegressionTable()
    replay: Any = Replay(analysis, settings, prepared.cohort, watch, elsewhere=False)
    with threadpool_limits(1, user_api="blas"):
        while replay.result is None:
            if replay.agreement is not prepared.cohort:
                prepared = narrowed(prepared, replay.agreement)
            sites = prepared.sites.values()
            replay.step(add_up([analysis.answer(rows, replay.expected) for rows in sites]))
    return replay.result


def told(row: dict[str, Any]) -> str:
    """An exchange in a line; empty where its outcome is not known."""
    if not np.isfinite(row["objective"]):
        return ""
    return (
        f"exchange {row['exchange']}: {row['answered']} of {row['asked']} sites answered, "
        f"objective {row['objective']:.6g}, certified error {upper(row['certified_error'])} "
        "standard errors"
    )


def by_line(tell: Callable[[str], None]) -> Watch:
    """Hands the line of each exchange with a known outcome to `tell`."""

    def watch(row: dict[str, Any]) -> None:
        if line := told(row):
            tell(line)

    return watch


def show(line: str) -> None:
    print(line, flush=True)


def hide(line: str) -> None:
    pass
