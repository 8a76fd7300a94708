"""What `feddcd federation ...` does where the federation makes a regression table."""

import shlex
import unicodedata
from pathlib import Path
from typing import Any

from .._errors import DataError, SpecError
from .._files import shown
from .._settings import read_toml
from .._text import sentence_list, spoken, upper
from ..data.codebook import load_codebook, read_codebook
from ..data.conform import read_agreed
from ..data.frames import no_column
from ..federation.enrolment.departed import let_go
from ..federation.enrolment.desk import pending, withdraw
from ..federation.enrolment.invitation import when
from ..federation.folder import FederationFolder
from ..federation.site.told import decides
from ._habits import as_json, found, tables_in, wordy
from ._terminal import note, say, say_lines, warn

UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
)
LACKS = {"without": "refused", "late": "no decision in time", "silent": "no answer in time"}
LINES = {  # by event: what an administrator should know
    "greeting": "the coordinator waits for the sites",
    "here": "{here} of {of} sites are connected; the coordinator waits for {missing}",
    "refused": "refused: {reason}",
    "waiting": "waiting: {reason}",
    "decided": "{site} has decided",
    "looked": "{site} does not wait for its data file any more",
    "read": "{site} does not wait for its policy any more",
    "silent": "{site} does not answer; the coordinator asks again",
    "each": "{reason}",
    "joined": "{site} joined with {rows} rows",
    "died": "the program '{program}' stopped, and feddcd starts it again",
    "two programs": (
        "CAREFUL: {site} is connected, but another program tries to connect with the key of "
        "{site}, too. Perhaps somebody uses a copy of the folder of {site}, or stole the key. Call "
        "the person at {site}. To block this key: feddcd federation retire DIR {site}"
    ),
    "enrolled": "{site} enrolled; call the person at {site}, and then confirm {site}",
    "not enrolled": "the coordinator refused the enrolment of {site} from {host}: {reason}",
    "confirmed": "{site} is confirmed",
    "after crash": "the last `feddcd federation serve` was killed, or the machine stopped. All "
    "programs of the last command have ended, and this command continues their work",
    "not shared": "{site} did not get the table; the coordinator sends this table together with "
    "the next one",
    "study": "study '{study}' begins",
    "study goes on": "study '{study}' continues",
    "continues": "the job continues at exchange {exchange}; the answers of earlier "
    "exchanges are on disk",
    "study done": "study '{study}' has ended with a result",
    "study cancelled": "study '{study}' was cancelled",
    "study failed": "study '{study}' has ended without a result: {reason}",
}


def up_again(folder: FederationFolder) -> str:
    """The command that goes on with a federation, to be pasted into a shell."""
    return f"feddcd federation up {shlex.quote(shown(folder.path))}"


def load_job(path: Path) -> Any:
    """A job file, as `feddcd glm` or `feddcd describe` writes it: the plan of one analysis, under
    the name of its part."""
    from ..analysis.registry import ANALYSES, parts, read_part

    values = read_job(path)
    name = next((name for name in parts() if name in values), next(iter(parts())))
    given = values.get(name)
    try:
        if isinstance(given, dict) and isinstance(given.get("codebook"), str):
            book = load_codebook(path.parent / given["codebook"])  # its content goes to the sites
            plan = read_part(name, {k: v for k, v in given.items() if k != "codebook"})
            return ANALYSES[plan.analysis].with_codebook(plan, book)
        return read_part(name, given)
    except SpecError as error:
        raise error.placed(file=str(path)) from None


def read_job(path: Path) -> dict[str, Any]:
    inside = path / "job.toml"
    if inside.is_file():  # the folder that `feddcd glm` or `feddcd describe` wrote
        raise SpecError(f"'{path}' is a folder; give the job file in it: {inside}")
    return read_toml(path, "; `feddcd glm` writes such a file, job.toml")


def rows_by_site(file: str, group: str | None, codebook: dict[str, Any]) -> dict[str, Any]:
    """The rows of a table by site, under names that folders can have."""
    from ..analysis.files import check_alike

    book = read_codebook(codebook) if codebook else None
    table = read_agreed(file, book, () if group is None else (group,))
    for told in table.notes:
        warn(told)
    if group is None:
        raise SpecError("--group is missing; give the column that names the site of each row")
    if group not in table.frame.columns:
        raise no_column(table, group)
    check_alike(table, group, [], "site")
    sites, labels = {}, {}
    for label, rows in table.frame.groupby(group, sort=True):
        name = _in_ascii(str(label))
        _check_other(group, str(label), name, labels)
        if name != str(label):
            say(f"the site {str(label)!r} gets the name {name!r}")
        labels[name] = str(label)
        sites[name] = rows.drop(columns=group)
    return sites


def _in_ascii(name: str) -> str:
    """As a folder on every machine can be called: Köln is Koeln, Orléans is Orleans."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFC", name).translate(UMLAUTS))
    letters = [c for c in plain if not unicodedata.combining(c)]
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in letters)


def check_columns(plan: Any, data: dict[str, Any], group: str) -> None:
    """Refuses a trial in which no site can take part, as all rows come from one file."""
    from ..analysis.protocol import Misfit
    from ..analysis.registry import ANALYSES

    names = list(next(iter(data.values())).columns)
    try:
        ANALYSES[plan.analysis].columns(plan, names)
    except Misfit as reason:
        told = f"no site can take part in this job: {reason}"
        if repr(group) in str(reason):
            told += (
                f". With --group {group}, feddcd divides the rows by this column, so the sites do "
                f"not have it. Make the job again without this column: {_without(plan, group)}"
            )
        raise DataError(told, column=reason.column) from None


def _without(plan: Any, group: str) -> str:
    """How a job is made without the column of the sites, by the command that writes it."""
    if hasattr(plan, "formula"):
        return (
            f"leave {group!r} out of the formula of `feddcd glm`. If each site needs its own "
            "intercept, add --site-effects fixed"
        )
    if group == getattr(plan, "by", None):
        return (
            f"give `feddcd describe` the option --group {group} in place of --by {group}. To get "
            "the numbers of each site, write by_site = true into the part [describe] of the job "
            "file"
        )
    return f"`feddcd describe` leaves it out if you add the option --group {group}"


def _check_other(group: str, label: str, name: str, labels: dict[str, str]) -> None:
    """Refuses what would be a folder that is there: not all disks tell A from a."""
    for other, whose in labels.items():
        if other.casefold() == name.casefold():
            raise SpecError(
                f"two values of the column {group!r}, {whose!r} and {label!r}, would both give the "
                f"site name {name}; rename one of the two values"
            )


def show_event(event: dict[str, Any]) -> None:
    """An event as a line for a person, if it is one of those."""
    line = LINES.get(event["event"], "").format_map(event)
    if event["event"] == "waiting" and (what := decides(event["reason"])):
        site = event.get("site") or event["reason"].partition(": ")[0]
        line = f"waiting: a person at {site} has to decide about {what}"
    if event["event"] == "waiting" and event.get("until"):
        line += f" (the coordinator waits until {when(event['until'])})"
    if event["event"] == "silent" and event.get("seconds"):
        line = "{site} has not answered for ".format_map(event) + spoken(event["seconds"])
        line += "; the coordinator asks again and again"
    if event["event"] == "decided":
        line = "{site} ended its pause".format_map(event) if event.get("paused") else line
        if not event.get("answered", True):  # why, is the next event
            line = "the coordinator does not wait for people at {site} any more".format_map(event)
        left = event.get("left") or ()
        line += f"; the coordinator waits for people at {sentence_list(left)}" if left else ""
    if event["event"] == "retired":
        how = "expelled" if event["barred"] else "retired"
        line = f"{', '.join(event['sites'])} {how}"
    if event["event"] == "job":
        line = _new_job(event)
    if event["event"] == "exchange":
        line = "exchange {exchange}: {answered} of {asked} sites answered".format_map(event)
        if event["certified_error"] is not None:
            line += f", certified error {upper(event['certified_error'])} standard errors"
    if line:
        (note if as_json() else say)(line)


def _new_job(event: dict[str, Any]) -> str:
    """Of a job that lacks sites: which, and why; events of earlier versions name who refused."""
    gone = {site: why for name, why in LACKS.items() for site in event.get(name, ())}
    if not gone:
        return ""
    told = sentence_list([f"{site} ({why})" for site, why in sorted(gone.items())])
    return (
        f"these sites are not part of this job: {told}. The job without "
        f"{sentence_list(sorted(gone))} is a new job. It uses only the rows of "
        f"{sentence_list(event['sites'])}. If people at these sites have to "
        "approve jobs, they have to approve the new job, too"
    )


def show_table(folder: FederationFolder) -> None:
    """The table of the last run, and whom it lacks."""
    from ..analysis.export import without_joblib
    from ..analysis.registry import ANALYSES

    tables = folder.results / ANALYSES[folder.config().plan.analysis].part
    if not (tables / "summary.txt").exists():
        say(f"there is no table yet; to make it: {up_again(folder)}")
    else:
        say_lines((tables / "summary.txt").read_text("utf-8"))
        found(folder=tables, **dict(tables_in(tables)))
        has_model = (tables / "model.json").exists()
        say(f"{'table, model' if has_model else 'table'} and report: {shown(tables)}")
        if has_model and wordy() and (told := without_joblib(tables)):
            warn(told)
    refusals = []  # of the last run
    for _, event in folder.read_events():
        if event["event"] == "greeting":
            refusals.clear()
        elif event["event"] == "refused":
            refusals.append(event)
    found(refused=[event["reason"] for event in refusals])
    for event in refusals:
        show_event(event)
    if refusals:
        command = "feddcd federation outgoing SITE_DIR --log"
        say(f"To see why a site refused, give this command at that site: {command}")
        say("If something has changed at a site, give the same command again to make a new table.")


def check_invited(folder: FederationFolder, sites: list[str]) -> None:
    """Before anything is changed for one of them."""
    invited = list(folder.invited())
    for site in sites:
        if site not in invited:
            known = ", ".join([*invited, *pending(folder)])
            all = f"the names of all sites and invitations are: {known}"
            raise SpecError(
                f"{site!r} is not a site of this federation, and has no invitation; "
                + (all if known else "this federation has no sites and no invitations")
            )


def uninvite(folder: FederationFolder, sites: list[str], barred: bool = False) -> None:
    """A table has no memory: who is not invited is not in the next one."""
    check_invited(folder, sites)
    for site in sites:
        if barred:
            folder.bar([site])
        let_go(folder, site, barred)
        withdraw(folder, site)
        folder.note("retired", sites=[site], barred=barred)
        found(sites=sites, expelled=barred)
        say(
            f"{site} is not in the next table, and the coordinator no longer accepts the key of "
            f"{site}"
        )
