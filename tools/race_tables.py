"""The tables of docs/race.md, from the medians that `feddcd race` wrote.

    python tools/race_tables.py [--check]

docs/race-8-bits.csv has the rows of the file race.csv of the race, docs/race-64-bits.csv those of
a race with 64 bits, docs/race-2-cores.csv those of the same race on two cores. Sizes of problems
are those that `feddcd list problems` shows. Each table stands
between the lines `<!-- table NAME -->` and `<!-- end -->`; everything else on the page is written
by hand.
"""

import argparse
import csv
import math
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

from feddcd.algorithms.catalogue import get_method
from feddcd.race.problems import PROBLEMS
from feddcd.race.sizes import size_of, source_of

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "race.md"
SHARES = {"0.1": "10 %", "0.3": "30 %", "1.0": "all"}
OURS, GAP, COARSE = "fedqn", "1e-06", "0.001"
SLOT = r"(?s)(<!-- table {} -->\n).*?(<!-- end -->)"

Row = dict[str, float]  # by method
Rows = dict[tuple[str, str], Row]  # by problem and share


@cache
def read(
    bits: int, tuned: bool, gap: str, what: str = "up_models", name: str = "race-{}-bits.csv"
) -> Rows:
    """Of methods with default settings, or of tuned ones where they were tuned."""
    found: Rows = defaultdict(dict)
    with (DOCS / name.format(bits)).open() as file:
        for row in csv.DictReader(file):
            if row["gap"] == gap and (row["tuned"] == "True") == tuned:
                number = float(row[what]) if row[what] else math.inf
                found[row["problem"], row["share"]][row["method"]] = number
    return dict(sorted(found.items()))


def with_tuned(bits: int, gap: str) -> Rows:
    """Each method by the better one of its default and its tuned settings."""
    tuned = read(bits, True, gap)
    better = lambda row, other: {m: min(x, other.get(m, math.inf)) for m, x in row.items()}
    return {at: better(row, tuned.get(at, {})) for at, row in read(bits, False, gap).items()}


def others(row: Row) -> list[tuple[float, str]]:
    """Methods beside ours that came to the gap, the best first."""
    return sorted((x, m) for m, x in row.items() if m != OURS and math.isfinite(x))


def ratio(row: Row) -> float:
    """Of FedQN to the best method; infinite where FedQN did not come to the gap."""
    return row[OURS] / min(row.values()) if math.isfinite(row[OURS]) else math.inf


def shown(number: float) -> str:
    """Three digits, as in the report of a race."""
    if not math.isfinite(number):
        return "-"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def named(found: list[tuple[float, str]], k: int) -> str:
    if len(found) <= k:
        return "-"
    number, method = found[k]
    return f"{get_method(method).title}: {shown(number)}"


def lines(head: list[str], rows: list[list[str]], words: int = 1) -> str:
    """A table; the columns behind the first ones, which are words, are numbers."""
    rule = "|" + "---|" * words + "---:|" * (len(head) - words)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(r)} |" for r in rows)])


def results(share: str) -> str:
    found = []
    tuned = with_tuned(8, GAP)
    for (problem, one), row in read(8, False, GAP).items():
        if one == share:
            rest = others(row)
            wins = not rest or row[OURS] <= rest[0][0]
            cells = [shown(row[OURS]), named(rest, 0), named(rest, 1)]
            cells[not wins] = f"**{cells[not wins]}**"
            best = others(tuned[problem, one])
            more = named(best, 0) if best and best[:1] != rest[:1] else ""
            found.append([problem, *cells, more])
    head = [
        "problem",
        "FedQN",
        "best other method",
        "second best",
        "best other, if tuned and better",
    ]
    return lines(head, found)


def counts() -> str:
    """How often FedQN needs the fewest bytes."""
    asked = {
        "gap 1e-6": read(8, False, GAP),
        "gap 1e-6, other methods tuned": with_tuned(8, GAP),
        "gap 1e-3": read(8, False, COARSE),
        "gap 1e-6, bytes in both directions": read(8, False, GAP, "both"),
        "gap 1e-6, 64 bits": read(64, False, GAP),
    }
    rows = []
    for words, table in asked.items():
        part = lambda share, most, table=table: of([
            ratio(row) for (_, one), row in table.items() if share in (one, "")
        ], most)  # fmt: skip
        rows.append([words, *(part(s, 1) for s in SHARES), *(part("", m) for m in (1, 1.5, 2))])
    few, times = "fewest bytes", ("at most 1.5 times the fewest", "at most twice the fewest")
    head = ["", *(f"{few}, {w}" for w in SHARES.values()), f"{few}, together", *times]
    return lines(head, rows)


def of(ratios: list[float], most: float) -> str:
    found = sum(r <= most for r in ratios)
    return f"{found} of {len(ratios)} ({100 * found / len(ratios):.0f} %)"


def headline() -> str:
    """For the README: of all cases, with default settings and with tuned rivals."""
    races = read(8, False, GAP), with_tuned(8, GAP), read(64, False, GAP)
    default, tuned, wide = ([ratio(row) for row in race.values()] for race in races)
    rows = [
        ["FedQN needs the fewest bytes", of(default, 1), of(tuned, 1)],
        ["FedQN needs at most twice the fewest bytes", of(default, 2), of(tuned, 2)],
        ["FedQN needs the fewest bytes, if all send 64 bits", of(wide, 1), "not measured"],
    ]
    tuning = "Point-SAGA, FedDyn, FedADMM and L-BFGS are tuned"
    return lines(["in how many cases", "all methods have default settings", tuning], rows)


def lost(bits: int, tuned: bool = False) -> str:
    """Where another method needs fewer bytes to 1e-6."""
    table = with_tuned(bits, GAP) if tuned else read(bits, False, GAP)
    plain = read(bits, False, GAP)
    rows = [
        [problem, SHARES[share], shown(row[OURS]), named(others(row), 0), f"{ratio(row):.2f}"]
        for (problem, share), row in table.items()
        if ratio(row) > 1 and not (tuned and others(row)[:1] == others(plain[problem, share])[:1])
    ]
    head = ["problem", "clients in a round", "FedQN", "best other method", "times as many bytes"]
    return lines(head, rows, 2)


def machines() -> str:
    """The same race on two machines, and how far their medians are apart."""
    small = read(8, False, GAP, name="race-2-cores.csv")
    large = {at: row for at, row in read(8, False, GAP).items() if at in small}
    words = ("two cores", "16 cores and one H200")
    rows = [
        [word, str(len(race)), *(of([ratio(row) for row in race.values()], m) for m in (1, 1.5, 2))]
        for word, race in zip(words, (small, large), strict=True)
    ]
    head = ["machine", "cases", "FedQN: fewest bytes"]
    return lines([*head, "at most 1.5 times the fewest", "at most twice the fewest"], rows)


def medians() -> str:
    small, large = read(8, False, GAP, name="race-2-cores.csv"), read(8, False, GAP)
    both = [
        (number, large[at][method])
        for at, row in small.items()
        for method, number in row.items()
        if method in large[at] and (math.isfinite(number) or math.isfinite(large[at][method]))
    ]
    apart = [abs(a / b - 1) if math.isfinite(a) and math.isfinite(b) else math.inf for a, b in both]
    one = sum(math.isinf(x) for x in apart)
    most = max(x for x in apart if math.isfinite(x))
    cells = [str(len(both)), str(sum(x == 0 for x in apart)), str(one), f"{100 * most:.1f} %"]
    head = ["medians to a gap of 1e-6", "equal", "only one machine has it", "largest difference"]
    return lines(head, [cells], 0)


def mnist() -> str:
    rows = []
    for words, gap in (("1e-3", COARSE), ("1e-6", GAP)):
        for share, clients in SHARES.items():
            row = read(8, False, gap)["mnist-contiguous-2", share]
            rest = others(row)
            cells = [shown(row[OURS]), *(named(rest, k) for k in range(3))]
            best = int(rest[0][0] < row[OURS])
            cells[best] = f"**{cells[best]}**"
            rows.append([clients, words, *cells])
    head = ["clients in a round", "gap", "FedQN", "best other method", "second", "third"]
    return lines(head, rows, 2)


def problems() -> str:
    rows = []
    for problem in sorted(PROBLEMS, key=lambda one: one.name):
        size, source = size_of(problem), source_of(problem)
        how = f"{size.groups} groups" if problem.partition == "group" else ""
        clients = how or f"{size.groups}, {problem.partition}"
        number = f"{problem.l2:.0e}".replace("e-0", "e-")
        data = source if "(" in source else f"`{source}`"
        cells = [f"{size.rows:,}", f"{size.parameters:,}", number]
        rows.append([problem.name, problem.model, clients, data, *cells])
    head = ["problem", "model", "clients", "data", "training rows", "parameters", "penalty"]
    return lines(head, rows, 4)


TABLES = {
    "headline": headline,
    "problems": problems,
    "counts": counts,
    "10": lambda: results("0.1"),
    "30": lambda: results("0.3"),
    "all": lambda: results("1.0"),
    "machines": machines,
    "medians": medians,
    "lost": lambda: lost(8),
    "lost-tuned": lambda: lost(8, tuned=True),
    "lost-64": lambda: lost(64),
    "mnist": mnist,
}
PAGES = {PAGE: [name for name in TABLES if name != "headline"],
         DOCS.parent / "README.md": ["headline"], DOCS / "index.md": ["headline"]}  # fmt: skip


def filled(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    for name in PAGES[path]:
        slot = re.compile(SLOT.format(name))
        if len(slot.findall(text)) != 1:
            sys.exit(f"{path.name} must have the place of the table {name} once")
        table = TABLES[name]()
        text = slot.sub(lambda m, table=table: f"{m[1]}\n{table}\n\n{m[2]}", text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it differs")
    check = parser.parse_args().check
    for path in PAGES:
        new = filled(path)
        if check and new != path.read_text(encoding="utf-8"):
            sys.exit(f"{path.name} has other tables than `python tools/race_tables.py` writes")
        if not check:
            path.write_text(new, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
