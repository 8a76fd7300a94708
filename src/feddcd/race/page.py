"""The race as one page: profiles in bytes and in rounds, and the tables of medians."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._text import tiny, whole_percent
from ..report import methods
from ..report.figures import (
    INK,
    LabelledLine,
    amounts,
    below,
    blank,
    decades,
    legend_height,
    save_png,
    settle,
    short,
    svg,
    titles,
)
from ..report.page import bullets, document, figure, footer, grid, header, paragraph, section
from ..report.tables import Bold, table
from ._findings import findings, lead
from .cells import TARGETS, RaceOutcome
from .problems import RaceProblem
from .profile import (
    RaceEntry,
    Results,
    costs,
    median,
    model_sizes,
    profile,
    quartiles,
    ratios,
)
from .standing import Standing, fields, standings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 1e5  # bytes: below it, an axis has kB
FACTORS = np.geomspace(1, 100, 200)
TITLE = "The race"
WHAT = {"up": "bytes sent by the clients", "rounds": "rounds"}
COLUMNS = ("rounds", "up", "down", "both", "uploads", "steps")
UP_QUARTILES = ("up_models_quartile1", "up_models_quartile3")
ALONE = (
    "Each line is a method. The line shows how many bytes (or rounds) the method needed to reach "
    "each gap, as a median over the seeds. Lines further left are better, because the methods need "
    "less for the same gap. A line ends at the smallest gap that the method reached, even if its "
    "runs went on. A method has no line where it cannot run, or where its gap stayed above 1."
)
ABOUT = (
    "Each line is a method. Look, for example, at the factor 2: there, the line shows the share of "
    "the cases in which the method needs at most twice as many bytes (or rounds) as the best "
    "method. Higher lines are better."
)
NOT_THERE = (
    'Each number is a median over the seeds. A "-" means one of two things: at least half of the '
    "runs did not reach the gap within the limits, or the method cannot run on the problem. A "
    "method cannot run if it needs all clients in each round, if the model has too many "
    "parameters for it, or if it cannot use this number of bits."
)
SENT = {
    "up": "Bytes that clients sent",
    "down": "Bytes that the server sent",
    "both": "Bytes that the clients and the server sent together",
}
DIRECTIONS = (
    "With every method, the server sends 64 bits for each number. So the server often sends more "
    "bytes than the clients."
)
FILES = (
    "The file `race.csv` has all medians: of rounds, bytes from the clients, bytes to the clients, "
    "bytes in both directions, uploads, and steps of the local solvers. The column `up_models` has "
    "the bytes that the clients sent, divided by the bytes of one model, as in the tables of this "
    "page. The columns `up_models_quartile1` and `up_models_quartile3` have the quartiles of this "
    "number over the seeds. The column `half` contains one of three words. "
    '"made": with this problem, the developers of feddcd found the rules by which feddcd run '
    'chooses a method. "scored": with this problem, they test these rules. "own": the file of a '
    "problem of your own that does not name a half."
)


def write_race(
    folder: Path,
    results: Results,
    *,
    target: float,
    notes: Sequence[str],
    problems: Sequence[RaceProblem] = (),
) -> list[Path]:
    """race.csv, the profiles as pictures, and report.html."""
    alone = len({place.problem for place, _ in results}) == 1
    drawings, paths = [], [write_csv(folder / "race.csv", results)]
    for name, entries in fields(results):
        for what, words in WHAT.items():
            draw = partial(_gaps, ends=_ends(results, what)) if alone else _figure
            title = f"{words}, {name}"
            paths.append(folder / f"{title.replace(', ', '-').replace(' ', '-')}.png")
            save_png(draw(results, entries, target, what), paths[-1])
            for part in _parts(results) if alone else [results]:
                drawing = svg(
                    draw(part, entries, target, what), label=title, prefix=f"p{len(drawings)}-"
                )
                drawings.append(figure(drawing, title))
    text = document(
        TITLE,
        header(TITLE, lead(results, target)),
        bullets([*findings(results, target), *notes]),
        section(*_about(alone), grid(drawings, "figures panels")),
        *([] if alone else [section("Who is first", *_ranks(results, target))]),
        section("Medians", paragraph(f"{NOT_THERE} {DIRECTIONS}"), *_tables(results, target)),
        *([section("Problems", _problems(results, problems))] if problems else []),
        section("Files", paragraph(FILES)),
        footer({}, data=", ".join(dict.fromkeys(place.problem for place, _ in results))),
    )
    (folder / "report.html").write_text(text, encoding="utf-8", newline="\n")
    return [*paths, folder / "report.html"]


def _parts(results: Results) -> list[Results]:
    """Place by place: letters in a picture of many panels would be too small on a page."""
    places = sorted({place for place, _ in results})
    return [{at: runs for at, runs in results.items() if at[0] == place} for place in places]


def _about(alone: bool) -> tuple[str, str]:
    """A profile over one problem would be a step from 0 to 1."""
    return ("Curves", paragraph(ALONE)) if alone else ("Profiles", paragraph(ABOUT))


def _ranks(results: Results, target: float) -> Iterator[str]:
    head = [
        "method", "cases", "cases in which the clients send the fewest bytes",
        "cases in which the clients send at most twice as many bytes as with the best method",
        "cases in which clients and server together send the fewest bytes",
    ]  # fmt: skip
    by_field = groupby(standings(results, target), lambda found: found.field)
    for field, found in by_field:
        groups = [
            (
                f"{whole_percent(one.share)} of the clients in a round",
                [_rank(row) for row in one.rows],
            )
            for one in found
        ]
        title = f"Methods that reach a gap of {tiny(target)} with few bytes: {field}"
        yield table(title, head, *groups)


def _rank(row: Standing) -> list[str]:
    title = methods.title(row.entry.method)
    return [title, str(row.places), *map(whole_percent, (row.first, row.within, row.both))]


def _figure(results: Results, entries: Sequence[RaceEntry], target: float, what: str) -> "Figure":
    found = ratios(costs(results, target, what), entries)
    names = [methods.title(entry.method) for entry in entries]
    whole, (ax,) = blank(1, extra=legend_height(names, 1))
    lines = []
    for name, entry in zip(names, entries, strict=True):
        look, share = methods.look(entry.method), profile(found[entry], FACTORS)
        (line,) = ax.step(FACTORS, share, where="post", color=look.colour, ls=look.dash, lw=2)
        lines.append(LabelledLine(name, FACTORS, share, line))
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 1.02)
    amounts(ax, [1.0, 100.0])
    short_name = {"up": "bytes"}.get(what, what)
    titles(ax, f"factor: {short_name} / fewest {short_name}", "share of the cases")
    below(whole, lines)
    return settle(whole)


def _gaps(
    results: Results, entries: Sequence[RaceEntry], target: float, what: str, ends: list[float]
) -> "Figure":
    """The gap of each method against what it cost, one panel for each share of the clients. `ends`
    are of all lines of the race, so that all pictures have the same kind of axis."""
    places = sorted({place for place, _ in results})
    names = [methods.title(entry.method) for entry in entries]
    unit, words = _axis(what, ends)
    whole, axes = blank(len(places), extra=legend_height(names, len(places)))
    drawn: dict[str, LabelledLine] = {}
    for ax, place in zip(axes, places, strict=True):
        lines = []
        for name, entry in zip(names, entries, strict=True):
            x, y = _course(results.get((place, entry), ()), what)
            x = x / unit
            look = methods.look(entry.method)
            (line,) = ax.plot(x, y, look.dash, color=look.colour, lw=2, marker="o", markersize=2)
            lines.append(LabelledLine(name, x, y, line))
        drawn |= {line.label: line for line in lines if line.label not in drawn}
        if any(len(line.x) for line in lines):
            ax.axhline(target, color=INK, linewidth=0.8, linestyle=":")
            decades(ax)
            amounts(ax, [end / unit for end in ends])
        titles(ax, words, f"gap, {whole_percent(place.share)} of the clients")
    below(whole, list(drawn.values()))
    return settle(whole)


def _axis(what: str, ends: Sequence[float]) -> tuple[float, str]:
    """How much one unit of an axis is, and its title."""
    if what != "up":
        return 1.0, what
    unit, name = (1e3, "kB") if max(ends, default=0.0) < SMALL else (1e6, "MB")
    return unit, f"{name} sent by the clients"


def _ends(results: Results, what: str) -> list[float]:
    """What each line of these results cost where it ends."""
    courses = [_course(outcomes, what)[0] for outcomes in results.values()]
    return [float(x[-1]) for x in courses if len(x)]


def _course(outcomes: Sequence[RaceOutcome], what: str) -> tuple[np.ndarray, np.ndarray]:
    """What it cost to come to each level of the gap, as far as half of the seeds came."""
    levels = sorted({level for one in outcomes for level in one.gap}, reverse=True)
    found = [(median(outcomes, level, what), level) for level in levels]
    points = np.array([point for point in found if np.isfinite(point[0])]).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def _tables(results: Results, target: float) -> Iterator[str]:
    sizes = model_sizes(results)
    for name, entries in fields(results):
        head = ["problem, share of clients", *(methods.title(e.method) for e in entries)]
        for what, words in SENT.items():
            table_of = costs(results, target, what)
            rows = [
                [
                    f"{place.problem}, {whole_percent(place.share)}",
                    *_row(table_of[place], entries, sizes[place]),
                ]
                for place in sorted(table_of)
            ]
            caption = f"{words} to reach a gap of {tiny(target)}, divided by the bytes of one model"
            yield table(f"{caption}: {name}", head, ("", rows))


def _problems(results: Results, problems: Sequence[RaceProblem]) -> str:
    runs = {place.problem: one for (place, _), many in results.items() for one in many if one.rows}
    head = (
        "problem",
        "data",
        "model",
        "l2",
        "partition",
        "clients",
        "training rows",
        "parameters",
    )
    rows = []
    for each in problems:
        if (run := runs.get(each.name)) is not None:
            sizes = [f"{n:,}" for n in (run.clients, run.rows, run.size)]
            who = (each.name, Path(each.data).name, each.model, f"{each.l2:g}", each.partition)
            rows.append([*who, *sizes])
    return table("The problems of this race", head, ("", rows))


def _row(row: Mapping[RaceEntry, float], entries: Sequence[RaceEntry], size: int) -> list[str]:
    values = [row.get(entry, np.inf) / (8 * max(size, 1)) for entry in entries]
    words = [short(float(f"{v:.3g}")) if np.isfinite(v) else "-" for v in values]
    best = [np.isfinite(v) and v == min(values) for v in values]
    return [Bold(word) if first else word for word, first in zip(words, best, strict=True)]


def write_csv(path: Path, results: Results) -> Path:
    """race.csv: a line for each place, method and gap."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        first = ("problem", "share", "half", "method", "bits", "tuned", "gap", "seeds")
        out.writerow([*first, *COLUMNS, "up_models", *UP_QUARTILES])
        sizes = model_sizes(results)
        for (place, entry), outcomes in sorted(results.items()):
            for target in TARGETS:
                found = [median(outcomes, target, what) for what in COLUMNS]
                ups = found[COLUMNS.index("up")], *quartiles(outcomes, target, "up")
                found += [up / (8 * max(sizes[place], 1)) for up in ups]
                numbers = [f"{value:g}" for value in found]
                out.writerow([*place, *entry, f"{target:g}", len(outcomes), *numbers])
    return path
