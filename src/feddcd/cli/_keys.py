"""Columns of a file that identify persons, or may identify them."""

from collections.abc import Iterator
from typing import Any

from ..analysis.registry import ANALYSES
from ..data.codebook import Codebook
from ..data.draft import is_identifier, may_identify
from ..data.frames import Frame
from ..formula import read_formula

USED = ("predictor", "outcome")  # roles in a formula


def keys(table: Frame, plan: Any) -> Iterator[str]:
    """Of a plan: what careful sites refuse, and what they only warn of."""
    if plan is None:
        return
    for name in ANALYSES[plan.analysis].columns(plan, list(table.frame.columns)):
        values = table.frame[name].dropna().tolist()
        if name == plan.cluster:
            continue
        if is_identifier(name, values):
            yield (
                f"the values of the column {name!r} identify a person, because each row has a "
                "different value. Careful sites refuse a job with this column; leave it out of the "
                "formula"
            )
        elif may_identify(name, values):
            yield (
                f"{_told(name, values)}. Careful sites do not refuse a job with this column, "
                f"because their rules count rows, not persons. {_if_so()}, and leave the column "
                "out of the formula"
            )


def of_the_sites(plan: Any, group: str | None) -> Iterator[str]:
    """No site has the column of the names of sites."""
    if plan is not None and group in read_formula(plan.formula).right_columns:
        yield (
            f"a federation cannot use this job, because no site has the column {group!r} in its "
            "data: this column names the site of each row. For a federation, leave the column "
            f"{group!r} out of the formula. If each site needs its own intercept, add "
            "--site-effects fixed"
        )


def undeclared(table: Frame, book: Codebook) -> Iterator[str]:
    """Of columns that a formula may use; a column of groups may number patients, for clusters."""
    for name, entry in book.columns.items():
        if name not in table.frame.columns or entry.type == "date":
            continue
        if any(map(entry.allows, USED)):
            values = table.frame[name].dropna().tolist()
            if is_identifier(name, values) or may_identify(name, values):
                yield f"{_told(name, values)}. {_if_so()}"


def _told(name: str, values: list[Any]) -> str:
    different = len(set(values))
    return (
        f"the values of the column {name!r} may identify persons: there are {different:,} "
        f"different values in {len(values):,} rows"
    )


def _if_so() -> str:
    return (
        'If each value belongs to one person, write type = "identifier" for this column in the '
        "codebook"
    )
