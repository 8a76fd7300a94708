"""What sites offer for a table, held against what can be offered, and against each other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._errors import DataError, Refused
from ..._text import listed, sentence_list
from ...analysis.protocol import ColumnsOffer
from ...formula import MOST_LEVELS
from ._checks import check_levels, check_name, check_names

MOST_SAID = 5  # levels of one site in a message


def read_columns(meta: Mapping[str, Any]) -> ColumnsOffer:
    """An offer of columns for a table; Refused says what is none."""
    lacking = [name for name in ColumnsOffer._fields if name not in meta]
    if lacking:
        raise Refused(f"the site's list of columns does not have the entry {lacking[0]!r}")
    levels, numbers = meta["levels"], check_names(meta["numbers"], "columns of numbers")
    columns, classes = meta["columns"], meta["classes"]
    if columns is not None:  # an analysis that asks for some by name need not hear of all
        check_names(columns, "columns")
    if not isinstance(levels, dict):
        raise Refused(
            "the site must send one list of levels for each column, but sent something else"
        )
    for name, found in levels.items():
        check_name(name, "a column")
        check_levels(found, f"its column {name!r}", MOST_LEVELS)
    if classes is not None:
        check_levels(classes, "its outcome", MOST_LEVELS)
    told = (*numbers, *levels) if columns is not None else ()
    if strange := [name for name in told if name not in set(columns or ())]:
        raise Refused(
            f"the site names the column {strange[0]!r}, which is not in its own list of columns"
        )
    return ColumnsOffer(levels, numbers, classes, columns)


def odd_words(offers: Mapping[str, ColumnsOffer]) -> dict[str, str]:
    """Of an outcome of two words: sites with a word that fewer sites have than the usual two."""
    times = Counter(word for o in offers.values() for word in o.classes or ())
    if len(times) <= 2:
        return {}
    (_, _), (_, second), (_, third) = times.most_common(3)
    if second == third:
        return {}
    usual = {word for word, _ in times.most_common(2)}
    return {
        site: (
            f"{site}: the outcome of this site has other words than at most sites. "
            f"Most sites have the words {listed(usual)}"
        )
        for site, o in offers.items()
        if not set(o.classes or ()) <= usual
    }


def _sites_of_levels(
    offers: Mapping[str, ColumnsOffer],
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """By column and level: the sites that have it."""
    for column in sorted({c for o in offers.values() for c in o.levels}):
        at: dict[str, list[str]] = {}
        for site, o in offers.items():
            for level in map(str, o.levels.get(column, ())):
                at.setdefault(level, []).append(site)
        yield column, at


def lone_levels(offers: Mapping[str, ColumnsOffer]) -> str:
    """Which levels exist at one site only, as sentences; or nothing."""
    told = []
    for column, at in _sites_of_levels(offers):
        only = [level for level, sites in at.items() if len(sites) == 1]
        for site in dict.fromkeys(at[level][0] for level in only):
            those = [repr(level) for level in only if at[level] == [site]][:MOST_SAID]
            one = len(those) == 1
            told.append(
                f"The level{'' if one else 's'} {sentence_list(those)} of the column "
                f"{column!r} exist{'s' if one else ''} only at the site {site!r}."
            )
    return " ".join(told)


def check_spellings(offers: Mapping[str, ColumnsOffer]) -> None:
    """Refuses a level that sites write in two ways, by case or spaces alone: it would become two
    levels. Says which sites have which."""
    for column, at in _sites_of_levels(offers):
        ways: dict[str, list[str]] = {}
        for level in sorted(at, key=lambda level: -len(at[level])):
            ways.setdefault(level.strip().casefold(), []).append(level)
        for unlike in ways.values():
            if len(unlike) > 1:
                two = len(unlike) == 2
                told = (f"{way!r} at {_sites(at[way])}" for way in reversed(unlike))
                raise DataError(
                    f"the sites write one level of the column {column!r} in "
                    f"{'two' if two else len(unlike)} ways: {'; '.join(told)}. "
                    f"{'The two' if two else 'These'} words differ only by spaces, or by small and "
                    "capital letters. Write the level in one way at all sites"
                )


def _sites(names: list[str]) -> str:
    return f"the site{'s' * (len(names) > 1)} {sentence_list([repr(name) for name in names])}"


def absent(
    invited: Iterable[str],
    sites: Iterable[str],
    refused: Iterable[str],
    waited: Iterable[tuple[str, str]],
) -> dict[str, str]:
    """By site: why one that was invited and refused nothing has no rows in a table."""
    waits = {site for site, _ in waited}
    gone = sorted({*invited} - {*sites} - {*refused})
    decide, answer = "nobody at the site decided in time", "the site did not answer in time"
    return {site: f"{site}: {decide if site in waits else answer}" for site in gone}
