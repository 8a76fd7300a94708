"""What `feddcd federation ...` does."""

import dataclasses
import math
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._errors import Failed, SpecError
from .._files import shown
from ..federation.config import Config
from ..federation.coordinator.coordinator import coordinate
from ..federation.coordinator.inspect import Insight, inspect, verify
from ..federation.coordinator.nodes import LocalExchange
from ..federation.folder import FederationFolder, load_address, load_place, load_places
from ..federation.machine.init import add_site, create
from ..federation.machine.processes import Group
from ..federation.machine.programs import node
from ..federation.machine.up import REST_S, Event, up
from ..runs.spec import Spec, parse_setting
from ._tables import (
    console,
    event_line,
    line_watcher,
    load_job,
    rows_by_site,
    show_table,
    uninvite,
    up_again,
)


def init_command(options: dict[str, Any]) -> None:
    from ..data import load

    path: Path = options["folder"]
    names = options["site"] or [f"site-{i + 1}" for i in range(options["sites"])]
    if len(names) < 2:
        raise SpecError(f"a federation needs at least 2 sites, got {len(names)}")
    keys = ("algorithm", "model", "l2", "weighting", "rounds", "tau", "target_gap")
    spec = Spec(
        settings=dict(map(parse_setting, options["settings"] or [])),
        **{key: options[key] for key in keys},
    )
    name = options["name"] or f"{path.resolve().name}-{_random()}"
    config = Config(name, spec, host=options["host"], port=options["port"])
    if options["job"]:
        config = dataclasses.replace(config, spec=Spec(), glm=load_job(options["job"]))
        data = rows_by_site(options["data"], options["group"]) if options["data"] else None
        names = names if data is None else list(data)
    else:
        data = load(options["data"]) if options["data"] else None
    folder = create(path, names, config, data=data, split=options["partition"])
    made = f"federation {config.name} of {len(names)} sites in {shown(folder.path)}"
    console.print(made, soft_wrap=True)
    if data is None:
        console.print("say in each sites/NAME/site.toml where that site's data are, then:")
    console.print(f"  {up_again(folder)}", soft_wrap=True)


def _random() -> str:
    import secrets

    return secrets.token_hex(3)


def up_command(path: Path, rounds: int, sites: bool) -> None:
    folder = FederationFolder(path)
    config = folder.config()
    with _show_events(config, rounds) as watch, _Terminable():
        try:
            last = up(folder, watch, rounds=rounds, sites=sites)
        except Failed as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
    if config.glm is not None:
        show_table(folder)
        sys.exit(0 if last["converged"] else 1)
    _show(inspect(folder))
    _show_model(folder)
    if last["unsettled"]:
        away = ", ".join(last["unsettled"])
        line = f"not settled yet: {away}; they will when they are next asked"
        console.print(line, style="yellow")


def _show_model(folder: FederationFolder) -> None:
    console.print(f"model: {shown(folder.server / 'model.npz')}", soft_wrap=True)


@contextmanager
def _show_events(config: Config, rounds: int, note: str = "starting Flower"):
    """A function that shows events."""
    if config.glm is not None:
        show = lambda line: console.print(line, soft_wrap=True, highlight=False)
        show(note)
        yield line_watcher(show)
        return
    with _ProgressBar(config, rounds, note) as bar:
        yield bar.watch


def simulate_command(path: Path, rounds: int, loss: float, seed: int, show: bool = False) -> None:
    if not 0 <= loss < 1:
        raise SpecError(f"need 0 <= loss < 1, got loss={loss}")
    folder = FederationFolder(path)
    config = folder.config()
    exchange = LocalExchange(load_places(folder), loss=loss, seed=seed, ask=input if show else None)
    with _show_events(config, rounds, "greeting the sites") as watch:
        coordinate(exchange, {"folder": str(folder.path), "rounds": rounds}, watch)
    if config.glm is not None:
        return show_table(folder)
    _show(inspect(folder))
    _show_model(folder)


class _Terminable:
    """SIGTERM ends as Ctrl-C does, so that the processes are taken down."""

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self.before)


class _ProgressBar:
    """Events as a bar and, for what an administrator should know, as lines."""

    def __init__(self, config: Config, rounds: int, note: str = "starting Flower"):
        done = TextColumn("{task.completed}/{task.total}")
        columns = (TextColumn("{task.description}"), BarColumn(), done, TimeElapsedColumn())
        self.bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=console)
        total = rounds or config.spec.rounds
        self.task = self.bar.add_task(config.spec.algorithm, total=total, note=note)

    def __enter__(self) -> "_ProgressBar":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def watch(self, event: Event) -> None:
        kind = event["event"]
        if kind == "greeting":
            self.bar.update(self.task, note="waiting for the sites")
        elif kind == "started":
            self.bar.update(self.task, completed=event["committed"], note="training")
        elif kind == "progress":
            self.bar.update(self.task, completed=event["committed"], note="")
        elif kind == "certified":
            note = f"certified gap {event.get('certified_gap', math.nan):.2e}"
            self.bar.update(self.task, note=note)
        elif line := event_line(event):
            self.bar.console.print(line, soft_wrap=True, highlight=False)


def site_command(path: Path) -> None:
    """Until Ctrl-C; a SuperNode that dies is started again."""
    place, address = load_place(path), load_address(path)
    group = Group(place.folder / "process.json")
    with _Terminable():
        try:
            group.start(node(place, address, place.folder / "ca.crt", place.folder / "key"))
            console.print(
                f"{place.client} serves {address}; its log: {place.folder}", soft_wrap=True
            )
            while True:
                for name in group.dead():
                    console.print(f"its SuperNode ended ({_last_error(group, name)})")
                    console.print(f"it is started again in {REST_S:g} s")
                    time.sleep(REST_S)
                    group.again(name)
                time.sleep(1)
        except KeyboardInterrupt:
            console.print("stopped")
        finally:
            group.end()


def _last_error(group: Group, name: str) -> str:
    log = group.programs[name].log
    lines = [line for line in log.read_text(errors="replace").splitlines() if "ERROR" in line]
    return lines[-1].partition(":")[2].strip() if lines else f"see {log}"


def inspect_command(path: Path) -> None:
    folder = FederationFolder(path)
    if folder.config().glm is not None:
        return show_table(folder)
    _show(inspect(folder))


def _show(seen: Insight) -> None:
    terms, server = seen.terms, seen.server
    members = Table(title=f"{terms.federation}: {seen.rounds} rounds, epoch {server.epoch}")
    for column in ("site", "rows", "last in a sum", "state"):
        members.add_column(column)
    for client, member in server.members.items():
        last = "never" if client not in seen.last else f"round {seen.last[client][1]}"
        state = "pending" if client in seen.pending else "settled"
        members.add_row(client, str(member.rows), last, state)
    console.print(members)
    summary = seen.summary
    if "dual_residual" in summary:
        off = summary["dual_residual"]
        audit = "nothing is conserved" if off is None else f"off by {off:.1e}"
        console.print(f"audit of the sums, after {summary['rounds']} rounds: {audit}")
    if "lower_bound" in summary:
        console.print(
            f"certificate: objective {summary['objective']:.8g}, at most "
            f"{summary['certified_gap']:.2e} above the best possible"
        )
    for wish in seen.requests:
        console.print(f"asked for, not done yet: {wish}")
    for refusal in seen.refusals[-5:]:
        console.print(f"refused: {refusal['reason']}", soft_wrap=True, highlight=False)
    if server.barred:
        console.print(f"expelled: {', '.join(sorted(server.barred))}")


def verify_command(path: Path) -> None:
    folder = FederationFolder(path)
    if folder.config().glm is not None:
        raise SpecError(
            "a table has no ledger; what a site sent is in its own log: feddcd federation outgoing "
            "SITE_DIR --verify"
        )
    count = verify(folder)
    console.print(f"{count} records: the chain, the sums and the model are what they say")


def join_command(path: Path, site: str) -> None:
    folder = FederationFolder(path)
    if folder.ledger.exists() and site in inspect(folder).server.barred:
        raise SpecError(f"{site} was expelled and cannot join again; give the site another name")
    hand = f"hand {shown(add_site(folder, site))} to {site}"
    console.print(f"{hand}, and let it say in site.toml where its data are;", soft_wrap=True)
    console.print(f"it joins with the next: {up_again(folder)}", soft_wrap=True)


def depart_command(path: Path, sites: list[str], *, barred: bool) -> None:
    folder = FederationFolder(path)
    if folder.config().glm is not None:
        return uninvite(folder, sites)
    members = inspect(folder).server.members
    for site in sites:
        if site not in members:
            raise SpecError(f"{site!r} is not a member; members: {', '.join(members)}")
    folder.request(tuple(sites), barred)
    console.print(
        f"{', '.join(sites)} will be gone once all others have settled: in the federation that "
        f"runs, or with the next: {up_again(folder)}",
        soft_wrap=True,
    )
