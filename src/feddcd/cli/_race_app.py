"""`feddcd race`: its options."""

from pathlib import Path
from typing import Annotated

import typer

from ._habits import found
from ._terminal import Quiet, option


def race(
    problem: Annotated[
        list[str] | None,
        option("Run this problem. Repeat the option for more problems. Default: all problems."),
    ] = None,
    problem_file: Annotated[
        list[Path] | None, option("Run your own problem, which this TOML file describes.")
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        option(
            "Run this method. Repeat --algorithm for each method. Default: all methods of feddcd "
            "except feddualavg, fedprox, mbsgd and mime."
        ),
    ] = None,
    algorithm_file: Annotated[
        list[Path] | None,
        option("Run your own method, which is in this Python file. feddcd runs the file's code."),
    ] = None,
    share: Annotated[
        list[float] | None,
        option(
            "The share of the clients that take part in a round: above 0, at most 1. Repeat "
            "--share for each share. Default: 0.1, 0.3 and 1."
        ),
    ] = None,
    bits: Annotated[
        list[int] | None,
        option(
            "Send each number with 8, 16, 32 or 64 bits. Repeat --bits for each number of bits. "
            "Default: 64 and 8."
        ),
    ] = None,
    seeds: Annotated[
        int, option("The number of runs of each method. The race shows the medians of the runs.")
    ] = 5,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Run each method a second time, with the best settings that a grid search found.",
        ),
    ] = False,
    gap: Annotated[
        float,
        option(
            "Figures and tables compare the methods at this gap (the objective minus the best "
            "possible objective)."
        ),
    ] = 1e-6,
    limit: Annotated[
        float,
        option(
            "After every 20 rounds, stop each run whose clients have sent at least this many times "
            "the bytes of one model (64 bits for each number)."
        ),
    ] = 8000,
    behind: Annotated[
        float | None,
        option(
            "Run the method of the first --algorithm (default: FedQN) first. After every 20 "
            "rounds, stop each run of any other method whose clients have sent at least this many "
            "times the bytes with which the first method reached the gap."
        ),
    ] = None,
    jobs: Annotated[int, option("Run this number of processes at the same time.")] = 1,
    out: Annotated[
        Path,
        option(
            "Write the results into this folder. If this folder contains a stopped race, continue "
            "the race. The folder keeps all finished runs; the files of results have only the runs "
            "of the last command."
        ),
    ] = Path("race"),
    quiet: Quiet = False,
) -> None:
    """Compare methods on many problems, in bytes and in rounds. If a race was stopped, the same
    command continues it.

    Example: feddcd race --problem cancer-dirichlet-2 --algorithm pointsaga --algorithm fedavg
    """
    from ..race.cells import BITS, SHARES
    from ._race import RaceWishes, race_command

    wish = RaceWishes(
        problem or [], problem_file or [], algorithm or [], share or list(SHARES),
        bits or list(BITS), seeds, tune, gap, limit, jobs, behind, algorithm_file or [],
    )  # fmt: skip
    race_command(wish, out, quiet)
    found(folder=out, files=sorted(path.name for path in out.glob("*.*")))
