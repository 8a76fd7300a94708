"""What the rows of the paper's tables show, in sentences."""

import math
from collections import Counter
from collections.abc import Sequence

from .._text import count, percent, sentence_list
from ._tables import OTHER, Row, fewest, most_accurate, name_of, title_of, together, with_vectors
from .cells import PAPER_PROBLEMS

VARIANTS = {
    "paper": "as the paper’s text describes them (for some methods with tuned step sizes)",
    "authors": "as the authors’ code runs them",
}


def lead(variant: str, seeds: int, table2: Sequence[Row], rows: Sequence[Row]) -> str:
    how = VARIANTS.get(variant, f"variant {variant}")
    return " ".join([
        f"The experiments of the paper {how}, with {count(seeds, 'seed')}.",
        *_other_data(rows),
        *_agreement(table2, "paper", "the paper’s number of rounds"),
        *_agreement(table2, "authors", "the number of rounds in the authors’ own files"),
    ])  # fmt: skip


def _other_data(rows: Sequence[Row]) -> list[str]:
    others = [one for one in together(rows, "problem") if one[0]["problem"] not in PAPER_PROBLEMS]
    return [f"The paper does not have the problem “{title_of(one)}”." for one in others]


def findings(table2: Sequence[Row], table3: Sequence[Row]) -> list[str]:
    """Which method is best where, by the medians."""
    sentences = []
    for rows in together(with_vectors(table2), "problem", "data"):
        setups = together(rows, "tau", "eps")
        rounds, vectors = (
            Counter(name for setup in setups for name in fewest(setup, key))
            for key in ("median", "median_vectors")
        )
        if not rounds:
            sentences.append(f"{title_of(rows)}: no method reached any gap of Table 2.")
            continue
        sentences.append(
            f"{title_of(rows)}: {_wins(rounds, len(setups))} needed the fewest rounds"
            f"{_ties(rounds, len(setups))}. The clients sent the fewest vectors with "
            f"{_wins(vectors, len(setups))}{_ties(vectors, len(setups))}."
        )
    for rows in together(table3, "problem", "data"):
        names = most_accurate(rows)
        if names:
            best = percent(next(row["median"] for row in rows if name_of(row) in names))
            sentences.append(
                f"{title_of(rows)}, two classes per client: {sentence_list(names)} had the best "
                f"test accuracy, {best}."
            )
    return sentences


def _wins(times: Counter[str], setups: int) -> str:
    """FedDCD (in 3 of 4 setups) and FedAvg (in 1)"""
    ranked = times.most_common()
    of = ["" if k else f" of {count(setups, 'setup')}" for k in range(len(ranked))]
    wins = [f"{name} (in {n}{more})" for (name, n), more in zip(ranked, of, strict=True)]
    return sentence_list(wins)


def _ties(times: Counter[str], setups: int) -> str:
    return " (if methods are equal, each of them counts)" if times.total() > setups else ""


def _agreement(rows: Sequence[Row], key: str, what: str) -> list[str]:
    """How often a published number lies within the seeds' range; other data do not count."""
    rows = [row for row in rows if row[key] is not None and row["data"] not in OTHER]
    if not rows:
        return []
    inside = 0
    for row in rows:
        rounds = [math.inf if k is None else k for k in row["rounds"]]
        value = math.inf if isinstance(row[key], str) else row[key]
        inside += min(rounds) <= value <= max(rounds)
    told = f"{what} is between the smallest and the largest number of rounds with these seeds"
    return [f"In {inside} of {count(len(rows), 'row')} of Table 2, {told}."]


def beyond(rows: Sequence[Row]) -> list[str]:
    there = any(row["algorithm"] == "pointsaga" for row in rows)
    return ["Point-SAGA is not in the paper; we added it for comparison."] if there else []


def stand_ins(rows: Sequence[Row]) -> list[str]:
    return [
        (
            f"{data} is not the same data set as {OTHER[data]}. The numbers of the paper and "
            f"of the authors’ files are for {OTHER[data]}, so the figures of {data} do not show "
            "the authors’ curves."
        )
        for data in dict.fromkeys(row["data"] for row in rows)
        if data in OTHER
    ]
