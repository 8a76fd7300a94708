"""A report as one HTML file that needs nothing else: no script, no network, no font."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Literal

from .._errors import SpecError
from ._css import CSS
from ._entry import Entry, flatten
from ._text import compare_summary, run_summary
from .figures import panels, svg
from .tables import rows

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
TERMS = {
    "Round": "one exchange: the server sends its model to some clients, they work on their own "
    "data, and send one answer each.",
    "Upload": "one answer of one client. Uploads are what a federation pays for: they cost the "
    "clients’ network and patience, so fewer is better.",
    "Objective": "the number that training makes small: the average error over the clients, "
    "plus a small penalty on large weights.",
    "Certified gap": "a proven limit. No model of this kind, however it is trained, has an "
    "objective more than this much lower. The true distance may be smaller, never larger.",
    "Dual residual": "each client keeps a memory of how its data pulls the model, and these pulls "
    "must cancel out in total. This is how far they are from cancelling; only rounding should "
    "be left.",
    "1e-3, 1e-6": "0.001 and 0.000001. “Uploads to 1e-3” is how many uploads were needed until "
    "the gap was proven to be at most 0.001. A dash means: not reached, or not known.",
}


def write(
    entries: Sequence[Entry],
    path: str | Path,
    *,
    title: str,
    kind: Literal["run", "compare"] = "run",
) -> None:
    """Write the report of one run, or of several side by side."""
    if not entries or (kind == "run" and len(entries) != 1):
        raise SpecError(f"need one entry for a run, some for a comparison; got {len(entries)}")
    Path(path).write_text(page(entries, title=title, kind=kind), encoding="utf-8", newline="\n")


def page(entries: Sequence[Entry], *, title: str, kind: str) -> str:
    sentences = run_summary(entries[0]) if kind == "run" else compare_summary(entries)
    body = [
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="lead">{_unbroken(escape(" ".join(sentences)))}</p></header>',
        "" if kind == "run" else _table(entries),
        _figures(entries, kind),
        _settings(entries),
        _terms(),
    ]
    return "\n".join([_head(title), "<body><main>", *body, "</main></body>", "</html>", ""])


def _head(title: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>"""


def _unbroken(text: str) -> str:
    """Keeps 1e-6 and 92 % on one line."""
    return re.sub(r"\d[\d.,]*(e-?\d+| %)", r'<span class="n">\g<0></span>', text)


def _facts(entry: Entry) -> str:
    """One run reads better downwards, beside the first figure."""
    cells = [(name, value) for name, value in rows([entry])[0].items() if value != "–"]
    return _pairs(cells, "facts", "The run in numbers")


def _table(entries: Sequence[Entry]) -> str:
    lines = rows(entries)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in lines[0])
    body = "\n".join(_line(list(line.values())) for line in lines)
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="The runs in numbers">\n'
        f"<table><caption>The runs in numbers</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _line(cells: list[str]) -> str:
    rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{escape(cells[0])}</th>{rest}</tr>'


def _figures(entries: Sequence[Entry], kind: str) -> str:
    parts = [_facts(entries[0])] if kind == "run" else []
    for i, (figure, caption) in enumerate(panels(entries, kind)):
        drawing = svg(figure, label=caption, prefix=f"figure{i}-")
        parts.append(f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>")
    return '<div class="figures">\n' + "\n".join(parts) + "\n</div>"


def _settings(entries: Sequence[Entry]) -> str:
    """What all runs share is said once, then what each has of its own."""
    settings = [{name: str(x) for name, x in flatten(e.config).items()} for e in entries]
    shared = [pair for pair in settings[0].items() if all(pair in s.items() for s in settings)]
    if len(entries) == 1:
        tables = _pairs(shared, "pairs", f"Settings of {entries[0].label}")
    else:
        own = [[f"{k} = {x}" for k, x in s.items() if (k, x) not in shared] for s in settings]
        rest = [(e.label, ", ".join(mine)) for e, mine in zip(entries, own, strict=True)]
        tables = _pairs(shared, "pairs", "The same in all runs")
        tables += _pairs(rest, "pairs", "Different")
    return f"<details><summary>Settings</summary>\n{tables}\n</details>"


def _pairs(pairs: Iterable[tuple[str, str]], style: str, caption: str) -> str:
    lines = "\n".join(_line([name, value]) for name, value in pairs) or _line(["none", ""])
    return (
        f'<table class="{style}"><caption>{escape(caption)}</caption>\n'
        f"<tbody>\n{lines}\n</tbody></table>"
    )


def _terms() -> str:
    terms = "\n".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in TERMS.items())
    return f"<details><summary>How to read this</summary>\n<dl>\n{terms}\n</dl></details>"
