"""What the paper's experiments show, in sentences: the lead, the findings and the notes."""

import math
from collections import Counter
from collections.abc import Sequence

from .._text import count, percent, sentence_list
from ._blocks import OTHER, Row, fewest, most_accurate, name_of, title_of, together

TITLE = "The paper’s experiments, run again"
VARIANTS = {
    "paper": "as the paper’s text describes them",
    "authors": "as the authors’ code does them",
}
FIGURES = {
    "figure1": "Figure 1: primal and dual methods",
    "figure1-uploads": "Figure 1 by uploads",
    "figure3": "Figure 3: two classes per client",
    "figure3-uploads": "Figure 3 by uploads",
}
COHORTS = (
    "AccFedDCD asks two cohorts in each iteration. The paper’s figures and tables count that as "
    "one round; uploads count both."
)
SCAFFOLD = (
    "SCAFFOLD here is the correct one. In the authors’ code its control variates are never "
    "updated for softmax, so their SCAFFOLD rows are FedAvg in truth."
)
TABLE2 = (
    "Rounds until the gap to the optimum is at most ε: the median over the seeds, in brackets the "
    "smallest and the largest; “>100” was not reached in 100 rounds. The fewest are bold."
)
TABLE3 = (
    "Test accuracy with two classes per client: the best over the rounds, which is what the paper "
    "shows, and at the end; medians over the seeds, in brackets the smallest and the largest."
)


def lead(variant: str, seeds: int, table2: Sequence[Row]) -> str:
    how = VARIANTS.get(variant, f"variant {variant}")
    return " ".join([
        f"The experiments of the paper {how}, with {count(seeds, 'seed')}.",
        *_agreement(table2, "paper", "The paper’s number of rounds"),
        *_agreement(table2, "authors", "That of the authors’ own files"),
    ])  # fmt: skip


def findings(table2: Sequence[Row], table3: Sequence[Row]) -> list[str]:
    """Which method is best where, by the medians."""
    sentences = []
    for rows in together(table2, "problem", "data"):
        setups = together(rows, "tau", "eps")
        rounds, uploads = (
            Counter(name for setup in setups for name in fewest(setup, key))
            for key in ("median", "median_uploads")
        )
        if not rounds:
            sentences.append(f"{title_of(rows)}: no method reached a gap of Table 2.")
            continue
        sentences.append(
            f"{title_of(rows)}: the fewest rounds are needed by {_wins(rounds, len(setups))}, "
            f"the fewest uploads by {_wins(uploads, len(setups))}."
        )
    for rows in together(table3, "problem", "data"):
        names = most_accurate(rows)
        if names:
            best = percent(next(row["median"] for row in rows if name_of(row) in names))
            who = f"{sentence_list(names)} had the best test accuracy, {best}"
            sentences.append(f"{title_of(rows)}, two classes per client: {who}.")
    return sentences


def _wins(times: Counter[str], setups: int) -> str:
    """FedDCD (3 of 4 setups) and FedAvg (1)"""
    ranked = times.most_common()
    of = ["" if k else f" of {count(setups, 'setup')}" for k in range(len(ranked))]
    wins = [f"{name} ({n}{more})" for (name, n), more in zip(ranked, of, strict=True)]
    return sentence_list(wins)


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
    return [f"{what} lies within the range of these seeds in {inside} of {len(rows)} rows."]


def beyond(rows: Sequence[Row]) -> list[str]:
    there = any(row["algorithm"] == "pointsaga" for row in rows)
    return ["Point-SAGA is not in the paper; it is shown for comparison."] if there else []


def stand_ins(rows: Sequence[Row]) -> list[str]:
    return [
        f"{data} is another data set than {OTHER[data]}: the paper’s and the authors’ numbers are "
        f"for {OTHER[data]}, and their curves are not drawn over those of {data}."
        for data in dict.fromkeys(row["data"] for row in rows)
        if data in OTHER
    ]
