"""Numbers as a reader wants them, and the plain-language summary on top of a report."""

import math
from collections.abc import Sequence

from ._entry import TARGETS, Entry, best_bound, certified, comparable, find, to_gap

NONE = "–"


def title(name: str) -> str:
    """A method as people call it; what is no method is called as it is."""
    from ..algorithms.catalogue import find_method  # with JAX, which not all reports need

    row = find_method(name)
    return name if row is None else row.title


def count(value: float) -> str:
    return f"{int(value):,}" if math.isfinite(value) else NONE


def fixed(value: float, digits: int) -> str:
    """1234.5 -> 1,234.50; a number of another size in scientific form."""
    if not math.isfinite(value):
        return NONE if math.isnan(value) else str(value)
    small = value != 0 and abs(value) < 10.0**-digits
    return _scientific(value) if small or abs(value) >= 1e7 else f"{value:,.{digits}f}"


def tiny(value: float) -> str:
    """A gap: 2.1e-05 -> 2.1e-5; what rounding hides is not claimed."""
    if not math.isfinite(value):
        return NONE if math.isnan(value) else str(value)
    if value < 1e-15:
        return "< 1e-15"
    if 0.01 <= value < 1000:
        return f"{value:.2g}"
    return _scientific(value)


def _scientific(value: float) -> str:
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def percent(value: float) -> str:
    return f"{100 * value:.2f} %" if math.isfinite(value) else NONE


def within(value: float) -> str:
    return "1e-15" if value < 1e-15 else tiny(value)


def run_summary(entry: Entry) -> list[str]:
    """What one run did, in sentences."""
    history = entry.history
    if not history.rounds:
        return [f"{_name(entry)} has not run a round yet."]
    rounds = history.last("round")
    start = f"{_name(entry)} ran {_plural(rounds, 'round')}{_cohort(entry)}"
    objective = fixed(history.last("objective"), 4)
    proven = certified(entry)
    if math.isfinite(proven):
        claim = f"is proven to be within {within(proven)} of the best possible one"
        sentences = [f"{start}; the model’s objective is {objective} and {claim}."]
    else:
        sentences = [f"{start}; the model’s objective is {objective}.", _uncertified([entry])]
    accuracy = history.last("accuracy")
    if math.isfinite(accuracy):
        sentences.append(f"Its accuracy is {percent(accuracy)}, {accuracy_means(entry)}.")
    megabytes = fixed(history.last("bytes_up") / 1e6, 2)
    uploads = _plural(history.last("uploads"), "upload")
    return [*sentences, f"The clients sent {uploads}, {megabytes} MB in all."]


def accuracy_means(entry: Entry) -> str:
    """What the accuracy of this run counts, and on which data."""
    what = entry.summary.get("accuracy_is", "share of right labels")
    return f"the {what} on the {entry.summary.get('accuracy_of', 'data')}"


def compare_summary(entries: Sequence[Entry]) -> list[str]:
    """Which run needed the fewest uploads, as far as that is proven."""
    best = best_bound(entries)
    if math.isnan(best):
        return [_uncertified(entries), *_lowest(entries)]
    if not comparable(entries):
        return [
            "These runs do not minimise the same objective: one of them is below a bound "
            "proven for another. Their gaps must not be compared."
        ]
    for target in sorted(TARGETS):
        costs = {i: to_gap(entry, best, target) for i, entry in enumerate(entries)}
        reached = {i: cost for i, cost in costs.items() if cost}
        if reached:
            return _ranking(entries, reached, target)
    closest = min(entries, key=lambda entry: _order(entry.history.last("objective")))
    distance = closest.history.last("objective") - best
    return [
        f"No run came provably within {tiny(max(TARGETS))} of the best possible objective.",
        f"{_name(closest)} came closest: it is proven to be within {within(distance)}.",
    ]


def _ranking(
    entries: Sequence[Entry], reached: dict[int, tuple[int, int]], target: float
) -> list[str]:
    fewest = min(uploads for _, uploads in reached.values())
    first = [i for i, (_, uploads) in reached.items() if uploads == fewest]
    names = _listed([_name(entries[i]) for i in first])
    cost = f"{_plural(fewest, 'upload')} in {_plural(reached[first[0]][0], 'round')}"
    goal = f"to come provably within {tiny(target)} of the best possible objective"
    sentences = [f"{names} needed the fewest uploads {goal}: {cost}."]
    rest = sorted((reached[i][1], i) for i in reached if i not in first)
    if rest and fewest:
        uploads, i = rest[0]
        sentences.append(f"Next is {_name(entries[i])} with {uploads / fewest:.2g} times as many.")
    missed = [_name(entry) for i, entry in enumerate(entries) if i not in reached]
    if missed:
        sentences.append(f"For {_listed(missed)} this is not proven.")
    return sentences


def _lowest(entries: Sequence[Entry]) -> list[str]:
    values = [(_order(entry.history.last("objective")), _name(entry)) for entry in entries]
    objective, label = min(values)
    if not math.isfinite(objective):
        return []
    lowest = f"The lowest objective at the end is {fixed(objective, 4)}, by {label}"
    return [f"{lowest}; how far that is from the best possible one is not known."]


def _uncertified(entries: Sequence[Entry]) -> str:
    if entries and all(find(entry, "l2") == 0 for entry in entries):
        return "No certificate: a bound can be proven only with l2 above 0."
    return "No certificate: the model is not convex."


def _cohort(entry: Entry) -> str:
    clients, tau = find(entry, "clients", "N"), find(entry, "tau", "participants")
    if not isinstance(clients, int) or isinstance(clients, bool):
        return ""
    if not isinstance(tau, int) or isinstance(tau, bool):
        return f" with {_plural(clients, 'client')}"
    return f" with {tau:,} of {_plural(clients, 'client')}"


def _name(entry: Entry) -> str:
    return title(entry.label)


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _plural(number: float, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
