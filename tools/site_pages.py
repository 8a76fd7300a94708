"""What mkdocs makes when it builds the site: every command with its options, as the program itself
explains them, the changelog, and the formulas of all pages as MathML, which needs no script."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import cycle
from pathlib import Path
from typing import Any

import click
import typer
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from feddcd.cli.app import app

BLOCK = re.compile(r'<div class="arithmatex">\\\[\n?(.+?)\n?\\\]</div>', re.S)
INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.S)
BAR = re.compile(r'<mo(?: fence="false")?(?: stretchy="false")?>(&#x02016;|&#x0007C;)</mo>')
SHORT = 20  # letters: two names of an option stay on one line
CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
HEAD = """# Command line

`feddcd COMMAND --help` says the same. This page is made from it.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | done, but the result is not proven, the data do not fit, or a study or a check failed |
| 2 | the input is wrong: one line on standard error says what is wrong and what to do |
| 130 | stopped by Ctrl-C; feddcd saves what it has computed (143: stopped by the system) |

Results go to standard output; notes and errors go to standard error. Progress is a bar in a
terminal. If the output goes into a file or to another program, progress is lines on standard error
in place of a bar, about every ten seconds.

In a terminal, tables and notes take its width. If a table of `glm` or `describe` is too wide, some
of its columns stand below the others. The files of a command always have the full width.

- `--quiet` prints only errors, and notes that a result is not proven or not complete.
- `--json` prints the result as one JSON document, and nothing else, to standard output.
- `-v` prints more, for example the version of feddcd and the seconds that the command took. After
  an error, it also prints where in the code the error happened.
- The environment variable `NO_COLOR=1` switches colours off.
"""


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for part, child in command.commands.items():
            if not child.hidden:
                yield from commands(child, f"{name} {part}")
    else:
        yield name, command


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def usual(option: click.Parameter) -> str:
    shown = isinstance(option, click.Option) and option.show_default is not False
    value = option.default
    if not shown or callable(value) or value in (None, False, (), [], ""):
        return ""
    return f" ({value})"


def rows(command: click.Command) -> Iterator[str]:
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        if isinstance(option, click.Argument):
            name = f"`{option.human_readable_name.upper()}`"
        else:
            words = (*option.opts, *option.secondary_opts)
            joined = ",&nbsp;" if len(" ".join(words)) < SHORT else ", "
            name = joined.join(f"`{word}`" for word in words)
        said = getattr(option, "help", None) or ""
        yield f"| {name} | {cell(said + usual(option))} |"


def page() -> str:
    lines = [HEAD]
    for name, command in commands(typer.main.get_command(app), "feddcd"):
        about, _, example = " ".join((command.help or "").split()).partition("Example: ")
        lines += [f"\n## {name}\n", about.strip(), ""]
        lines += [f"    {example}", ""] if example else []
        if found := list(rows(command)):
            lines += ["| option | meaning |", "|---|---|", *found]
    return "\n".join(lines).rstrip() + "\n"


def formula(latex: str, display: str) -> str:
    """A formula as MathML; a command that the converter does not know is refused."""
    made = convert(latex, display=display)
    # the two bars of a norm would grow each by itself, to different heights, and stand apart
    forms = cycle(("prefix", "postfix"))
    made = BAR.sub(lambda bar: f'<mo stretchy="false" form="{next(forms)}">{bar[1]}</mo>', made)
    if "\\" in made or "&<" in made:
        raise PluginError(f"cannot set this formula: {latex}")
    return made


def block(found: re.Match[str]) -> str:
    made = formula(unescape(found[1]), "block")
    return f'<div class="formula" tabindex="0">{made}</div>'


def on_page_content(html: str, **_: object) -> str:
    """mkdocs calls it with each page as HTML, in which arithmatex has marked the formulas."""
    html = BLOCK.sub(block, html)
    return INLINE.sub(lambda found: formula(unescape(found[1]), "inline"), html)


def on_template_context(context: dict[str, Any], template_name: str, **_: object) -> dict[str, Any]:
    """mkdocs calls it with what a page without a text is made of. The page for wrong addresses
    finds the site by itself: mkdocs would take the top of the server for it."""
    return context | ({"base_url": "."} if template_name == "404.html" else {})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """mkdocs calls it with the pages that it found."""
    files.append(File.generated(config, "cli.md", content=page()))
    files.append(File.generated(config, "changelog.md", content=CHANGELOG.read_text()))
    return files
