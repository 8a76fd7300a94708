"""The program of a site: `python -m feddcd.federation.machine.serve SITE_DIR`.

Everything that it needs is in the site's folder: nothing secret stands in the list of processes.
"""

import signal
import sys
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from ..._errors import FeddcdError
from ..folder import load_address, load_limits, load_place
from ..site import policy
from ..site.answer import answer, note, refusal
from ._lifeline import end_with_starter
from .keys import load_private
from .link_state import LinkState

# what an answer may import: the second needs JAX, which a site for tables does not load
TABLES, TRAINING = "feddcd.federation.site._tables", "feddcd.federation.site._training"


def main() -> None:
    from ...flower.answering import start_answering
    from ...flower.node import SiteNode

    try:
        folder = Path(sys.argv[1])
        place, (seconds, memory) = load_place(folder), load_limits(folder)
        prepare = partial(_prepare, folder)
        answering = start_answering(partial(answer, place=place), seconds, memory, prepare)
        end_with_starter()  # its thread begins after the fork
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the link hears of it
        refuse = partial(refusal, place)
        authority, key = (folder / "ca.crt").read_bytes(), load_private(folder / "key")
        address = load_address(folder)
        state = LinkState(folder, address)
        noting = partial(note, place)
        SiteNode(address, authority, key, answering, refuse, noting, _say, state.tell).serve()
    except (FeddcdError, OSError) as error:
        _say(f"ERROR: {error}")
        sys.exit(1)


def _prepare(folder: Path) -> None:
    """Imports what an answer may need by the rules of now; what fails here fails in the answer,
    which says so."""
    with suppress(FeddcdError, OSError, ImportError):
        import_module(TABLES)
        if policy.load_policy(folder / policy.FILE).training:
            import_module(TRAINING)


def _say(text: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    main()
