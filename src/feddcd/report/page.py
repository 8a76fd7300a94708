"""One HTML file that needs nothing else: no network, no font, and mostly no script.

Functions that take words escape them; what they return is HTML and goes into each other.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape

from ._css import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
SCRIPTS = " blob:; script-src 'unsafe-inline'"


def document(title: str, *parts: str, script: str = "") -> str:
    """The whole file; `script` is HTML that comes last and may run scripts of its own."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}{SCRIPTS if script else ""}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body><main>
{lines(parts)}
</main>{script}</body>
</html>
"""


def header(title: str, lead: str, *parts: str) -> str:
    """The title, and what matters most in a sentence or two."""
    first = f'<h1>{escape(title)}</h1>\n<p class="lead">{text(lead)}</p>'
    return f"<header>{lines([first, *parts])}</header>"


def section(name: str, *parts: str) -> str:
    return lines([f"<section><h2>{text(name)}</h2>", *parts, "</section>"])


def footer(terms: Mapping[str, str]) -> str:
    """What the words of the page mean."""
    meanings = [f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in terms.items()]
    return f"<footer>{details('How to read this', '<dl>', *meanings, '</dl>')}</footer>"


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
    """Escaped; 1e-6, 92 % and 12 MB stay on one line."""
    number = r"\d[\d.,]*(e-?\d+| %| [kMG]?B\b)"
    return re.sub(number, r'<span class="n">\g<0></span>', escape(words))
