"""One HTML file that needs nothing else: no network, no font, no script.

Functions that take words escape them; what they return is HTML and goes into each other.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from html import escape
from importlib.metadata import version

from .._origin import origin
from .._text import printable, printable_lines

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# on a phone, on a desktop and on paper, in the light and in the dark
CSS = """
:root { --ink: #1d2127; --soft: #505865; --paper: #ffffff; --card: #f5f6f8; --rule: #d8dce2;
  --grid: #e7eaee; --good: #1b6e46; --bad: #a32116; --alarm: #fdf1ef; color-scheme: light dark; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8eaee; --soft: #a4acb8; --paper: #14171b; --card: #1d2127; --rule: #353b44;
    --grid: #2a3038; --good: #5cc592; --bad: #ff9a8d; --alarm: #2e1c1b; }
  figure > svg, .legend svg, .strip { filter: brightness(1.3); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%; overflow-wrap: anywhere; }
main { max-width: 1120px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 1.65rem; line-height: 1.2; margin: 8px 0 14px; text-wrap: balance; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 36px 0 8px; }
p, ul { max-width: 46em; margin: 0 0 12px; }
ul { padding-left: 1.2em; }
li { margin-bottom: 4px; }
.n { white-space: nowrap; }
code { font-size: 0.92em; }
.lead { font-size: 1.1rem; margin-bottom: 20px; }
.proof { border-left: 4px solid var(--good); background: var(--card); padding: 10px 14px;
  border-radius: 0 6px 6px 0; font-size: 1.1rem; }
.proof strong { color: var(--good); }
.proof.open { border-color: var(--bad); background: var(--alarm); }
.proof.open strong { color: var(--bad); }
.note, figcaption { color: var(--soft); font-size: 0.9rem; }

.scroll { overflow: auto; max-height: 36rem; border: 1px solid var(--rule); border-radius: 8px;
  margin-bottom: 12px;  /* a shadow on the right while there is more to see */
  background: linear-gradient(to left, var(--paper) 50%, transparent) right / 28px 100% no-repeat
    local, linear-gradient(to left, var(--rule), transparent) right / 14px 100% no-repeat; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid #0072b2; outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
.scroll table { width: 100%; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: 8px 10px; }
.scroll caption span { position: sticky; left: 10px; display: inline-block;
  max-width: calc(100vw - 56px); }
th, td { padding: 5px 7px; text-align: right; border-top: 1px solid var(--rule); }
td { white-space: nowrap; }
th:first-child { text-align: left; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; line-height: 1.25;
  background: var(--paper); position: sticky; top: 0; z-index: 1; }
.scroll th:first-child { position: sticky; left: 0; background: var(--paper); font-weight: 500;
  min-width: 7em; max-width: 15em; overflow-wrap: break-word; }
.scroll thead th:first-child { z-index: 2; font-weight: 600; overflow-wrap: normal; }
.scroll:not(:has(tr > :nth-child(3))) { width: fit-content; min-width: min(100%, 34em);
  max-width: 100%; }
.scroll th.group { background: var(--card); color: var(--soft); max-width: none; font-weight: 600; }
.words td { text-align: left; white-space: normal; }
.words td:nth-child(n+3):last-child:not(:empty) { min-width: 13em; }
.scroll .words th:first-child:empty { min-width: 0; padding: 0; }
.facts, .settings { width: 100%; max-width: 34em; margin: 0 0 16px; align-self: start; }
.facts caption, .settings caption, .facts th, .settings th { padding-left: 0; }
.facts th, .settings th { font-weight: 400; color: var(--soft); }
.facts th, .settings th { overflow-wrap: normal; }
@media (min-width: 380px), print { .facts th { white-space: nowrap; } }
.facts td, .settings td { white-space: normal; }
.facts td { padding-right: 0; }
.settings td { text-align: left; }
.settings th { width: 40%; }

.figures, .columns { display: grid; gap: 20px 28px; margin: 20px 0; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.columns > * { min-width: 0; max-width: 620px; }
.columns .scroll { max-height: none; }
.columns .scroll th:first-child { min-width: 0; overflow-wrap: normal; }
.panels { grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
figure { margin: 0; min-width: 0; break-inside: avoid; }
.figures figure { max-width: 560px; }
figure > svg { display: block; width: 100%; height: auto; color: var(--ink); }
figcaption { max-width: 49em; margin: 6px 0 14px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0;
  max-width: none; font-size: 0.9rem; }
.legend svg { width: 34px; height: 12px; vertical-align: -1px; margin-right: 6px; }
.chart text, .strip text { font: 12.5px system-ui, -apple-system, "Segoe UI", sans-serif;
  fill: var(--soft); }
.chart .tick { font-size: 12px; fill: var(--ink); }
.strip .tick { font-size: 10.5px; fill: var(--ink); }
.chart path, .strip path { fill: none; }
.grid { stroke: var(--grid); }
.axis { stroke: var(--soft); }
.line { stroke: currentColor; stroke-width: 2; }
.dashed { stroke-dasharray: 6 4; stroke-width: 1.5; }
.dotted { stroke-dasharray: 2 3; stroke-width: 1.3; }
.chart .dot, .strip .dot { fill: currentColor; }
.chart .area { fill: currentColor; opacity: 0.15; }
.bar { fill: currentColor; fill-opacity: 0.35; stroke: currentColor; stroke-width: 0.8; }
.blue { color: #0072b2; }
.orange { color: #c24f00; }
.pale { color: #8a94a2; opacity: 0.65; }
.soft { color: var(--soft); }
.strip { display: block; width: 100%; min-width: 150px; height: auto; overflow: visible; }
.scroll:has(.forest), .scroll:has(.whole) { max-height: none; }
.forest td:nth-child(2) { min-width: 170px; width: 42%; padding: 0 14px; }

details { border-top: 1px solid var(--rule); padding: 4px 0; }
summary { cursor: pointer; font-weight: 600; padding: 8px 0; }
dl { margin: 0 0 12px; }
dt { font-weight: 600; margin-top: 8px; }
dd { margin: 0; max-width: 46em; }
@media (max-width: 480px) {
  :root { font-size: 15px; }
  th, td { padding: 5px 6px; }
  .scroll th:first-child { max-width: 9.5em; }
  .scroll .long { min-width: 8.5em; }
  .columns th, .columns td { padding: 5px 3px; }
  .columns .scroll table { font-size: 0.75rem; }
  .strip { min-width: 80px; }
  .strip .tick { font-size: 30px; transform: translateY(12px); }
  .strip .more { display: none; }
  .strip .line { vector-effect: non-scaling-stroke; }
  .strip circle.dot { r: 10.5px; }
  .strip path.dot { transform-box: fill-box; transform-origin: center; transform: scale(2); }
  .forest { font-size: 0.75rem; }
  .scroll .forest th:first-child { min-width: 6em; max-width: 8em; }
  .forest td:nth-child(2) { min-width: 90px; width: 35%; padding: 0 6px; }
  .forest td:nth-child(3) { white-space: normal; }
  .forest tr:last-child td { padding-top: 3px; padding-bottom: 12px; }
}
@media print {
  :root { --ink: #000000; --soft: #333333; --rule: #999999; color-scheme: light;
    font-size: 10.5pt; }
  @page { margin: 14mm; }
  main { max-width: none; padding: 0; }
  h2 { margin-top: 20px; }
  .scroll { overflow: visible; max-height: none; border: 0; background: none; }
  .scroll table { font-size: 7.5pt; }
  .scroll th, .scroll td { padding: 2px 3px; }
  .scroll th:first-child { min-width: 8em; }
  .scroll table:has(tr > :nth-child(9)) td { white-space: normal; text-wrap: balance; }
  .scroll table:has(tr > :nth-child(12)) { font-size: 6.3pt; }
  .scroll table:has(tr > :nth-child(12)) :is(th, td) { padding: 2px; }
  thead th, .scroll caption span, .scroll th:first-child { position: static; }
  caption { padding-left: 0; }
  .facts, .settings { font-size: 9pt; }
  .facts th, .facts td, .settings th, .settings td { padding-top: 2px; padding-bottom: 2px; }
  .figures { grid-template-columns: 330px 330px; }
  .panels:has(> :nth-child(3)) { grid-template-columns: repeat(3, 1fr); }
  .columns { grid-template-columns: 1fr 1fr; }
  tr, dt, dd, li, .proof, .facts, .settings { break-inside: avoid; }
  tbody tr:nth-last-child(-n+2) { break-before: avoid; }
  thead, tr:first-child, tr:has(.group) { break-after: avoid; }
  h2, section > p, .legend, dt, caption, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  summary { list-style: none; }
}
"""


def document(title: str, *parts: str) -> str:
    """The whole file."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(printable(title))}</title>
<style>{CSS}</style>
</head>
<body><main>
{printable_lines(lines(parts))}
</main></body>
</html>
"""


def header(title: str, lead: str, *parts: str) -> str:
    """The title, and what matters most in a sentence or two."""
    first = f'<h1>{escape(title)}</h1>\n<p class="lead">{text(lead)}</p>'
    return f"<header>{lines([first, *parts])}</header>"


def section(name: str, *parts: str) -> str:
    return lines([f"<section><h2>{text(name)}</h2>", *parts, "</section>"])


def footer(terms: Mapping[str, str], day: date | None = None, data: str = "") -> str:
    """What the words of the page mean; when it was made, by what, and from which data, where the
    caller does not say it of all reports that it writes."""
    meanings = [f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in terms.items()]
    explained = details("How to read this", "<dl>", *meanings, "</dl>") if terms else ""
    explained = explained.replace("<details>", "<details open>", 1)
    made = [f"Made on {day or date.today():%Y-%m-%d} by feddcd {version('feddcd')}."]
    known = {"Command": origin().command, "Data": origin().data or data}
    made += [f"{k}: <code>{_options(escape(printable(x)))}</code>" for k, x in known.items() if x]
    return f'<footer>{explained}<p class="note">{"<br>".join(made)}</p></footer>'


def details(name: str, *parts: str) -> str:
    """Hidden until it is clicked, and on paper always there."""
    return lines([f"<details><summary>{escape(name)}</summary>", *parts, "</details>"])


def paragraph(words: str, style: str = "") -> str:
    return f'<p class="{style}">{text(words)}</p>' if style else f"<p>{text(words)}</p>"


def bullets(items: Iterable[str]) -> str:
    return lines(["<ul>", *(f"<li>{text(item)}</li>" for item in items), "</ul>"])


def figure(drawing: str, caption: str = "") -> str:
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure>{drawing}{below}</figure>"


def grid(parts: Iterable[str], style: str = "figures") -> str:
    """As many side by side as the window is wide."""
    return lines([f'<div class="{style}">', *parts, "</div>"])


def lines(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)


def text(words: str) -> str:
    """Escaped; 1e-6, 92 %, 12 MB and a date stay on one line, and what stands in backticks is
    code."""
    kept = r"`([^`\n]+)`|\d{4}-\d\d-\d\d|\d[\d.,]*(?:e-?\d+| %| [kMG]?B\b)"
    return re.sub(kept, _kept, escape(words))


def _kept(found: re.Match[str]) -> str:
    return f"<code>{found[1]}</code>" if found[1] else f'<span class="n">{found[0]}</span>'


def _options(command: str) -> str:
    """No line breaks within `--out`."""
    return re.sub(r"(?<!\S)--?[a-z][\w-]*", r'<span class="n">\g<0></span>', command)
