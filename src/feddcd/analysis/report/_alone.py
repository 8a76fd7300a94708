"""Which coefficients are the effect of a column, and what is said of the others.

A coefficient is an effect if its column can change while all other columns of the design stay as
they are. A column in several terms (a power, a spline, an interaction) has no such coefficient.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..._text import count, sentence_list
from ...formula import DesignColumn, Part, read_formula
from .._inference import is_constant
from .._result import Coefficient, TableResult
from ._names import level_name, name_of

MOST = 8  # terms in a sentence
LISTED, DRAWN = "No effect is listed for", "No effect is drawn for"


class Entangled(NamedTuple):
    """Terms of the formula whose coefficients are no effects, by what they are."""

    curves: tuple[str, ...] = ()  # several factors of one column: powers, splines
    crossed: tuple[str, ...] = ()  # interactions, and their columns alone
    contrasts: tuple[str, ...] = ()  # of categories, but not with a reference level


def entangled(fit: TableResult) -> Entangled:
    made = [found for c in fit.columns if (found := fit.made_of(c)) is not None]
    terms = {m.term: [each for each in made if each.term == m.term] for m in made if m.parts}
    of = {part.text: _columns(fit, part.text) for each in made for part in each.parts}
    parts = {name: {p.text for each in own for p in each.parts} for name, own in terms.items()}
    columns = {name: set[str]().union(*(of[text] for text in parts[name])) for name in terms}
    curved = [of[p.text] for each in made for p in each.parts if p.coding == "basis"]
    every = [name for names in of.values() for name in names]  # once for each of its factors
    bent = {name for name in every if every.count(name) > 1}.union(*curved)
    curves = [name for name in terms if columns[name] & bent]
    rest = [name for name in terms if name not in curves]
    shared = lambda name: any(columns[name] & columns[other] for other in terms if other != name)
    crossed = [name for name in rest if len(terms[name][0].parts) > 1 or shared(name)]
    compared = lambda name: terms[name][0].parts[0].coding in ("number", "treatment")
    contrasts = [name for name in rest if name not in crossed and not compared(name)]
    return Entangled(tuple(curves), tuple(crossed), tuple(contrasts))


def is_in(fit: TableResult, c: Coefficient, *groups: tuple[str, ...]) -> bool:
    made = fit.made_of(c.column)
    return made is not None and any(made.term in terms for terms in groups)


def not_listed(fit: TableResult) -> list[str]:
    """Why a list of effects has no line for some terms."""
    terms = entangled(fit)
    lines = _of_curves(fit, terms, LISTED)
    if terms.crossed:
        lines.append(
            f"{LISTED} {_listed(fit, terms.crossed)}: the effect of a column in an interaction "
            "depends on the other columns of the interaction."
        )
    if terms.contrasts:
        whose = "its" if len(terms.contrasts) == 1 else "their"
        lines.append(
            f"{LISTED} {_listed(fit, terms.contrasts)}: {whose} coefficients do not compare a "
            "level with a reference level."
        )
    return lines


def not_drawn(fit: TableResult, drawn: Sequence[Coefficient]) -> list[str]:
    """Likewise of the figure, which has interactions."""
    terms = entangled(fit)
    lines = _of_curves(fit, terms, DRAWN)
    constant = {made.term for name in fit.columns if (made := _constant(fit, name))}
    if alone := tuple(term for term in terms.contrasts if term in constant):
        whose = "its" if len(alone) == 1 else "their"
        lines.append(
            f"{DRAWN} {_listed(fit, alone)}: {whose} coefficients do not compare two levels."
        )
    if any(held_at(fit, c) for c in drawn):
        lines.append(
            "If a column is in an interaction, the figure shows its effect at one value of the "
            "other column. The label of the effect names this value, for example: at age = 0."
        )
    if any((made := fit.made_of(c.column)) and len(made.parts) > 1 for c in drawn):
        lines.append(
            "A label with × shows how the effect of a column changes if the other column is one "
            "unit higher, or has the level that the label names."
        )
    return lines


def _constant(fit: TableResult, name: str) -> DesignColumn | None:
    return fit.made_of(name) if is_constant(fit, name) else None


def held_at(fit: TableResult, c: Coefficient) -> str:
    """`age = 0 and ward = a`: where the coefficient is an effect, if interactions have its term."""
    made = [found for each in fit.columns if (found := fit.made_of(each)) is not None]
    own = {part.text for m in made if m.name == c.column for part in m.parts}
    inside = lambda parts: own < {part.text for part in parts}
    others = [part for m in made if own and inside(m.parts) for part in m.parts]
    told = {part.text: _held(fit, part) for part in others if part.text not in own}
    return sentence_list(list(told.values())) if told else ""


def _held(fit: TableResult, part: Part) -> str:
    if part.column is None:
        return f"{name_of(fit, part.text.strip('`'))} = 0"
    column = name_of(fit, part.column)
    if part.reference is None:
        return f"the mean of the levels of {column}"
    return f"{column} = {level_name(fit, part.column, part.reference)}"


def _of_curves(fit: TableResult, terms: Entangled, none: str) -> list[str]:
    if not terms.curves:
        return []
    return [
        f"{none} {_listed(fit, terms.curves)}: in a power, a polynomial or a spline, several "
        "coefficients belong to the same column and change together. One of them alone is not an "
        "effect. The regression table has all coefficients."
    ]


def _listed(fit: TableResult, terms: tuple[str, ...]) -> str:
    plain = lambda term: term.strip("`") in fit.used
    names = [name_of(fit, term.strip("`")) if plain(term) else term for term in terms]
    more = [count(len(names) - MOST, "other term")] if len(names) > MOST else []
    return sentence_list([*names[:MOST], *more])


def _columns(fit: TableResult, factor: str) -> set[str]:
    """Of the table, in a factor of the design; a plain name stands there without backticks."""
    plain = factor in fit.used
    return {factor} if plain else set(read_formula(f"`(an outcome)` ~ {factor}").right_columns)
