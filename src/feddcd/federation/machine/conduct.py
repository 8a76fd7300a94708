"""The coordinator's program: `python -m feddcd.federation.machine.conduct FOLDER RUN ROUNDS`, and
the mode where one was given."""

import sys
from pathlib import Path

from ..coordinator.coordinator import coordinate
from ..folder import FederationFolder
from ._inner import inside


def main() -> None:
    folder, run, rounds = FederationFolder(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    settings = {"folder": str(folder.path), "rounds": rounds, "mode": "".join(sys.argv[4:5])}
    inside(folder).conduct(run, lambda exchange: coordinate(exchange, settings))


if __name__ == "__main__":
    main()
