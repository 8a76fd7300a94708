"""Tables and sentences as text of a given width: columns move closer together, then stand below one
another, as R prints a wide matrix."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import accumulate, zip_longest

WIDTH, CELL, NAME = 78, 11, 16  # the usual widths: of a head, of a number, of a name
Cells = Sequence[str]
Pair = tuple[str, str]


def block(
    names: Sequence[str],
    titles: Cells,
    lines: Iterable[Cells],
    limit: int | None = None,
    together: int = 1,
) -> list[list[str]]:
    """The lines of a table, or of several ones below one another where `limit` letters do not hold
    all columns. The last `together` columns are not parted. Each begins with its titles."""
    lines = [list(each) for each in lines]
    lengths = [max(map(len, cells)) for cells in zip(titles, *lines, strict=True)]
    first, wide = max([NAME, *map(len, names)]), max(CELL, *(n + 1 for n in lengths))
    if limit is None or first + wide * len(titles) <= limit:
        return [_drawn(names, first, titles, lines, [wide] * len(titles))]
    near = (limit - first) // len(titles)
    if near > max(lengths):
        return [_drawn(names, first, titles, lines, [near] * len(titles))]
    names, first = _folded(names, limit // 2)
    widths = [n + 2 for n in lengths]
    parts, start = [], 0
    while start < len(titles):
        fit = sum(first + n <= limit for n in accumulate(widths[start:]))
        end = start + max(fit, 1)
        pair = len(titles) - together  # where the columns begin that stay together
        if start < pair < end < len(titles):
            end = pair
        own = slice(start, end)
        cells = [each[own] for each in lines]
        parts.append(_drawn(names, first, titles[own], cells, widths[own]))
        start = end
    return parts


def _folded(names: Sequence[str], most: int) -> tuple[list[str], int]:
    """Names that are longer than `most` letters, over several lines."""
    folded = ["\n".join(textwrap.wrap(name, most) or [""]) for name in names]
    return folded, max((len(line) for name in folded for line in name.split("\n")), default=0)


def _drawn(
    names: Sequence[str], first: int, titles: Cells, lines: Sequence[Cells], widths: Sequence[int]
) -> list[str]:
    def line(name: str, cells: Cells) -> list[str]:
        *above, last = name.split("\n")
        row = "".join(f"{c:>{width}}" for c, width in zip(cells, widths, strict=True))
        return [*above, f"{last:<{first}}{row}"]

    rows = [one for name, each in zip(names, lines, strict=True) for one in line(name, each)]
    return [*line("", titles), *rows]


def pairs(left: Sequence[Pair], right: Sequence[Pair], limit: int | None = None) -> list[str]:
    """Two columns of names and values; below one another where `limit` letters do not hold both."""
    wide = width(limit)
    half = wide // 2 - 1
    if limit is None or all(len(name) + len(value) + 2 <= half for name, value in [*left, *right]):
        columns = ([_pair(each, half) for each in part] for part in (left, right))
        return [f"{a}  {b}" for a, b in zip_longest(*columns, fillvalue=" " * half)]
    return [_pair(each, wide) for each in [*left, *right]]


def width(limit: int | None) -> int:
    return WIDTH if limit is None else min(WIDTH, limit)


def _pair(pair: Pair, width: int) -> str:
    name, value = pair
    return f"{name}:{value:>{width - len(name) - 1}}"


def wrapped(lines: Iterable[str], limit: int | None) -> list[str]:
    """Sentences, broken between words where no word is longer than a line."""
    if limit is None:
        return list(lines)
    fit = lambda line: textwrap.wrap(line, limit, break_on_hyphens=False)
    return [part for line in lines for part in fit(line) or [""]]
