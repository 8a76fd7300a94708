"""What a race found, in sentences for the top of its page."""

from collections.abc import Iterator, Sequence

from .._text import plural, sentence_list, tiny
from ..report import methods
from .profile import Results, costs
from .standing import Standing, fields, ranked


def lead(results: Results, target: float) -> str:
    places = {place for place, _ in results}
    count = plural(len({entry.method for _, entry in results}), "method")
    problems = plural(len({place.problem for place in places}), "problem")
    return (
        f"This page compares {count} on {problems}. A case is one problem with one share of "
        "clients that take part in each round, for example 30 %. This page has "
        f"{plural(len(places), 'case')}. A run reaches its goal when its objective is at most "
        f"{tiny(target)} above the optimum. The numbers are medians over seeds. With the same "
        "seed, the same clients take part in each round of all methods."
    )


def findings(results: Results, target: float) -> Iterator[str]:
    up, both = (costs(results, target, what) for what in ("up", "both"))
    for name, entries in fields(results):
        if rows := ranked(up, entries):
            few, together = "send the fewest bytes", _most(ranked(both, entries), "first")
            twice = "at most twice the smallest number of bytes"
            told = [
                _often(f"the clients {few}", _most(rows, "first")),
                _often(f"the clients send {twice}", _most(rows, "within")),
                _often(f"clients and server together {few}", together),
            ]
            yield f"{name}: {told[0]}. " + " ".join(f"{x[0].upper()}{x[1:]}." for x in told[1:])


def _often(what: str, rows: Sequence[tuple[Standing, float]]) -> str:
    """In how many cases this is so with each of these methods."""
    cases = [f"in {share * row.places:.0f} of {plural(row.places, 'case')}" for row, share in rows]
    names = [methods.title(row.entry.method) for row, _ in rows]
    if len(rows) == 1:
        return f"{cases[0]}, {what} with {names[0]}"
    with_each = [f"with {who} ({times})" for who, times in zip(names, cases, strict=True)]
    return f"{what} {sentence_list(with_each)}"


def _most(rows: list[Standing], what: str) -> list[tuple[Standing, float]]:
    """All that have the largest of these shares, with this share."""
    shares = [getattr(row, what) for row in rows]
    return [(row, x) for row, x in zip(rows, shares, strict=True) if x == max(shares)]
