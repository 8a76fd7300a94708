"""The numbers that all jobs on a data file reveal together, against the values that are in it.

Every number that leaves is an equation between values of rows. Each answer obeys the rules, but
many answers about a small set of rows may be solved for them. So there are fewer equations than
unknowns: numbers told <= max_numbers_per_value x rows x columns that entered. In a sum with other
sites this holds even if all others work together.
"""

import math
from collections.abc import Iterable

from ..._text import plural
from .memory import Memory
from .policy import Policy, Ruled, not_allowed

UNLIMITED = "(no limit)"
RULE = "max_numbers_per_value"


def room(policy: Policy, rows: int, columns: Iterable[str], memory: Memory) -> float:
    """How many numbers all jobs together may reveal."""
    values = rows * len({*columns, *memory.columns()})
    return policy.max_numbers_per_value * values


def check_room(
    policy: Policy, rows: int, columns: Iterable[str], more: int, memory: Memory
) -> None:
    """Before this many more numbers leave."""
    most = room(policy, rows, columns, memory)
    if policy.min_support > 1 and not math.isinf(most) and memory.told() + more > most:
        told = (
            f"earlier jobs released {memory.told()} numbers about these rows. This job would "
            f"release {more} numbers, and the limit for all jobs together is {most:.0f}"
        )
        raise Ruled(RULE, f"{told} ({RULE} = {policy.max_numbers_per_value} in policy.toml)")


def check_release(policy: Policy, parameters: int, memory: Memory) -> None:
    most, before = policy.max_parameters, memory.released()
    if most and before + parameters > most:
        told = plural(parameters, "more parameter")
        told = f"{told}: earlier jobs have released {plural(before, 'parameter')}"
        raise not_allowed(told, f"max_parameters = {most}")


def budget_lines(policy: Policy, memory: Memory) -> list[str]:
    """For a person: what was used of it."""
    of = lambda used, most: f"{used} of at most {most}" if most else f"{used} {UNLIMITED}"
    return [
        f"jobs in the last 30 days: {of(memory.lately(), policy.max_jobs_per_month)}",
        f"parameters that all jobs released: {of(memory.released(), policy.max_parameters)}",
        f"numbers that all jobs released: {_numbers(policy, memory)}",
    ]


def _numbers(policy: Policy, memory: Memory) -> str:
    """With what is counted: fewer numbers than leave."""
    rows, columns = memory.most_rows(), len(memory.columns())
    most = room(policy, rows, (), memory)
    if policy.min_support < 2 or math.isinf(most):
        return f"{memory.told()} {UNLIMITED}"
    of = f"{plural(rows, 'row')} times {plural(columns, 'column')}"
    if policy.max_numbers_per_value != 1:
        of = f"{of} times {policy.max_numbers_per_value:g}"
    told = (
        "This count includes only numbers from which somebody could calculate values of rows, and "
        "each of these numbers once. It does not include bounds, measures of fit, and counts of "
        "rows by prediction or residual. The log counts all numbers of each answer, so the log has "
        "more. The page 'The rules of a site' explains this (rule 15)"
    )
    return f"{memory.told()} of at most {most:.0f} ({of}). {told}" if rows else f"{memory.told()}"
