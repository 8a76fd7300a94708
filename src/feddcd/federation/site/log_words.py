"""The log of a site in plain words, for a person who answers for the data, not for the method."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..._text import listed, plural, sentence_list
from ...analysis.blocks import block_line, numbers_in, told_blocks
from ...sums.roster import FEWEST
from .approval import SHORT

SENT = {  # by kind of answer: what the numbers are
    "counts": "counts of rows by category and by group, and counts of missing values",
    "means": "sums of columns, and sums of their squares",
    "parts": "sums of columns, and counts of rows in ranges of values",
    "values": "sums of columns, counts of rows in ranges, and counts of rows at single values",
    "moments": "sums for a regression model, over all rows of the model",
    "gradient": "sums for a model: one number for each coefficient",
    "hessian": "sums for a model: one number for each pair of coefficients",
    "bins": "counts of rows by prediction",
    "model": "coefficients of a model that was fitted to the rows of this site",
}
ROWS = "the number of rows, how many rows are left out, and which columns have more than one value"
BINS = "; also counts of rows by prediction and by residual, and other numbers"
DIGESTS = (
    "The log has digests of these numbers, and not the numbers. With approve = 'answer' in "
    "policy.toml, a person reads the numbers of each answer before they leave"
)
UNTOLD = "This reason stays at this site."
TOLD = "The coordinator reads only this: {refused}."  # not the details after it
IN_VAIN = "even if you approve, the rules of this site refuse this request"  # to who decides
WOULD_END = "and the job would end"  # to who decides, of a job that was tried
COULD_REFUSE = "the rules could refuse a question after you approve"  # of the same, as a risk
AFTER_DENIAL = "if you deny, there is a risk, because this site answered an earlier job"
TOO_FEW = f"only {FEWEST} sites take part, and a sum needs {FEWEST}"
STILL = "with a new site, or in mode 'each'"  # how a study goes on with so few


def time_of(entry: Mapping[str, Any]) -> str:
    """In UTC, as all times that people read. The log has the time zone of its machine."""
    text = str(entry.get("time", ""))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    aware = time.astimezone(UTC) if time.tzinfo else time
    return aware.strftime("%Y-%m-%d %H:%M:%S UTC" if time.tzinfo else "%Y-%m-%d %H:%M:%S")


def told(entry: Mapping[str, Any]) -> str:
    """A line of the log: a word on what happened, a sentence, and the job and the study; lines of
    earlier versions do not name them."""
    return f"{_told(entry)}{_whose(entry)}"


def _whose(entry: Mapping[str, Any]) -> str:
    job, study = entry.get("of_job") or entry.get("of_question"), entry.get("study")
    names = "of_job" not in entry or entry.get("kind") == "columns"
    what = f"{'question' if names else 'job'} {str(job)[:SHORT]}"
    parts = [what if job else "", f"study '{study}'" if study else ""]
    named = " of ".join(filter(None, parts))
    return f" [{named}]" if named else ""


def _told(entry: Mapping[str, Any]) -> str:
    if "refused" in entry:
        return f"REFUSED  {_refused(entry)}"
    for word, say in _DECISIONS.items():
        if word in entry:
            what = entry.get("what") or "what waited"
            return f"{word.upper():8} {say.format(id=entry[word][:SHORT], what=what)}"
    if "ended" in entry:
        return f"ENDED    study '{entry['ended']}' {entry.get('how', '')}".rstrip()
    if "left" in entry:
        at = f" at {entry['address']}" if entry.get("address") else ""
        return (
            f"{str(entry['left']).upper():<8} this site heard: the coordinator{at} {entry['left']} "
            "this site, and sends no more questions to it"
        )
    if "enrolled" in entry:
        closed = plural(len(entry.get("closed", ())), "question")
        return (
            f"ENROLLED this site enrolled again at the coordinator {entry['enrolled']}, and "
            f"removed {closed} that waited for a decision"
        )
    if "paused" in entry:
        ends = "RESUMED  the pause has ended, and this site answers again"
        return "PAUSED   this site answers nothing" if entry["paused"] else ends
    if "roster" in entry:
        return f"SIGNED   the list of sites with the roster words {entry['roster']}"
    if "result" in entry:
        return f"RECEIVED the result of study '{entry['result']}'"
    if "withdrawal" in entry:
        return (
            f"WITHDRAWAL  {entry['withdrawal']}; feddcd closed {plural(entry['closed'], 'set')} "
            "of rows of earlier jobs. Rule 7 does not compare new jobs with a closed set"
            + (
                ". With --early, feddcd did not check whether enough rows had changed"
                if entry.get("early")
                else ""
            )
        )
    return f"SIGNED   {_signed(entry)}" if "job" in entry else f"LEFT     {_left(entry)}"


_DECISIONS = {
    "waits": "{what} waits until a person at this site decides about the request {id}",
    "approved": "a person at this site approved the request {id}",
    "denied": "a person at this site denied the request {id}",
    "dropped": "{what} ({id}) was removed without a decision, because too many questions waited",
}


def _refused(entry: Mapping[str, Any]) -> str:
    """The reason, and whether others hear it."""
    what = f"a question for {SENT[kind]}" if (kind := entry.get("kind")) in SENT else "a question"
    to = ", by" if "rule" in entry else ":"
    heard = UNTOLD if "rule" in entry else TOLD.format(refused=entry["refused"])
    return f"{what}{to} {reason_of(entry)}" + (f". {heard}" if "why" in entry else "")


def reason_of(entry: Mapping[str, Any]) -> str:
    """Of a refusal, as the site itself knows it."""
    if "rule" in entry:
        who = "a person here" if entry["rule"] == "denied" else f"the rule {entry['rule']!r}"
        return f"{who}: {entry['why']}"
    return ": ".join(str(entry[name]) for name in ("refused", "why") if entry.get(name))


def _signed(entry: Mapping[str, Any]) -> str:
    named = entry.get("name") or entry.get("digest") or entry["job"]
    number, job = entry.get("exchange"), str(named)[:SHORT]
    if "digest" in entry:
        return f"this site takes part in job {job}; it sent a random number and no data"
    again = ", sent again with the same bytes" if "again" in entry else ""
    what = f"answer {number}" if number else "the counts"
    return f"{what} of job {job}: masked, so others can read only the sum over all sites{again}"


def _left(entry: Mapping[str, Any]) -> str:
    columns = list(map(str, entry.get("columns", ())))
    if entry.get("kind") == "columns":
        return _names_left(entry, list(map(str, entry.get("names", columns))))
    counted = "support" in entry.get("arrays", {})  # the first exchange of sums
    what = ROWS if counted else SENT.get(entry.get("kind", ""), f"{entry.get('kind', 'a message')}")
    filled = {name for name, shape in _shapes(entry).items() if numbers_in({name: shape})}
    what += BINS if {"bins", "residuals"} <= filled else ""
    size, rows, sites = numbers_in(_shapes(entry)), entry.get("rows", 0), entry.get("sites", 0)
    about = [f"numbers: {size}"] if size else []
    whole = list(map(str, entry.get("complete", ())))  # of which no number left
    summed = [name for name in columns if name not in whole]
    about += [f"columns: {_named(summed)}"] if summed and not counted else []
    about += [f"needed complete: {_named(whole)}"] if whole and not counted else []
    about += [f"rows: {rows}", *([f"sites in the result: {sites}"] if sites else [])]
    return f"{what} ({'; '.join(about)})"


def _names_left(entry: Mapping[str, Any], names: list[str]) -> str:
    """Of a plan, or of a training, whose lines name no method and which tells the rows, too."""
    what = "the names and types" if entry.get("method") else "the number of rows, and the names"
    told = [f"{what} of {plural(len(names), 'column')}: {_named(names)}"]
    told += [
        f"the levels of {name!r}: {listed(each, 8)}"
        for name, each in entry.get("levels", {}).items()
    ]
    told += [f"the classes: {listed(each, 8)}"] if (each := entry.get("classes")) else []
    return "; ".join(told)


def block_lines(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every block that left in these lines of the log, with its numbers; in the end what the log
    does not have."""
    sizes: dict[str, list[int]] = {}
    for entry in entries:
        if "refused" not in entry and "of_job" in entry:
            for words, size in told_blocks(str(entry.get("method")), _shapes(entry)):
                sizes.setdefault(words, []).append(size)
    if not sizes:
        return []
    lines = [f"  {block_line(words, each)}" for words, each in sizes.items()]
    return ["All numbers that this site sent for this job:", *lines, f"{DIGESTS}."]


def _shapes(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each["shape"] for name, each in entry.get("arrays", {}).items()}


def _named(columns: list[str], most: int = 8) -> str:
    if not columns:
        return "none"
    more = len(columns) - most
    return sentence_list([*columns[:most], f"{more} more"] if more > 0 else columns)
