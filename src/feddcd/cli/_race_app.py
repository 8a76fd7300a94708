"""`feddcd race`: its options."""

from pathlib import Path
from typing import Annotated

import typer

from ._habits import found
from ._terminal import Quiet, option


def race(
    problem: Annotated[
        list[str] | None, option("The name of a problem. Repeat for each. Default: all.")
    ] = None,
    problem_file: Annotated[list[Path] | None, option("Your own problem, in TOML.")] = None,
    algorithm: Annotated[
        list[str] | None, option("The name of a method. Repeat --algorithm for each method.")
    ] = None,
    share: Annotated[
        list[float] | None,
        option("The part of the clients in a round, from 0 to 1. Repeat --share for each part."),
    ] = None,
    bits: Annotated[
        list[int] | None, option("Bits for each number: 64 or 8. Repeat --bits for both.")
    ] = None,
    seeds: Annotated[
        int, option("Number of runs of each method. The race shows the medians of the runs.")
    ] = 5,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Run each method also with its best settings from a grid."),
    ] = False,
    gap: Annotated[
        float, option("The gap at which figures and tables compare the methods.")
    ] = 1e-6,
    limit: Annotated[
        float,
        option(
            "Stop a run when its clients have sent as many bytes as this number of "
            "models (in 64-bit numbers)."
        ),
    ] = 8000,
    behind: Annotated[
        float | None,
        option("Stop a run after this multiple of the bytes that the first method needed."),
    ] = None,
    jobs: Annotated[int, option("Processes at once.")] = 1,
    out: Annotated[Path, option("The folder to write, or to continue.")] = Path("race"),
    quiet: Quiet = False,
) -> None:
    """Compare methods on many problems, in bytes and in rounds. A race that was stopped continues
    where it stopped.

    Example: feddcd race --problem cancer-dirichlet-2 --algorithm pointsaga --algorithm fedavg
    """
    from ..race.cells import BITS, SHARES
    from ._race import RaceWishes, race_command

    wish = RaceWishes(
        problem or [], problem_file or [], algorithm or [], share or list(SHARES),
        bits or list(BITS), seeds, tune, gap, limit, jobs, behind,
    )  # fmt: skip
    race_command(wish, out, quiet)
    found(folder=out, files=sorted(path.name for path in out.glob("*.*")))
