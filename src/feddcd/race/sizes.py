"""How large the problems of the race are, and where their data come from: known before any data are
loaded."""

from typing import NamedTuple

from ..data.known import KNOWN
from .problems import RaceProblem


class Size(NamedTuple):
    """`groups`: the clients of a data set that has groups of its own."""

    rows: int  # for training
    parameters: int
    groups: int = 0


SIZES = {  # by data set; with each of them goes one model
    "phishing": Size(11_055, 68),
    "a9a": Size(32_561, 123),
    "breast-cancer": Size(455, 30),
    "digits": Size(1_437, 640),
    "mnist": Size(60_000, 7_800),
    "wine": Size(142, 39),
    "rcv1-subset": Size(20_242, 47_236),
    "synthetic-iid": Size(2_000, 60, 20),
    "synthetic-heterogeneous": Size(2_000, 60, 20),
    "natural:covid": Size(15_162, 5, 53),
    "natural:hsb82": Size(7_185, 5, 160),
    "natural:randhie": Size(20_190, 10, 6),
    "natural:azpro": Size(3_589, 5, 17),
    "natural:medpar": Size(1_495, 7, 54),
    "natural:indo": Size(602, 10, 4),
    "natural:chem97": Size(31_022, 4, 131),
}


def size_of(problem: RaceProblem) -> Size:
    """Of a problem of the race, with all its clients as groups."""
    size = SIZES[problem.data]
    return size if problem.clients is None else size._replace(groups=problem.clients)


def source_of(problem: RaceProblem) -> str:
    """What brings its data: an extra, a command, or nothing."""
    if problem.data.startswith("natural:"):
        return "feddcd[race]"
    if (known := KNOWN.get(problem.data)) is None:
        return "feddcd[train]"
    if known.train.address is None:
        return f"{known.name} (no download)"
    return f"feddcd data fetch {known.name}"
