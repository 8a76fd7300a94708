"""The paper's figures and tables from runs of one's own: pictures, files and one page."""

import csv
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from . import _paper_page
from ._paper_page import BEST_SEEN, OTHER, Block, Chart, Row, problem_title
from ._style import FONT, INK, SPARE, STYLES, blank, counts, decades, titles
from ._svg import save_png, save_svg, settled, svg
from ._text import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

ITERATIONS = "iterations (as the paper counts)"
UPLOADS = "uploads (AccFedDCD: two cohorts an iteration)"
ORDER = ("rcv1-softmax", "mnist-softmax", "mnist-mlp")
DOTTED = "dotted: the authors’ own run"
BAND = "band: all seeds"
BELOW = "triangle: below the axis"
CROSS = "cross: a run diverged"
SMALLEST = 1e-16


class Series(NamedTuple):
    """A method's curves, one row per seed: nan where there is no value, inf once a run has
    diverged. `overlay` is the authors' own run at the first of the same x."""

    label: str
    algorithm: str
    x: np.ndarray
    curves: np.ndarray
    overlay: np.ndarray | None = None


class Panel(NamedTuple):
    title: str
    y_title: str
    lines: list[Series]
    log: bool = True
    note: str = ""
    x_title: str = ITERATIONS


class Measured(Protocol):
    """What is needed of a run's curve, by iteration."""

    @property
    def objective(self) -> np.ndarray: ...
    @property
    def uploads(self) -> np.ndarray: ...
    @property
    def optimum(self) -> float: ...


Curves = Mapping[str, Mapping[str, Sequence[Measured]]]  # by problem and algorithm, per seed
Gaps = Mapping[str, Mapping[str, np.ndarray]]  # of the authors, by problem and algorithm


def gap_panels(
    curves: Curves,
    data: Mapping[str, str],
    authors: Gaps | None = None,
    *,
    uploads: bool = False,
    notes: Mapping[str, str] | None = None,
) -> list[Panel]:
    """A panel per problem that was run, in the paper's order; `data` is what each was run on.
    On other data than the paper's, the authors' curves are left out."""
    rank = {problem: k for k, problem in enumerate(ORDER)}
    made = []
    for problem in sorted(curves, key=lambda p: rank.get(p, len(rank))):
        theirs = {} if data[problem] in OTHER else (authors or {}).get(problem, {})
        lines = [
            _series(algorithm, runs, theirs.get(algorithm), uploads)
            for algorithm, runs in curves[problem].items()
        ]
        title, x_title = problem_title(problem, data[problem]), UPLOADS if uploads else ITERATIONS
        note = _note(data[problem], (notes or {}).get(problem, ""))
        made.append(Panel(title, _y_title(problem), lines, True, note, x_title))
    return made


def _series(algorithm: str, runs: Sequence[Measured], overlay, uploads: bool) -> Series:
    n = max(len(run.objective) for run in runs)
    gaps = np.full((len(runs), n), np.nan)
    for row, run in zip(gaps, runs, strict=True):
        gap = run.objective - run.optimum
        row[: len(gap)] = np.where(np.isnan(gap), np.inf, gap)
    longest = max(runs, key=lambda run: len(run.objective))
    x = np.asarray(longest.uploads if uploads else np.arange(1, n + 1), float)
    return Series(NAMES.get(algorithm, algorithm), algorithm, x, gaps, overlay)


def _y_title(problem: str) -> str:
    if problem in BEST_SEEN:
        return f"gap to {BEST_SEEN[problem]}, the authors’ best value"
    return "objective" if problem.endswith("mlp") else "gap to the optimum"


def _note(data: str, more: str) -> str:
    if data not in OTHER:
        return more
    return f"Run on {data}, not on {OTHER[data]}: no curves of the authors. {more}".strip()


def paper_figure(panels: Sequence[Panel]) -> "Figure":
    """Panels side by side: medians over the seeds, bands from the lowest to the highest."""
    return _figure(panels, whole=True)


def write_figures(figures: Mapping[str, Sequence[Panel]], folder: str | Path) -> list[Path]:
    """NAME.png and NAME.svg for each name that has panels."""
    paths = []
    for name, panels in figures.items():
        if panels:
            figure, stem = paper_figure(panels), Path(folder) / name
            save_png(figure, stem.with_suffix(".png"))
            save_svg(figure, stem.with_suffix(".svg"))
            paths += [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    return paths


def _figure(panels: Sequence[Panel], whole: bool) -> "Figure":
    """`whole`: with the legend and the notes, which a page sets as text."""
    if not panels:
        raise ValueError("need at least one panel, got none")
    entries = _legend(panels) if whole else {}
    columns = min(5, 2 * len(panels))
    wrapped = [textwrap.wrap(panel.note, 62) if whole else [] for panel in panels]
    room = max(map(len, wrapped))
    figure, axes = blank(len(panels), 0.25 + 0.21 * (room - (-len(entries) // columns)))
    for ax, panel, note in zip(axes, panels, wrapped, strict=True):
        _draw(ax, panel)
        place: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "color": INK}
        ax.annotate(panel.title, (0, 1), (0, 25), weight="bold", fontsize=FONT + 1, **place)
        titles(ax, panel.x_title + "\n" * room, panel.y_title)
        text = ax.annotate("\n".join(note), (0, 0), (0, -36), va="top", fontsize=FONT - 1, **place)
        text.set_in_layout(False)  # its room is in the x title
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns,
            frameon=False, fontsize=FONT, labelcolor=INK, handlelength=2.2, columnspacing=1.5,
        )  # fmt: skip
    return settled(figure)


def _draw(ax: "Axes", panel: Panel) -> None:
    floor, bottom, top = _limits(panel)
    for one in panel.lines:
        colour, dash = _look(one)
        low, middle, high = _spread(one.curves)
        if len(one.curves) > 1:
            there, ends = np.isfinite(low), np.clip([low, high], floor, None)
            ax.fill_between(one.x, *ends, where=there, color=colour, alpha=0.15, linewidth=0)
        if one.overlay is not None:
            y = np.clip(one.overlay[: len(one.x)], floor, None)
            ax.plot(one.x[: len(y)], y, color=colour, linewidth=1.2, linestyle=(0, (1, 1.6)))
        there = np.isfinite(middle)
        x, y = one.x[there], np.clip(middle[there], floor, None)
        marker = "o" if len(y) == 1 else ""
        ax.plot(x, y, dash, color=colour, marker=marker, markersize=5, linewidth=1.9)
        sunk = np.flatnonzero(y <= floor)[:: max(1, len(one.x) // 12)]
        if len(sunk):
            ax.plot(x[sunk], y[sunk], "v", color=colour, markersize=6, clip_on=False, zorder=3)
        for curve in one.curves[np.isinf(one.curves).any(1)]:
            last = max(int(np.argmax(np.isinf(curve))) - 1, 0)
            at = one.x[last], np.clip(curve[last], bottom, top)
            ax.plot(*at, "x", color=colour, markersize=8, mew=2, clip_on=False, zorder=4)
    counts(ax)
    ax.set_ylim(bottom, top)
    if panel.log:
        decades(ax)


def _look(one: Series) -> tuple[str, str]:
    return STYLES.get(one.algorithm, SPARE[0])


def _spread(curves: np.ndarray) -> list[np.ndarray]:
    """Lowest, median and highest over the seeds, where more than half have a value. A run
    that has diverged is the worst for the median, and leaves the band."""
    enough = 2 * (~np.isnan(curves)).sum(0) > len(curves)
    sound = np.where(np.isinf(curves), -np.inf, curves)
    pairs = ((np.nanmin, curves), (np.nanmedian, curves), (np.nanmax, sound))
    out = [np.full(curves.shape[1], np.nan) for _ in pairs]
    for row, (of, values) in zip(out, pairs, strict=True):
        row[enough] = of(values[:, enough], axis=0)
    return out


def _limits(panel: Panel) -> tuple[float, float, float]:
    """The value below which lines are clipped, and the ends of the y axis. A run that diverges
    must not flatten the others: the axis ends ten times above the starts."""
    drawn = [np.concatenate(_spread(one.curves)) for one in panel.lines]
    drawn += [one.overlay[: len(one.x)] for one in panel.lines if one.overlay is not None]
    values = np.concatenate([np.zeros(0), *drawn])
    values = values[np.isfinite(values)]
    if not len(values):
        return -math.inf, 0.1, 1.0
    low, high = values.min(), values.max()
    if not panel.log:
        margin = 0.05 * (high - low) or 1.0
        return -math.inf, low - margin, high + margin
    floor = -math.inf
    if low <= 0:
        # near its zero a gap passes through any size: what counts is how large most are
        floor = low = 10.0 ** np.floor(np.log10(max(SMALLEST, np.quantile(abs(values), 0.05))))
    starts = [y[np.isfinite(y)][:1] for y in (_spread(one.curves)[1] for one in panel.lines)]
    high = max(min(high, 10 * max(np.concatenate(starts), default=high)), low)
    return floor, low if low == floor else low / 1.3, max(1.3 * high, 10 * low)


def _legend(panels: Sequence[Panel]) -> dict[str, Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    artists: dict[str, Any] = {}
    for one in (one for panel in panels for one in panel.lines):
        colour, dash = _look(one)
        artists[one.label] = Line2D([], [], color=colour, ls=dash, linewidth=1.9)
    looks = {
        DOTTED: Line2D([], [], color=INK, linewidth=1.2, linestyle=(0, (1, 1.6))),
        BAND: Patch(color=INK, alpha=0.2, linewidth=0),
        BELOW: Line2D([], [], color=INK, marker="v", linestyle=""),
        CROSS: Line2D([], [], color=INK, marker="x", linestyle="", mew=2),
    }
    return artists | {mark: looks[mark] for mark in _marks(panels)}


def _marks(panels: Sequence[Panel]) -> list[str]:
    """What else is drawn, in words."""
    lines = [one for panel in panels for one in panel.lines]
    there = {
        DOTTED: any(one.overlay is not None for one in lines),
        BAND: any(len(one.curves) > 1 for one in lines),
        BELOW: any(
            (_spread(one.curves)[1] <= _limits(panel)[0]).any()
            for panel in panels
            for one in panel.lines
        ),
        CROSS: any(np.isinf(one.curves).any() for one in lines),
    }
    return [mark for mark, drawn in there.items() if drawn]


def write_table2(rows: Sequence[Row], folder: str | Path) -> None:
    """table2.json, .csv and .md."""
    lines = []
    for row in rows:
        reached = [k for k in row["rounds"] if k is not None]
        every = len(reached) == len(row["rounds"])
        same = ("problem", "data", "tau", "eps", "algorithm", "limit")
        lines.append({key: row[key] for key in same} | {
            "seeds": len(row["rounds"]), "reached": len(reached),
            "rounds_min": min(reached, default=None), "rounds_median": row["median"],
            "rounds_max": max(reached) if every and reached else None,
            "uploads_median": row["median_uploads"],
            "paper": row["paper"], "authors": row["authors"], "optimum": row["optimum"],
        })  # fmt: skip
    about = f"# Table 2: rounds to a gap\n\n{_paper_page.TABLE2} {_paper_page.SCAFFOLD}\n"
    _write(Path(folder) / "table2", rows, lines, about, _paper_page.table2_blocks(rows))


def write_table3(rows: Sequence[Row], folder: str | Path) -> None:
    """table3.json, .csv and .md."""
    lines = []
    for row in rows:
        best = [x for x in row["best"] if math.isfinite(x)]
        same = ("problem", "data", "tau", "algorithm", "rounds")
        lines.append({key: row[key] for key in same} | {
            "seeds": len(row["best"]), "best_min": min(best, default=None),
            "best_median": row["median"], "best_max": max(best, default=None),
            "last_median": _paper_page.middle(row["last"]),
            "objective_median": _paper_page.middle(row["objective"]),
            "paper": row["paper"], "authors": row["authors"], "optimum": row["optimum"],
        })  # fmt: skip
    about = f"# Table 3: test accuracy\n\n{_paper_page.TABLE3} {_paper_page.SCAFFOLD}\n"
    _write(Path(folder) / "table3", rows, lines, about, _paper_page.table3_blocks(rows))


def _write(stem: Path, rows, lines: Sequence[Row], about: str, blocks: Sequence[Block]) -> None:
    text = ",\n".join(json.dumps(_strict(row), allow_nan=False) for row in rows)
    stem.with_suffix(".json").write_text(f"[\n{text}\n]\n", encoding="utf-8", newline="\n")
    with open(stem.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows([_strict(line) for line in lines])
    markdown = "\n".join([about, *map(_markdown, blocks)])
    stem.with_suffix(".md").write_text(markdown, encoding="utf-8", newline="\n")


def _strict(value: Any) -> Any:
    """JSON knows no nan."""
    match value:
        case Mapping():
            return {key: _strict(item) for key, item in value.items()}
        case list() | tuple():
            return [_strict(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value


def _markdown(block: Block) -> str:
    lines = [["setup", *block.head], ["---", "---", *["---:"] * (len(block.head) - 1)]]
    for setup, rows in block.groups:
        for k, row in enumerate(rows):
            texts = [cell.text.replace("*", r"\*") for cell in row]
            texts = [f"**{t}**" if cell.best else t for t, cell in zip(texts, row, strict=True)]
            lines.append(["" if k else setup, *texts])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join("\n{}\n".format(note.replace("*", r"\*")) for note in block.notes)
    return f"## {block.title}\n\n{table}\n{notes}"


def rich_table2(rows: Sequence[Row]) -> "Table":
    return _rich(_paper_page.table2_blocks(rows))


def rich_table3(rows: Sequence[Row]) -> "Table":
    return _rich(_paper_page.table3_blocks(rows))


def _rich(blocks: Sequence[Block]) -> "Table":
    """A heading line for each problem and setup, then a line per method."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    notes = dict.fromkeys(note for block in blocks for note in block.notes)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.caption = Text("\n".join(notes))
    for k, name in enumerate(blocks[0].head if blocks else ()):
        table.add_column(name.replace(" ", "\n", 1), justify="right" if k else "left")
    for block in blocks:
        for setup, lines in block.groups:
            short = setup.replace(" = ", "=").replace(",", "")
            table.add_row(Text(f"{block.title}, {short}", "bold"))
            for first, *rest in lines:
                cells = [Text(cell.text, "bold" if cell.best else "") for cell in rest]
                table.add_row(Text(f"  {first.text}"), *cells)
            table.add_section()
    return table


def write_report(
    folder: str | Path,
    *,
    variant: str,
    seeds: int,
    table2: Sequence[Row],
    table3: Sequence[Row],
    figures: Mapping[str, Sequence[Panel]],
    notes: Sequence[str],
) -> Path:
    """report.html: all of it on one page that needs nothing else. `figures` by name: figure1,
    figure1-uploads, figure3, figure3-uploads, or any other."""
    charts = [_chart(*item, f"f{k}-") for k, item in enumerate(figures.items()) if item[1]]
    path = Path(folder) / "report.html"
    text = _paper_page.page(variant, seeds, table2, table3, charts, notes)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _chart(name: str, panels: Sequence[Panel], prefix: str) -> Chart:
    methods = dict.fromkeys((one.label, one.algorithm) for panel in panels for one in panel.lines)
    drawn = [
        (svg(_figure([panel], whole=False), label=f"{panel.title}: {panel.y_title}",
             prefix=f"{prefix}{k}-"), panel.note)
        for k, panel in enumerate(panels)
    ]  # fmt: skip
    return Chart(name, list(methods), _marks(panels), drawn)
