"""What the rules of sites refuse for certain, from their data and the job alone: for a trial
with all data on one machine. What depends on points, people or earlier jobs is not known before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..._errors import FeddcdError, Refused
from ...analysis.protocol import Agreement, ColumnsOffer
from ...analysis.registry import ANALYSES
from ...sums.roster import FEWEST
from ._offers import plain_numbers
from ._own_table import SiteTable, as_agreed, table_of, whole_table
from ._tables import facts_of, rows_of
from .policy import FILE, Outgoing, Policy, Ruled, load_policy
from .rules import check_columns, check_identifiers

UNKNOWN = (FeddcdError, ArithmeticError, ValueError, LookupError, np.linalg.LinAlgError)


def certain_refusals(places: Sequence[Any], plan: Any) -> dict[str, str]:
    """By site: the rule and its reason, as the log of that site will have them."""
    sources = {place.client: table_of(place) for place in places}
    rules = {site: load_policy(source.folder / FILE) for site, source in sources.items()}
    analysis, found = ANALYSES[plan.analysis], dict[str, str]()
    offers, cohort = dict[str, ColumnsOffer](), None
    for site, source in sources.items():
        with _kept(found, site):
            offers[site] = _offer(source, plan, rules[site])
    with _kept({}, ""):
        cohort, _ = analysis.agree(offers, plan)
    for site in cohort.sites if cohort else ():
        with _kept(found, site):
            _check(sources[site], plan, cohort, rules[site], len(places))
    return found


@contextmanager
def _kept(found: dict[str, str], site: str) -> Iterator[None]:
    """A refusal is kept; any other error is not for here: the site says it when it is asked."""
    try:
        yield
    except Ruled as refusal:
        found[site] = f"rule {refusal.rule}: {refusal.story}"
    except Refused as refusal:
        found[site] = str(refusal)
    except UNKNOWN:
        pass


def _mode(plan: Any, sites: int) -> str:
    """As the coordinator asks: a sum needs a list of sites."""
    alone = getattr(plan, "answers", None) == "each" or getattr(plan, "needs_each", "")
    return "each" if alone or sites < FEWEST else "sum"


def _offer(source: SiteTable, plan: Any, policy: Policy) -> ColumnsOffer:
    analysis, table = ANALYSES[plan.analysis], whole_table(source, plan)
    entering = analysis.columns(plan, list(table.frame.columns))
    out = Outgoing("columns", analysis.method, entering, len(table.frame), 0, {}, {}, 0, {})
    policy.check(out)
    check_identifiers(policy, plan, table.frame, entering)
    made = analysis.offer(as_agreed(source, table, plan, entering).frame, plan)
    if plain_numbers(table, plan, entering) is None:  # else no value is looked at for the names
        policy.check(out._replace(classes=made.classes, levels=made.levels))
    return made.offer


def _check(source: SiteTable, plan: Any, cohort: Agreement, policy: Policy, sites: int) -> None:
    """As the site does with the first question of a job of this many sites."""
    analysis, mode = ANALYSES[plan.analysis], _mode(plan, sites)
    rows = rows_of(source, facts_of(source, plan.to_dict(), cohort.to_dict(), "", mode))
    check_columns(dict(analysis.columns_of(rows)), {}, rows.n, policy, mode, rows.plan)
    out = Outgoing(
        "moments", analysis.method, rows.columns, rows.n, 0, rows.classes, rows.levels,
        sites, {}, mode=mode,
    )  # fmt: skip
    policy.check(out)
