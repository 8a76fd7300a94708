"""The folder of a federation: the coordinator's part, and one folder per site to hand out.

federation.toml            what is trained, and where the sites call
server/                    ledger, certificates, keys of invited sites, results, events
studies/NAME/              another study: study.toml, and its own ledger, results and events
sites/NAME/                site.toml, policy.toml, key pair, ca.crt; later state and log
"""

import json
import os
import re
import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import FolderError, SpecError
from .._files import Disk, private, save, shown
from .._settings import check_names, read_toml
from .._text import sentence_list
from ..data.frames import Reading
from .about import ALONE, About
from .config import Config, load_config, load_study
from .site.answer import SitePlace

GIB = 1 << 30
STUDY = "study.toml"
WAITED = "waiting.json"  # beside it: who is waited for
PROOF = "proof"  # beside it, of a table of sums
CANCELLED = "cancelled.json"  # beside it: a person wants this study to end
BARRED = "barred.json"  # in server/
LIMITS = ("answer_seconds", "answer_memory")  # the second in GiB
OF_SITE = ("client-id", "superlink", "data", "label", *Reading._fields, *LIMITS)  # in site.toml


class Request(NamedTuple):
    """An administrator's wish, carried out by the running federation or by the next one."""

    path: Path
    sites: tuple[str, ...]
    barred: bool


@dataclass(frozen=True)
class FederationFolder:
    """Its path is absolute: Flower's programs start elsewhere and refuse relative ones."""

    path: Path
    watch: Callable[[dict[str, Any]], None] = lambda event: None  # called with every event
    study: str = ""  # one of several; without a word, what federation.toml says

    def __post_init__(self):
        object.__setattr__(self, "path", self.path.resolve())

    @property
    def server(self) -> Path:
        return self.path / "server"

    @property
    def results(self) -> Path:
        return self.path / "studies" / self.study if self.study else self.server

    @property
    def ledger(self) -> Path:
        return self.results / "ledger.db"

    @property
    def events(self) -> Path:
        return self.results / "events.jsonl"

    @property
    def cancelled(self) -> bool:
        """Whether a person wants this study to end."""
        return bool(self.study) and (self.results / CANCELLED).exists()

    @property
    def proven(self) -> bool:
        """Whether there is a result with a proof, and no job that goes on."""
        going_on = self.results / "jobs" / "current"
        return (self.results / PROOF).exists() and not going_on.exists()

    def config(self) -> Config:
        own = load_config(self.path / "federation.toml")
        return load_study(self.results / STUDY, own, self.study) if self.study else own

    def studies(self) -> list[str]:
        """Those with a name, the oldest first."""
        paths = (self.path / "studies").glob(f"*/{STUDY}")
        return [path.parent.name for path in sorted(paths, key=lambda p: p.stat().st_mtime_ns)]

    def of_study(self, name: str) -> "FederationFolder":
        return replace(self, study=name)

    def site(self, name: str) -> Path:
        return self.path / "sites" / name

    def key(self, name: str) -> Path:
        return self.server / "keys" / f"{name}.pub"

    def invited(self) -> dict[str, bytes]:
        """The sites that may take part, with their public keys."""
        return {path.stem: path.read_bytes() for path in sorted(self.server.glob("keys/*.pub"))}

    def barred(self) -> list[str]:
        """The names of sites that were expelled: they do not come back."""
        data = Disk().read(self.server / BARRED, 1_000_000)
        try:
            return [] if data is None else [str(name) for name in json.loads(data)["sites"]]
        except (ValueError, LookupError, TypeError):
            raise FolderError(
                "the file with the names of expelled sites cannot be read; put it back "
                "from a backup",
                file=BARRED,
            ) from None

    def bar(self, sites: Iterable[str]) -> None:
        self.save(self.server / BARRED, {"sites": sorted({*self.barred(), *sites})})

    def requests(self) -> list[Request]:
        paths = sorted(self.results.glob("requests/*.json"))
        wishes = [(path, json.loads(path.read_text())) for path in paths]
        return [Request(path, tuple(wish["sites"]), wish["barred"]) for path, wish in wishes]

    def leaving(self) -> set[str]:
        return {site for request in self.requests() for site in request.sites}

    def request(self, sites: tuple[str, ...], barred: bool) -> None:
        folder = self.results / "requests"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.json"
        self.save(folder / name, {"sites": list(sites), "barred": barred})

    def save(self, path: Path, values: dict[str, Any] | bytes) -> None:
        """Atomically; readers see the old or the new."""
        save(Disk(), path, values)

    def note(self, event: str, **what: Any) -> None:
        """A line of events.jsonl."""
        line = {"time": round(time.time(), 3), "event": event, **what}
        with open(self.events, "a", opener=private) as file:
            file.write(json.dumps(line) + "\n")
        self.watch(line)

    def read_events(self, start: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """The events from a byte on, each with the place after it; a torn last line waits."""
        if not self.events.exists():
            return
        with self.events.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                start += len(line)
                try:
                    yield start, json.loads(line)
                except ValueError:  # torn by a crash, with a new line begun after it
                    continue


def about_of(folder: FederationFolder) -> About:
    """What messages of a study say of it."""
    return About(folder.study or ALONE, folder.config().purpose)


def about_data(folder: FederationFolder, sites: Iterable[str]) -> str:
    """What stands in a report in place of a file: the study, and the sites that took part."""
    study = f"study {folder.study} of " if folder.study else ""
    return f"{study}federation {folder.config().name}, sites {', '.join(sites)}"


def load_place(folder: Path) -> SitePlace:
    """A site from its `site.toml`; relative paths start at its folder."""
    values, path = _site_toml(folder), folder / "site.toml"
    if not values.get("data"):
        raise SpecError(
            f"{path} does not have the path of the data of this site; write for example: "
            "data = 'patients.csv'"
        )
    id, home = values.get("client-id", folder.name), folder.resolve()
    data, address = home / values["data"], values.get("superlink", "")
    label, how = values.get("label"), _reading(values)
    return SitePlace(id, home, data, label, how, address, load_place)


def _reading(values: Mapping[str, Any]) -> Reading:
    """How the data are written, where site.toml says so."""
    own = {name: values[name] for name in Reading._fields if name in values}
    na = own.pop("na", ())
    return Reading(na=(na,) if isinstance(na, str) else tuple(na), **own)


def load_places(folder: FederationFolder) -> list[SitePlace]:
    """The invited sites, less those that are to leave."""
    leaving = folder.leaving()
    names = [name for name in folder.invited() if name not in leaving]
    if away := [name for name in names if not folder.site(name).exists()]:
        at = shlex.quote(shown(folder.path))
        raise SpecError(
            f"{shown(folder.path / 'sites')} has no folder of {sentence_list([*map(repr, away)])}. "
            "The commands `up` and `simulate` need the folders of all sites on this machine. If "
            f"your sites are on other machines, use: feddcd federation serve {at}, and then feddcd "
            f"federation study {at} NAME --job FILE"
        )
    return [load_place(folder.site(name)) for name in names]


def load_address(folder: Path) -> str:
    """Where the site finds the federation's link, as host:port."""
    address = _site_toml(folder).get("superlink", "")
    if ":" not in address:
        raise SpecError(f"{folder / 'site.toml'} needs superlink = 'host:port', got {address!r}")
    return address


def mend_port(folder: Path, config: Config) -> bool:
    """Writes the federation's port into `site.toml` of a site that calls this host by another one;
    whether there was any other. SpecError where the address cannot be changed like this."""
    path, called = folder / "site.toml", load_address(folder)
    host, _, port = called.rpartition(":")
    if port == str(config.port):
        return False
    wanted = f"{config.host}:{config.port}"
    line = re.compile(rf"^(\s*superlink\s*=\s*([\"'])){re.escape(called)}(\2)", re.MULTILINE)
    text, changed = line.subn(rf"\g<1>{wanted}\g<3>", path.read_text("utf-8"))
    if host != config.host or changed != 1:
        raise SpecError(
            f"{shown(path)} has the address {called}, but the port in federation.toml is "
            f"{config.port}, so this site would never connect. Write the same port into both files"
        )
    save(Disk(), path, text.encode())
    return True


def load_limits(folder: Path) -> tuple[float, int]:
    """The most seconds and bytes of memory for one answer; without a word, ten minutes and half
    of this machine's memory."""
    values = _site_toml(folder)
    half = machine_memory() / 2 / GIB
    seconds, memory = (float(values.get(k, d)) for k, d in zip(LIMITS, (600, half), strict=True))
    return seconds, int(memory * GIB)


def machine_memory() -> int:
    """In bytes; 0 where this system does not say it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _site_toml(folder: Path) -> dict[str, Any]:
    path = folder / "site.toml"
    values = read_toml(path, "; if this is the folder of a site, put site.toml back from a backup")
    check_names(values, OF_SITE, path)
    for name, value in values.items():
        if name in LIMITS:
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise SpecError(f"{path}: {name} must be a number above 0, got {value!r}")
            continue
        words = value if name == "na" and isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in words):
            raise SpecError(f"{path}: {name} must be a text, got {value!r}")
    return values


def place_of_node(node: Mapping[str, Any], run: Mapping[str, Any]) -> SitePlace:
    """A site of Flower's simulation engine, from the federation's folder."""
    names = sorted(os.listdir(Path(str(run["folder"])) / "sites"))
    return load_place(Path(str(run["folder"])) / "sites" / names[int(node["partition-id"])])
