"""Makes the folder of a federation: configuration, certificates, one folder per site."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._errors import SpecError
from ..._files import owner_only
from ...data import Dataset, partition
from ...data.tables import write_rows
from ..config import Config
from ..folder import FederationFolder
from ..roster import write_rosters
from ..site.policy import FILE as POLICY
from ..site.template import comment, loose_text, template
from . import keys

_CONFIG = comment(
    "This file has the settings of the federation: what it computes, its address and its port. In "
    "the documentation of feddcd, the page 'Files in TOML' explains every setting. Only a training "
    "uses the settings algorithm, model, rounds and l2. Tables do not use these settings."
)
OTHER = "To make another federation, choose another folder"
_SITE = comment(
    "This file has the path of the data of this site. Write the path of a CSV or Parquet file and "
    "the name of its label column, or write the path of a LIBSVM file. The rows of the data never "
    "leave this machine."
)


def create(
    path: Path,
    sites: list[str],
    config: Config,
    *,
    data: Dataset | Mapping[str, Any] | None = None,
    split: str = "iid",
    authority: Path | None = None,
    careful: bool = False,
) -> FederationFolder:
    """A new folder; with `data`, every site gets its part of them (or its own frame) to try things
    out, under loose rules unless `careful`. The authority's key is written to the folder
    `authority`, or nowhere."""
    if path.exists() and any(path.iterdir()):
        told = f"{path} is not empty; choose another folder"
        if (path / "federation.toml").exists():
            see = f"feddcd federation status {shlex.quote(str(path))}"
            told = f"the folder {path} already has a federation. To see what to do next: {see}"
            told = f"{told}. {OTHER}"
        raise SpecError(told)
    _check_sites(sites)
    with owner_only():
        folder = _create(FederationFolder(path), sites, config, data, split, authority)
        for name in sites if data is not None and not careful else ():  # a trial
            (folder.site(name) / POLICY).write_text(loose_text())
        return folder


def _create(
    folder: FederationFolder, sites: list[str], config: Config,
    data: Dataset | Mapping[str, Any] | None, split: str, authority: Path | None,
) -> FederationFolder:  # fmt: skip
    for new in (folder.server / "keys", folder.server / "flower", folder.path / "sites"):
        new.mkdir(parents=True)
    (folder.path / "federation.toml").write_text(_CONFIG + config.to_toml())
    _new_certificate(folder, keys.Authority.new(config.name), authority)
    for name in sites:
        add_site(folder, name)
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


def certify(folder: FederationFolder, authority: Path | None) -> bool:
    """A new certificate for the host of federation.toml; whether the sites need the new ca.crt.

    With the authority's key the sites believe it as they did; without it there is a new authority.
    """
    before = _authority(folder) if (folder.server / "ca.crt").exists() else b""
    with owner_only():
        if authority is not None and (authority / "ca.key").exists():
            _new_certificate(folder, keys.Authority.load(authority), None)
        else:
            _new_certificate(folder, keys.Authority.new(folder.config().name), authority)
        for path in folder.path.glob("sites/*/ca.crt"):
            path.write_bytes(_authority(folder))
    return _authority(folder) != before


def _new_certificate(
    folder: FederationFolder, signer: keys.Authority, authority: Path | None
) -> None:
    hosts = list(dict.fromkeys([folder.config().host, "localhost", "127.0.0.1"]))
    keys.write_server(signer, folder.server, hosts)
    if authority is not None:
        authority.mkdir(parents=True, exist_ok=True)
        signer.save(authority)


def _authority(folder: FederationFolder) -> bytes:
    path = folder.server / "ca.crt"
    return path.read_bytes() if path.exists() else b""


def add_site(folder: FederationFolder, name: str) -> Path:
    """A folder with a new key pair, and the invitation: its public key at the server.

    A site that was here before and has its folder still comes back with the keys it had.
    """
    _check_sites([name])
    path = folder.site(name)
    if folder.key(name).exists():
        raise SpecError(f"the site {name!r} is already invited")
    if (path / "key.pub").exists():
        folder.save(folder.key(name), (path / "key.pub").read_bytes())
        return path
    with owner_only():
        path.mkdir(parents=True)
        public = keys.write_pair(path)
        (path / "ca.crt").write_bytes(_authority(folder))
        _write_site(folder, name, folder.config(), {"data": ""}, '# label = "outcome"\n')
        (path / POLICY).write_text(template())
        folder.save(folder.key(name), public)
    return path


def _check_sites(sites: list[str]) -> None:
    for name in sites:
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise SpecError(
                f"the name of a site may have letters, digits, - and _ only, got {name!r}"
            )
    plain = [name.casefold() for name in sites]  # not all disks tell A from a
    if len(set(plain)) < len(plain):
        first = next(name for name in plain if plain.count(name) > 1)
        one, two, *_ = (name for name in sites if name.casefold() == first)
        if one == two:
            raise SpecError(f"two sites have the same name: {one!r}")
        told = "the names of two sites differ only by small and capital letters"
        raise SpecError(f"{told}: {one!r} and {two!r}")


def _write_site(
    folder: FederationFolder, name: str, config: Config, data: dict[str, str], more: str = ""
) -> None:
    settings = {"client-id": name, "superlink": f"{config.host}:{config.port}"} | data
    lines = [f'{key} = "{value}"\n' for key, value in settings.items()]
    (folder.site(name) / "site.toml").write_text("".join([_SITE, *lines, more]))
