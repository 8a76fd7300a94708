"""A table for a paper or for notes: rows of text, in groups, as LaTeX (booktabs) and as Markdown.

The first cell of a row is its name and stands left; the others are numbers and stand right. Names
come from data, so no letter of theirs may be read as a command.
"""

import re
from collections.abc import Iterable, Sequence

from .._text import printable
from ._fitting import GAP, body_widths, fitted, head_lines
from .tables import Bold, Group, Row

PACKAGE = r"% needs \usepackage{booktabs}"
_GREEK = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau
upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega
"""
_LETTERS = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
_SIGNS = {"−": "-", "≈": r"\approx", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "∞": r"\infty"}
_SIGNS |= {"<": "<", ">": ">", "|": "|", "×": r"\times", "µ": r"\mu", "²": "^2", "³": "^3"}
_SIGNS |= {letter: f"\\{name}" for letter, name in zip(_LETTERS, _GREEK.split(), strict=True)}
_LATEX = {sign: f"${command}$" for sign, command in _SIGNS.items()}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "–": "--", "—": "---"}
_LATEX |= {"\u2007": r"\phantom{0}", "\u2008": r"\phantom{.}"}  # a blank digit, a blank point
_LATEX |= {'"': r"\symbol{34}", "`": "{`}"}
_SPECIAL = re.compile(f"-(?=-)|[{re.escape(''.join(_LATEX))}]")  # two hyphens would be a dash
_POWER = re.compile(  # after escaping
    r"(?<![\w.,$])(\$-\$)?(?<![\w.,])(\d+(?:\.\d+)?)e((?:-|\$-\$)?\d+)(?!\w|\.\S)"
)
_MARKDOWN = re.compile(r"[\\`*_|]")  # what every kind of Markdown knows after a backslash
# what only some know: one of the last three signs alone means nothing
_ENTITIES = re.compile(r"<(?! )|&(?=[#\w])|@|([$~^])(?=.*\1)")
_BLOCK = re.compile(r"^[#>+=-]")  # a heading, a list


def latex(head: Row, *groups: Group, notes: Sequence[str] = ()) -> str:
    """A table as wide as the text, with its notes below it. What is wider gets a smaller font, and
    then blocks of columns below each other, between which a page can end."""
    fit, below = fitted(head, groups), [_in_powers(_latex_cell(note)) for note in notes]
    begin = [
        r"\noindent\begin{minipage}{\linewidth}",
        rf"\centering\{fit.size}\setlength{{\tabcolsep}}{{{GAP:g}pt}}",
    ]
    blocks = [[*begin, *_latex_block(head, groups, block, fit.name)] for block in fit.blocks]
    if below:
        notes_in = [part for note in below for part in ("", note)]
        blocks[-1] += [r"\par\smallskip\raggedright\footnotesize", *notes_in]
    boxes = ["\n".join([*lines, r"\end{minipage}", ""]) for lines in blocks]
    return f"{PACKAGE}\n" + "\\par\\medskip\n".join(boxes)


def _latex_block(
    head: Row, groups: Sequence[Group], block: list[int], name: float | None
) -> list[str]:
    """A tabular of the names and of these columns."""
    bodies = body_widths(head, groups)
    names = [_latex_head(head[j], bodies[j - 1]) for j in block]
    picked = [(title, [[row[j] for j in (0, *block)] for row in rows]) for title, rows in groups]
    return [
        rf"\begin{{tabular}}{{@{{}}l{'r' * len(block)}@{{}}}}", r"\toprule",
        " & ".join([_latex_cell(head[0]), *names]) + r" \\", r"\midrule",
        *(line for group in picked for line in _latex_group(group, len(block) + 1, name)),
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip


def _latex_head(name: str, room: float) -> str:
    lines = [_in_powers(_latex_cell(line)) for line in head_lines(name, room)]
    if len(lines) == 1:
        return lines[0]
    return r"\begin{tabular}[b]{@{}r@{}}" + r" \\ ".join(lines) + r"\end{tabular}"


def _latex_group(group: Group, width: int, name: float | None = None) -> list[str]:
    heading, rows = group
    if not heading:
        return [_latex_line(row, name) for row in rows]
    title = rf"\multicolumn{{{width}}}{{@{{}}l}}{{{_latex_cell(heading)}}} \\"
    return [r"\addlinespace", title, *(rf"\quad {_latex_line(row, name)}" for row in rows)]


def _latex_line(cells: Iterable[str], name: float | None = None) -> str:
    """The first cell is a name; in the others 5.9e-4 is a number."""
    first, *rest = map(_latex_cell, cells)
    if name is not None:
        first = rf"\parbox[t]{{{name:g}\linewidth}}{{\raggedright {first}\strut}}"
    return " & ".join([first, *map(_in_powers, rest)]) + r" \\"


def _in_powers(text: str) -> str:
    return _POWER.sub(_power, text)


def _power(found: re.Match[str]) -> str:
    sign, digits, exponent = "-" if found[1] else "", found[2], found[3].replace("$-$", "-")
    return rf"${sign}{'' if digits == '1' else digits + chr(92) + 'cdot '}10^{{{exponent}}}$"


def _latex_cell(cell: str) -> str:
    text = _SPECIAL.sub(lambda found: _LATEX.get(found[0], "-{}"), printable(cell))
    if text.startswith(("[", "*")):
        text = "{}" + text  # the end of the line before it would take it for an option
    return rf"\textbf{{{text}}}" if isinstance(cell, Bold) else text


def markdown(head: Row, *groups: Group, notes: Sequence[str] = (), left: int = 1) -> str:
    """A table with columns that also stand in line as plain text; notes are sentences below it."""
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
