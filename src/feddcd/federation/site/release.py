"""The way out of a site: its policy, a person where one is to be asked, and its log."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..._errors import Refused
from ..._files import Disk
from .disclosure import Outgoing, confirm, hold, record
from .log import append
from .policy import FILE, Policy, load_policy


class Release(NamedTuple):
    """The way out of a site: its folder, its name, and who is asked, if anyone is there."""

    folder: Path
    client: str
    ask: Callable[[str], str] | None = None
    disk: Disk = Disk()

    def check(self, outgoing: Outgoing, question: bytes) -> Policy:
        """The rules alone, for before the work; arrays may be missing still."""
        self.folder.mkdir(parents=True, exist_ok=True)
        policy = load_policy(self.folder / FILE)
        self._guard(lambda: policy.check(outgoing), outgoing, question)
        return policy

    def release(self, answer: bytes, outgoing: Outgoing, question: bytes) -> bytes:
        """The answer, once the rules and a person allow it and the log has it.

        With `ask` a person is asked; without, what has to be asked for waits in the folder.
        """
        policy = self.check(outgoing, question)
        if self.ask is not None:
            self._guard(partial(confirm, outgoing, self.ask), outgoing, question)
        elif policy.ask_before_sending:
            wait = partial(hold, self.folder, outgoing, question, self.disk)
            self._guard(wait, outgoing, question)
        # logged before it leaves: a crash in between leaves a line too many, never one too few
        content = {"bytes": len(answer), "sha256": hashlib.sha256(answer).hexdigest()}
        append(self.folder, record(outgoing, question) | content, self.disk)
        return answer

    def _guard(self, act: Callable[[], None], outgoing: Outgoing, question: bytes) -> None:
        """A refusal leaves too, so the log has it first."""
        try:
            act()
        except Refused as reason:
            line = record(outgoing._replace(classes={}, levels={}, arrays={}), question)
            append(self.folder, line | {"refused": str(reason)}, self.disk)
            raise Refused(f"{self.client}: {reason}") from None
