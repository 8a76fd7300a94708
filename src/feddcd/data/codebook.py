"""The codebook: what the columns of a study are, agreed on once, so that sites need not send it.

A file codebook.toml has one part per column, as in

    [columns.sex]
    type = "category"
    label = "Sex at birth"
    levels = ["female", "male"]
    reference = "female"
"""

from __future__ import annotations

import dataclasses
import datetime
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import SpecError
from .._settings import check_names, read_toml
from .._text import listed, meant, nearest
from .capping import Capping, check_capping, is_real

TYPES = ("number", "integer", "category", "boolean", "date", "identifier")
ROLES = ("outcome", "predictor", "weight", "group", "offset")
FILE = "codebook.toml"


@dataclass(frozen=True)
class ColumnEntry:
    """`levels` in order, of which `reference` (or else the first) is what others are compared
    with; `labels` are those of levels. `missing` are words in place of NA, `range` is from least
    to most, and `roles` None means any but those of an identifier, which has none. `cuts` are the
    numbers that a formula may set rows apart with: in comparisons, as cut points and as knots.
    Every site moves values beyond `cap` to its ends, and rounds them to multiples of `step`."""

    type: str
    label: str = ""
    unit: str = ""
    levels: tuple[Any, ...] = ()
    reference: Any = None
    labels: Mapping[str, str] = field(default_factory=dict)
    range: tuple[float, float] | None = None
    cuts: tuple[float, ...] = ()
    cap: tuple[Any, ...] | None = None  # low and high, of which one may be "none"
    step: float | None = None
    missing: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None

    @property
    def ordered(self) -> list[Any]:
        """The levels, the reference first."""
        first = self.levels[:1] if self.reference is None else (self.reference,)
        return [*first, *(level for level in self.levels if level not in first)]

    @property
    def capping(self) -> Capping:
        return Capping(self.cap, self.step)

    @property
    def has_words(self) -> bool:
        """Whether its fields are words, whatever they look like."""
        worded = self.type == "category" and isinstance(self.levels[0], str)
        return worded or self.type in ("identifier", "date")

    def allows(self, role: str) -> bool:
        return self.type != "identifier" and (self.roles is None or role in self.roles)


SETTINGS = [f.name for f in dataclasses.fields(ColumnEntry)]


@dataclass(frozen=True)
class Codebook:
    columns: Mapping[str, ColumnEntry]

    @property
    def words(self) -> set[str]:
        return {name for name, entry in self.columns.items() if entry.has_words}

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """By column, where it says what missing means; an empty field always does."""
        own = {name: entry.missing for name, entry in self.columns.items()}
        return {name: ("", *words) for name, words in own.items() if words is not None}

    def levels(self, names: Iterable[str]) -> dict[str, list[Any]]:
        """Of those columns that have levels, the reference first."""
        entries = {name: self.columns[name] for name in names if name in self.columns}
        levels = {name: entry.ordered for name, entry in entries.items() if entry.levels}
        truth = {name: [False, True] for name, e in entries.items() if e.type == "boolean"}
        return levels | truth

    def check_role(self, name: str, role: str) -> None:
        """Refuses a column that the codebook does not have, or has for other uses."""
        if name not in self.columns:
            hint = meant(name, self.columns)
            told = (
                f"the codebook has no column {name!r}; {hint}the columns are {listed(self.columns)}"
            )
            raise SpecError(told, column=name)
        entry = self.columns[name]
        if entry.type == "date" and role != "group":
            raise SpecError(
                f"the column {name!r} is a date, which is neither a number nor a category; write "
                "the days or years into another column with type = 'number'",
                column=name,
            )
        if not entry.allows(role):
            told = f"the codebook does not allow the role {role!r} for the column {name!r}"
            if entry.roles is None:
                raise SpecError(f"{told}, because an identifier cannot have a role", column=name)
            raise SpecError(f"{told}; allowed roles: {listed(entry.roles)}", column=name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without what is not said."""
        return {"columns": {name: _plain(entry) for name, entry in self.columns.items()}}


def _plain(entry: ColumnEntry) -> dict[str, Any]:
    values = {f.name: getattr(entry, f.name) for f in dataclasses.fields(entry)}
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    empty = lambda k, v: v is None or v == "" or (v in ([], {}) and k not in ("missing", "roles"))
    return {k: v for k, v in lists.items() if not empty(k, v)}


def load_codebook(path: str | Path) -> Codebook:
    values = read_toml(
        Path(path), "; to make a first version, use `feddcd codebook DATA --out codebook.toml`"
    )
    return read_codebook(values, str(path))


def read_codebook(values: Any, where: str = "codebook") -> Codebook:
    """From plain values, as a file or a plan has them."""
    if not isinstance(values, Mapping):
        raise SpecError(
            f"{where}: the codebook must have a section [columns.NAME] for each column, got "
            f"{values!r}"
        )
    check_names(values, ["columns"], where)
    columns = values.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise SpecError(
            f"{where}: the codebook has no column. Write a section for each column, for example "
            "[columns.age]"
        )
    found = {}
    for name, each in columns.items():
        try:
            found[_text(name)] = _entry(each)
        except SpecError as error:
            raise SpecError(f"{where}: the column {name!r}: {error}", column=name) from None
    return Codebook(found)


def _entry(values: Any) -> ColumnEntry:
    if not isinstance(values, Mapping):
        raise SpecError(f"this column needs settings such as type = 'number'; got {values!r}")
    for name in values:
        if name not in SETTINGS:
            raise SpecError(f"unknown setting {name!r}{nearest(name, SETTINGS)}")
    kind = values.get("type")
    if kind not in TYPES:
        if kind is None:
            raise SpecError(f"the type is missing; give one of: {', '.join(sorted(TYPES))}")
        raise SpecError(f"there is no type {kind!r}{nearest(str(kind), TYPES)}")
    made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    for name in ("label", "unit"):
        if not isinstance(made.get(name, ""), str):
            raise SpecError(f"{name} should be text, got {made[name]!r}")
    for name, known in (("roles", ROLES), ("missing", None)):
        _check_words(name, made.get(name), known)
    _check_levels(kind, made)
    _check_range(kind, made)
    _check_cuts(kind, made.get("cuts", ()))
    check_capping(kind, made)
    return ColumnEntry(**made)


def _check_words(name: str, value: Any, known: Collection[str] | None) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or not all(isinstance(word, str) for word in value):
        raise SpecError(f"{name} should be a list of words, got {value!r}")
    for word in value:
        if known is not None and word not in known:
            raise SpecError(f"there is no role {word!r}{nearest(word, known)}")


def _check_levels(kind: str, made: dict[str, Any]) -> None:
    levels = made.get("levels", ())
    if kind != "category":
        for name in ("levels", "reference", "labels"):
            if name in made:
                raise SpecError(
                    f"the setting {name} is only for type = 'category', not for {kind!r}"
                )
        return
    if not isinstance(levels, tuple) or not levels:
        raise SpecError("a category needs its levels, for example levels = ['f', 'm']")
    if not (all(type(v) is str for v in levels) or all(type(v) is int for v in levels)):
        raise SpecError(f"levels must be all words or all whole numbers; got {list(levels)}")
    levels = tuple(_text(v) if isinstance(v, str) else v for v in levels)
    if len(set(levels)) < len(levels):
        twice = next(v for v in levels if levels.count(v) > 1)
        raise SpecError(f"the level {twice!r} occurs twice")
    reference, labels = made.get("reference"), made.get("labels", {})
    if reference is not None and reference not in levels:
        raise SpecError(f"the reference {reference!r} is not one of the levels {listed(levels)}")
    if not isinstance(labels, Mapping) or not all(isinstance(v, str) for v in labels.values()):
        raise SpecError(
            f"labels must give a text for each level, for example labels = {{f = 'women'}}; got "
            f"{labels!r}"
        )
    for level in labels:
        if level not in map(str, levels):
            raise SpecError(
                f"labels has a text for {level!r}, which is not one of the levels {listed(levels)}"
            )
    made["levels"] = levels


def _check_range(kind: str, made: dict[str, Any]) -> None:
    if "range" not in made:
        return
    if kind not in ("number", "integer", "date"):
        raise SpecError(f"range is only for numbers and dates, not for type = {kind!r}")
    allowed = (str,) if kind == "date" else (int, float)
    limits = made["range"]
    fits = isinstance(limits, tuple) and len(limits) == 2
    if kind == "date" and fits:
        limits = tuple(v.isoformat() if isinstance(v, datetime.date) else v for v in limits)
    fits = fits and all(type(v) in allowed for v in limits) and limits[0] <= limits[1]
    if not fits or not all(isinstance(v, str) or is_real(v) for v in limits):
        raise SpecError(
            f"range must be [smallest, largest], for example [0, 120]; got {made['range']!r}"
        )
    made["range"] = limits


def _check_cuts(kind: str, cuts: Any) -> None:
    if cuts and kind not in ("number", "integer"):
        raise SpecError(f"cuts is only for numbers, not for type = {kind!r}")
    if not isinstance(cuts, tuple) or not all(map(is_real, cuts)):
        raise SpecError(
            f"cuts must be a list of numbers, for example cuts = [40, 65]; got {cuts!r:.80}"
        )


def _text(text: str) -> str:
    return unicodedata.normalize("NFC", text)
