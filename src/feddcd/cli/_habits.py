"""What every command can do: print its result as JSON, and say more."""

import functools
import inspect
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from ._owner import READS, check_owner
from ._terminal import be_quiet, note
from ._usage import Command

EXAMPLE = "Example:"
SERVING = ("serve", "site")  # print lines until they are stopped, and have no result
Plain = Annotated[bool, typer.Option("--json", help="Print only the result, in JSON.")]
Wordy = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print more, for example the version of feddcd and the seconds that the command took. "
        "After an error, also print where in the code the error happened.",
    ),
]
_found: dict[str, Any] = {}  # of the command at work
_wordy, _json = False, False


def found(**values: Any) -> None:
    """What the command found, for --json."""
    _found.update(values)


def as_json() -> bool:
    """Whether lines about what happens go to stderr."""
    return _json


def wordy() -> bool:
    return _wordy


def be_wordy(wanted: bool) -> None:
    global _wordy
    _wordy = wanted


def equip(app: typer.Typer, group: str = "") -> None:
    """Gives every command its habits, so that none can be forgotten."""
    if app.registered_callback is not None:
        app.registered_callback.help = flowing(app.registered_callback.callback.__doc__)
    for info in app.registered_commands:
        assert info.callback is not None
        name = info.name or info.callback.__name__
        info.help = flowing(info.callback.__doc__)
        info.cls = Command
        writes = group == "federation" and name not in READS
        info.callback = _with_habits(info.callback, json=name not in SERVING, writes=writes)
    for part in app.registered_groups:
        assert part.typer_instance is not None
        part.help = flowing(part.help)
        equip(part.typer_instance, part.name or "")


def flowing(text: str | None) -> str:
    """A help text for a terminal of any width: its paragraphs without the line ends of the source,
    and the example as a paragraph of its own."""
    about = inspect.cleandoc(text or "").replace(EXAMPLE, f"\n\n{EXAMPLE}")
    return "\n\n".join(" ".join(part.split()) for part in about.split("\n\n") if part.strip())


def _with_habits(command: Callable[..., None], *, json: bool, writes: bool) -> Callable[..., None]:
    more = ({"as_json": Plain} if json else {}) | {"verbose": Wordy}

    @functools.wraps(command)
    def equipped(*args: Any, **options: Any) -> None:
        global _json
        before, _json = _json, options.pop("as_json", False)
        be_wordy(options.pop("verbose", False) or wordy())
        be_quiet(options.get("quiet", False))
        began = time.perf_counter()
        _found.clear()
        if wordy():
            python = ".".join(map(str, sys.version_info[:3]))
            note(f"feddcd {metadata.version('feddcd')}, Python {python}, {sys.platform}")
        if writes and "folder" in options:
            check_owner(options["folder"])
        try:
            if not _json:
                return command(*args, **options)
            with redirect_stdout(io.StringIO()):  # what a person would read
                command(*args, **options)
            print(dumps(_found))
        except SystemExit as end:  # a result that is not good enough is a result
            if _json and end.code == 1 and _found:
                print(dumps(_found))
            raise
        finally:
            _json = before
            be_quiet(False)
            if wordy():
                note(f"{time.perf_counter() - began:.1f} s")

    own = inspect.signature(command)
    parameters = [*own.parameters.values()]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in more.items()
    ]
    equipped.__annotations__ = {**command.__annotations__, **more}
    equipped.__signature__ = own.replace(parameters=parameters)  # pyright: ignore
    return equipped


def dumps(value: Any) -> str:
    return json.dumps(plain(value), indent=1, allow_nan=False)


def plain(value: Any) -> Any:
    """As JSON has it: what is not finite is null, and a path is text."""
    if hasattr(value, "tolist"):  # of NumPy
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | None) else str(value)


def tables_in(folder: Path) -> Iterator[tuple[str, Any]]:
    """What the files of a regression table, or of a description, hold."""
    import pandas

    for name, key in (("model.json", "model"), ("numbers.csv", "numbers")):
        path = folder / name
        if path.exists() and name.endswith(".json"):
            yield key, json.loads(path.read_text("utf-8"))
        elif path.exists():
            rows = pandas.read_csv(path)
            yield key, rows.astype(object).where(rows.notna(), None).to_dict("records")
