"""What mkdocs makes when it builds the site: every command with its options, as the program itself
explains them, the changelog, and the formulas of all pages as MathML, which needs no script."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from feddcd.cli.app import app

FORMULA = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.M | re.S)
SHORT = 20  # letters: two names of an option stay on one line
CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
HEAD = """# Command line

`feddcd COMMAND --help` says the same. This page is made from it.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | not as wanted: not proven to `--tol`, data that do not fit, a study that failed |
| 2 | something that you can mend: one line on stderr says what |
| 130 | stopped by Ctrl-C; what was computed is saved (143: stopped by the system) |

`NO_COLOR=1` switches colours off. Notes and progress go to stderr, results to stdout.
Off a terminal, progress is lines. With `--json` stdout is one JSON document. `-v` says versions
and seconds, and shows where an error was.
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


def formula(latex: str) -> str:
    """A formula as a block of HTML; a command that the converter does not know is refused."""
    made = convert(latex, display="block")
    # the two bars of a norm would grow each by itself, to different heights
    made = made.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')
    if "\\" in made or "&<" in made:
        raise PluginError(f"cannot set this formula: {latex}")
    return f'<div class="formula" tabindex="0">{made}</div>'


def on_page_markdown(markdown: str, **_: object) -> str:
    """mkdocs calls it with the text of each page."""
    return FORMULA.sub(lambda found: formula(found[1]), markdown)


def on_template_context(context: dict[str, Any], template_name: str, **_: object) -> dict[str, Any]:
    """mkdocs calls it with what a page without a text is made of. The page for wrong addresses
    finds the site by itself: mkdocs would take the top of the server for it."""
    return context | ({"base_url": "."} if template_name == "404.html" else {})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """mkdocs calls it with the pages that it found."""
    files.append(File.generated(config, "cli.md", content=page()))
    files.append(File.generated(config, "changelog.md", content=CHANGELOG.read_text()))
    return files
