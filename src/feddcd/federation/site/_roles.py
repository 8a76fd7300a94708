"""Which columns a plan may take in which role, and which numbers it may write down.

No value of the data is looked at, so refusals are by name.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._errors import Refused, SpecError
from ..._text import listed
from ...analysis.protocol import Analysis, Misfit
from ...data.codebook import FILE as CODEBOOK
from ...data.codebook import Codebook, load_codebook, read_codebook
from ...formula import read_formula, written_numbers
from .memory import Memory
from .policy import OWN_ANSWERS, Policy, not_allowed

OWN_BOOK = "the codebook of this site"
NONE_LISTS = "this site has no codebook that lists"
CHOSEN = ("range", "missing", "cap", "step")  # settings that judge or change rows by their values


def check_alone(policy: Policy, alone: bool) -> None:
    """Where the coordinator reads the answers of this site by themselves."""
    if alone and policy.answers != "each":
        raise not_allowed(OWN_ANSWERS, "answers = 'sum'")


def is_read_alone(plan: Any) -> bool:
    """As the plan says; without a word, the coordinator may still read sums alone."""
    said = getattr(plan, "answers", None)
    return said == "each" or bool(not said and getattr(plan, "needs_each", ""))


def check_named(policy: Policy, plan: Any, analysis: Analysis, names: Sequence[str]) -> None:
    """The columns that the policy lists. What the plan names is told to others. A column that the
    dot of a formula stands for is known to this site alone, and its log has the name."""
    if policy.columns is None:
        return
    other = [name for name in analysis.columns(plan, names) if name not in policy.columns]
    if not other:
        return
    told = [name for name in other if _is_needed(name, plan, analysis, names)]
    shown = lambda which: (
        f"the column{'s' * (len(which) > 1)} {listed([name[:50] for name in which], 5)}"
    )
    refused = not_allowed(shown(told) if told else "a column", "columns")
    raise refused from None if len(told) == len(other) else SpecError(shown(other))


def _is_needed(name: str, plan: Any, analysis: Analysis, names: Sequence[str]) -> bool:
    """Whether the plan names this column: then a site without it could not take part."""
    try:
        analysis.columns(plan, [other for other in names if other != name])
    except Misfit:
        return True
    return False


def own_codebook(site: Path) -> Codebook | None:
    path = site / CODEBOOK
    return load_codebook(path) if path.exists() else None


def check_no_identifier(site: Path, names: Sequence[str]) -> None:
    """Of a training, which uses nothing else of the site's codebook. It may be the question for the
    names, so none is told."""
    if (book := own_codebook(site)) is None:
        return
    for name in names:
        if name in book.columns and book.columns[name].type == "identifier":
            raise Refused(
                "the codebook of this site does not allow the use of a column, because this column "
                "is an identifier"
            )


def check_roles(policy: Policy, plan: Any, entering: Sequence[str], memory: Memory) -> None:
    """Identifiers have no role; others have those of the site's codebook, where it has one."""
    own = own_codebook(memory.site)
    sent = read_codebook(plan.codebook) if plan.codebook else None
    for book in [each for each in (own, sent) if each is not None]:
        for name in entering:
            if name in book.columns and book.columns[name].type == "identifier":
                told = f"the codebook does not allow the use of the column {name[:50]!r}"
                raise Refused(f"{told}, because this column is an identifier")
    for name in entering:
        if name in policy.identifiers:
            raise not_allowed(
                f"the column {name[:50]!r}, because this column is an identifier (setting "
                "'identifiers' in policy.toml)"
            )
        if own is not None and name not in own.columns:
            raise not_allowed(
                f"the column {name[:50]!r}, because the codebook of this site does not have "
                "this column"
            )
        if own is not None and sent is not None and sent.columns.get(name) != own.columns[name]:
            raise not_allowed(
                f"the column {name[:50]!r}, because the codebook of the plan and the codebook "
                "of this site describe this column differently"
            )
    if own is not None and sent is None:
        _check_exact(own, entering)
    formula = getattr(plan, "formula", None)
    if policy.min_support >= 2:
        if own is not None:
            _check_declared(own, plan)
        elif sent is not None and policy.constants == "codebook":
            _check_sent(sent)
    if own is not None and formula is not None:
        _check_own_roles(own, plan)
    if policy.constants == "codebook" and policy.min_support and formula is not None:
        _check_constants(own, formula)


def _check_exact(own: Codebook, entering: Sequence[str]) -> None:
    """Without a codebook, the table would not say that the sites change values."""
    for name in entering:
        if own.columns[name].cap is not None or own.columns[name].step is not None:
            told = f"the codebook of this site caps or rounds the column {name[:50]!r}, but the job"
            remedy = "The coordinator can write codebook = 'codebook.toml' into the job"
            why = "the table of the job could not say that this site changes values"
            raise Refused(f"{told} has no codebook. So {why}. {remedy}")


def _check_own_roles(own: Codebook, plan: Any) -> None:
    formula = read_formula(plan.formula)
    used = dict.fromkeys(formula.right_columns, "predictor")
    used |= dict.fromkeys(formula.left_columns, "outcome")
    apart = {plan.weight: "weight", plan.offset: "offset", plan.cluster: "group"}
    for name, role in (used | {k: v for k, v in apart.items() if k}).items():
        if name in own.columns and not own.columns[name].allows(role):
            raise not_allowed(
                f"the column {name[:50]!r} as {role}, because the codebook of this site "
                "gives this column other roles"
            )


def _check_declared(own: Codebook, plan: Any) -> None:
    """Another list of levels would ask whether a value occurs; the order is free."""
    declared = dict(plan.levels)
    if getattr(plan, "classes", None) is not None:
        declared[str(read_formula(plan.formula).outcome)] = plan.classes
    known = own.levels(declared)
    for name, levels in declared.items():
        if name not in known or len(levels) != len(known[name]) or set(levels) != set(known[name]):
            raise not_allowed(
                f"levels of the column {name[:50]!r} that the codebook of this site does not list"
            )


def _check_sent(sent: Codebook) -> None:
    """A range judges rows by value, and words for missing drop them. A cap from 60 to 61 makes ages
    a threshold. So whoever chooses them could find out one row."""
    for name, entry in sent.columns.items():
        for what in (each for each in CHOSEN if getattr(entry, each) is not None):
            told = f"the codebook of the plan sets {what!r} for the column {name[:50]!r}. Only the"
            told = f"{told} codebook of a site may set {what!r}, and this site has no codebook"
            remedy = "A person at this site can put codebook.toml into the site's folder"
            raise Refused(f"{told}. {remedy}")


def _check_constants(own: Codebook | None, formula: str) -> None:
    """Two thresholds may differ by one person, so they are agreed on before."""
    for value, column, text in written_numbers(read_formula(formula)):
        entry = own.columns.get(column) if own is not None and column is not None else None
        if entry is None or value not in entry.cuts:
            lists = f"{OWN_BOOK} does not list" if own is not None else NONE_LISTS
            why = f"{lists} the number {value:g} under 'cuts'"
            if math.isnan(value) and own is not None:
                why = f"a formula may compare only one column with one number that {OWN_BOOK} "
                why += "lists under 'cuts'"
            elif math.isnan(value):
                why = "this site has no codebook with 'cuts'"
            raise not_allowed(f"{text[:80]!r}, because {why}", "constants = 'codebook'")
