"""The paper's whole grid, timed: cells only, neither tables nor pictures.

    python benchmarks/paper.py [--variant authors] [--seeds 10] [--processes K] [--out DIR]

Prints when each cell begins, in seconds after the start, compilation and reading included. On an
accelerator several processes share the work (--processes 1: only one).
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import jax

from feddcd.paper.cells import PAPER_PROBLEMS, grid
from feddcd.paper.grid import run_grid

# this process computes nothing on an accelerator if others do, and must leave them its memory
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

PARTS = ["figure1", "table2", "figure3"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="authors")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parts", nargs="+", default=PARTS)
    parser.add_argument("--problems", nargs="+", default=list(PAPER_PROBLEMS))
    parser.add_argument("--processes", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cells = grid(options.parts, options.problems, options.variant, options.seeds)
    with tempfile.TemporaryDirectory() as scratch:
        folder = scratch if options.out is None else options.out
        print(f"{len(cells)} cells, {options.seeds} seeds, on {jax.devices()[0].device_kind}")
        began, seen = time.perf_counter(), set()

        def watch(step) -> None:
            if step.cell.id not in seen:
                print(f"{time.perf_counter() - began:7.1f} s  {step.cell.id}", flush=True)
                seen.add(step.cell.id)

        run_grid(cells, Path(folder), watch, options.processes)
        print(f"{time.perf_counter() - began:7.1f} s  in all")


if __name__ == "__main__":
    main()
