"""What `feddcd federation certify` does."""

import hashlib
from pathlib import Path

from .._files import shown
from ..federation.folder import FederationFolder
from ..federation.machine.init import certify
from ._habits import found
from ._terminal import say

DIGITS = 20  # that two people compare: nobody can find a second file with the same ones


def certify_command(path: Path, authority: Path | None) -> None:
    folder = FederationFolder(path)
    new = certify(folder, authority)
    found(host=folder.config().host, new_authority=new)
    say(
        f"feddcd made a new certificate for {folder.config().host}. Stop the server and start it "
        "again, so that it uses this certificate"
    )
    if not new:
        return
    file = folder.server / "ca.crt"
    digits = hashlib.sha256(file.read_bytes()).hexdigest()[:DIGITS]
    found(digits=digits)
    say(f"send the new {shown(file)} to every site, because the old certificate is not valid now")
    say(
        "before a site puts this file into its folder, compare the digits by phone. At the site, "
        "the command `sha256sum ca.crt` must print a line that begins with these "
        f"{DIGITS} digits: {digits}"
    )
