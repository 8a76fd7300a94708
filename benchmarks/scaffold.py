"""Bytes of SCAFFOLD with full local gradients and with its default solver, beside FedQN.

    python benchmarks/scaffold.py

The bytes that clients send until gaps of 1e-3 and 1e-6, in 8 bits a number: medians of three seeds,
as `feddcd race` counts them. inf: the limit of 300 models was not enough. A minute on two cores.
"""

from dataclasses import replace

import numpy as np

from feddcd.race._play import play
from feddcd.race.cells import RaceCell
from feddcd.race.problems import PROBLEMS

NAMES, SHARES, SEEDS, LIMIT = ("cancer-dirichlet-2", "wine-iid-2"), (0.3, 1.0), (1, 2, 3), 300
RUNS = {
    "fedqn": ("fedqn", ()),
    "scaffold, gd": ("scaffold", (("solver", "gd"),)),
    "scaffold, sgd": ("scaffold", ()),
}


def main() -> None:
    for problem in PROBLEMS:
        for share in SHARES if problem.name in NAMES else ():
            for label, (method, settings) in RUNS.items():
                first = RaceCell(problem, share, method, 8, settings, limit=LIMIT)
                ran = [play(replace(first, seed=k)) for k in SEEDS]
                found = [np.median([one.to(gap) for one in ran]) for gap in (1e-3, 1e-6)]
                print(f"{problem.name:20}{share:5.0%}  {label:15}", *(f"{x:10,.0f}" for x in found))


if __name__ == "__main__":
    main()
