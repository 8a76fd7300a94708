"""Settings from TOML files: a dataclass says their names and types; what does not fit is named."""

import dataclasses
import math
import numbers
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from ._errors import FeddcdError, SpecError
from ._text import NUMBER, nearest

SLASHES = "; write a Windows path with /, for example C:/Daten/x.csv"
QUOTE = "; a closing quote may be missing in this line"
BARE = re.compile(r"\s*([\w-]+)\s*=\s*([A-Za-z]\w*)\s*(?:#.*)?$")  # a word without quotes
COMMA = re.compile(r"\s*([\w.-]+)\s*=\s*([+-]?\d+,\d+)\s*(?:#.*)?$")  # as in 0,5
NAMED = re.compile(r"\s*([\w-]+)\s*=")
LOST = re.compile(r"[A-Za-z]:\S*[\x08\t\n\f\r]")  # of C:\new, where \n ends a line
Limit = Callable[[str, Any], Any]  # a setting's name and value to the value; raises `SpecError`
MOST_BYTES = 10_000_000
MOST_DEPTH = 20
KINDS = {  # in messages
    str: "a text", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list", tuple: "a list", dict: "a table of names and values",
}  # fmt: skip
TOO_DEEP = "the tables or lists of the file are nested too deeply"


def read_toml(path: Path, hint: str = "", error: type[SpecError] = SpecError) -> dict[str, Any]:
    """`hint` says what to do where there is no such file."""
    text = ""
    try:
        # Notepad writes a mark; TOML itself knows LF and CR LF as ends of lines
        text = _content(Path(path), error).decode("utf-8-sig").replace("\r\n", "\n")
        values = tomllib.loads(text)
        _check_sizes(values, "")
    except FileNotFoundError:
        raise error(f"{path}: no such file{hint}") from None
    except OSError as reason:
        raise error(f"{path}: cannot be read: {reason.strerror}") from None
    except RecursionError:
        raise error(f"{path}: {TOO_DEEP}") from None
    except FeddcdError as reason:
        raise error(f"{path}: {reason}") from None
    except ValueError as reason:  # no TOML, no text, or more digits than Python reads
        raise error(f"{path}: not a TOML file: {_remedied(reason, text)}") from None
    for name, value in values.items():
        if isinstance(value, str) and LOST.match(value):
            raise error(
                f"{path}: a backslash in {name} = {value!r} was read as a special "
                f"character{SLASHES}"
            )
    return values


def _remedied(reason: ValueError, text: str) -> str:
    if isinstance(reason, UnicodeDecodeError):
        byte = f"byte 0x{reason.object[reason.start]:02x} at position {reason.start}"
        return f"{byte} is not UTF-8 text; save the file as UTF-8"
    if repr("\n") in str(reason):  # a line that ends within a text
        return f"{reason}{QUOTE}"
    if (at := re.search(r"Invalid value \(at line (\d+)", str(reason))) is not None:
        line = text.split("\n")[int(at[1]) - 1]
        if (bare := BARE.match(line)) is not None:
            own = f"in line {at[1]}, feddcd cannot read {bare[1]} = {bare[2]}"
            return f"{own}; write a number, true, false, or a text in quotes"
    if (at := re.search(r"Expected newline .*\(at line (\d+)", str(reason))) is not None:
        line = text.split("\n")[int(at[1]) - 1]
        if (found := COMMA.match(line)) is not None:
            told = f"in line {at[1]}, {found[1]} = {found[2]} has a comma"
            return f"{told}; write a decimal number with a point, as in 0.5"
    if (again := re.search(r"overwrite a value \(at line (\d+)", str(reason))) is not None:
        return _twice(text.split("\n"), int(again[1])) or str(reason)
    slashed = "\\" in str(reason) or "hex" in str(reason)  # \U of C:\Users begins a letter's number
    return f"{reason}{SLASHES if slashed else ''}"


def _twice(lines: list[str], end: int) -> str:
    """Which name a file has twice; the second value ends in this line."""
    named = [(i, m[1]) for i, line in enumerate(lines[:end], 1) if (m := NAMED.match(line))]
    last, name = named[-1] if named else (0, "")
    first = next((i for i, other in named if other == name and i < last), None)
    if first is None:
        return ""
    return f"the name {name!r} occurs twice, in lines {first} and {last}; delete one of the two"


def _content(path: Path, error: type[SpecError]) -> bytes:
    """Of a file: a device or a pipe may never end."""
    if "\0" in str(path):
        raise error("the file cannot be read: its name contains a zero byte")
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder says what it is
        raise error("this is not a regular file")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise error(f"this file is too large: it has more than {MOST_BYTES // 10**6} MB")
    return content


def _check_sizes(value: Any, name: str, depth: int = 0) -> None:
    """What TOML allows, and what messages can carry: few levels, and whole numbers of 64 bits."""
    if depth > MOST_DEPTH:
        raise SpecError(TOO_DEEP)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise SpecError(f"{name} is a whole number that is too large: it needs more than 64 bits")
    below = {}
    if isinstance(value, dict):
        below = {f"{name}.{key}".lstrip("."): inner for key, inner in value.items()}
    elif isinstance(value, list):
        below = {f"{name}[{i}]": inner for i, inner in enumerate(value)}
    for key, inner in below.items():
        _check_sizes(inner, key, depth + 1)


def check_names(
    values: Mapping[str, Any],
    known: Iterable[str],
    where: object,
    error: type[FeddcdError] = SpecError,
    meant: Callable[[str, Iterable[str]], str] = nearest,
) -> None:
    """`meant` says which name it could be instead."""
    known = set(known)
    for name in values:
        if name not in known:
            raise error(f"{where}: unknown setting {name!r}{meant(name, known)}")


def typed(cls: type, name: str, value: Any) -> Any:
    """The value as the field of a dataclass has it: a whole number may stand for a float, a list
    for a tuple; a field of several types is for the class itself to check."""
    kind, optional = _kind({f.name: f.type for f in dataclasses.fields(cls)}[name])
    if kind is None or (value is None and optional):
        return value
    real = not isinstance(value, bool)
    if kind is int and isinstance(value, numbers.Integral) and real:
        value = int(value)
    if kind is float and isinstance(value, numbers.Real) and real:
        value = float(value)
    if kind is tuple and isinstance(value, list):
        value = tuple(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        quoted, told = unquoted(value) if kind in (int, float) else "", f"the setting {name!r}"
        raise SpecError(f"{told} should be {KINDS.get(kind, kind.__name__)}, got {value!r}{quoted}")
    if kind is float and value != value:
        raise SpecError(f"the setting {name!r} should be a number, got {value}")
    return value


def _kind(hint: Any) -> tuple[type | None, bool]:
    """A field's one type, None where there are several, and whether it may be left empty."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = {get_origin(part) or part for part in parts if part is not NoneType}
    kind = kinds.pop() if len(kinds) == 1 else None
    return (kind if isinstance(kind, type) else None), NoneType in parts


def unquoted(value: Any) -> str:
    """What to do with a number that was written as a text."""
    number = isinstance(value, str) and NUMBER.fullmatch(value.strip())
    return "; write the number without quotes" if number else ""


def number(*, positive: bool = True, most: float = math.inf) -> Limit:
    """A finite number above 0 or, with positive=False, also 0."""

    def check(name: str, value: Any) -> float:
        real = float(value) if type(value) in (int, float) else math.nan
        if not 0 <= real < math.inf or (real == 0 and positive):
            bound = "> 0" if positive else ">= 0"
            told = f"the setting {name!r} should be a finite number {bound}, got {value!r}"
            raise SpecError(f"{told}{unquoted(value)}")
        if real > most:
            least = "0 <" if positive else "0 <="
            raise SpecError(f"need {least} {name} <= {most:g}, got {name}={value}")
        return real

    return check


def whole(least: int = 1) -> Limit:
    """A whole number, at least this."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            told = f"the setting {name!r} should be a whole number >= {least}, got {value!r}"
            raise SpecError(f"{told}{unquoted(value)}")
        return value

    return check


def word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(f"the setting {name!r} should be a word, got {value!r}")
    return value
