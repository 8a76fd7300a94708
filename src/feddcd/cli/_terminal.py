"""The terminal: one console for results, one for notes; lines of text and bars of progress."""

import shlex
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape as escape
from rich.progress import Progress, ProgressColumn, Task, TaskID
from rich.text import Text

from .._errors import Above
from .._text import printable, printable_lines

console, errors = Console(), Console(stderr=True)
_PLAIN: Any = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}
COMMAND = "feddcd "  # begins what people copy
LINE_S = 10.0  # between two lines about a task, off a terminal
OPTIONS = {
    "sample_weight": "weight",
    "random_state": "seed",
    "columns": "column",
}  # where they have other names
READING = {  # how a file with a table is written, where that is not to be sniffed
    "sep": (
        "The character that separates the columns of a .csv file, such as ';'. Default: feddcd "
        "finds it."
    ),
    "decimal": "The decimal sign in the file: '.' or ','. Default: feddcd finds it.",
    "encoding": "The encoding of the text, such as cp1250. Default: feddcd finds it.",
    "na": "Read this word as a missing value, like NA. Repeat --na for more words.",
    "sheet": "The name of the sheet to read from an .xlsx file.",
}
Sep = Annotated[str | None, typer.Option(help=READING["sep"], show_default=False)]
Decimal = Annotated[str | None, typer.Option(help=READING["decimal"], show_default=False)]
Encoding = Annotated[str | None, typer.Option(help=READING["encoding"], show_default=False)]
SheetName = Annotated[str | None, typer.Option(help=READING["sheet"], show_default=False)]
Missing = Annotated[list[str] | None, typer.Option("--na", help=READING["na"], show_default=False)]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help=(
            "Print only errors, and notes that a result is not proven or not complete. With "
            "--json, also print the result."
        ),
    ),
]
CodebookFile = Annotated[
    Path | None,
    typer.Option(
        help=("Read the types and levels of the columns from this codebook. Default: no codebook."),
        show_default=False,
    ),
]
CompleteColumns = Annotated[
    list[str] | None,
    typer.Option(
        help=(
            "Use only the rows that have a value in this column. Repeat the option for more "
            "columns."
        ),
        metavar="COLUMN",
        show_default=False,
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        help="Write the results into this folder. Default: a new folder in runs/.",
        show_default=False,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Write into the folder even if it already contains files.")
]


def as_option(setting: str, value: Any) -> str:
    """A setting as the command line has it: --missing drop, or its bare name."""
    option = "--" + OPTIONS.get(setting, setting).replace("_", "-")
    if isinstance(value, Above):
        return f"{option} above {value.least:g}"  # > would write a file
    bare = any(value is one for one in (None, True, ...))
    if bare:
        return option
    text = shlex.quote(str(value))
    return f"{option} '{text}'" if text[-1] in ".," else f"{option} {text}"  # no end of a sentence


def option(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help)


def be_quiet(wanted: bool) -> None:
    """Whether only errors and grave notes are printed from now on."""
    console.quiet = errors.quiet = wanted


def width() -> int | None:
    """The letters in a line of the terminal; None where there is no terminal."""
    return console.width if console.is_terminal else None


def fitted(text: str, shown: Console) -> str:
    """Broken between words where `shown` is a terminal. A path stays in one piece, and so does a
    line with a command, to be copied."""
    plain = printable(text)
    if not shown.is_terminal or COMMAND in plain:
        return plain
    parts = textwrap.wrap(plain, shown.width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(parts)


def say(text: str, style: str | None = None) -> None:
    """A line as it is: a [bracket] or a :word: in it is no markup, for names and reasons come from
    other people, who may not move the cursor either."""
    console.print(fitted(text, console), style=style, **_PLAIN)


def say_lines(text: str) -> None:
    """A text of our own, of several lines, in which names are printable already."""
    console.print(printable_lines(text), **_PLAIN)


def note(text: str) -> None:
    """A line on stderr, beside the result."""
    errors.print(fitted(text, errors), style="dim", **_PLAIN)


def warn(text: str, *, grave: bool = False, word: str = "note") -> None:
    """A note on stderr, so that what a program reads from stdout stays clean. With --quiet only a
    grave one is printed: the result is not what was asked for."""
    shown = Console(stderr=True) if grave else errors
    shown.print(fitted(f"{word}: {text}", shown), style="yellow", **_PLAIN)


def bars(*columns: str | ProgressColumn, quiet: bool = False, transient: bool = False) -> Progress:
    """Progress bars of these columns, of which words are templates; `transient` ones go away. Off a
    terminal they are lines on stderr."""
    if quiet or console.is_terminal:
        return Progress(*columns, console=console, disable=quiet, transient=transient)
    return LineProgress(*columns, disable=True)


@contextmanager
def slow_lines(start: str) -> Iterator[Callable[[str], None]]:
    """Takes a line for each step of some work. On a terminal every line is shown. Off it they go
    to stderr: nothing of work that is done soon, and else its start, its latest step from time to
    time, and its end."""
    if console.is_terminal:
        yield say
        return
    last, told, latest = time.monotonic(), "", ""

    def tell(line: str) -> None:
        nonlocal last, told, latest
        latest, now = line, time.monotonic()
        if now - last >= LINE_S:
            if not told:
                note(start)
            note(line)
            last, told = now, line

    yield tell
    if told and latest != told:
        note(latest)


class LineProgress(Progress):
    """A line when a task ends, and every few seconds while it runs."""

    def __init__(self, *columns: str | ProgressColumn, disable: bool):
        super().__init__(*columns, console=errors, disable=disable)
        self._said: dict[TaskID, tuple[float, str]] = {}

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        task, now = self._tasks[task_id], time.monotonic()
        before, last = self._said.setdefault(task_id, (now, ""))
        line = self._line(task)
        # rich calls a task finished for good, also where it goes on with the next piece of work
        done = task.total is not None and task.completed >= task.total
        if line != last and (done or now - before >= LINE_S):
            self._said[task_id] = now, line
            note(line)

    def _line(self, task: Task) -> str:
        """Without bars, and without the time, which differs in every line."""
        parts = [c.format(task=task) if isinstance(c, str) else c(task) for c in self.columns]
        texts = [str(part) for part in parts if isinstance(part, str | Text)]
        return "  ".join(text.strip() for text in texts if text.strip())
