"""The program of the link: `python -m feddcd.federation.machine.gate FOLDER ...`.

Flower's SuperLink behind its two doors, and beside them the desk at which invited sites enrol.
"""

import sys
from pathlib import Path

from ...flower.link import DeskRoute
from ...flower.link import main as serve_link
from ..enrolment.claim import LARGEST, PATH
from ..enrolment.desk import Desk
from ..folder import FederationFolder
from ._lifeline import end_with_starter
from .rivals import Rivals


def main() -> None:
    end_with_starter()
    folder = FederationFolder(Path(sys.argv.pop(1)))
    desk = Desk(folder)
    off = Rivals(folder).held_off
    serve_link(DeskRoute(PATH, desk, LARGEST, known=desk.known, held_off=off))


if __name__ == "__main__":
    main()
