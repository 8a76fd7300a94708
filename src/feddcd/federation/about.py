"""What a study is called and what it is for, and how it ended: words beside what is signed.

A coordinator writes them, and nobody can check them. So a site takes names that are names, a
purpose of bounded length, and for an end one of a few codes, which it puts into its own words.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .._errors import SpecError
from .._text import printable, sentence_list
from .site.told import DENIED, IN_STUDY, NOT_ALLOWED, lacking

MOST_LETTERS = 300  # of a purpose
MOST_SITES = 200  # that an end names
ALONE = "federation"  # the name of what federation.toml itself asks for
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ENDS = {  # by code; a site says no more, as a reason in words could ask about rows
    "done": "ended. The study has a result, but without the rows of this site",
    "part": "ended with a result",  # as a site says it that took part
    "refused": "ended without a result",
    "late": "ended without a result: the coordinator waited too long{of}",
    "sums": "ended without a result: no result can be computed from the answers of the sites",
    "left": "ended without a result: the coordinator took {sites} out of the federation",
    "stopped": "ended without a result: the coordinator stopped",
    "cancelled": "ended without a result: the coordinator cancelled the study",
    "gone": "ended for this site, because this site left the federation",  # as such a site says it
}
CANCELLED_WORDS = "a person at the coordinator cancelled the study"  # as a coordinator says it
OWN = ("part", "gone")  # which no coordinator says
REFUSALS = {  # by code; a person who denies and a rule that refuses sound the same
    "rules": "a rule or a person at {sites} refused the job",
    "policy": "the policy of {sites} does not allow the job",
    "other": "{sites} could not answer; the log at {sites} has the exact reason",
}

THEN = {  # by code: what can come next
    "late": "the coordinator can start the study again",
    "left": "the coordinator can start the study again if enough sites remain",
}
MENDED = "After you have solved this problem, the coordinator can start the study again"
REDECIDED = (
    "If a person at this site approves the request later, the coordinator can then start the study "
    "again"
)
ONE_STUDY = (
    "If a person at this site approves that request later, the coordinator can then start this "
    "study again. An approval is valid only for one study: so this site then asks a person about "
    "this study, too"
)
CHANGED = (
    "As long as nothing changes, this site refuses this job again. Tell the person at the "
    "coordinator what to change in the job; or, if the people at this site agree, change "
    "policy.toml. Then the coordinator can start the study again"
)
NO_COLUMN = (
    "If the name of the column is wrong, only the person at the coordinator can correct it, in the "
    "job file. If your data lack this column, add it. Then the coordinator can start the study "
    "again"
)


class About(NamedTuple):
    """`study` is empty where a message names none."""

    study: str = ""
    purpose: str = ""

    def meta(self) -> dict[str, Any]:
        return {"about": {name: text for name, text in self._asdict().items() if text}}


class StudyEnd(NamedTuple):
    """`sites` are those because of which it ended, with the code of a refusal or nothing."""

    study: str
    why: str
    sites: dict[str, str]

    def words(self, reason: str = "", own: str = "") -> str:
        """`own` is the site that reads this, and `reason` its own, where it ended the study."""
        if reason:
            denied = reason.startswith(DENIED)
            because = f"because {reason}" if denied else f"because this site refused: {reason}"
            told = f"ended without a result, {because}"
            others = self._refusals([name for name in sorted(self.sites) if name != own], own)
            told += f". Also, {others}" if own and others else ""
            return f"{told}. {_after(reason)}"
        names = sorted(self.sites)
        of = f" for {_called(names, own)}" if names else ""
        text = ENDS[self.why].format(of=of, sites=_called(names, own) if names else "a site")
        if refusals := self._refusals(names, own):
            text += f"{';' if ':' in text else ':'} {refusals}"
        return f"{text}; {THEN.get(self.why, 'you do not have to decide anything')}"

    def _refusals(self, names: list[str], own: str) -> str:
        told = []
        for code, words in REFUSALS.items():
            if found := [name for name in names if self.sites[name] == code]:
                told.append(words.format(sites=_called(found, own)))
        return "; ".join(told)


def is_ruled(reason: str) -> bool:
    """Whether a rule on rows refused, by the words of a site's own log."""
    return reason.startswith("the rule ")


def _after(reason: str) -> str:
    if reason.startswith(DENIED):
        return ONE_STUDY if IN_STUDY in reason else REDECIDED
    if lacking(reason):
        return NO_COLUMN
    return CHANGED if is_ruled(reason) or NOT_ALLOWED in reason else MENDED


def _called(sites: list[str], own: str) -> str:
    """this site and the sites 'a', 'b' and 'c'"""
    others = [repr(name) for name in sites if name != own]
    named = f"the site{'s' * (len(others) > 1)} {sentence_list(others)}" if others else ""
    return " and ".join(filter(None, ("this site" if own in sites else "", named)))


def in_study(text: str) -> tuple[str, str]:
    """The study and the id of a job as a person names it: ID, or STUDY/ID where several studies
    have the same job."""
    study, _, id = text.rpartition("/")
    return study, id


def check_purpose(text: Any) -> str:
    """Of the coordinator's own file."""
    if not isinstance(text, str) or len(text) > MOST_LETTERS or not printable(text) == text:
        raise SpecError(
            f"the purpose of a study must be one line of at most {MOST_LETTERS} characters"
        )
    return text.strip()


def take_about(meta: dict[str, Any]) -> About:
    """Out of a message. What is no name is none, and a long purpose is cut."""
    given = meta.pop("about", None)
    given = given if isinstance(given, Mapping) else {}
    study, purpose = given.get("study"), given.get("purpose")
    known = isinstance(study, str) and NAME.fullmatch(study) is not None
    text = printable(purpose[:MOST_LETTERS]) if isinstance(purpose, str) else ""
    return About(str(study) if known else "", text[: 2 * MOST_LETTERS])


def read_ended(values: Any) -> StudyEnd | None:
    """None for what is no such message."""
    if not isinstance(values, Mapping) or set(values) != set(StudyEnd._fields):
        return None
    study, why, sites = (values[name] for name in StudyEnd._fields)
    if not isinstance(study, str) or not NAME.fullmatch(study) or why not in [*ENDS]:
        return None
    if not isinstance(sites, Mapping) or len(sites) > MOST_SITES:
        return None
    for name, code in sites.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or code not in ["", *REFUSALS]:
            return None
    return StudyEnd(study, why, dict(sites))
