"""The inner door of the SuperLink: its address and its secret, in a file of the server's folder."""

import json
import secrets
from typing import TYPE_CHECKING

from ..folder import FederationFolder
from .keys import public_pem

if TYPE_CHECKING:
    from ...flower.inside import Inside


def make_door(folder: FederationFolder, port: int) -> None:
    """A new secret for every start."""
    secret = secrets.token_hex(32)
    folder.save(folder.server / "inner.secret", secret.encode())
    folder.save(folder.server / "inner.json", {"port": port})


def inner_port(folder: FederationFolder) -> int:
    return json.loads((folder.server / "inner.json").read_text())["port"]


def inside(folder: FederationFolder) -> "Inside":
    from ...flower.inside import Inside

    secret = (folder.server / "inner.secret").read_text()
    address = f"127.0.0.1:{inner_port(folder)}"
    return Inside(address, (folder.server / "ca.crt").read_bytes(), secret)


def register(folder: FederationFolder) -> None:
    """Makes the invited sites' keys known to the link; those it knows already stay."""
    link = inside(folder)
    for name, key in folder.invited().items():
        link.register(name, public_pem(key))
