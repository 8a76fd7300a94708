"""Makes the folder of a federation: configuration, certificates, one folder per site."""

import shlex
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..._errors import SpecError
from ...data import Dataset, partition
from ...data.tables import write_rows
from ..config import Config
from ..folder import FederationFolder
from ..roster import write_rosters
from ..site.policy import FILE as POLICY
from ..site.template import loose_text, template
from . import keys

_CONFIG = """\
# What the federation trains; every setting is explained in docs/deploy.md.
"""
_SITE = """\
# Where this site's data are: a CSV or Parquet file with the name of its label column, or a
# LIBSVM file. They are read here and never leave this machine.
"""
# the Flower app: a few lines over this package; `examples/flower` is the same
_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "feddcd-app"
version = "{version}"
description = "Federated optimisation from the dual side, on Flower."
license = "MIT"
dependencies = ["feddcd[flower]"]

[tool.flwr.app]
publisher = "feddcd"

[tool.flwr.app.components]
serverapp = "feddcd_app.server:app"
clientapp = "feddcd_app.client:app"

# folder: that of the federation, made by `feddcd federation init`
# rounds: 0 takes what its federation.toml says
[tool.flwr.app.config]
folder = ""
rounds = 0
"""
_SERVER = '''\
"""The coordinator as a Flower ServerApp."""

from feddcd.federation import coordinate
from feddcd.flower import server_app

app = server_app(coordinate)
'''
_CLIENT = '''\
"""A site as a Flower ClientApp; its data and its state come from the node config."""

from feddcd.federation import answer_node
from feddcd.flower import client_app

app = client_app(answer_node)
'''


def create(
    path: Path,
    sites: list[str],
    config: Config,
    *,
    data: Dataset | Mapping[str, Any] | None = None,
    split: str = "iid",
) -> FederationFolder:
    """A new folder; with `data`, every site gets its part of them (or its own frame) to try things
    out."""
    if path.exists() and any(path.iterdir()):
        again = f"up {shlex.quote(str(path))}"
        raise SpecError(f"{path} is not empty; choose another folder, or go on with it: {again}")
    _check_sites(sites)
    folder = FederationFolder(path)
    for new in (path / "authority", folder.server / "keys", folder.server / "flower"):
        new.mkdir(parents=True)
    (path / "federation.toml").write_text(_CONFIG + config.to_toml())
    keys.write_authority(path / "authority", config.name)
    hosts = list(dict.fromkeys([config.host, "localhost", "127.0.0.1"]))
    keys.write_server(path / "authority", folder.server, hosts)
    shutil.copy(path / "authority" / "ca.crt", folder.server / "ca.crt")
    write_app(folder.app)
    for name in sites:
        add_site(folder, name)
        if data is not None:  # a trial
            (folder.site(name) / POLICY).write_text(loose_text())
    write_rosters(folder.server, {name: folder.site(name) for name in sites})
    if isinstance(data, Dataset):
        seed, groups = config.spec.seed, data.groups
        parts = partition(data.y, split, len(sites), seed=seed, groups=groups, X=data.X)
        for name, part in zip(sites, parts, strict=True):
            rows = write_rows(folder.site(name), data.X[part], data.y[part])
            _write_site(folder, name, config, rows)
    elif data is not None:
        for name, frame in data.items():
            frame.to_csv(folder.site(name) / "data.csv", index=False)
            _write_site(folder, name, config, {"data": "data.csv"})
    return folder


def add_site(folder: FederationFolder, name: str) -> Path:
    """A folder with a new key pair, and the invitation: its public key at the server.

    A site that was here before and has its folder still comes back with the keys it had.
    """
    _check_sites([name])
    path = folder.site(name)
    if folder.key(name).exists():
        raise SpecError(f"the site {name} is invited already")
    if (path / "key.pub").exists():
        folder.save(folder.key(name), (path / "key.pub").read_bytes())
        return path
    path.mkdir(parents=True)
    public = keys.write_pair(path)
    shutil.copy(folder.server / "ca.crt", path / "ca.crt")
    _write_site(folder, name, folder.config(), {"data": ""}, '# label = "outcome"\n')
    (path / POLICY).write_text(template())
    folder.save(folder.key(name), public)
    return path


def _check_sites(sites: list[str]) -> None:
    for name in sites:
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise SpecError(f"a site's name has letters, digits, - and _ only, got {name!r}")
    plain = [name.casefold() for name in sites]  # not all disks tell A from a
    if len(set(plain)) < len(plain):
        twice = [name for name in sites if plain.count(name.casefold()) > 1]
        told = twice[0] if twice[0] == twice[1] else f"{twice[0]} and {twice[1]}"
        raise SpecError(f"two sites are called {told}")


def _write_site(
    folder: FederationFolder, name: str, config: Config, data: dict[str, str], more: str = ""
) -> None:
    settings = {"client-id": name, "superlink": f"{config.host}:{config.port}"} | data
    lines = [f'{key} = "{value}"\n' for key, value in settings.items()]
    (folder.site(name) / "site.toml").write_text("".join([_SITE, *lines, more]))


def app_files() -> dict[str, str]:
    return {
        "pyproject.toml": _PROJECT.format(version=version("feddcd")),
        "feddcd_app/__init__.py": "",
        "feddcd_app/server.py": _SERVER,
        "feddcd_app/client.py": _CLIENT,
    }


def write_app(path: Path) -> None:
    for name, text in app_files().items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
