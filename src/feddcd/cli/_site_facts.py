"""The lines of `feddcd federation status` about a site."""

from collections.abc import Mapping
from typing import Any

from .._text import plural, sentence_list

LONG = 60  # letters of a reason: a longer one stands once in the output
COMPLETE = (
    "complete, if the person at the coordinator has read the last three of these words to you"
)
NO_LIST = (
    "no sites yet. This is normal before the first study: the coordinator makes the list of sites "
    "(roster) when the study begins"
)
SEE = "see the line 'last refusal'"


def site_facts(held: Mapping[str, Any]) -> list[tuple[str, str]]:
    down = ", because the program of this site does not run" if held["state"] == "down" else ""
    link = held["state"] + (f" since {held['since']}" if held["since"] else down)
    facts = [("site", held["site"]), ("coordinator", held["coordinator"]), ("link", link)]
    facts += [("why", held["why"])] if held["why"] else []
    if heard := held["enrolment_words"]:
        facts += [("enrolment", f"{COMPLETE}: {heard}")]
    facts += [("waits for the data", held["looks"])] if held["looks"] else []
    facts += [("problem", t["what"]) for t in held["problems"]]
    facts += [("warning", f"{t['what']}; to change this: {t['todo']}") for t in held["warnings"]]
    facts += [(held["how_left"], line) for line in held["left_federation"][:1]]
    facts += [("left this site", plural(held["left"], "answer"))]
    facts += [("refused", plural(held["refused"], "question"))]
    facts += [("last refusal", held["last_refusal"])] if held["last_refusal"] else []
    facts += [("approved later", held["approved_later"])] if held["approved_later"] else []
    facts += [("waits for you", "; ".join(held["asked"]) or "nothing")]
    facts += [("denied", line) for line in held["denied"]]
    facts += [
        (f"study {e['study']}", f"{_shortened(e['how'], held)} ({e['time']})")
        for e in held["ended"]
    ]
    summed = "earlier masked sums with" if held["left_federation"] else "masked sums with"
    facts += [(summed, _summed_with(held))]
    return facts + ([("results", ", ".join(held["results"]))] if held["results"] else [])


def last_lines(held: Mapping[str, Any]) -> list[str]:
    """Of the log."""
    return [_shortened(line, held) for line in held["last"]]


def _shortened(text: str, held: Mapping[str, Any]) -> str:
    """Without the reason that the line on the last refusal has."""
    why = held["last_reason"]
    if len(why) < LONG:
        return text
    if text == held["last_refusal"]:
        return f"{text.partition('REFUSED')[0]}REFUSED  {SEE}"
    return text.replace(f": {why}", f" ({SEE})")


def _summed_with(held: Mapping[str, Any]) -> str:
    others = [name for name in held["summed_with"] if name != held["site"]]
    if not others:
        return "no sites" if held["left_federation"] else NO_LIST
    return f"{sentence_list(others)} (the roster words of this list of sites: {held['roster']})"
