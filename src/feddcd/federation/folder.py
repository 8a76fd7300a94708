"""The folder of a federation: the coordinator's part, and one folder per site to hand out.

federation.toml            what is trained
authority/                 ca.key, which signs the server's certificate, and ca.crt
server/                    ledger, certificates, keys of invited sites, results, events
sites/NAME/                site.toml, policy.toml, key pair, ca.crt; later state and log
app/                       the Flower app
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import SpecError
from .._files import Disk, save
from .._settings import check_names, read_toml
from ..data.frames import Reading
from .config import Config, load_config
from .site.answer import SitePlace


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

    def __post_init__(self):
        object.__setattr__(self, "path", self.path.resolve())

    @property
    def server(self) -> Path:
        return self.path / "server"

    @property
    def ledger(self) -> Path:
        return self.server / "ledger.db"

    @property
    def events(self) -> Path:
        return self.server / "events.jsonl"

    @property
    def app(self) -> Path:
        return self.path / "app"

    def config(self) -> Config:
        return load_config(self.path / "federation.toml")

    def site(self, name: str) -> Path:
        return self.path / "sites" / name

    def key(self, name: str) -> Path:
        return self.server / "keys" / f"{name}.pub"

    def invited(self) -> dict[str, bytes]:
        """The sites that may take part, with their public keys."""
        return {path.stem: path.read_bytes() for path in sorted(self.server.glob("keys/*.pub"))}

    def requests(self) -> list[Request]:
        paths = sorted(self.server.glob("requests/*.json"))
        wishes = [(path, json.loads(path.read_text())) for path in paths]
        return [Request(path, tuple(wish["sites"]), wish["barred"]) for path, wish in wishes]

    def leaving(self) -> set[str]:
        return {site for request in self.requests() for site in request.sites}

    def request(self, sites: tuple[str, ...], barred: bool) -> None:
        folder = self.server / "requests"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.json"
        self.save(folder / name, {"sites": list(sites), "barred": barred})

    def save(self, path: Path, values: dict[str, Any] | bytes) -> None:
        """Atomically; readers see the old or the new."""
        save(Disk(), path, values)

    def note(self, event: str, **what: Any) -> None:
        """A line of events.jsonl."""
        line = {"time": round(time.time(), 3), "event": event, **what}
        with self.events.open("a") as file:
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


def load_place(folder: Path) -> SitePlace:
    """A site from its `site.toml`; relative paths start at its folder."""
    values, path = _site_toml(folder), folder / "site.toml"
    if not values.get("data"):
        raise SpecError(f"{path}: say where this site's data are, as in data = 'patients.csv'")
    id, home = values.get("client-id", folder.name), folder.resolve()
    return SitePlace(id, home, home / values["data"], values.get("label"), _reading(values))


def _reading(values: Mapping[str, Any]) -> Reading:
    """How the data are written, where site.toml says so."""
    own = {name: values[name] for name in Reading._fields if name in values}
    na = own.pop("na", ())
    return Reading(na=(na,) if isinstance(na, str) else tuple(na), **own)


def load_places(folder: FederationFolder) -> list[SitePlace]:
    """The invited sites, less those that are to leave."""
    leaving = folder.leaving()
    return [load_place(folder.site(name)) for name in folder.invited() if name not in leaving]


def load_address(folder: Path) -> str:
    """Where the site finds the federation's link, as host:port."""
    address = _site_toml(folder).get("superlink", "")
    if ":" not in address:
        raise SpecError(f"{folder / 'site.toml'}: need superlink = 'host:port', got {address!r}")
    return address


def _site_toml(folder: Path) -> dict[str, Any]:
    path = folder / "site.toml"
    values = read_toml(path)
    check_names(values, ("client-id", "superlink", "data", "label", *Reading._fields), path)
    for name, value in values.items():
        words = value if name == "na" and isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in words):
            raise SpecError(f"{path}: {name} should be text, got {value!r}")
    return values


def node_config(place: SitePlace) -> str:
    """The same for `flower-supernode --node-config`."""
    values = {"client-id": place.client, "data": str(place.data), "state": str(place.folder)}
    if place.label is not None:
        values["label"] = place.label
    values |= {name: value for name, value in place.how._asdict().items() if value}
    if place.how.na:
        values["na"] = json.dumps(place.how.na)
    return " ".join(f"{key}={quote(value)}" for key, value in values.items())


def quote(text: str | Path) -> str:
    """As a TOML string: JSON's is one, but for what it escapes beyond the basic plane."""
    return json.dumps(str(text), ensure_ascii=False)


def place_of_node(node: Mapping[str, Any], run: Mapping[str, Any]) -> SitePlace:
    """A site from Flower's node config; in Flower's simulation, from the federation's folder."""
    if "client-id" in node:
        missing = [key for key in ("data", "state") if not node.get(key)]
        if missing:
            raise SpecError(f"the node config of {node['client-id']} lacks {', '.join(missing)}")
        label = str(node["label"]) if "label" in node else None
        folder, data = Path(str(node["state"])), Path(str(node["data"]))
        words = {"na": json.loads(str(node["na"]))} if "na" in node else {}
        return SitePlace(str(node["client-id"]), folder, data, label, _reading({**node, **words}))
    if "partition-id" not in node:
        raise SpecError("the node config lacks client-id, data and state")
    names = sorted(os.listdir(Path(str(run["folder"])) / "sites"))
    return load_place(Path(str(run["folder"])) / "sites" / names[int(node["partition-id"])])
