"""The numbers of runs side by side: as rows for people, for a paper, and for a spreadsheet."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._text import NONE, count, fixed, percent, plural, size, tiny, tiny_bound
from ._entry import (
    TARGETS,
    RunEntry,
    best_bound,
    bits_differ,
    certified,
    comparable,
    cost_to,
    single_runs,
)
from .methods import title
from .printed import latex, markdown
from .tables import Group, Row, terminal_table

if TYPE_CHECKING:
    from rich.table import Table

QUARTILES = (0.25, 0.75)
UNITS = ("rounds", "uploads", "bytes_up")
COSTS = tuple(f"{unit}_to_{target:.0e}" for target in TARGETS for unit in UNITS)
LAST = ("rounds", "uploads", "bytes_up", "objective", "accuracy", "seconds")
TERMINAL = (
    "algorithm", "bits", "rounds", "uploads", "objective", "gap, at most", "accuracy",
    "uploads to 1e-3", "uploads to 1e-6",
)  # fmt: skip
PAPER = (
    "algorithm", "bits", "gap, at most", "accuracy", "uploads to 1e-3", "MB to 1e-3",
    "uploads to 1e-6", "MB to 1e-6",
)  # fmt: skip
BITS = "bits: how many bits a method uses to send one number"
MOST = "gap, at most"  # what is proven of the distance to the optimum; in files gap_at_most
GAP = (
    f"{MOST}: the objective of a run, minus the best lower bound that any of these runs proved. "
    "The true gap can be smaller. Gaps are rounded up to two digits"
)
TO = "uploads to 1e-3: the uploads until the gap was at most 1e-3"
TO_OWN = (
    "uploads to 1e-3: the uploads until the objective was at most 1e-3 above the best lower bound "
    "of the whole run. If the run proved this bound only after these uploads, the certified gap "
    "may have been larger at that time"
)


def proven(entry: RunEntry, beside: Sequence[RunEntry]) -> dict[str, float]:
    """Of one run beside others: the best bound of all runs, the gap to it, and what it cost to come
    to each gap; nan where the run did not come there."""
    best = best_bound(beside)
    costs = [cost_to(entry, best, target) or (math.nan,) * len(UNITS) for target in TARGETS]
    reached = dict(zip(COSTS, (x for cost in costs for x in cost), strict=True))
    return {"best_bound": best, "gap": certified(entry, beside)} | reached


def numbers(entry: RunEntry, beside: Sequence[RunEntry]) -> dict[str, tuple[float, float, float]]:
    """The quartiles over the seeds with the median in the middle; three equal ones of one run. A
    run that did not come to a gap counts as one with infinite costs."""
    last = lambda run: {
        name: run.history.last({"rounds": "round"}.get(name, name)) for name in LAST
    }
    each = [last(run) | proven(run, beside) for run in single_runs([entry])]
    return {name: _quartiles([one[name] for one in each], name in COSTS) for name in each[0]}


def _quartiles(values: list[float], cost: bool) -> tuple[float, float, float]:
    far = 1e300  # as good as infinite, and without inf - inf
    known = np.where(np.isnan(values), far if cost else np.nan, values)
    found = np.quantile(np.minimum(known, far), (QUARTILES[0], 0.5, QUARTILES[1]))
    low, middle, high = np.where(found > far / 1e9, np.inf, found).tolist()
    return low, middle, high


def rows(entries: Sequence[RunEntry]) -> list[dict[str, str]]:
    """One row per entry, written for people; "–" where there is no value. Bits stand there if they
    differ."""
    alone = len(entries) == 1 and entries[0].runs == 1
    found = [_row(entry, numbers(entry, entries), 1) for entry in entries]
    rename = lambda name: "certified gap" if alone and name == MOST else name
    leave_out = set() if bits_differ(entries) else {"bits"}
    return [{rename(name): row[name] for name in row if name not in leave_out} for row in found]


def _row(entry: RunEntry, found: dict[str, tuple[float, float, float]], k: int) -> dict[str, str]:
    """Of the medians (k = 1) or of a quartile."""
    at = lambda name: found[name][k]
    row = {
        "algorithm": entry.label,
        "bits": str(entry.summary.get("bits") or NONE),
        "rounds": count(at("rounds")),
        "uploads": count(at("uploads")),
        "MB up": _megabytes(at("bytes_up")),
        "objective": fixed(at("objective"), 6),
        MOST: tiny_bound(at("gap")),
        "accuracy": score(entry, at("accuracy")),
        "seconds": fixed(at("seconds"), 1),
    }
    for target in TARGETS:
        to, cost = tiny(target), f"_to_{target:.0e}"
        row[f"rounds to {to}"] = count(at(f"rounds{cost}"))
        row[f"uploads to {to}"] = count(at(f"uploads{cost}"))
        row[f"MB to {to}"] = _megabytes(at(f"bytes_up{cost}"))
    return row


def score(entry: RunEntry, value: float) -> str:
    """A share in percent; a score of the user's own as the number that it is."""
    return fixed(value, 4) if has_own_score(entry) else percent(value)


def has_own_score(entry: RunEntry) -> bool:
    return str(entry.summary.get("accuracy_is", "")).startswith("score of")


def rich_table(entries: Sequence[RunEntry]) -> "Table":
    """The columns that fit a terminal of 80 letters."""
    lines = rows(entries)
    names = [name for name in TERMINAL if name != "bits" or bits_differ(entries)]
    head = [name if name in lines[0] else "certified gap" for name in names]
    shown = [[line[name] for name in head] for line in lines]
    alone, reached = "certified gap" in head, any(x["uploads to 1e-3"] != NONE for x in lines)
    notes = [] if alone else [GAP]
    notes += [TO_OWN if alone else TO] * reached + [BITS] * bits_differ(entries)
    notes += [
        f"note: {' '.join(said)}" for said in (unequal(entries), loose_bound(entries)) if said
    ]
    return terminal_table(head, ("", shown), notes=notes)


def latex_table(entries: Sequence[RunEntry]) -> str:
    """What a paper compares, with the quartiles of several seeds."""
    head, group = _paper(entries)
    return latex(head, group, notes=table_notes(entries))


def markdown_table(entries: Sequence[RunEntry]) -> str:
    head, group = _paper(entries)
    return markdown(head, group, notes=table_notes(entries))


def _paper(entries: Sequence[RunEntry]) -> tuple[Row, Group]:
    """Without columns in which no method has a value."""
    lines = [line for entry in entries for line in _paper_lines(entry, entries)]
    full = lambda name: any(line[name] not in (NONE, "") for line in lines)
    head = [name for name in PAPER if full(name) and (name != "bits" or bits_differ(entries))]
    return head, ("", [[line[name] for name in head] for line in lines])


def _paper_lines(entry: RunEntry, entries: Sequence[RunEntry]) -> list[dict[str, str]]:
    """Medians, and the quartiles in a line below them."""
    low, middle, high = (_row(entry, numbers(entry, entries), k) for k in range(3))
    lines = [middle | {"algorithm": title(entry.label)}]
    if entry.runs > 1:
        blank = {"algorithm": "", "bits": ""}
        brackets = {name: _bracket(low[name], high[name]) for name in PAPER} | blank
        lines += [brackets] if any(brackets.values()) else []
    return lines


def _bracket(low: str, high: str) -> str:
    return f"[{low.removesuffix(' %')}, {high}]" if {low, high} != {NONE} else ""


def table_notes(entries: Sequence[RunEntry]) -> list[str]:
    """What a reader of the table needs to know."""
    seeds = max(entry.runs for entry in entries)
    medians = f"Medians over {plural(seeds, 'seed')}. The numbers in brackets are the quartiles."
    notes, (head, _) = [medians] if seeds > 1 else [], _paper(entries)
    if MOST not in head:
        return notes
    notes.append(as_sentence(GAP))
    if "bits" in head:
        notes += [as_sentence(BITS), *(as_sentence(said) for said in unequal(entries)[:1])]
    if "MB to 1e-3" in head:
        notes.append("MB to 1e-3: the bytes that the clients sent until the gap was at most 1e-3.")
    if any(name.startswith("MB") for name in head):
        notes += left_out(entries)
    missed = [tiny(target) for target in TARGETS if f"MB to {tiny(target)}" not in head]
    notes += [f"No method reached a proven gap of {target}." for target in missed]
    return notes + [as_sentence(said) for said in loose_bound(entries)[:1]]


def left_out(entries: Sequence[RunEntry]) -> list[str]:
    """What the counts of bytes leave out."""
    proof = max((entry.summary.get("certificate_bytes_up") or 0 for entry in entries), default=0)
    most = f"{'at most ' * (len(entries) > 1)}{size(proof)}"
    said = f"The counts of bytes do not include the certificates ({most} in a run)."
    return [said] if proof else []


def unequal(entries: Sequence[RunEntry]) -> list[str]:
    """Bytes of methods with different bits compare the bits, too: this fact, and what to do."""
    bits = {width for entry in entries if (width := entry.summary.get("bits"))}
    if len(bits) < 2:
        return []
    return [
        "the methods use different numbers of bits to send one number. A method that uses fewer "
        "bits sends fewer bytes for the same numbers.",
        "To compare the methods with the same number of bits, use "
        f"--bits {min(bits)} or --bits {max(bits)}.",
    ]


def loose_bound(entries: Sequence[RunEntry]) -> list[str]:
    """The gaps of all runs contain the distance of the bound from the optimum. Where it may hide
    all that is different between the runs: this fact, and what to do."""
    last = [numbers(entry, entries) for entry in entries]
    gaps, ends = ([one[name][1] for one in last] for name in ("gap", "objective"))
    if len(entries) < 2 or not np.isfinite([*gaps, *ends]).all() or not comparable(entries):
        return []
    smallest, apart = min(gaps), max(ends) - min(ends)
    if smallest <= max(apart, *TARGETS):
        return []
    there = {e.label for e in entries} | {str(e.config.get("algorithm")) for e in entries}
    others = [name for name in ("fedqn", "pointsaga") if name not in there]
    add = f", or add the method {' or '.join(others)}" if others else ""
    return [
        "the best lower bound that a run proved is far below all objectives: the smallest gap is "
        f"{tiny_bound(smallest)}, but the objectives of the runs differ by at most "
        f"{tiny_bound(apart)}. The "
        "differences between the gaps are "
        "right, but the gaps themselves may be much too large.",
        f"For a larger lower bound, use more rounds{add}.",
    ]


def as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def write_csv(entries: Sequence[RunEntry], path: str | Path) -> None:
    """compare.csv: per entry its summary, the gap to the best bound of all entries, and the rounds,
    uploads and bytes to each gap."""
    keys = list(dict.fromkeys(key for entry in entries for key in entry.summary))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["label", *keys, "best_bound", "gap_at_most", *COSTS])
        for entry in entries:
            cells = [_cell(entry.summary.get(key)) for key in keys]
            writer.writerow([entry.label, *cells, *map(_number, proven(entry, entries).values())])


def write_medians(entries: Sequence[RunEntry], path: str | Path) -> None:
    """medians.csv: per method the median and the quartiles over its seeds of each number."""
    names = [*LAST, "best_bound", "gap", *COSTS]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        in_file = lambda name: "gap_at_most" if name == "gap" else name
        ends = ("", "_quartile1", "_quartile3")
        heads = [f"{in_file(name)}{end}" for name in names for end in ends]
        writer.writerow(["method", "seeds", "bits", *heads])
        for entry in entries:
            found = numbers(entry, entries)
            cells = [x for name in names for x in np.array(found[name])[[1, 0, 2]]]
            bits = _cell(entry.summary.get("bits"))
            writer.writerow([entry.label, entry.runs, bits, *map(_number, cells)])


def _megabytes(count: float) -> str:
    return fixed(count / 1e6, 2) if math.isfinite(count) else NONE


def _number(value: float) -> str:
    """As short as it can be without loss; nothing where there is none."""
    if not math.isfinite(value):
        return ""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
