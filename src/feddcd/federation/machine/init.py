"""Makes the folder of a federation: configuration, certificates, one folder per site."""

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._errors import SpecError
from ...data import Dataset, partition
from ...data.tables import write_rows
from ..config import Config
from ..folder import Home
from ..site import policy
from . import keys, template

_CONFIG = """\
# What the federation trains; every setting is explained in docs/deploy.md.
"""
_SITE = """\
# Where this site's data are: a CSV or Parquet file with the name of its label column, or a
# LIBSVM file. They are read here and never leave this machine.
"""


def create(
    path: Path,
    sites: list[str],
    config: Config,
    *,
    data: Dataset | Mapping[str, Any] | None = None,
    split: str = "iid",
) -> Home:
    """A new folder; with `data`, every site gets its part of them (or its own frame) to try things
    out."""
    if path.exists() and any(path.iterdir()):
        again = f"up {shlex.quote(str(path))}"
        raise SpecError(f"{path} is not empty; choose another folder, or go on with it: {again}")
    _check_sites(sites)
    home = Home(path)
    for folder in (path / "authority", home.server / "keys", home.server / "flower"):
        folder.mkdir(parents=True)
    (path / "federation.toml").write_text(_CONFIG + config.to_toml())
    keys.write_authority(path / "authority", config.name)
    hosts = list(dict.fromkeys([config.host, "localhost", "127.0.0.1"]))
    keys.write_server(path / "authority", home.server, hosts)
    shutil.copy(path / "authority" / "ca.crt", home.server / "ca.crt")
    template.write_app(home.app)
    for name in sites:
        add_site(home, name)
    if isinstance(data, Dataset):
        _hand_out(home, sites, data, config, split)
    elif data is not None:
        for name, frame in data.items():
            frame.to_csv(home.site(name) / "data.csv", index=False)
            _tell(home, name, config, {"data": "data.csv"})
    return home


def add_site(home: Home, name: str) -> Path:
    """A folder with a new key pair, and the invitation: its public key at the server.

    A site that was here before and has its folder still comes back with the keys it had.
    """
    _check_sites([name])
    folder = home.site(name)
    if home.key(name).exists():
        raise SpecError(f"the site {name} is invited already")
    if (folder / "key.pub").exists():
        home.save(home.key(name), (folder / "key.pub").read_bytes())
        return folder
    folder.mkdir(parents=True)
    public = keys.write_pair(folder)
    shutil.copy(home.server / "ca.crt", folder / "ca.crt")
    config = home.config()
    (folder / "site.toml").write_text(
        f'{_SITE}client-id = "{name}"\nsuperlink = "{config.host}:{config.port}"\ndata = ""\n'
        '# label = "outcome"\n'
    )
    (folder / policy.FILE).write_text(policy.template())
    home.save(home.key(name), public)
    return folder


def _check_sites(sites: list[str]) -> None:
    for name in sites:
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise SpecError(f"a site's name has letters, digits, - and _ only, got {name!r}")
    if len(set(sites)) < len(sites):
        twice = next(name for name in sites if sites.count(name) > 1)
        raise SpecError(f"two sites are called {twice}")


def _hand_out(home: Home, sites: list[str], data: Dataset, config: Config, split: str) -> None:
    parts = partition(
        data.y, split, len(sites), seed=config.spec.seed, groups=data.groups, X=data.X
    )
    for name, part in zip(sites, parts, strict=True):
        _tell(home, name, config, write_rows(home.site(name), data.X[part], data.y[part]))


def _tell(home: Home, name: str, config: Config, data: dict[str, str]) -> None:
    told = {"client-id": name, "superlink": f"{config.host}:{config.port}"} | data
    lines = [f'{key} = "{value}"\n' for key, value in told.items()]
    (home.site(name) / "site.toml").write_text(_SITE + "".join(lines))
