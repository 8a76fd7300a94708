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
    algorithm: Annotated[list[str] | None, option("The name of a method; repeat for each.")] = None,
    share: Annotated[
        list[float] | None, option("Share of the clients in a round; repeat for each.")
    ] = None,
    bits: Annotated[
        list[int] | None, option("Bits for each number: 64 or 8; repeat for each.")
    ] = None,
    seeds: Annotated[int, option("Number of runs of each method. The medians are shown.")] = 5,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Run each method also with its best settings from a grid."),
    ] = False,
    gap: Annotated[
        float, option("The gap at which figures and tables compare the methods.")
    ] = 1e-6,
    limit: Annotated[
        float, option("Stop a run after it has sent this number of models (of 64-bit numbers).")
    ] = 8000,
    behind: Annotated[
        float | None,
        option("Stop a run after this multiple of the bytes that the first method needed."),
    ] = None,
    jobs: Annotated[int, option("Processes at once.")] = 1,
    out: Annotated[Path, option("The folder to write, or to continue.")] = Path("race"),
    quiet: Quiet = False,
) -> None:
    """Race methods over many problems, in bytes and in rounds. Continues where it stopped.

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
