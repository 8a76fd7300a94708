"""Where a line of a page may break: never within an option, a short name, a number like 1e-6
or between a number and its unit.

A browser breaks a line behind every hyphen, so `--out` would become `--` and `out`. A long name in
code may break behind its slashes, colons and underscores, and only there. mkdocs calls
`on_page_content`; the text itself stays as it is, also when somebody copies it."""

import re

SHORT, LONG = 24, 40  # letters; with a longer name in one piece, a table is too wide for a phone
PIECES = re.compile(r"(<pre\b.*?</pre>|<math\b.*?</math>|<code>[^<]*</code>|<[^>]*>)", re.S)
CELL = re.compile(r"<td([^>]*)>(.*?)</td>", re.S)
SENTENCE = 40  # letters of a cell that needs a wide column, also on a phone
CODE = re.compile(r"<code>([^<]*)</code>")
UNIT = r"(?:%|[kMG]i?B|ms|s|h|min|days?|rows?)(?![\w/])"
NAME = r"\b[a-z]\w*-[\w-]+-\d(?![\w-])"  # of a problem of the race: wine-iid-2
WHOLE = re.compile(rf"\d[\d.,]*(?:e-?\d+)?\s{UNIT}|\d[\d.]*e-\d+|(?<!\S)--[a-z][\w-]*|{NAME}")
JOINTS = re.compile(r"(?<=/)(?=.)|(?<=::)")
MORE_JOINTS = re.compile(r"(?<=/)(?=.)|(?<=::)|(?<=\w)_")


def whole(word: str) -> str:
    return f'<span class="whole">{word}</span>'


def word_of_code(word: str) -> str:
    if len(word) > SHORT:
        joints = MORE_JOINTS if len(word) > LONG else JOINTS
        return joints.sub(lambda found: f"{found[0]}<wbr>", word)
    return whole(word) if "-" in word.rstrip("-") else word


def code(text: str) -> str:
    # in a table, Markdown writes `|` as `\|`, also within code
    words = re.split(r"(\s+)", text.replace("\\|", "|"))
    return f"<code>{''.join(map(word_of_code, words))}</code>"


def piece(html: str) -> str:
    if found := CODE.fullmatch(html):
        return code(found[1])
    return html if html.startswith("<") else WHOLE.sub(lambda found: whole(found[0]), html)


def cell(found: re.Match[str]) -> str:
    """With a class for docs/site.css if it holds a sentence."""
    letters = len(re.sub(r"<[^>]*>", "", found[2]))
    return found[0].replace("<td", '<td class="long"', 1) if letters > SENTENCE else found[0]


def on_page_content(html: str, **_: object) -> str:
    """mkdocs calls it with the page as HTML."""
    return "".join(map(piece, PIECES.split(CELL.sub(cell, html))))
