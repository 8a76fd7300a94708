"""What `feddcd federation ...` does."""

import math
import secrets
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TimeElapsedColumn
from rich.table import Table

from .._errors import Failed, SpecError
from .._files import shown
from .._text import listed, printable, sentence_list, upper
from ..federation.config import Config
from ..federation.coordinator.coordinator import in_mode
from ..federation.enrolment.unit import start_words, write_coordinator_unit
from ..federation.folder import FederationFolder, load_places, mend_port
from ..federation.machine.init import create
from ..federation.machine.programs import Event, up
from ..federation.run_folder import write_run
from ..federation.site.template import CAREFUL as CAREFUL_SAID
from ..federation.site.template import SAID as LOOSE_SAID
from ..federation.status import path_of_job
from ..runs.spec import Spec, parse_settings
from ._certain import warn_certain, warn_of_two
from ._federation_options import TRIAL_SITES
from ._habits import found
from ._tables import (
    check_columns,
    load_job,
    rows_by_site,
    show_event,
    show_table,
    up_again,
)
from ._terminal import bars, console, escape, say, warn

if TYPE_CHECKING:
    from ..federation.coordinator.inspect import Insight


def init_command(options: dict[str, Any]) -> None:
    from ..data import load

    path: Path = options["folder"]
    trial = options["data"] is not None or options["sites"] is not None or options["site"]
    count = TRIAL_SITES if options["sites"] is None else options["sites"]
    named = [option for option in ("sites", "site") if options[option]]
    if options["group"] and named:
        raise SpecError(
            f"--group makes a site for each value of the column {options['group']!r}, so leave out "
            f"--{named[0]}"
        )
    names = options["site"] or [f"site-{i + 1}" for i in range(count)] if trial else []
    if trial and len(names) < 2:
        raise SpecError(f"a federation needs at least 2 sites, got {len(names)}")
    keys = ("algorithm", "model", "l2", "weighting", "rounds", "tau", "target_gap")
    spec = Spec(
        settings=parse_settings(options["settings"] or []),
        **{key: options[key] for key in keys},
    )
    name = options["name"] or f"{path.resolve().name}-{secrets.token_hex(3)}"
    said = "" if options["answers"] == "each" else options["answers"]
    where = {key: options[key] for key in ("host", "port", "bind")}
    if options["job"]:
        plan = load_job(options["job"])
        config = Config(name, Spec(), answers=said, plan=plan, **where)
        table, group = options["data"], options["group"]
        data = rows_by_site(table, group, plan.codebook) if table else None
        if data is not None:
            check_columns(plan, data, group)
        names = names if data is None else list(data)
    else:
        config = Config(name, spec, answers=said, **where)
        data = load(options["data"]) if options["data"] else None
    folder = create(
        path, names, config, data=data, split=options["partition"],
        authority=options["authority"], careful=options["careful"],
    )  # fmt: skip
    found(federation=config.name, folder=folder.path, sites=names)
    found(address=f"{config.host}:{config.port}")
    warn_of_two(config.plan, names)
    of = f" of {len(names)} sites" if names else ""
    say(f"feddcd made the federation {config.name}{of} in the folder {shown(folder.path)}")
    if options["authority"]:
        say(
            f"move the folder {options['authority']} to another machine: a person who has the "
            "file ca.key of this folder can pretend to be the coordinator"
        )
    if not names:
        at, unit = shlex.quote(shown(folder.path)), write_coordinator_unit(folder.path)
        say(start_words(unit, "the coordinator"))
        say(f"next, in another terminal that stays open: feddcd federation serve {at}")
        return say(f"then, for each site: feddcd federation invite {at} NAME")
    if data is None:
        return _say_next_of_sites(folder, names)
    say(f"policy.toml of each site {CAREFUL_SAID if options['careful'] else LOOSE_SAID}")
    if options["careful"]:
        warn_certain(folder)
    say(f"next: feddcd federation simulate {shlex.quote(shown(folder.path))}")


def _say_next_of_sites(folder: FederationFolder, names: list[str]) -> None:
    """Of sites with folders that were made here, without data: what to do, in this order."""
    at, first = shlex.quote(shown(folder.path)), folder.site(names[0])
    say(
        "next: for each site, write the path of its data file into its site.toml, for example "
        f"into {shown(first)}/site.toml"
    )
    if folder.config().plan is None:
        say("  and allow trainings: write training = true into the file policy.toml of each site")
    say(f"to try the federation on this machine: feddcd federation simulate {at}")
    say(
        f"for sites on other machines: send each site its folder, for example {shown(first)}. "
        f"On this machine: feddcd federation serve {at}. At each site: feddcd federation site "
        "SITE_DIR"
    )


def up_command(path: Path, rounds: int, sites: bool, mode: str = "") -> None:
    folder = FederationFolder(path)
    config = in_mode(folder.config(), mode)  # said before anything is started
    if (folder.path / "authority" / "ca.key").exists():  # earlier versions left it there
        say(
            "move authority/ca.key to another machine: a person with this key can "
            "pretend to be the coordinator"
        )
    if sites:
        _mend_ports(folder, config)
    with show_events(config, rounds) as watch, terminable():
        try:
            last = up(folder, watch, rounds=rounds, sites=sites, mode=mode)
        except Failed as error:
            print(printable(f"error: {error}"), file=sys.stderr)
            sys.exit(1)
    if config.plan is not None:
        show_table(folder)
        sys.exit(0 if last["converged"] else 1)
    show_training(folder)
    if last["unsettled"]:
        away = last["unsettled"]
        whose, they = ("has", "its") if len(away) == 1 else ("have", "their")
        say(
            f"{sentence_list(away)} {whose} not sent {they} last sums yet. To get them, run the "
            f"training again: {up_again(folder)}",
            style="yellow",
        )


def _mend_ports(folder: FederationFolder, config: Config) -> None:
    """Sites of this machine that call another port would be started again until the end of time."""
    places = [place.folder for place in load_places(folder)]
    if mended := [shown(place / "site.toml") for place in places if mend_port(place, config)]:
        warn(
            f"the port in federation.toml is {config.port}. feddcd wrote this port into "
            f"{listed(mended, 3)}"
        )


@contextmanager
def show_events(
    config: Config, rounds: int, note: str = "starting Flower"
) -> Iterator[Callable[[Event], None]]:
    """A function that shows events as lines and, in training, as a bar."""
    if config.plan is not None:
        say(note)
        yield show_event
        return
    done = "{task.completed}/{task.total}"
    columns = ("{task.description}", BarColumn(), done, TimeElapsedColumn(), "{task.fields[note]}")
    with bars(*columns) as bar:
        total = rounds or config.spec.rounds
        task = bar.add_task(config.spec.algorithm, total=total, note=note)

        def watch(event: Event) -> None:
            match event["event"]:
                case "greeting":
                    bar.update(task, note="waiting for the sites")
                case "started":
                    bar.update(task, completed=event["committed"], note="training")
                case "progress":
                    bar.update(task, completed=event["committed"], note="")
                case "certified":
                    gap = event.get("certified_gap", math.nan)
                    bar.update(task, note=f"certified gap {upper(gap)}")
                case _:
                    show_event(event)

        yield watch


def show_training(folder: FederationFolder) -> None:
    report = write_run(folder)
    _show(look_at(folder))
    say(f"model: {shown(folder.results / 'model.npz')}")
    if report is not None:
        found(report=report)
        say(f"report: {shown(report)}")


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does, so that the processes are taken down."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def inspect_command(path: Path) -> None:
    folder = FederationFolder(path)
    if folder.config().plan is not None:
        return show_table(folder)
    _show(look_at(folder))


def look_at(folder: FederationFolder) -> "Insight":
    from ..federation.coordinator.inspect import inspect  # with JAX, which tables do without

    return inspect(folder)


def _show(seen: "Insight") -> None:
    terms, server = seen.terms, seen.server
    members = {c: {"rows": m.rows, "pending": c in seen.pending} for c, m in server.members.items()}
    found(federation=terms.federation, rounds=seen.rounds, members=members, summary=seen.summary)
    found(asked=seen.requests, refused=seen.refusals, expelled=sorted(server.barred))
    title = f"{terms.federation}: {seen.rounds} rounds, epoch {server.epoch}"
    table = Table("site", "rows", "last round", "state", title=escape(printable(title)))
    for client, member in server.members.items():
        last = "never" if client not in seen.last else f"round {seen.last[client][1]}"
        state = "pending" if client in seen.pending else "settled"
        table.add_row(escape(printable(client)), str(member.rows), last, state)
    console.print(table)
    summary = seen.summary
    if "dual_residual" in summary:
        off = summary["dual_residual"]
        audit = "this method has no sum to check" if off is None else f"the error is {off:.1e}"
        say(f"check of the sums after {summary['rounds']} rounds: {audit}")
    if "lower_bound" in summary:
        say(
            f"certificate: objective {summary['objective']:.8g}, at most "
            f"{upper(summary['certified_gap'])} above the best possible objective"
        )
    for wish in seen.requests:
        say(f"feddcd has not done this request yet: {wish}")
    for refusal in seen.refusals[-5:]:
        show_event(refusal)
    if server.barred:
        say(f"expelled: {', '.join(sorted(server.barred))}")


def verify_command(path: Path, id: str = "", site: Path | None = None) -> None:
    from ._proofs import verify_job_command, verify_training_command

    near = (path, path.parent, path.parent.parent)
    if not path.is_file() and any((place / "site.toml").exists() for place in near):
        raise SpecError(
            f"{shown(path)} belongs to a site, and a site has no proof file. Ask the "
            "coordinator for the file `proof` of the study, then give this command: feddcd "
            "federation verify proof --site SITE_DIR"
        )
    if site is not None and not path.is_file():
        raise SpecError(
            f"--site needs a proof file, but {shown(path)} is not a file; give the file `proof` of "
            "the study"
        )
    path = path_of_job(path, id)
    folder = FederationFolder(path)
    home = folder.path.parent.parent
    if path.is_file() or path.name == "proof":
        return verify_job_command(path, site)
    if folder.path.parent.name == "studies" and (home / "federation.toml").exists():
        folder = FederationFolder(home).of_study(folder.path.name)
    elif not (path / "federation.toml").exists():  # a copy of one study
        return verify_job_command(path)
    if folder.config().plan is not None:
        return verify_job_command(folder)
    if not folder.study and not folder.ledger.exists() and folder.studies():
        names = ", ".join(shown(path / "studies" / name) for name in folder.studies())
        raise SpecError(f"verify one study at a time; give one of these folders: {names}")
    verify_training_command(folder)
