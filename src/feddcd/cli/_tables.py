"""What `feddcd federation ...` does where the federation makes a regression table."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from .._errors import SpecError
from .._files import shown
from .._settings import read_toml
from ..data.frames import no_column, read_frame
from ..federation.folder import FederationFolder
from ..federation.site.disclosure import WAITING, approve, waiting
from ..federation.site.log import verify_log

if TYPE_CHECKING:
    from ..analysis.plan import RegressionPlan

# names and reasons come from other people: a [bracket] in them is a bracket, no style
console = Console(markup=False, emoji=False)


def up_again(folder: FederationFolder) -> str:
    """The command that goes on with a federation, to be pasted into a shell."""
    return f"feddcd federation up {shlex.quote(shown(folder.path))}"


def load_job(path: Path) -> "RegressionPlan":
    """A job file, as `feddcd glm` writes it: the settings under [glm]."""
    from ..analysis.registry import read_plan

    values = read_toml(path, "; `feddcd glm` writes one, job.toml")
    try:
        return read_plan(values.get("glm"))
    except SpecError as error:
        raise error.placed(file=str(path)) from None


def rows_by_site(file: str, group: str | None) -> dict[str, Any]:
    """The rows of a table by site, under names that folders can have."""
    table = read_frame(file, () if group is None else (group,))
    if group is None:
        raise SpecError("--group is missing: the column of the table that says whose a row is")
    if group not in table.frame.columns:
        raise no_column(table.file, group, list(table.frame.columns))
    sites = {}
    for label, rows in table.frame.groupby(group, sort=True):
        name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in str(label))
        if name in sites:
            raise SpecError(f"two values of {group} would both be the site {name}: rename one")
        sites[name] = rows.drop(columns=group)
    return sites


def line_watcher(show: Callable[[str], None]) -> Callable[[dict[str, Any]], None]:
    """Events as lines for a person."""

    def watch(event: dict[str, Any]) -> None:
        if line := event_line(event):
            show(line)

    return watch


def event_line(event: dict[str, Any]) -> str:
    """For what an administrator should know; empty for all else."""
    match event["event"]:
        case "greeting":
            return "waiting for the sites"
        case "exchange":
            return _exchange(event)
        case "refused":
            return f"refused: {event['reason']}"
        case "waiting":
            return f"waiting: {event['reason']}"
        case "silent":
            return f"no answer from {event['site']}"
        case "joined":
            return f"{event['site']} joined with {event['rows']} rows"
        case "retired":
            return f"{', '.join(event['sites'])} {'expelled' if event['barred'] else 'retired'}"
        case "died":
            return f"{event['program']} died and is started again"
    return ""


def _exchange(event: dict[str, Any]) -> str:
    line = f"exchange {event['exchange']}: {event['answered']} of {event['asked']} sites answered"
    if event["certified_error"] is not None:
        return f"{line}, certified error {event['certified_error']:.2g} standard errors"
    return line


def show_table(folder: FederationFolder) -> None:
    """The table of the last run, and whom it lacks."""
    tables = folder.server / "glm"
    if not (tables / "summary.txt").exists():
        console.print(f"no table yet; make it with: {up_again(folder)}", soft_wrap=True)
    else:
        print((tables / "summary.txt").read_text())
        console.print(f"table, model and report: {shown(tables)}", soft_wrap=True)
    for event in last_refusals(folder):
        console.print(f"refused: {event['reason']}", soft_wrap=True, highlight=False)


def last_refusals(folder: FederationFolder) -> list[dict[str, Any]]:
    """Those of the last run."""
    events = [event for _, event in folder.read_events()]
    starts = [i for i, event in enumerate(events) if event["event"] == "greeting"]
    return [e for e in events[starts[-1] if starts else 0 :] if e["event"] == "refused"]


def uninvite(folder: FederationFolder, sites: list[str]) -> None:
    """A table has no memory: who is not invited is not in the next one."""
    invited = folder.invited()
    for site in sites:
        if site not in invited:
            raise SpecError(f"{site!r} is not invited; invited: {', '.join(invited)}")
        folder.key(site).unlink()
        console.print(f"the next table is without {site}")


def outgoing_command(folder: Path, ids: list[str], check: bool) -> None:
    """What waits at a site for its administrator, approval of it, and the log of what left."""
    if not (folder / "site.toml").exists():
        raise SpecError(f"{folder}: not a site's folder, it has no site.toml")
    if check:
        head = verify_log(folder)
        console.print(f"{head.lines} answers left or were refused; the log is whole", head.hash)
        return
    for id in ids:
        approve(folder, id)
        console.print(f"{id} may leave when it is next asked for")
    for id in waiting(folder):
        file = (folder / WAITING / f"{id}.json").resolve()
        console.print(f"{id} waits; what it holds: {file}", soft_wrap=True, highlight=False)
