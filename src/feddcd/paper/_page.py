"""The page that shows the paper's figures and tables."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from ..report._style import SPARE, look
from ..report.html import _head, _unbroken
from ._blocks import Block, Cell, table2_blocks, table3_blocks
from ._rows import Row
from ._words import (
    COHORTS,
    FIGURES,
    SCAFFOLD,
    TABLE2,
    TABLE3,
    TITLE,
    beyond,
    findings,
    lead,
    stand_ins,
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


class Chart(NamedTuple):
    """Panels with one legend: (label, algorithm) of each method, and what else is drawn."""

    name: str
    methods: list[tuple[str, str]]
    marks: list[str]
    panels: list[tuple[str, str]]  # an <svg> and its caption


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
        _list([*findings(table2, table3), COHORTS, *beyond([*table2, *table3])]),
        *(_chart(chart) for chart in charts if chart not in late),
        _table("Table 2: rounds to a gap", TABLE2, table2_blocks(table2)),
        *(_chart(chart) for chart in late),
        _table("Table 3: test accuracy", TABLE3, table3_blocks(table3)),
        "<h2>Where paper, authors’ code and correct behaviour differ</h2>",
        _list([SCAFFOLD, *stand_ins([*table2, *table3]), *notes]),
    ]
    head = _head(TITLE).replace("</style>", f"{CSS}</style>")
    return "\n".join([head, "<body><main>", *body, "</main></body>", "</html>", ""])


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
    colour, dash = look(algorithm) or SPARE[0]
    line = f'stroke="{colour}" stroke-width="2.4" stroke-dasharray="{DASHES[dash]}"'
    return f'<svg viewBox="0 0 34 12" aria-hidden="true"><path d="M0 6H34" {line}/></svg>'
