"""A table for a paper or for notes: rows of text, in groups, as LaTeX (booktabs) and as Markdown.

The first cell of a row is its name and stands left; the others are numbers and stand right. Names
come from data, so no letter of theirs may be read as a command.
"""

import re
from collections.abc import Iterable, Sequence

from .._text import printable
from .tables import Bold, Group, Row

PACKAGE = r"% needs \usepackage{booktabs}"
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau"
_GREEK += " upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
_LETTERS = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
_SIGNS = {"−": "-", "≈": r"\approx", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "∞": r"\infty"}
_SIGNS |= {"<": "<", ">": ">", "|": "|", "×": r"\times", "µ": r"\mu", "²": "^2", "³": "^3"}
_SIGNS |= {letter: f"\\{name}" for letter, name in zip(_LETTERS, _GREEK.split(), strict=True)}
_LATEX = {sign: f"${command}$" for sign, command in _SIGNS.items()}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "–": "--", "—": "---"}
_LATEX |= {'"': r"\symbol{34}", "`": "{`}"}
_SPECIAL = re.compile(f"-(?=-)|[{re.escape(''.join(_LATEX))}]")  # two hyphens would be a dash
_MARKDOWN = re.compile(r"[\\`*_|]")  # what every kind of Markdown knows after a backslash
_ENTITIES = re.compile(r"<(?! )|&(?=[#\w])|[$~^@]")  # what only some know
_BLOCK = re.compile(r"^[#>+=-]")  # a heading, a list


def latex(head: Row, *groups: Group, notes: Sequence[str] = ()) -> str:
    """A tabular; notes stand in comments above it, for a caption."""
    body = [line for group in groups for line in _latex_group(group, len(head))]
    return "\n".join([
        PACKAGE, *(f"% {printable(note)}" for note in notes),
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", _latex_line(head),
        r"\midrule", *body, r"\bottomrule", r"\end{tabular}", "",
    ])  # fmt: skip


def _latex_group(group: Group, width: int) -> list[str]:
    heading, rows = group
    if not heading:
        return [_latex_line(row) for row in rows]
    title = rf"\multicolumn{{{width}}}{{l}}{{{_latex_cell(heading)}}} \\"
    return [r"\addlinespace", title, *(rf"\quad {_latex_line(row)}" for row in rows)]


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(map(_latex_cell, cells)) + r" \\"


def _latex_cell(cell: str) -> str:
    text = _SPECIAL.sub(lambda found: _LATEX.get(found[0], "-{}"), printable(cell))
    if text.startswith(("[", "*")):
        text = "{}" + text  # the end of the line before it would take it for an option
    return rf"\textbf{{{text}}}" if isinstance(cell, Bold) else text


def markdown(head: Row, *groups: Group, notes: Sequence[str] = (), left: int = 1) -> str:
    """A table whose columns also stand in line as plain text; notes are sentences below it."""
    heading = lambda name: [[_markdown_cell(Bold(name)), *[""] * (len(head) - 1)]] if name else []
    lines = [[_markdown_cell(name) for name in head]]
    for name, rows in groups:
        lines += [*heading(name), *([_markdown_cell(cell) for cell in row] for row in rows)]
    wide = [max(4, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * n if k < left else "-" * (n - 1) + ":" for k, n in enumerate(wide)]
    side = lambda k: str.ljust if k < left else str.rjust
    set_ = lambda line: [side(k)(cell, wide[k]) for k, cell in enumerate(line)]
    drawn = [f"| {' | '.join(set_(line))} |" for line in (lines[0], rule, *lines[1:])]
    below = [part for note in notes for part in ("", _markdown_note(note))]
    return "\n".join([*drawn, *below, ""])


def _markdown_cell(cell: str) -> str:
    text = _markdown_text(cell)
    return f"**{text}**" if isinstance(cell, Bold) and text else text


def _markdown_note(note: str) -> str:
    return _BLOCK.sub(_entity, _markdown_text(note.strip()))


def _markdown_text(text: str) -> str:
    text = _ENTITIES.sub(_entity, printable(text))
    text = _MARKDOWN.sub(lambda found: f"\\{found[0]}", text)
    return text.replace("[", "&#91;") if re.search(r"\]\s*[(\[:]", text) else text


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"
