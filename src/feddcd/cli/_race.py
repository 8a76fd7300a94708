"""What `feddcd race` does."""

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from .._errors import SpecError
from .._origin import origin
from .._text import NONE, count, plural, printable, sentence_list, tiny, whole_percent
from ..algorithms.catalogue import get_method
from ..race.cells import CHUNK, METHODS, RaceCell, cells, left_out
from ..race.grid import behind, finished, jobs, run_race
from ..race.methods import add_methods
from ..race.missed import missed, nobody_ran
from ..race.page import write_csv, write_race
from ..race.problems import check_tables, choose
from ..race.profile import Place, Results, costs, gather, model_sizes
from ..race.standing import Standing, standings
from ..report import methods
from ..report.tables import terminal_table
from ..runs.interrupt import Interrupted
from ._given import check_apart
from ._programs import keep_programs
from ._terminal import bars, console, say, warn

MOST_SHOWN = 5
RANKS = (
    "a case: one problem with one share of clients that take part in each round, for example 30 %",
    "fewest bytes up: the share of the cases in which the clients send the fewest bytes with this "
    "method",
    "at most twice: the share of the cases in which the clients send at most twice the bytes of "
    "the best method",
    "fewest up + down: the share of the cases in which clients and server together send the "
    "fewest bytes with this method",
)  # below the first table
FULL_GRADIENTS = (
    "SCAFFOLD runs with the local solver gd, which uses full gradients. With mini-batches, "
    "SCAFFOLD does not reach the optimum."
)


class RaceWishes(NamedTuple):
    """What was asked for; empty lists mean all."""

    problems: list[str]
    files: list[Path]
    methods: list[str]
    shares: list[float]
    bits: list[int]
    seeds: int
    tune: bool
    target: float
    limit: float
    processes: int
    behind: float | None = None
    method_files: Sequence[Path] = ()


def race_command(wish: RaceWishes, out: Path, quiet: bool) -> None:
    if not wish.target > 0:
        raise SpecError(f"--gap must be above 0, got {wish.target:g}")
    if wish.behind is not None and not wish.behind > 1:
        raise SpecError(f"--behind must be a factor above 1, got {wish.behind:g}")
    if wish.processes < 1:
        raise SpecError(f"--jobs must be at least 1, got {wish.processes}")
    if out.exists() and not out.is_dir():
        raise SpecError(f"--out must name a folder, but {out} is a file; give another --out")
    _check_shares(wish.shares)
    check_apart(wish.methods)
    own = add_methods(wish.method_files)
    wish = wish._replace(methods=[*dict.fromkeys([*wish.methods, *own])])
    chosen, runners = choose(wish.problems, wish.files), wish.methods or METHODS
    todo = list(cells(chosen, runners, wish.shares, wish.bits, wish.seeds, wish.limit))
    missing = left_out(runners, wish.shares)
    if not todo:
        raise SpecError(f"this race has no runs: {'; '.join(missing)}")
    check_tables(chosen)
    if own:
        from ..race.trial import try_methods  # with JAX, only where it is needed

        try_methods(own, chosen[0].model)
    say(f"{_size(wish, len(chosen), todo)}. The folder of the results: {out}")
    if wish.behind is None and (done := _done(out, todo)):
        say(f"{_finished(done, len(todo))} already; feddcd does not run finished runs again")
    if others := _of_others(out, todo):
        warn(
            f"{out / 'race.csv'} and the other files of results in this folder also contain runs "
            f"of: {sentence_list(others)}. This command writes these files again, with only the "
            "runs of this command. The results of all finished runs stay in the folder "
            f"{out / 'cells'}. To get files with all runs, name the problems and methods of all "
            "runs in one command. feddcd does not run finished runs again"
        )
    (out / "cells").mkdir(parents=True, exist_ok=True)
    keep_programs(out / "programs")
    try:
        todo, lacking = _run(wish, out, todo, runners[0], quiet)
    except Interrupted:
        _say_how_to_continue(out, todo, gather(out, todo, tuned=False))
        sys.exit(130)
    missing += lacking
    for reason in missing:
        warn(f"left out: {reason}", grave=True)
    results = gather(out, todo, tuned=wish.tune)
    if not results:
        raise SpecError("no problem could be run")
    few = len({place for place, _ in results}) <= MOST_SHOWN
    reasons = missed(results, wish.target, wish.limit)
    if nobody_ran(results):
        raise SpecError(f"this race has no results. {'; '.join(reasons)}")
    notes = _notes(wish, missing, runners) + reasons * few
    paths = write_race(out, results, target=wish.target, notes=notes, problems=chosen)
    if not quiet:
        alone = few and len({place.problem for place, _ in results}) == 1
        if not alone and (table := _table(results, wish.target)) is not None:
            console.print(table)
        if few:
            console.print(_bytes(results, wish.target))
        for reason in reasons:
            say(reason)
    for path in paths:
        say(str(path))


def _check_shares(shares: Sequence[float]) -> None:
    for share in shares:
        if not 0 < share <= 1:
            percent = f"; for {share:g} %, give {share / 100:g}" if 1 < share <= 100 else ""
            raise SpecError(f"--share must be above 0 and at most 1, got {share:g}{percent}")


def _size(wish: RaceWishes, problems: int, todo: Sequence[RaceCell]) -> str:
    found = list(dict.fromkeys(cell.method for cell in todo))
    whole = [methods.title(name) for name in found if get_method(name).needs_everyone]
    sizes = (
        plural(problems, "problem"), plural(len(found), "method"),
        plural(len(wish.shares), "share of the clients", "shares of the clients"),
        plural(len(wish.bits), "number of bits", "numbers of bits"), plural(wish.seeds, "seed"),
    )  # fmt: skip
    told = f"{plural(len(todo), 'run')}: {sentence_list(sizes)}{', and tuning' * wish.tune}"
    if not whole or min(wish.shares) == 1:
        return told
    return f"{told}; with less than 100 % of the clients, {sentence_list(whole)} cannot run"


def _run(
    wish: RaceWishes, out: Path, todo: list[RaceCell], leader: str, quiet: bool
) -> tuple[list[RaceCell], list[str]]:
    """The cells as they were run, and why some were not."""
    missing: list[str] = []
    leads = lambda cell: wish.behind is None or cell.method == leader
    with bars("{task.description}", quiet=quiet) as shown:
        line = shown.add_task("starting", total=len(todo))

        done = 0

        def play(cells: list[RaceCell]) -> list[str]:
            before = done

            def watch(runs: int, name: str) -> None:
                nonlocal done
                done = before + runs
                told = f"{_finished(done, len(todo))}; the last: {name}"
                shown.update(line, description=told, completed=done)

            found = jobs(out, cells, wish.tune)
            return run_race(found, wish.processes, watch, wish.method_files)

        first = [cell for cell in todo if leads(cell)]
        missing += play(first)
        if wish.behind is not None:
            todo = behind(out, todo, leader, wish.behind, wish.target)
            missing += play([cell for cell in todo if not leads(cell)])
    return todo, sorted(set(missing))


def _finished(done: int, of: int) -> str:
    return f"{done} of {plural(of, 'run')} {'is' if done == 1 else 'are'} finished"


def _done(out: Path, todo: list[RaceCell]) -> int:
    return sum(finished(out, cell) is not None for cell in todo)


def _of_others(out: Path, todo: list[RaceCell]) -> list[str]:
    """What the results in the folder have and this race does not: problems and methods."""
    try:
        with open(out / "race.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        there = {(r["problem"], float(r["share"]), r["method"], int(r["bits"])) for r in rows}
    except (OSError, ValueError, KeyError):  # nothing, or no such file
        return []
    more = there - {(c.problem.name, c.share, c.method, c.bits) for c in todo}
    places: dict[str, list[str]] = {}
    for problem, _, method, _ in sorted(more):
        places.setdefault(problem, []).append(method)
    told = [f"{problem} ({', '.join(dict.fromkeys(who))})" for problem, who in places.items()]
    return told if len(told) <= MOST_SHOWN else [*told[:3], plural(len(told) - 3, "more problem")]


def _say_how_to_continue(out: Path, todo: list[RaceCell], results: Results) -> None:
    done = _finished(_done(out, todo), len(todo))
    say(f"stopped; {done} and saved in the folder {out / 'cells'}")
    if results:
        say(f"the finished runs are also in {write_csv(out / 'race.csv', results)}")
    say(f"to continue, use the same command again: {origin().command}")


def _notes(wish: RaceWishes, missing: list[str], runners: Sequence[str]) -> list[str]:
    notes = [f"Left out: {reason}" for reason in missing]
    if "scaffold" in runners:
        notes.append(FULL_GRADIENTS)
    if wish.behind is not None:
        leader = methods.title(runners[0])
        notes.append(
            f"feddcd counted the bytes that {leader} needed to reach the gap {tiny(wish.target)}. "
            f"After every {CHUNK} rounds, feddcd stopped each run of any other method whose "
            f"clients had sent at least {wish.behind:g} times these bytes."
        )
    return notes


def _table(results: Results, target: float) -> Table | None:
    """None where no method came to the gap."""
    head = (
        _goal(target),
        "cases",
        "fewest bytes\xa0up",
        "at\xa0most twice",
        "fewest up\xa0+\xa0down",
    )
    groups = [
        (
            f"{whole_percent(found.share)} of the clients, {found.field}",
            [*map(_row, found.rows[:MOST_SHOWN])],
        )
        for found in standings(results, target)
        if found.rows
    ]
    return terminal_table(head, *groups, notes=RANKS) if groups else None


def _goal(target: float) -> str:
    return f"gap\xa0{tiny(target)}"  # in one line


def _bytes(results: Results, target: float) -> Table:
    """The few numbers themselves, of all methods and bits, the fewest bytes first."""
    head = (_goal(target), "bits", "bytes up", "bytes down", "up\xa0+\xa0down", "rounds")
    tables = [costs(results, target, what) for what in ("up", "down", "both", "rounds")]
    groups = []
    for place, row in tables[0].items():
        lines = [
            (
                printable(methods.title(e.method)) + ", tuned" * e.tuned,
                str(e.bits),
                *(count(table[place][e]) if math.isfinite(row[e]) else NONE for table in tables),
            )
            for e in sorted(row, key=lambda e: (row[e], e.method))
        ]
        who = f"{whole_percent(place.share)} of the clients{_in_a_round(results, place)}"
        groups.append((f"{printable(place.problem)}, {who}", lines))
    return terminal_table(head, *groups, notes=_models(results))


def _models(results: Results) -> list[str]:
    """report.html counts in models, this terminal in bytes."""
    sizes = {place.problem: size for place, size in model_sizes(results).items() if size}
    told = [f"{count(8 * n)} bytes ({printable(problem)})" for problem, n in sorted(sizes.items())]
    note = f"the tables in report.html count in models; one model has {sentence_list(told)}"
    return [note] * bool(told)


def _in_a_round(results: Results, place: Place) -> str:
    """How many clients this is: a share of them is rounded."""
    runs = [one for (where, _), outcomes in results.items() if where == place for one in outcomes]
    known = next((run for run in runs if run.clients), None)
    return f" ({known.tau} of {known.clients} in a round)" if known else ""


def _row(row: Standing) -> tuple[str, ...]:
    title = printable(methods.title(row.entry.method))
    return title, str(row.places), *map(whole_percent, (row.first, row.within, row.both))
