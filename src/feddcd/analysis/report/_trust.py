"""What the numbers of a table depend on, in words: on honest sites, and on single sites."""

import math

from ..._text import count, number, sentence_list
from .._inference import of_sites
from .._influence import undetermined
from .._result import TableResult
from .._summary import of_one_table

MOST = 8  # coefficients in a sentence


def trust(fit: TableResult) -> list[str]:
    """What the numbers depend on, and what a dishonest site could still do; of one table without
    sites there is nothing to say."""
    if of_one_table(fit):
        return []
    lie = (
        "If a site invents rows and sends consistent sums of these rows, the "
        "invented rows change this table as real rows would. No check of sums can "
        "find invented rows."
    )
    if fit.hinge is None:
        whose = (
            "Only sums over all sites are known, so nobody can say which site changes "
            "the table most."
        )
        return [lie, whose]
    site, name, change = fit.hinge
    if math.isinf(change):
        return [lie, _of_one_site(fit)]
    size, more = f"{roughly(abs(change))} standard errors", "higher" if change > 0 else "lower"
    whose = f"Without the site {site!r}, the coefficient of {name!r} would be {more} by {size}"
    return [
        lie,
        (
            f"{whose} (estimated with one Newton step). By this estimate, no other site has a "
            "larger influence on a coefficient."
        ),
    ]


def _of_one_site(fit: TableResult) -> str:
    """The coefficients that the other sites' rows do not determine."""
    pairs = undetermined(fit.leave_one_out, of_sites(fit))
    if len(pairs) == 1:
        [(name, site)] = pairs
        return (
            f"The coefficient of {name!r} depends on the site {site!r}: the rows of the other "
            "sites alone do not determine this coefficient."
        )
    told = [f"{name!r} on the site {site!r}" for name, site in pairs[:MOST]]
    more = [count(len(pairs) - MOST, "other")] if len(pairs) > MOST else []
    return (
        f"Some coefficients depend on one site: {sentence_list([*told, *more])}. The rows of the "
        "other sites alone do not determine such a coefficient."
    )


def roughly(change: float) -> str:
    """One Newton step is no refit: a second digit only where the first alone says too little."""
    return f"about {number(change, 2 if abs(change) >= 1 else 1)}"
