"""Who did not reach the gap, and why: a method was refused, it diverged, or a limit stopped it."""

from collections.abc import Sequence

import numpy as np

from .._text import sentence_list, tiny, whole_percent
from ..algorithms.catalogue import get_method
from ..report import methods
from .cells import MOST_ROUNDS, RaceOutcome
from .profile import Place, RaceEntry, Results, median

HINT = "To let runs go on, use a larger --limit."
EASIER = 1e-3
STOPPED = ("limit", "rounds", "reached")


def missed(results: Results, target: float, limit: float) -> list[str]:
    """A line for each reason, with its methods and places; at most as many as there are methods
    and reasons."""
    lines: dict[tuple[str, str], list[str]] = {}
    stopped, short = False, False
    for (place, entry), outcomes in results.items():
        if np.isinf(median(outcomes, target, "up")):
            far = [one for one in outcomes if np.isinf(one.to(target))]
            exact = get_method(entry.method).exact
            stopped |= exact and any(one.ended == "limit" and one.limit >= limit for one in far)
            short |= any(one.ended in STOPPED for one in far)
            why = _why(far, limit) + ("" if exact else _may_stay(far))
            lines.setdefault((_who(entry), why), []).append(_where(place))
    several = len({place for place, _ in results}) > 1
    told = [
        f"{who}{f' ({_some(places)})' * several}: {why}" for (who, why), places in lines.items()
    ]
    hints = [HINT] if stopped else []
    if short and target < EASIER:
        hints.append(f"To compare methods at a larger gap, use --gap {tiny(EASIER)}.")
    return [*told, *([" ".join(hints)] if hints else [])]


def nobody_ran(results: Results) -> bool:
    """Whether every run was refused."""
    refused = lambda one: one.ended.startswith(("refused", "cannot run"))
    return all(refused(one) for runs in results.values() for one in runs)


def _who(entry: RaceEntry) -> str:
    return f"{methods.title(entry.method)}, {entry.bits} bits{', tuned' * entry.tuned}"


def _where(place: Place) -> str:
    return f"{place.problem} at {whole_percent(place.share)}"


def _some(places: Sequence[str]) -> str:
    more = f"{len(places) - 2} more"
    return sentence_list(list(places) if len(places) <= 3 else [*places[:2], more])


def _why(far: Sequence[RaceOutcome], limit: float) -> str:
    """Of the runs that did not come there, the first that could not run speaks for them."""
    for one in far:
        if one.ended not in STOPPED:
            return {"diverged": "the objective became infinite or NaN"}.get(one.ended, one.ended)
    gap = float(np.median([min(one.gap, default=np.inf) for one in far]))
    came = f"with a gap of at most {tiny(gap)}" if np.isfinite(gap) else "with a gap above 1"
    if any(one.limit < limit for one in far):
        return f"stopped at the limit of bytes that --behind sets, {came}"
    if all(one.ended == "rounds" for one in far):
        return f"stopped after {MOST_ROUNDS:,} rounds, {came}"
    return f"stopped at the limit of bytes or rounds, {came}"


def _may_stay(far: Sequence[RaceOutcome]) -> str:
    """Of a method that may have a gap for ever."""
    said = ". With this method, the gap may stay above the target, even in a longer run"
    return said if any(one.ended in STOPPED for one in far) else ""
