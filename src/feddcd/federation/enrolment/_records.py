"""The invitations as the coordinator keeps them: server/invitations/NAME.json, one of each site."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..._errors import SpecError
from ..._files import Disk, Locked, lock_within
from ..folder import FederationFolder
from .claim import Claim
from .invitation import check_site

WAIT_S = 10.0


@dataclass(frozen=True)
class InvitationRecord:
    """Of one invitation; `claim` is what a site made of it."""

    site: str
    public: str  # half of the token
    digest: str
    made: float
    expires: int
    claim: dict[str, str] | None = None
    used: float | None = None
    confirmed: float | None = None

    def checked(self) -> "InvitationRecord":
        """Raises TypeError or ValueError where a person, or a disk, has changed it."""
        bytes.fromhex(self.public + self.digest)
        if not (check_site(self.site) and isinstance(self.made + self.expires, int | float)):
            raise ValueError
        if (claim := self.claimed()) and not all(isinstance(part, str) for part in claim):
            raise ValueError
        return self

    def claimed(self) -> Claim | None:
        return None if self.claim is None else Claim(**self.claim)


def records(folder: FederationFolder) -> dict[str, InvitationRecord | None]:
    """Of all invitations; None for one that cannot be read, which is no reason to stop at it."""
    return {path.stem: readable(folder, path.stem) for path in record_paths(folder)}


def readable(folder: FederationFolder, site: str) -> InvitationRecord | None:
    try:
        return load_record(folder, site)
    except SpecError:
        return None


def pending(folder: FederationFolder) -> list[str]:
    """The sites with an invitation that were not let in."""
    return [path.stem for path in record_paths(folder) if not folder.key(path.stem).exists()]


def record_paths(folder: FederationFolder) -> list[Path]:
    return sorted((folder.server / "invitations").glob("*.json"))


def record_path(folder: FederationFolder, site: str) -> Path:
    return folder.server / "invitations" / f"{site}.json"


def load_record(folder: FederationFolder, site: str) -> InvitationRecord | None:
    data = Disk().read(record_path(folder, site), 100_000)
    try:
        return None if data is None else InvitationRecord(**json.loads(data)).checked()
    except (ValueError, TypeError, RecursionError):
        raise SpecError(
            f"{record_path(folder, site)} cannot be read; invite the site {site!r} again"
        ) from None


def save_record(folder: FederationFolder, record: InvitationRecord) -> None:
    path = record_path(folder, record.site)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.save(path, asdict(record))


@contextmanager
def held(folder: FederationFolder) -> Iterator[None]:
    """One at a time, in whatever process."""
    try:
        lock = lock_within(Disk(), folder.server / ".invitations.lock", WAIT_S)
    except Locked as error:
        raise SpecError(
            f"the invitations are in use by {error.holder}; try again in a minute"
        ) from None
    with lock:
        yield
