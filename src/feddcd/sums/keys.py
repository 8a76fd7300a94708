"""A site's two private keys, in one file that only its owner reads."""

import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from .._errors import FolderError, Refused
from .._files import Disk, save, shown

FORM = "feddcd site keys 1"
MOST_BYTES = 1000


class SiteKeys:
    """Ed25519 for signatures, X25519 for the secrets that it shares with each other site."""

    def __init__(self, signing: Ed25519PrivateKey, agreement: X25519PrivateKey):
        self.signing, self.agreement = signing, agreement
        self._public = tuple(key.public_key().public_bytes_raw() for key in (signing, agreement))
        self._secrets: dict[bytes, bytes] = {}

    def __repr__(self) -> str:
        return f"SiteKeys({self._public[0].hex()[:8]}...)"

    @classmethod
    def generate(cls) -> "SiteKeys":
        return cls(Ed25519PrivateKey.generate(), X25519PrivateKey.generate())

    def public(self) -> tuple[bytes, bytes]:
        """For signatures and for agreement, 32 bytes each."""
        return self._public[0], self._public[1]

    def secret(self, other: bytes) -> bytes:
        """Shared with the site that has this public agreement key."""
        if other not in self._secrets:
            try:
                key = X25519PublicKey.from_public_bytes(other)
                self._secrets[other] = self.agreement.exchange(key)
            except ValueError:  # a point of low order: the secret would be known to all
                raise Refused(
                    "the key of another site is weak, because other people could compute the masks "
                    "of that site"
                ) from None
        return self._secrets[other]

    def save(self, path: Path, disk: Disk | None = None) -> None:
        """Never over another file: keys that are lost cannot be made again."""
        if path.exists():
            raise FolderError(
                "there are already keys, and feddcd does not replace them", file=shown(path)
            )
        lines = (FORM, self.signing.private_bytes_raw().hex())
        lines += (self.agreement.private_bytes_raw().hex(), "")
        save(disk or Disk(), path, "\n".join(lines).encode())

    @classmethod
    def load(cls, path: Path) -> "SiteKeys":
        """FolderError for what is no such file, or is open to others."""
        try:
            with open(path, "rb", opener=_no_link) as file:
                _check_private(os.fstat(file.fileno()), path)
                lines = file.read(MOST_BYTES).decode("ascii").split("\n")
        except (OSError, ValueError) as reason:
            if isinstance(reason, FolderError):
                raise
            told = getattr(reason, "strerror", None) or "this is not a file of keys"
            raise FolderError(f"the keys cannot be read: {told}", file=shown(path)) from None
        try:
            form, signing, agreement, end = lines
            if form != FORM or end or any(len(line) != 64 for line in (signing, agreement)):
                raise ValueError
            pair = bytes.fromhex(signing), bytes.fromhex(agreement)
        except ValueError:
            raise FolderError("this is not a file of keys", file=shown(path)) from None
        return cls(
            Ed25519PrivateKey.from_private_bytes(pair[0]),
            X25519PrivateKey.from_private_bytes(pair[1]),
        )


def _no_link(path: str, flags: int) -> int:
    """Nor does a pipe keep it waiting."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _check_private(state: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise FolderError("this is not a file of keys", file=shown(path))
    if os.name == "posix" and stat.S_IMODE(state.st_mode) & 0o077:
        raise FolderError(
            "other users can read or change these keys; run chmod 600 on the file", file=shown(path)
        )
