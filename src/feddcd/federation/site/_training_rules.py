"""What a site's rules say of a training: a budget of jobs, sets of rows, and all numbers that left.

As of tables: a training is a job on a data file, its rows are a set that may not differ by few from
that of another job, and each round tells numbers.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._text import plural
from ...data.agreement import SiteData
from ..about import ALONE, take_about
from ..wire import Hello
from ._ledger import check_room
from ._sets import check_sets, doubts_of
from .approval import FEW_WAITING, Asker, asks_first, require
from .memory import Memory
from .policy import Policy, limit, not_allowed

GREETING = "a request for the names of columns and the number of rows"


class TrainingFacts(NamedTuple):
    """As `JobFacts` of a table, as far as rules on sets look at them."""

    job: str
    sites: tuple[str, ...]
    parameters: int
    numbers: int  # that one round reveals
    closing: int  # that a certificate reveals
    file: str = ""
    story: str = ""


def begin_training(policy: Policy, place: Any, facts: TrainingFacts) -> Memory:
    """Counts it, once; no value is looked at, so a refusal is by name."""
    memory, most = Memory(place.folder, place.data), policy.max_jobs_per_month
    if policy.min_support < 2 and not most:
        return memory
    if facts.job not in memory.jobs() and most and memory.lately() >= most:
        raise not_allowed(
            f"more than {plural(most, 'job')} in a month (max_jobs_per_month = {most} in "
            "policy.toml)"
        )
    memory.begin(facts.job)
    return memory


def check_training(
    policy: Policy, place: Any, facts: TrainingFacts, site: SiteData, memory: Memory, rounds: int
) -> None:
    """Once a person has agreed; `rounds` are those that are to come, and a certificate."""
    if policy.min_support < 2 or memory.jobs()[facts.job]["set"]:
        return
    identity, file, story = _identity(place, site, memory)
    facts, id = facts._replace(file=file, story=story), memory.keep(identity)
    columns, numbers = columns_of(site), rounds * facts.numbers + facts.closing
    check_room(policy, len(site.labels), columns, numbers, memory)
    check_sets(policy, facts, facts.parameters, id, memory)
    what = {"set": id, "cohort": list(facts.sites), "parameters": facts.parameters}
    memory.note(facts.job, **what, file=file, columns=list(columns))
    if doubts := doubts_of(policy, facts, id, memory):
        shown = [
            "You approved this training. Before the training begins, please read these notes and "
            "decide again:",
            *doubts,
        ]
        key = hashlib.sha256(f"{facts.job} {file}".encode()).hexdigest()[:32]
        asked = Asker(address=place.address)
        require(place.folder, key, "this training", {"id": key, "shown": shown}, asked=asked)


def tell(
    policy: Policy, facts: TrainingFacts, site: SiteData, memory: Memory, question: str, more: int
) -> None:
    """Before this many more numbers leave; a question that is asked again reveals nothing more."""
    if policy.min_support < 2 or question in memory.jobs()[facts.job]["questions"]:
        return
    check_room(policy, len(site.labels), columns_of(site), more, memory)
    memory.ask(facts.job, question, more)


def check_batches(policy: Policy, settings: Mapping[str, Any]) -> None:
    """Who knows the seed knows which rows are in a batch, so a batch is as large as a group of rows
    that a sum may be about."""
    k, size = policy.min_support, settings.get("batch_size")
    least = max(limit(policy.min_rows), 2 * (k - 1))
    if k > 1 and size is not None and not (type(size) is int and size >= least):
        raise not_allowed(
            f"batches of fewer than {least} rows: in the plan, set batch_size to {least} or more "
            f"(min_support = {k} in policy.toml)"
        )


def asked_by(place: Any, federation: str, purpose: str | None = None) -> Asker:
    """Of a training: its federation is called NAME/STUDY where it is one study of several."""
    study = federation.rpartition("/")[2] if "/" in federation else ALONE
    about = take_about({"about": {"study": study, "purpose": purpose}})
    return Asker(about.study, None if purpose is None else about.purpose, place.address)


def check_greeting(policy: Policy, place: Any, hello: Hello, site: SiteData) -> None:
    """The number of rows leaves only after a person agrees."""
    if not asks_first(policy):
        return
    names, federation = columns_of(site), hello.federation
    key = hashlib.sha256(f"greeting {federation} {names}".encode()).hexdigest()[:32]
    lines = [
        "Before a training, the coordinator asks this site for the names of its columns and for "
        "its number of rows:",
        f"  federation: {federation[:100]!r}",
        f"  this site would send these names of columns: {', '.join(map(repr, names[:50]))}",
        f"  this site would send its number of rows: {len(site.labels)}",
        "  If you approve this request, the training still has to wait for a second approval.",
    ]
    entry, asked = {"id": key, "shown": lines}, asked_by(place, federation, hello.purpose)
    require(place.folder, key, GREETING, entry, most=FEW_WAITING, asked=asked)


def columns_of(site: SiteData) -> tuple[str, ...]:
    width = (site.X.shape or (0, 0))[1]
    return (*(site.names or (f"column {i + 1}" for i in range(width))), "(outcome)")


def _identity(place: Any, site: SiteData, memory: Memory) -> tuple[np.ndarray, str, str]:
    """Of its rows: of a table as jobs of tables know them; of another file from its numbers."""
    if place.label is not None:
        from ._identity import known_rows  # with pandas, which training does without
        from ._own_table import table_of

        known = known_rows(table_of(place), memory)
        if len(known.ids) == len(site.labels):
            return known
    X = site.X if isinstance(site.X, np.ndarray) else site.X.toarray()
    rows, labels = np.ascontiguousarray(X), np.asarray(site.labels)
    salt = memory.salt
    each = (
        hashlib.blake2b(row.tobytes() + repr(y).encode(), digest_size=8, key=salt).digest()
        for row, y in zip(rows, labels.tolist(), strict=True)
    )
    ids = np.frombuffer(b"".join(each), "<u8")
    file = hashlib.blake2b(ids.tobytes(), digest_size=16, key=salt).hexdigest()
    return ids, file, "it has other rows"
