"""The paper's tables in words, and the page that shows them with the figures."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ._style import SPARE, STYLES
from ._text import NAMES, NONE, _listed, _plural, percent
from .html import _head, _unbroken

Row = Mapping[str, Any]
DATA = {"mnist": "MNIST", "rcv1": "RCV1", "rcv1-subset": "RCV1 subset", "digits": "Digits"}
OTHER = {"rcv1-subset": "RCV1"}  # what stands in for the paper's data
BEST_SEEN = {"mnist-mlp": 0.504563}
TITLE = "The paper’s experiments, run again"
VARIANTS = {
    "paper": "as the paper’s text describes them",
    "authors": "as the authors’ code does them",
}
FIGURES = {
    "figure1": "Figure 1: primal and dual methods",
    "figure1-uploads": "Figure 1 by uploads",
    "figure3": "Figure 3: two classes per client",
    "figure3-uploads": "Figure 3 by uploads",
}
COHORTS = (
    "AccFedDCD asks two cohorts in each iteration. The paper’s figures and tables count that as "
    "one round; uploads count both."
)
SCAFFOLD = (
    "SCAFFOLD here is the correct one. In the authors’ code its control variates are never "
    "updated for softmax, so their SCAFFOLD rows are FedAvg in truth."
)
TABLE2 = (
    "Rounds until the gap to the optimum is at most ε: the median over the seeds, in brackets the "
    "smallest and the largest; “>100” was not reached in 100 rounds. The fewest are bold."
)
TABLE3 = (
    "Test accuracy with two classes per client: the best over the rounds, which is what the paper "
    "shows, and at the end; medians over the seeds, in brackets the smallest and the largest."
)
CSS = """
h2 { font-size: 1.25rem; line-height: 1.3; margin: 40px 0 8px; }
main > p, main > ul { max-width: 46em; }
ul { padding-left: 1.2em; } li { margin: 4px 0; }
.blocks { display: grid; gap: 24px; align-items: start; margin: 16px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
.block { min-width: 0; max-width: 620px; }
.block p { color: var(--soft); font-size: 0.9rem; margin: 6px 0; }
.block thead th { min-width: 0; }
.block th[scope=row] { white-space: nowrap; font-weight: 400; }
.block th.setup { background: var(--card); color: var(--soft); max-width: none; }
main > .legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0;
  max-width: none; font-size: 0.9rem; }
.legend svg { width: 34px; height: 12px; vertical-align: -1px; margin-right: 6px; }
.panels { margin: 12px 0; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
@media (max-width: 480px) { .block th, .block td { padding: 5px 3px; }
  .block table { font-size: 0.75rem; } .block .scroll th:first-child { min-width: 0; } }
@media print { .blocks { display: block; } tbody { break-inside: avoid; }
  h2, main > p, .legend { break-after: avoid; } }
"""
DASHES = {"-": "", "--": "7 3", "-.": "7 2 2 2", ":": "2 3"}


class Cell(NamedTuple):
    text: str
    best: bool = False


class Block(NamedTuple):
    """The rows of one problem, by setup; the first cell of a row is the method."""

    title: str
    notes: list[str]
    head: tuple[str, ...]
    groups: list[tuple[str, list[list[Cell]]]]


class Chart(NamedTuple):
    """Panels with one legend: (label, algorithm) of each method, and what else is drawn."""

    name: str
    methods: list[tuple[str, str]]
    marks: list[str]
    panels: list[tuple[str, str]]  # an <svg> and its caption


def table2_blocks(rows: Sequence[Row]) -> list[Block]:
    head = ("method", "rounds", "uploads", "paper", "authors’ file")
    blocks = []
    for block in together(rows, "problem", "data"):
        setups = sorted(together(block, "tau", "eps"), key=lambda s: (-s[0]["tau"], s[0]["eps"]))
        groups = [(_setup(rows), _lines2(rows)) for rows in setups]
        notes = [*_reference(block[0]), *_footnotes(block)]
        blocks.append(Block(_title(block), notes, head, groups))
    return blocks


def table3_blocks(rows: Sequence[Row]) -> list[Block]:
    head = ("method", "best accuracy", "at the end", "paper", "authors’ file")
    blocks = []
    for block in together(rows, "problem", "data"):
        setup = f"τ = {block[0]['tau']}, {_plural(block[0]['rounds'], 'round')}"
        groups = [(setup, _lines3(block))]
        blocks.append(Block(_title(block), _footnotes(block), head, groups))
    return blocks


def together(rows: Sequence[Row], *keys: str) -> list[list[Row]]:
    """The rows that agree in these keys, in the order of their first."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(groups.values())


def problem_title(problem: str, data: str) -> str:
    model = problem.rpartition("-")[2]
    return f"{DATA.get(data, data)}, {'MLP' if model == 'mlp' else model}"


def _title(rows: Sequence[Row]) -> str:
    return problem_title(rows[0]["problem"], rows[0]["data"])


def _setup(rows: Sequence[Row]) -> str:
    eps = f"{rows[0]['eps']:.0e}".replace("e-0", "e-")
    return f"τ = {rows[0]['tau']}, ε = {eps}"


def _lines2(rows: Sequence[Row]) -> list[list[Cell]]:
    rounds, uploads = _fewest(rows, "median"), _fewest(rows, "median_uploads")
    return [
        [
            Cell(_name(row)),
            Cell(rounds_text(row), _name(row) in rounds),
            Cell(number(row["median_uploads"]), _name(row) in uploads),
            *(Cell(_marked(number(row[key]), row)) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def _lines3(rows: Sequence[Row]) -> list[list[Cell]]:
    return [
        [
            Cell(_name(row)),
            Cell(_accuracies(row), _name(row) in _most_accurate(rows)),
            Cell(percent(middle(row["last"]))),
            *(Cell(_marked(percent(_known(row[key])), row)) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def rounds_text(row: Row) -> str:
    """28 (26–31): the median, and the range over the seeds; >100 where it was not reached."""
    limit = f">{row['limit']}"
    reached = [k for k in row["rounds"] if k is not None]
    low = min(reached, default=limit)
    high = limit if len(reached) < len(row["rounds"]) else max(reached)
    middle = limit if row["median"] is None else number(row["median"])
    return middle if low == high else f"{middle} ({low}–{high})"


def _accuracies(row: Row) -> str:
    best = [100 * x for x in map(_known, row["best"]) if math.isfinite(x)]
    middle = percent(_known(row["median"]))
    same = not best or max(best) - min(best) < 0.005
    return middle if same else f"{middle} ({min(best):.2f}–{max(best):.2f})"


def number(value: int | float | str | None) -> str:
    """1530.0 -> 1,530 and 4.5 -> 4.5; a string such as >100 as it is."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _name(row: Row) -> str:
    return NAMES.get(row["algorithm"], str(row["algorithm"]))


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def middle(values: Iterable[float | None]) -> float:
    """The median over the seeds; nan if it is of a run without a value."""
    ranked = [x if math.isfinite(x) else math.inf for x in map(_known, values)]
    middle = statistics.median(ranked) if ranked else math.inf
    return middle if math.isfinite(middle) else math.nan


def _fewest(rows: Sequence[Row], key: str) -> list[str]:
    """The methods with the smallest value; none if no method got there."""
    values = [row[key] for row in rows if row[key] is not None]
    return [_name(row) for row in rows if values and row[key] == min(values)]


def _most_accurate(rows: Sequence[Row]) -> list[str]:
    values = [_known(row["median"]) for row in rows]
    best = max((x for x in values if math.isfinite(x)), default=None)
    return [_name(row) for row, x in zip(rows, values, strict=True) if x == best]


def _marked(text: str, row: Row) -> str:
    return text if text == NONE else f"{text}{_mark(row)}"


def _mark(row: Row) -> str:
    """What to know about the paper's and the authors' numbers of this row."""
    other = "*" if row["data"] in OTHER else ""
    softmax = row["problem"].endswith("softmax")
    if softmax and row["algorithm"] == "scaffold":
        return f"{other}†"
    accuracy = "best" in row
    return f"{other}‡" if softmax and accuracy and row["algorithm"] == "accfeddcd" else other


def _footnotes(rows: Sequence[Row]) -> list[str]:
    data = rows[0]["data"]
    marks = "".join(_mark(r) for r in rows if (r["paper"], r["authors"]) != (None, None))
    notes = {
        "*": f"* The paper’s and the authors’ numbers are for {OTHER.get(data)}, another data set "
        f"than {data}, on which this was run: not to be compared.",
        "†": "† FedAvg in truth: the authors’ code never updates SCAFFOLD’s control variates here.",
        "‡": "‡ Of the training data.",
    }
    return [note for mark, note in notes.items() if mark in marks]


def _reference(row: Row) -> list[str]:
    best = BEST_SEEN.get(row["problem"])
    return [] if best is None else [f"The gap is to {best}, the best value the authors saw."]


def lead(variant: str, seeds: int, table2: Sequence[Row]) -> str:
    how = VARIANTS.get(variant, f"variant {variant}")
    return " ".join([
        f"The experiments of the paper {how}, with {_plural(seeds, 'seed')}.",
        *_agreement(table2, "paper", "The paper’s number of rounds"),
        *_agreement(table2, "authors", "That of the authors’ own files"),
    ])  # fmt: skip


def findings(table2: Sequence[Row], table3: Sequence[Row]) -> list[str]:
    """Which method is best where, by the medians."""
    found = []
    for rows in together(table2, "problem", "data"):
        setups = together(rows, "tau", "eps")
        rounds, uploads = (
            Counter(name for setup in setups for name in _fewest(setup, key))
            for key in ("median", "median_uploads")
        )
        if not rounds:
            found.append(f"{_title(rows)}: no method reached a gap of Table 2.")
            continue
        found.append(
            f"{_title(rows)}: the fewest rounds are needed by {_wins(rounds, len(setups))}, "
            f"the fewest uploads by {_wins(uploads, len(setups))}."
        )
    for rows in together(table3, "problem", "data"):
        names = _most_accurate(rows)
        if names:
            best = next(row["median"] for row in rows if _name(row) in names)
            where = f"{_title(rows)}, two classes per client"
            found.append(f"{where}: {_listed(names)} had the best test accuracy, {percent(best)}.")
    return found


def _wins(times: Counter[str], setups: int) -> str:
    """FedDCD (3 of 4 setups) and FedAvg (1)"""
    ranked = times.most_common()
    of = ["" if k else f" of {_plural(setups, 'setup')}" for k in range(len(ranked))]
    return _listed([f"{name} ({n}{more})" for (name, n), more in zip(ranked, of, strict=True)])


def _agreement(rows: Sequence[Row], key: str, what: str) -> list[str]:
    """How often a published number lies within the seeds' range; other data do not count."""
    rows = [row for row in rows if row[key] is not None and row["data"] not in OTHER]
    if not rows:
        return []
    inside = 0
    for row in rows:
        rounds = [math.inf if k is None else k for k in row["rounds"]]
        value = math.inf if isinstance(row[key], str) else row[key]
        inside += min(rounds) <= value <= max(rounds)
    return [f"{what} lies within the range of these seeds in {inside} of {len(rows)} rows."]


def page(
    variant: str,
    seeds: int,
    table2: Sequence[Row],
    table3: Sequence[Row],
    charts: Sequence[Chart],
    notes: Sequence[str],
) -> str:
    late = [chart for chart in charts if chart.name.startswith("figure3")]
    body = [
        f"<header><h1>{TITLE}</h1>",
        f'<p class="lead">{_text(lead(variant, seeds, table2))}</p></header>',
        _list([*findings(table2, table3), COHORTS, *_beyond([*table2, *table3])]),
        *(_chart(chart) for chart in charts if chart not in late),
        _table("Table 2: rounds to a gap", TABLE2, table2_blocks(table2)),
        *(_chart(chart) for chart in late),
        _table("Table 3: test accuracy", TABLE3, table3_blocks(table3)),
        "<h2>Where paper, authors’ code and correct behaviour differ</h2>",
        _list([SCAFFOLD, *_stand_ins([*table2, *table3]), *notes]),
    ]
    head = _head(TITLE).replace("</style>", f"{CSS}</style>")
    return "\n".join([head, "<body><main>", *body, "</main></body>", "</html>", ""])


def _beyond(rows: Sequence[Row]) -> list[str]:
    there = any(row["algorithm"] == "pointsaga" for row in rows)
    return ["Point-SAGA is not in the paper; it is shown for comparison."] if there else []


def _stand_ins(rows: Sequence[Row]) -> list[str]:
    return [
        f"{data} is another data set than {OTHER[data]}: the paper’s and the authors’ numbers are "
        f"for {OTHER[data]}, and their curves are not drawn over those of {data}."
        for data in dict.fromkeys(row["data"] for row in rows)
        if data in OTHER
    ]


def _text(text: str) -> str:
    return _unbroken(escape(text))


def _list(items: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_text(item)}</li>" for item in items) + "\n</ul>"


def _table(heading: str, about: str, blocks: Sequence[Block]) -> str:
    if not blocks:
        return ""
    tables = "\n".join(map(_block, blocks))
    return f'<h2>{_text(heading)}</h2>\n<p>{_text(about)}</p>\n<div class="blocks">{tables}</div>'


def _block(block: Block) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in block.head)
    wide = f'<th class="setup" scope="rowgroup" colspan="{len(block.head)}">'
    groups = "\n".join(
        f"<tbody><tr>{wide}{escape(setup)}</th></tr>\n{''.join(map(_line, lines))}</tbody>"
        for setup, lines in block.groups
    )
    notes = "".join(f"<p>{_text(note)}</p>\n" for note in block.notes)
    return (
        f'<div class="block"><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(block.title)}">\n<table><caption>{escape(block.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n{groups}\n</table></div>\n{notes}</div>"
    )


def _line(cells: Sequence[Cell]) -> str:
    first, *rest = cells
    texts = [(escape(c.text), c.best) for c in rest]
    values = "".join(f"<td>{f'<b>{text}</b>' if best else text}</td>" for text, best in texts)
    return f'<tr><th scope="row">{escape(first.text)}</th>{values}</tr>\n'


def _chart(chart: Chart) -> str:
    methods = [
        f"<li>{_sample(algorithm)}{escape(label)}</li>" for label, algorithm in chart.methods
    ]
    marks = [f"<li>{escape(mark)}</li>" for mark in chart.marks]
    panels = "\n".join(
        f"<figure>{drawing}<figcaption>{_text(caption)}</figcaption></figure>"
        for drawing, caption in chart.panels
    )
    return (
        f"<h2>{escape(FIGURES.get(chart.name, chart.name))}</h2>\n"
        f'<ul class="legend">\n{"".join([*methods, *marks])}\n</ul>\n'
        f'<div class="figures panels">\n{panels}\n</div>'
    )


def _sample(algorithm: str) -> str:
    colour, dash = STYLES.get(algorithm, SPARE[0])
    line = f'stroke="{colour}" stroke-width="2.4" stroke-dasharray="{DASHES[dash]}"'
    return f'<svg viewBox="0 0 34 12" aria-hidden="true"><path d="M0 6H34" {line}/></svg>'
