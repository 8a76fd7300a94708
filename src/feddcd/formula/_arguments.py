"""The arguments of a call, by name, and the constants among them."""

from collections.abc import Sequence

import numpy as np

from .._errors import SpecError
from .._text import plural
from ._tree import Bracket, Call, Flag, Items, Name, Node, Number, Sign, short

INFINITE = {"Inf": np.inf, "inf": np.inf}


def bind(call: Call, names: Sequence[str], also: dict[str, str] | None = None) -> dict[str, Node]:
    """By name; `also` are other words for the names. Those without a name stand first."""
    found: dict[str, Node] = {}
    for place, (key, value) in enumerate(call.arguments):
        name = (also or {}).get(str(key), key)
        if key is None and place >= len(names):
            raise _wrong(call, f"{call.function} may have at most {plural(len(names), 'value')}")
        name = names[place] if name is None else name
        if name not in names:
            raise _wrong(
                call,
                f"{call.function} has no argument {key!r}; its arguments are {', '.join(names)}",
            )
        if name in found:
            raise _wrong(call, f"{call.function} has the argument {name!r} twice")
        found[name] = value
    return found


def number_of(node: Node) -> float | None:
    """A constant, or None."""
    match node:
        case Number(value):
            return value
        case Name(name):
            return INFINITE.get(name)
        case Bracket(inner):
            return number_of(inner)
        case Sign(mark, inner) if (value := number_of(inner)) is not None:
            return -value if mark == "-" else value
    return None


def points(
    call: Call, node: Node | None, what: str, least: int, infinite: bool = False
) -> np.ndarray:
    """Written numbers in rising order."""
    items = node.items if isinstance(node, Items) else () if node is None else (node,)
    values = [number_of(item) for item in items]
    if None in values:
        raise _wrong(
            call, f"{call.function} needs numbers as {what}, written for example as c(30, 50)"
        )
    found = np.array(values, float)
    if len(found) < least:
        raise _wrong(
            call, f"{call.function} needs at least {least} {what}, written for example as c(30, 50)"
        )
    if np.any(np.diff(found) <= 0):
        raise _wrong(call, f"{call.function} needs {what} in increasing order")
    if not infinite and not np.isfinite(found).all():
        raise _wrong(call, f"{call.function} needs finite {what}")
    return found


def flag(call: Call, node: Node | None, default: bool) -> bool:
    match node:
        case None:
            return default
        case Flag(value):
            return value
        case Name("T" | "F" as letter):
            return letter == "T"
    raise _wrong(call, f"{call.function} needs TRUE or FALSE, got {short(node)}")


def whole(call: Call, node: Node | None, what: str, default: int | None, most: int) -> int:
    value = default if node is None else number_of(node)
    if value is None or not 1 <= value <= most or value % 1:
        raise _wrong(call, f"{call.function} needs a whole number from 1 to {most} as {what}")
    return int(value)


def _wrong(call: Call, told: str) -> SpecError:
    return SpecError(f"formula: {short(call)}: {told}")
