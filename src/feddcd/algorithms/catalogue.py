"""All methods by name: ours, and those of installed packages.

A package offers a method by an entry point of the group `feddcd.algorithms`: its name is the
method's, its value a `Method` or a function that gives one. What cannot be used is left out and
said so; our own names are never replaced. Packages are looked at only when a name is not ours. A
program may add methods for as long as it runs.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from .._errors import SpecError
from .._text import nearest
from ._base import Method
from .accfeddcd import ACCFEDDCD
from .accsdane import ACCSDANE
from .fedadmm import FEDADMM
from .fedavg import FEDAVG, FEDPROX
from .feddcd import FEDDCD
from .feddualavg import FEDDUALAVG
from .feddyn import FEDDYN
from .fedlbfgs import FEDLBFGS
from .fednewton import FEDNEWTON
from .fednlpp import FEDNLPP
from .fedqn import FEDQN
from .fivegcs import FIVEGCS
from .giant import GIANT
from .mbsgd import MBSGD
from .mime import MIME
from .pointsaga import POINTSAGA
from .scaffnew import SCAFFNEW
from .scaffold import SCAFFOLD
from .sdane import SDANE_ROW
from .tamuna import TAMUNA

GROUP = "feddcd.algorithms"
ALGORITHMS: dict[str, Method] = {
    row.name: row
    for row in (
        FEDDCD,
        ACCFEDDCD,
        POINTSAGA,
        FEDNEWTON,
        FEDQN,
        FEDAVG,
        FEDPROX,
        SCAFFOLD,
        MBSGD,
        FEDDYN,
        FEDADMM,
        FIVEGCS,
        TAMUNA,
        SCAFFNEW,
        FEDNLPP,
        GIANT,
        FEDLBFGS,
        SDANE_ROW,
        ACCSDANE,
        MIME,
        FEDDUALAVG,
    )
}


_added: dict[str, Method] = {}


def methods() -> dict[str, Method]:
    """Ours, those of installed packages that can be used, and those that were added."""
    return ALGORITHMS | _installed()[0] | _added


def find_method(name: str) -> Method | None:
    return ALGORITHMS.get(name) or _added.get(name) or _installed()[0].get(name)


def add_method(row: Method) -> None:
    """For this process alone."""
    if row.name in ALGORITHMS:
        raise SpecError(
            f"feddcd already has a method with the name {row.name!r}; give yours another name"
        )
    if row.name in _installed()[0]:
        raise SpecError(f"an installed package already has a method called {row.name}")
    _added[row.name] = row


def get_method(name: str) -> Method:
    """Raises `SpecError` where there is none, with the reason if a package has it."""
    row = find_method(name)
    if row is None and name in left_out():
        raise SpecError(f"the algorithm {name!r} cannot be used: {left_out()[name]}")
    if row is None:
        raise SpecError(f"unknown algorithm {name!r}{nearest(name, methods())}")
    return row


def left_out() -> dict[str, str]:
    """Entry points that cannot be used, and why."""
    return _installed()[1]


@cache
def _installed() -> tuple[dict[str, Method], dict[str, str]]:
    """Those that can be used, and why others cannot."""
    usable, unusable = {}, {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            usable[point.name] = _load(point, usable)
        except Exception as error:  # whatever it is, a package of others must not stop ours
            package = point.dist.name if point.dist else point.value
            kind = "" if isinstance(error, SpecError) else f"{type(error).__name__}: "
            unusable[point.name] = f"{kind}{error} (package {package})"
    return usable, unusable


def _load(point: EntryPoint, known: dict[str, Method]) -> Method:
    if point.name in ALGORITHMS:
        raise SpecError(
            f"feddcd already has a method with the name {point.name!r}, and another package cannot "
            "replace it"
        )
    if point.name in known:
        raise SpecError(f"another package has a method called {point.name}")
    value = point.load()
    row = value if isinstance(value, Method) else value()
    if not isinstance(row, Method):
        raise SpecError(
            f"the entry point {point.value} must give a feddcd.algorithms.Method, but gives an "
            f"object of the type {type(row).__name__}"
        )
    if row.name != point.name:
        raise SpecError(
            f"the entry point has the name {point.name!r}, but the method has the name "
            f"{row.name!r}: give both the same name"
        )
    return row
