"""The words of a refusal by which a coordinator knows its kind.

A refusal on the wire is a sentence and no code. So these words are the same in all versions: a
coordinator looks for them in what a site says, and a site that is older or newer says them too.
"""

import re
from collections.abc import Mapping

from ._asker import Asker

WAITS = "waits for approval by its administrator"
LOOKING = "looks again for its data file"  # no person has to decide
READING = "reads its policy again"  # the same
RULED = "refused by the rules of this site"
NOT_ALLOWED = "its policy does not allow"
DENIED = "a person at this site denied"  # which stays at the site
IN_STUDY = " in study "  # after it: another study than the one that asks now

_ABOUT = re.compile(r"who has to decide about (.+?)\. The command")
SEE_LOG = "the file site.log at the site says why"

_LACKS = re.compile(r"(?:^|: )(?:there is no|the site's data have no) column ('[^']+')")

# the whole sentences
REFUSED = f"the request was {RULED} or by a person there, and the site does not tell others why"
PAUSED = (
    f"this site is paused and {WAITS}, who has to end the pause. The command at the site is: "
    "feddcd federation pause SITE_DIR --end"
)

LOOKS = (
    f"this site does not find its data file. This site {LOOKING} for a minute, and the "
    "coordinator asks again"
)


READS = (
    f"this site cannot use its policy. This site {READING} for a minute, and the coordinator asks "
    "again"
)


def decides(reason: str) -> str:
    """What a person at the site has to decide about; nothing where it is another wait."""
    found = _ABOUT.search(reason)
    return found[1] if found else ""


def is_waiting(reason: str) -> bool:
    """Whether it is no refusal: the coordinator asks again."""
    return any(words in reason for words in (WAITS, LOOKING, READING))


def kind_of(reason: str) -> str:
    """Of a refusal: "rules" where a rule or a person refused, which sound the same; "policy" where
    the site says which setting does not allow it; "other" where something is broken."""
    if RULED in reason:
        return "rules"
    return "policy" if NOT_ALLOWED in reason else "other"


def lacking(reason: str) -> str:
    """The name of the column that a site does not have, as its refusal says it; else nothing."""
    found = _LACKS.search(reason)
    return found[1] if found else ""


def lacked_by(refused: Mapping[str, str]) -> str:
    """The column that each of several sites lacks: perhaps its name is wrong in the job."""
    names = {lacking(reason) for reason in refused.values()}
    return names.pop() if len(refused) > 1 and len(names) == 1 else ""


def in_short(site: str, reason: str) -> str:
    """What a coordinator knows of a refusal, for a line beside others."""
    if RULED in reason:
        return "refused by the rules of this site or by a person there"
    return reason.removeprefix(f"{site}: ").partition("; ")[0]


def denial(what: str, study: str, asked: Asker) -> str:
    """Why a site refuses what a person denied, be it in another `study` than the one that asks."""
    other = asked.bound and study not in ("", asked.study)
    return f"{DENIED} {what}{IN_STUDY}{study!r}" if other else f"{DENIED} {what}"


def waits(what: str) -> str:
    told = f"this site {WAITS}, who has to decide about {what}"
    return f"{told}. The command at the site is: feddcd federation approve SITE_DIR"
