"""Small figures as SVG, without script and library: they take the ink of the page, in the light, in
the dark and on paper, and what lies under the mouse says its numbers."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 460, 54, 12, 30, 46
STEPS = (1.0, 2.0, 5.0, 10.0)
FINE = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)


class Scale(NamedTuple):
    """An axis: from where to where, and where its numbers stand."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def share(self, values: Any) -> np.ndarray:
        """0 at the low end, 1 at the high one; just outside for what is far away."""
        place = np.log if self.log else np.asarray
        low, high = place(self.low), place(self.high)
        with np.errstate(divide="ignore"):
            away = place(np.asarray(values, float)) - low
            return np.clip(away / ((high - low) or 1.0), -1.0, 2.0)  # the ends can be equal


def linear(low: float, high: float, most: int = 6) -> Scale:
    """At most this many numbers, whole multiples of 1, 2 or 5 times a power of ten."""
    if not (high - low) / most > 1e-12 * abs(low) + 1e-300:  # nothing lies between
        high = low + max(1.0, 1e-6 * abs(low))
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in STEPS if size * k >= rough * (1 - 1e-9))
    places = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    return Scale(low, high, tuple((float(v), _plain(v, step)) for v in places))


def logarithmic(low: float, high: float, most: int = 7) -> Scale:
    """Powers of ten, and numbers between them where there is room."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for parts in (FINE, (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [k * 10.0**d for d in range(first, last + 1) for k in parts]
        found = [v for v in found if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        if len(found) <= most:
            break
    every = max(1, -(-len(found) // most))
    return Scale(low, high, tuple((v, _power(v)) for v in found[::every]), log=True)


def _plain(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    text = f"{value:.{digits}f}" if digits <= 6 and abs(value) < 1e7 else f"{value:g}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def _power(value: float) -> str:
    return (
        f"{value:g}"
        if 1e-4 < value < 1e5
        else f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    )


class Paper(NamedTuple):
    """What marks are drawn on."""

    x: Scale
    y: Scale
    width: float
    height: float

    def across(self, values: Any) -> np.ndarray:
        return self.x.share(values) * self.width

    def down(self, values: Any) -> np.ndarray:
        return (1 - self.y.share(values)) * self.height


Mark = Callable[[Paper], str]


def chart(
    x: Scale, y: Scale, names: tuple[str, str], marks: Sequence[Mark], alt: str, height: int = 300
) -> str:
    """An <svg> with the name of its y axis on top, where it is read without turning the head."""
    paper = Paper(x, y, WIDTH - LEFT - RIGHT, height - TOP - BOTTOM)
    drawn = "".join(mark(paper) for mark in marks)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}">'
        f"{_grid(paper)}{_words(0, 14, names[1], 'start')}"
        f"{_words(LEFT + paper.width / 2, height - 6, names[0])}"
        f'<svg x="{LEFT}" y="{TOP}" width="{paper.width:.0f}" height="{paper.height:.0f}">'
        f"{drawn}</svg></svg>"
    )


def _grid(paper: Paper) -> str:
    """Lines behind the marks, with their numbers."""
    parts = []
    bottom, right = TOP + paper.height, LEFT + paper.width
    for value, name in paper.x.ticks:
        at = LEFT + float(paper.across(value))
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{bottom:.1f}"/>')
        parts.append(_words(at, bottom + 17, name, style="tick"))
    for value, name in paper.y.ticks:
        at = TOP + float(paper.down(value))
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right:.1f}"/>')
        parts.append(_words(LEFT - 7, at + 4, name, "end", "tick"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom:.1f}H{right:.1f}"/>')
    return "".join(parts)


def _words(x: float, y: float, words: str, anchor: str = "middle", style: str = "name") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{style}" {place}>{escape(words)}</text>'


def line(x: Any, y: Any, style: str = "blue", steps: bool = False) -> Mark:
    """`style`: names of colours, `dashed`, `dotted`; with steps it first goes across."""

    def draw(paper: Paper) -> str:
        across, down = paper.across(x), paper.down(y)
        if steps:
            across, down = np.repeat(across, 2)[1:], np.repeat(down, 2)[:-1]
        return f'<path class="line {style}" d="{_path(across, down)}"/>'

    return draw


def area(x: Any, low: Any, high: Any, style: str = "blue") -> Mark:
    def draw(paper: Paper) -> str:
        across = paper.across(x)
        there = _path(across, paper.down(high))
        back = _path(across[::-1], paper.down(low)[::-1]).replace("M", "L", 1)
        return f'<path class="area {style}" d="{there}{back}Z"/>'

    return draw


def dots(x: Any, y: Any, hover: Sequence[str], style: str = "blue", size: float = 4.5) -> Mark:
    def draw(paper: Paper) -> str:
        places = zip(paper.across(x), paper.down(y), hover, strict=True)
        return "".join(
            f'<circle class="dot {style}" cx="{a:.1f}" cy="{b:.1f}" r="{size}">'
            f"<title>{escape(words)}</title></circle>"
            for a, b, words in places
        )

    return draw


def whiskers(x: Any, low: Any, high: Any, style: str = "blue") -> Mark:
    """Upright intervals."""

    def draw(paper: Paper) -> str:
        places = zip(paper.across(x), paper.down(low), paper.down(high), strict=True)
        d = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in places)
        return f'<path class="line {style}" d="{d}"/>'

    return draw


def bars(low: Any, high: Any, top: Any, hover: Sequence[str], style: str = "blue") -> Mark:
    def draw(paper: Paper) -> str:
        left, right = paper.across(low), paper.across(high)
        up, floor = paper.down(top), float(paper.down(paper.y.low))
        return "".join(
            f'<rect class="bar {style}" x="{a:.1f}" y="{c:.1f}" width="{b - a:.1f}" '
            f'height="{floor - c:.1f}"><title>{escape(words)}</title></rect>'
            for a, b, c, words in zip(left, right, up, hover, strict=True)
        )

    return draw


def _path(across: np.ndarray, down: np.ndarray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True))


class Interval(NamedTuple):
    """A row of a forest: an estimate with its interval, and those of single sites behind it."""

    middle: float
    low: float
    high: float
    hover: str
    behind: Sequence[tuple[float, str]] = ()


STRIP, THICK, BELOW = 300.0, 22.0, 14.0
ROOM = 0.22  # of the width, for a number below a forest on a phone


def strip(
    scale: Scale, row: Interval | None, none: float, ends: tuple[str, str] | None = None
) -> str:
    """One row of a forest as wide as its cell; `none` is where there is no effect, `ends` are the
    numbers of a scale that only this row has."""
    at = lambda value: float(scale.share(value)) * STRIP
    parts = [f'<path class="line soft dotted" d="M{at(none):.1f} 0V{THICK}"/>']
    if row is not None:
        parts += [
            f'<path class="dot pale" d="M{at(v):.1f} 6l4 5l-4 5l-4 -5Z">'
            f"<title>{escape(words)}</title></path>"
            for v, words in row.behind
        ]
        parts.append(f'<path class="line blue" d="M{at(row.low):.1f} 11H{at(row.high):.1f}"/>')
        parts.append(f'<circle class="dot blue" cx="{at(row.middle):.1f}" cy="11" r="4.5"/>')
    title = f"<title>{escape(row.hover)}</title>" if row else ""
    height = THICK
    if ends:
        height += BELOW
        parts.append(f'<path class="axis" d="M0 {THICK - 3}v3H{STRIP}v-3"/>')
        parts += [
            _words(x, THICK + BELOW - 3, name, anchor, "tick")
            for x, name, anchor in zip((0, STRIP), ends, ("start", "end"), strict=True)
        ]
    return (
        f'<svg class="strip" viewBox="0 0 {STRIP:.0f} {height:.0f}" role="presentation">'
        f"{title}{''.join(parts)}</svg>"
    )


def strip_axis(scale: Scale) -> str:
    """The numbers under the rows of a forest."""
    drawn, roomy = "", _roomy(scale)
    for value, name in scale.ticks:
        share = float(scale.share(value))
        look = "tick" if share in roomy else "tick more"
        drawn += f'<path class="axis" d="M{share * STRIP:.1f} 0v4"/>'
        drawn += _words(share * STRIP, 18, name, _anchor(share), look)
    return (
        f'<svg class="strip" viewBox="0 0 {STRIP:.0f} {THICK:.0f}" role="presentation">'
        f'<path class="axis" d="M0 0H{STRIP:.0f}"/>{drawn}</svg>'
    )


def _roomy(scale: Scale) -> list[float]:
    """Where numbers have room on a phone, too: at no effect first, then from left to right."""
    shares: list[float] = []
    for value, _ in sorted(scale.ticks, key=lambda tick: tick[1] not in ("0", "1")):
        share = float(scale.share(value))
        if all(abs(share - other) >= ROOM for other in shares):
            shares.append(share)
    return shares


def _anchor(share: float) -> str:
    """Numbers at the ends stay inside."""
    return "start" if share < 0.04 else "end" if share > 0.96 else "middle"
