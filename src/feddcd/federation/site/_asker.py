"""For which study, which job and what a message asks, and by whom: for who decides, and the log."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WHOSE = ("study", "of_job", "of_question")  # in a line of the log

VERDICT = "THE RULES OF THIS SITE"  # how a line begins that stands above all others


class Asker(NamedTuple):
    """The first two are the coordinator's words; a purpose is empty where none was given, and None
    where messages do not have it. `question` is that for names of columns, before the job."""

    study: str = ""
    purpose: str | None = None
    address: str = ""
    bound: bool = False  # who agrees does so for this study and purpose alone
    job: str = ""
    question: str = ""
    data: str = ""  # the file of this site that the answer would be made of

    def named(self) -> dict[str, str]:
        return whose(dict(zip(WHOSE, (self.study, self.job, self.question), strict=True)))

    def among(self, shown: Sequence[str]) -> list[str]:
        """After the first line of what is asked, which may have a verdict above it."""
        top = 1 + shown[0].startswith(VERDICT)
        return [*shown[:top], *self.lines(), *shown[top:]]

    def lines(self) -> list[str]:
        """For the person who decides."""
        who = f"  who asks: the coordinator at {self.address}" if self.address else ""
        study = f"  study: {self.study}" if self.study else ""
        told = f"  purpose, as the coordinator writes it (nobody checked it): {self.purpose!r}"
        purpose = told if self.purpose else "  purpose: the coordinator did not write a purpose"
        data = f"  data file: {self.data}" if self.data else ""
        return list(filter(None, (study, who, "" if self.purpose is None else purpose, data)))


NOBODY = Asker()  # where a message does not say


def whose(held: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(held[name]) for name in WHOSE if held.get(name)}
