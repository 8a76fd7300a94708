"""The names that `run` and `compare` know, and what a name could mean that they do not know."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .._errors import SpecError
from .._text import closest
from ..algorithms.catalogue import methods
from ..solvers import SOLVERS
from .spec import Spec

OF_METHODS = ("algorithm", "given")  # `run` has an argument of this name; a folder alone says given


def check_options(options: Mapping[str, Any], function: Callable) -> None:
    """Refuses what is no option of this function, and says what was meant."""
    arguments = inspect.signature(function).parameters.values()
    known = {one.name for one in arguments if one.kind is not one.VAR_KEYWORD}
    known |= {f.name for f in dataclasses.fields(Spec) if f.name not in OF_METHODS}
    for name, value in options.items():
        if name not in known:
            raise SpecError(_unknown(name, value, known))


def _unknown(name: str, value: Any, known: set[str]) -> str:
    one = f"{{{name!r}: {value!r}}}"
    setting = f"settings={{'fedavg': {one}}}" if "algorithms" in known else f"settings={one}"
    if name in _settings():
        return f"{name!r} is a setting of a method, so give it in settings, for example {setting}"
    listing = f"The known names are {', '.join(sorted(known))}"
    if meant := closest(name, known):
        return f"there is no option {name!r}{meant} {listing}"
    return (
        f"there is no option {name!r}. {listing}. Settings of a method go into settings, for "
        f"example {setting}"
    )


def _settings() -> set[str]:
    """Of any method, and of any local solver."""
    rows = [*methods().values(), *SOLVERS.values()]
    return {"solver", *(name for row in rows for name in row.settings)}
