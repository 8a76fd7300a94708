"""The page of one run, or of several side by side; on top, what its numbers prove."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from .._errors import SpecError
from .._text import NONE, count, fixed, sentence_list, size, tiny, tiny_bound
from . import methods
from ._curves import accuracy_means, panels
from ._entry import (
    TARGETS,
    Cost,
    RunEntry,
    best_bound,
    certified,
    comparable,
    cost_to,
    data_of,
    find,
    flatten,
)
from ._numbers import as_sentence, has_own_score, left_out, loose_bound, rows, score, unequal
from .figures import svg
from .page import details, document, figure, footer, grid, header
from .tables import pairs, table

TERMS = {
    "Round": "one exchange: the server sends its model to some clients. Each of these clients "
    "works on its own data and sends one answer.",
    "Upload, MB up": "an upload is one answer of one client. Some methods send one number for "
    "each weight of the model; other methods send a whole matrix. So the report also counts "
    "bytes; fewer bytes are better. 1 MB is a million bytes.",
    "Objective": "the number that training makes as small as possible: the average error over "
    "the clients, plus a small penalty on large weights.",
    "Certified gap": (
        "a proven limit: the objective is at most this much above the best possible objective of "
        "any model of this kind. The true distance may be smaller, but never larger. A lower bound "
        "is a number that no objective can be below. A certified gap uses only lower bounds that "
        "the run itself proved. In tables, gaps are rounded up to two digits."
    ),
    "Gap, at most": (
        "in a comparison: the objective of a run, minus the best lower bound that any run on the "
        "page proved, rounded up to two digits. The true distance may be smaller, never larger."
    ),
    "Dual residual": (
        "some methods must keep a sum over all clients at zero. For example, FedDCD must keep "
        "the sum of the clients’ vectors at zero. The dual residual shows how far the sum is from "
        "zero. The dual residual should be as small as rounding errors."
    ),
    "1e-3, 1e-6": (
        "0.001 and 0.000001. “Uploads to 1e-3” is the number of uploads until the objective "
        "was at most 0.001 above the best lower bound. This is the best of the lower bounds that "
        "the runs on this page proved. At that time, the certified gap of the run itself may still "
        "have been larger. A dash means that a run did not reach this goal, or that its number of "
        "uploads is not known."
    ),
}


def write(
    entries: Sequence[RunEntry],
    path: str | Path,
    *,
    title: str,
    kind: Literal["run", "compare"] = "run",
) -> None:
    """Write the report of one run, or of several side by side."""
    if not entries or (kind == "run" and len(entries) != 1):
        raise SpecError(
            "the page of a run needs exactly one run, and the page of a comparison needs at least "
            f"one run; got {len(entries)} runs"
        )
    Path(path).write_text(page(entries, title=title, kind=kind), encoding="utf-8", newline="\n")


def page(entries: Sequence[RunEntry], *, title: str, kind: str) -> str:
    sentences = run_summary(entries[0]) if kind == "run" else compare_summary(entries)
    sentences += _counted(entries) + _advice(entries)
    return document(
        title,
        header(title, " ".join(sentences)),
        "" if kind == "run" else _table(entries),
        _figures(entries, kind),
        details("Settings", *_settings(entries)),
        footer(TERMS, data=data_of(entries)),
    )


def _table(entries: Sequence[RunEntry]) -> str:
    lines = rows(entries)
    return table("The runs in numbers", list(lines[0]), ("", [list(x.values()) for x in lines]))


def _figures(entries: Sequence[RunEntry], kind: str) -> str:
    """One run reads better downwards, beside the first figure."""
    facts = [pair for pair in rows(entries)[0].items() if pair[1] != NONE]
    parts = [pairs("The run in numbers", facts)] if kind == "run" else []
    for i, (drawing, caption) in enumerate(panels(entries, kind)):
        parts.append(figure(svg(drawing, label=caption, prefix=f"figure{i}-"), caption))
    return grid(parts)


def _settings(entries: Sequence[RunEntry]) -> list[str]:
    """What all runs share is said once, then what each has of its own."""
    settings = [{name: _setting(x) for name, x in flatten(e.config).items()} for e in entries]
    shared = [pair for pair in settings[0].items() if all(pair in s.items() for s in settings)]
    if len(entries) == 1:
        return [pairs(f"Settings of {entries[0].label}", shared, "settings")]
    own = [[f"{k} = {x}" for k, x in s.items() if (k, x) not in shared] for s in settings]
    rest = [(e.label, ", ".join(mine)) for e, mine in zip(entries, own, strict=True)]
    return [pairs("The same in all runs", shared, "settings"), pairs("Different", rest, "settings")]


def _setting(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def run_summary(entry: RunEntry) -> list[str]:
    """What one run did, in sentences."""
    history = entry.history
    if not history.rounds:
        return [f"{_name(entry)} has not run a round yet."]
    start = f"{_name(entry)} ran {count(history.last('round'), 'round')}{_cohort(entry)}"
    value, proven = history.last("objective"), certified(entry)
    is_ = f". The model’s objective is {fixed(value, 4)}" if math.isfinite(value) else ""
    if math.isfinite(proven):
        told = f"is proven to be within {_within(proven)} of the best possible objective"
        sentences = [f"{start}{is_}. This objective {told}."]
    else:
        sentences = [f"{start}{is_}.", _why_unproven([entry])]
    accuracy = history.last("accuracy")
    if math.isfinite(accuracy):
        what = "score" if has_own_score(entry) else "accuracy"
        sentences.append(f"The {what} is {score(entry, accuracy)}, {accuracy_means(entry)}.")
    uploads = count(history.last("uploads"), "upload")
    sentences.append(f"The clients sent {uploads}, {size(history.last('bytes_up'))} in all.")
    return sentences


def _counted(entries: Sequence[RunEntry]) -> list[str]:
    """What the counts of bytes depend on: bits, and what they leave out."""
    widths = [entry.summary["bits"] for entry in entries if entry.summary.get("bits")]
    sentences = []
    for bits in sorted(set(widths)):
        those = [i for i, entry in enumerate(entries) if entry.summary.get("bits") == bits]
        names = "All methods" if len(those) == len(entries) > 1 else _names(entries, those)
        send = "send" if len(those) > 1 else "sends"
        sentences.append(f"{names} {send} each number with {bits} bits.")
    return sentences + list(map(as_sentence, unequal(entries))) + left_out(entries)


def _advice(entries: Sequence[RunEntry]) -> list[str]:
    """What runs say of their own speed."""
    told = [(_name(entry), entry.summary.get("advice")) for entry in entries]
    return [f"{name}: {advice}" for name, advice in told if advice]


def compare_summary(entries: Sequence[RunEntry]) -> list[str]:
    """Which run sent the fewest bytes, and which needed the fewest uploads, as far as proven."""
    best = best_bound(entries)
    if math.isnan(best):
        return [_why_unproven(entries), *_lowest(entries)]
    if not comparable(entries):
        return [
            (
                "These runs do not minimise the same objective: the objective of one run is "
                "below a lower bound that another run proved. Do not compare the gaps of these "
                "runs."
            )
        ]
    costs = {target: _costs(entries, best, target) for target in sorted(TARGETS)}
    reached = [target for target in costs if costs[target]]
    if reached:
        closest, *others = reached
        looser = [x for target in others for x in _other_winner(entries, costs, closest, target)]
        return _ranking(entries, costs[closest], closest) + looser
    closest = min(entries, key=lambda entry: _order(entry.history.last("objective")))
    distance = closest.history.last("objective") - best
    return [
        (
            f"No run has an objective that is proven to be within {tiny(max(TARGETS))} of "
            "the best possible objective."
        ),
        (
            f"{_name(closest)} came closest: its objective is proven to be within "
            f"{_within(distance)} of the best possible objective."
        ),
        *_loose(entries),
    ]


def _loose(entries: Sequence[RunEntry]) -> list[str]:
    said = loose_bound(entries)
    return [f"Note: {' '.join(said)}"] if said else []


def _costs(entries: Sequence[RunEntry], best: float, target: float) -> dict[int, Cost]:
    """By entry, of those that got there."""
    costs = {i: cost_to(entry, best, target) for i, entry in enumerate(entries)}
    return {i: cost for i, cost in costs.items() if cost}


def _ranking(entries: Sequence[RunEntry], costs: dict[int, Cost], target: float) -> list[str]:
    """By bytes; uploads are of very different sizes, and are said where they rank otherwise."""
    first = _winners(costs, "bytes_up")
    least = costs[first[0]].bytes_up
    names = _names(entries, first)
    start = f"{names} sent the fewest bytes to reach" if len(costs) > 1 else f"Only {names} reached"
    sentences = [f"{start} {_goal(target)}: {_spent(costs[first[0]])}."]
    rest = sorted((cost.bytes_up, i) for i, cost in costs.items() if i not in first)
    if rest and least:
        more, i = rest[0]
        sentences.append(
            f"Next is {_name(entries[i])}, which sent {_times(more / least)} as many bytes."
        )
    quickest = _winners(costs, "uploads")
    if not set(quickest) & set(first):
        names, cost = _names(entries, quickest), costs[quickest[0]]
        price = f"{count(cost.uploads, 'upload')}, {size(cost.bytes_up)}"
        sentences.append(f"{names} needed the fewest uploads: {price}.")
    missed = [i for i in range(len(entries)) if i not in costs]
    if missed:
        sentences.append(f"It is not proven that {_names(entries, missed)} reached this.")
    return sentences


def _other_winner(
    entries: Sequence[RunEntry], costs: dict[float, dict[int, Cost]], closest: float, target: float
) -> list[str]:
    """A gap that is less small may be cheapest with another method."""
    first = _winners(costs[target], "bytes_up")
    if set(first) & set(_winners(costs[closest], "bytes_up")):
        return []
    spent = _spent(costs[target][first[0]])
    return [f"{_names(entries, first)} sent the fewest bytes to reach {_goal(target)}: {spent}."]


def _goal(target: float) -> str:
    return f"an objective that is proven to be within {tiny(target)} of the best possible objective"


def _winners(costs: dict[int, Cost], unit: str) -> list[int]:
    least = min(getattr(cost, unit) for cost in costs.values())
    return [i for i, cost in costs.items() if getattr(cost, unit) == least]


def _spent(cost: Cost) -> str:
    uploads, rounds = count(cost.uploads, "upload"), count(cost.rounds, "round")
    return f"{size(cost.bytes_up)} in {uploads} and {rounds}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:,.0f} times"


def _lowest(entries: Sequence[RunEntry]) -> list[str]:
    values = [(_order(entry.history.last("objective")), _name(entry)) for entry in entries]
    objective, label = min(values)
    if not math.isfinite(objective):
        return []
    return [
        f"{label} has the lowest objective at the end, {fixed(objective, 4)}. It is not known "
        "how far this objective is from the best possible objective."
    ]


def _why_unproven(entries: Sequence[RunEntry]) -> str:
    told = {entry.summary.get("unproven") for entry in entries}
    if len(told) == 1 and (reason := told.pop()):
        return f"There is no certificate, because {reason}."
    if entries and all(find(entry, "l2") == 0 for entry in entries):
        return "There is no certificate: feddcd can prove a bound only with a penalty (l2 above 0)."
    return "There is no certificate, because the model is not convex."


def _cohort(entry: RunEntry) -> str:
    clients, tau = find(entry, "clients", "N"), find(entry, "tau", "participants")
    if not isinstance(clients, int) or isinstance(clients, bool):
        return ""
    if not isinstance(tau, int) or isinstance(tau, bool):
        return f" with {count(clients, 'client')}"
    return f" with {tau:,} of {count(clients, 'client')}"


def _name(entry: RunEntry) -> str:
    return methods.title(entry.label)


def _names(entries: Sequence[RunEntry], which: Sequence[int]) -> str:
    return sentence_list([_name(entries[i]) for i in which])


def _within(value: float) -> str:
    return "1e-15" if value < 1e-15 else tiny_bound(value)


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value
