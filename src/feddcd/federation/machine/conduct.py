"""The coordinator: `python -m feddcd.federation.machine.conduct FOLDER RUN ROUNDS MODE STUDY`."""

import sys
from pathlib import Path

from ..coordinator.coordinator import coordinate
from ..folder import FederationFolder
from ._inner import inside
from ._lifeline import end_with_starter


def main() -> None:
    end_with_starter()
    folder, run, rounds = FederationFolder(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    mode, study = sys.argv[4:6]
    settings = {"folder": str(folder.path), "rounds": rounds, "mode": mode, "study": study}
    inside(folder).conduct(run, lambda exchange: coordinate(exchange, settings))


if __name__ == "__main__":
    main()
