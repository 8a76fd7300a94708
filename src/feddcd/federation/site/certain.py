"""What the rules of sites refuse, from their data and the job alone: for a trial with all data on
one machine. The job is tried as it will run if all people approve it. Earlier jobs are unknown."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ..._errors import FeddcdError, Refused
from ...analysis.adding import add_up
from ...analysis.protocol import Agreement, Analysis, Blocks, ColumnsOffer, SiteRows
from ...analysis.registry import ANALYSES
from ...analysis.replay import Replay
from ...sums.roster import FEWEST
from ._again import check_changes, check_joint, check_steep
from ._foreseen import MOST_WORK
from ._job_parts import digest_of
from ._offers import plain_numbers
from ._overlaps import as_told
from ._own_table import SiteTable, as_agreed, table_of, whole_table
from ._rare import check_rare, numbers_of
from ._roles import is_read_alone
from ._tables import facts_of, identified, rows_of
from .memory import Memory
from .policy import FILE, Outgoing, Policy, Ruled, limit, load_policy
from .rules import (
    JobFacts,
    check_answer,
    check_counts,
    check_identifiers,
    check_job,
    check_plan,
    first_counts,
    hides_cells,
)

UNKNOWN = (FeddcdError, ArithmeticError, ValueError, LookupError, np.linalg.LinAlgError)


class TrialSite(NamedTuple):
    """A site in a trial of the job."""

    source: SiteTable
    policy: Policy
    facts: JobFacts
    rows: SiteRows


def certain_refusals(places: Sequence[Any], plan: Any) -> dict[str, str]:
    """By site: the rule and its reason, as the log of that site will have them. Whoever refuses is
    left out, and the others begin again, as in the job itself."""
    sources = {place.client: table_of(place) for place in places}
    rules = {site: load_policy(source.folder / FILE) for site, source in sources.items()}
    analysis, found = ANALYSES[plan.analysis], dict[str, str]()
    offers = dict[str, ColumnsOffer]()
    for site, source in sources.items():
        with _kept(found, site):
            offers[site] = _offer(source, plan, rules[site])
    before = -1
    while len(found) > before:
        before, cohort = len(found), None
        offers = {site: offer for site, offer in offers.items() if site not in found}
        with _kept({}, ""):
            cohort, _ = analysis.agree(offers, plan)
        if cohort is None:
            break
        mode, tried = _mode(plan, len(places)), dict[str, TrialSite]()
        if mode == "sum" and len(cohort.sites) < FEWEST:
            break  # there is no job
        for site in cohort.sites:
            with _kept(found, site):
                tried[site] = _begun(sources[site], plan, cohort, rules[site], mode)
        if len(found) == before and len(tried) == len(cohort.sites):
            with _kept({}, ""):  # where there is no table of these rows
                _course(analysis, plan, cohort, tried, found, mode)
    return found


@contextmanager
def _kept(found: dict[str, str], site: str) -> Iterator[None]:
    """A refusal is kept; any other error is not for here: the site says it when it is asked."""
    try:
        yield
    except Ruled as refusal:
        found[site] = f"rule {refusal.rule!r}: {refusal.story}"
    except Refused as refusal:
        found[site] = str(refusal)
    except UNKNOWN:
        pass


def _mode(plan: Any, sites: int) -> str:
    """As the coordinator asks: a sum needs a list of sites."""
    return "each" if is_read_alone(plan) or sites < FEWEST else "sum"


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


def _begun(source: SiteTable, plan: Any, cohort: Agreement, policy: Policy, mode: str) -> TrialSite:
    """As the site judges the job before its first question; nothing is remembered of it."""
    analysis, agreed = ANALYSES[plan.analysis], cohort.to_dict()
    facts = facts_of(source, plan.to_dict(), agreed, digest_of(plan.to_dict(), agreed), mode)
    table = whole_table(source, plan)
    names = list(table.frame.columns)
    with TemporaryDirectory() as folder:
        memory = Memory(Path(folder), source.data)
        check_plan(policy, plan, analysis, names, facts, memory)
        rows = rows_of(source, facts)
        if policy.rare_values == "refuse":
            frame = as_agreed(source, table, plan, analysis.columns(plan, names)).frame
            numbers = numbers_of(rows, facts.agreed, frame, table.frame)
            check_rare(policy, plan, numbers, lambda caps: "")
        check_job(policy, rows, analysis, identified(source, rows, facts, memory), memory)
    _allow(policy, analysis, rows, "moments", 0, facts)
    return TrialSite(source, policy, facts, rows)


def _allow(
    policy: Policy, analysis: Analysis, rows: SiteRows, kind: str, parameters: int, facts: JobFacts
) -> None:
    policy.check(
        Outgoing(
            kind, analysis.method, rows.columns, rows.n, parameters, rows.classes, rows.levels,
            len(facts.sites), {}, mode=facts.mode,
        )
    )  # fmt: skip


def _course(
    analysis: Analysis,
    plan: Any,
    cohort: Agreement,
    tried: Mapping[str, TrialSite],
    found: dict[str, str],
    mode: str,
) -> None:
    """All questions of the job, with the sums of all sites, up to the first that a site refuses."""
    if mode != "sum":
        return
    replay, began, before = Replay(analysis, plan, cohort, elsewhere=False), 0, list[Any]()
    told, counts, refused = dict[str, SiteRows](), dict[str, np.ndarray](), len(found)
    while (asked := replay.expected) is not None and len(found) == refused:
        if replay.begun > began:  # also again, without a column
            began, before, agreed = replay.begun, [], json.dumps(replay.agreement.to_dict())
            for site, each in tried.items():
                rows = rows_of(each.source, each.facts._replace(agreed=agreed))
                told[site] = as_told(each.policy, rows, analysis)
            own = [first_counts(rows, analysis) for rows in told.values()]
            counts = {name: sum((each[name] for each in own[1:]), own[0][name]) for name in own[0]}
        sums = []
        for site, each in tried.items():
            with _kept(found, site):
                rows = told[site]._replace(k=each.policy.min_support, before=tuple(before))
                if not before:
                    check_counts(each.policy, rows, analysis, counts)
                sums.append(_answer(each, rows, analysis, asked))
        if len(sums) < len(tried) or any(_large(rows) for rows in told.values()):
            return
        before.append(asked)
        replay.step(add_up(sums))


def _large(rows: SiteRows) -> bool:
    """Then the first question is enough."""
    return rows.n * len(rows.names or rows.columns) ** 2 > MOST_WORK


def _answer(tried: TrialSite, rows: SiteRows, analysis: Analysis, asked: Any) -> Blocks:
    """What a site adds to a sum, once its rules allow it."""
    _, policy, facts, _ = tried
    _allow(policy, analysis, rows, asked.reveals, asked.parameters, facts)
    check_answer(policy, rows, analysis, asked, facts)
    check_steep(policy, rows, asked)
    check_changes(policy, rows, asked)
    check_joint(policy, rows, asked, hides_cells(policy, "sum"), free=False)
    bins = policy.kinds is None or "bins" in policy.kinds
    least = limit(policy.min_per_level) if bins else rows.n + 1
    try:
        return analysis.answer(rows._replace(least=least, alone=False), asked)
    except Refused as error:
        raise Ruled("answer", str(error)) from None
