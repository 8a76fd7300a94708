"""The effects as a forest: one row each, the interval drawn beside its numbers, the sites' own
estimates behind it."""

import math
from typing import NamedTuple

import numpy as np

from ..._text import count, number, probability, ratio
from ...report import charts
from ...report.tables import Drawn, table
from .._places import decimals_of_list, ratios
from .._result import Coefficient, TableResult
from ._alone import entangled, held_at, is_in, not_drawn
from ._names import Unit, unit_of
from ._words import STEP, all_rows, strongest
from ._words import interval as interval_words

MOST = 24  # coefficients in one forest
UNLIKE = 30.0  # a ratio of standard errors above which one axis would not serve all
REACH = 1.5  # how far, in spans of the pooled intervals, sites may stretch the axis


class Effect(NamedTuple):
    """A coefficient times the unit that it is shown for."""

    size: float
    label: str
    middle: float
    low: float
    high: float
    p: float
    sites: tuple[tuple[float, str], ...]  # estimate and site


class Forest(NamedTuple):
    html: str
    words: str  # how to read it


def forest(fit: TableResult) -> Forest | None:
    terms = entangled(fit)
    found = chosen = [c for c in strongest(fit) if not is_in(fit, c, terms.curves)]
    more = not_drawn(fit, chosen[:MOST])
    if not chosen:
        return Forest("", " ".join(more)) if more else None
    if len(chosen) <= MOST:  # all of them, in the order of the table
        order = {c: i for i, c in enumerate(fit.coefficients)}
        chosen = sorted(chosen, key=lambda c: order[c])
    scaled = lambda c: not is_in(fit, c, terms.crossed)
    effects = [_effect(fit, c, unit_of(fit, c, scaled(c))) for c in chosen[:MOST]]
    width = np.array([e.high - e.low for e in effects])
    unlike = bool(width.max() > UNLIKE * width.min())
    scales = width if unlike else np.ones(len(width))
    if unlike:
        effects = [_shrunk(e, w) for e, w in zip(effects, width, strict=True)]
    low, high, outside = _span(effects)
    is_ratio = fit.ratio is not None and not unlike
    draw = _ratio if is_ratio else float
    scale = (charts.logarithmic if is_ratio else charts.linear)(draw(low), draw(high))
    none = draw(0.0)
    each = list(zip(effects, scales, strict=True))
    listed = decimals_of_list((w * e.middle, w * e.low, w * e.high) for e, w in each)
    rows = [_row(fit, e, w, scale, draw, none, unlike, listed) for e, w in each]
    rows += [] if unlike else [("", Drawn(charts.strip_axis(scale)), "", "")]
    name = fit.ratio or "coefficient"
    level = interval_words(fit)
    head = ("effect of", "", f"{name} ({level})", "p")
    drawn = table(f"Effects: {name} with {level}", head, ("", rows), style="forest")
    sizes = [f"The amount after “per” {STEP}"] if any(e.size != 1 for e in effects) else []
    inside = sum(len(e.sites) for e in effects) - outside
    reading = _reading(fit, len(found), unlike), *_of_single_sites(fit, inside, outside)
    return Forest(drawn, " ".join([*reading, *sizes, *more]))


def _effect(fit: TableResult, c: Coefficient, unit: Unit) -> Effect:
    row = fit.original_table.loc[c.label]
    b, low, high = (unit.size * float(row[name]) for name in ("coef", "ci_low", "ci_high"))
    at = held_at(fit, c)
    label = f"{unit.label}, at {at}" if at else unit.label
    return Effect(unit.size, label, b, low, high, float(row["p"]), _of_sites(fit, c, unit.size))


def _of_sites(fit: TableResult, c: Coefficient, size: float) -> tuple[tuple[float, str], ...]:
    if fit.site_table is None or fit.n_sites < 2:
        return ()
    own = fit.site_table.xs(c.label, level="name")["coef"]
    values = own.to_numpy(float)
    return tuple(
        (size * b, str(site)) for b, site in zip(values, own.index, strict=True) if np.isfinite(b)
    )


def _shrunk(e: Effect, width: float) -> Effect:
    sites = tuple((b / width, site) for b, site in e.sites)
    return e._replace(middle=e.middle / width, low=e.low / width, high=e.high / width, sites=sites)


def _ratio(log: float) -> float:
    return math.exp(min(max(log, -700.0), 700.0))


def _span(effects: list[Effect]) -> tuple[float, float, int]:
    """The range to draw, and how many sites' estimates lie outside of it."""
    low = min(0.0, *(e.low for e in effects))
    high = max(0.0, *(e.high for e in effects))
    b = np.array([b for e in effects for b, _ in e.sites])
    least, most = low - REACH * (high - low), high + REACH * (high - low)
    inside = b[(b >= least) & (b <= most)]
    low, high = min([low, *inside]), max([high, *inside])
    edge = 0.03 * (high - low or 1.0)
    return low - edge, high + edge, len(b) - len(inside)


def _row(
    fit: TableResult, e: Effect, width: float, scale, draw, none: float, own: bool, listed: int
):
    say = ratio if fit.ratio is not None else number
    ends = [width * v for v in (e.middle, e.low, e.high)]
    middle, low, high = ratios(*ends, listed=listed) if fit.ratio is not None else map(number, ends)
    shown = [
        (draw(b), f"{site}: {say(width * b)}")
        for b, site in e.sites
        if scale.low <= draw(b) <= scale.high
    ]
    words = f"{middle} ({low} to {high})"
    interval = charts.Interval(draw(e.middle), draw(e.low), draw(e.high), words, shown)
    reach = (say(width * scale.low, 2), say(width * scale.high, 2)) if own else None
    return e.label, Drawn(charts.strip(scale, interval, none, reach)), words, probability(e.p)


def _reading(fit: TableResult, total: int, unlike: bool) -> str:
    what = "there is no difference" if fit.ratio is None else "the ratio is 1: no effect"
    sentences = [
        f"Each blue dot is an effect, estimated from {all_rows(fit)}. The line through a dot "
        f"is the interval. At the dotted line {what}."
    ]
    if total > MOST:
        sentences.append(
            f"The figure shows only {MOST} of the {count(total)} effects: those with the smallest "
            "p-values. The regression table has all effects."
        )
    if unlike:
        sentences.append(
            "The columns have very different units, so each effect has its own scale. "
            "The two numbers below an effect are the ends of its scale."
        )
    return " ".join(sentences)


def _of_single_sites(fit: TableResult, inside: int, outside: int) -> list[str]:
    """What is said of their estimates: how many the figure shows, and how many it cannot show."""
    sentences = []
    if inside:
        sentences.append(
            "A grey diamond is the estimate from the rows of one site alone, without "
            "a penalty. Sites without a finite estimate, and sites that do not send "
            "their estimate, have no diamond."
        )
    elif fit.answers == "sum":
        sentences.append(
            "Only sums over all sites are known, so the figure does not show the estimates of "
            "single sites."
        )
    elif fit.n_sites > 1:
        sentences.append("The sites’ own estimates are not shown.")
    if outside:
        whose = "a single site is" if outside == 1 else "single sites are"
        sentences.append(
            f"{count(outside, 'estimate')} of {whose} beyond the ends of the figure, so the figure "
            f"does not show {'it' if outside == 1 else 'them'}."
        )
    return sentences
