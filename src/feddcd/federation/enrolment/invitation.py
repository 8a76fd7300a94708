"""An invitation: one text for one site, with all that it needs to enrol.

It names the address, the authority of the coordinator's certificate, and a token that works
once. Whoever has the text can enrol in the site's place until it is used, so the two people compare
six words afterwards. What was changed on the way is found by the coordinator: see `claim`.
"""

import hashlib
import json
import re
import ssl
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from ..._errors import Refused, SpecError
from ..._settings import read_toml
from ..._text import printable

VERSION = 1
DAYS = 7.0
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]{1,253}):[0-9]{1,5}")
_MAKE = "; the coordinator makes an invitation with: feddcd federation invite DIR NAME"
_ASK = "ask the person at the coordinator for a new invitation"
_BEGIN = "# An invitation for "
_QUOTED = re.compile(r"^(\s*>)+ ?")
_ENTRY = re.compile(r'^[ \t]*(\w+)[ \t]*=\s*("[^"]*"|\d+)[ \t]*$', re.MULTILINE)
_BREAK = re.compile(r"[ \t]*\n[ \t]*")
_MOST_BYTES = 100_000
_HEAD = "\n".join(
    (
        _BEGIN + "{site} to the federation {federation}.",
        "# Keep this file secret. The invitation works once, for one set of keys, until {until}.",
        "# Run this command at the site:",
        "#   feddcd federation enrol {site}.invite --data FILE",
        "",
    )
)


class Invitation(NamedTuple):
    federation: str
    site: str
    address: str  # host:port, as the site calls it
    expires: int  # seconds since 1970
    certificate: str  # of the authority, PEM
    token: str

    @property
    def authority(self) -> str:
        """The fingerprint of the authority's certificate: SHA-256 in hexadecimal digits."""
        return fingerprint(self.certificate)

    @property
    def digest(self) -> str:
        """Of all but the token: both sides must have the same."""
        plain = {k: v for k, v in self._asdict().items() if k not in ("token", "certificate")}
        return _hash(plain | {"authority": self.authority})

    def text(self) -> str:
        head = _HEAD.format(site=self.site, federation=self.federation, until=when(self.expires))
        return head + tomli_w.dumps({"invitation": VERSION, **self._plain(), "check": self._check})

    def _plain(self) -> dict[str, Any]:
        body = "".join(self.certificate.strip().splitlines()[1:-1])
        return {
            "federation": self.federation, "site": self.site, "address": self.address,
            "expires": self.expires, "authority": self.authority, "token": self.token,
            "certificate": body,
        }  # fmt: skip

    @property
    def _check(self) -> str:
        return _hash(self._plain())[:16]


def read_invitation(path: Path, now: float | None = None) -> Invitation:
    """Refused, by name, if it is no invitation, was changed, or is too old."""
    if not path.exists():
        raise SpecError(f"{path}: no such file{_MAKE}")
    text, values = "", _values(path)
    if "invitation" not in values:
        text = _unquoted(path)
        values = _rejoined(text)
    if "invitation" not in values:
        if text.lstrip().startswith(_BEGIN):
            raise SpecError(
                f"{path}: the invitation is damaged. Perhaps a mail program cut or changed its "
                f"text. Copy the whole file again, as an attachment, or {_ASK}"
            )
        raise SpecError(
            f"{path} is not an invitation. An invitation is the file NAME.invite that you get from "
            f"the coordinator{_MAKE}"
        )
    if values["invitation"] != VERSION:
        raise SpecError(
            f"{path} is an invitation of another version of feddcd; ask the person at the "
            "coordinator which version to install"
        )
    kinds = {"federation": str, "site": str, "address": str, "expires": int, "authority": str,
             "token": str, "certificate": str, "check": str}  # fmt: skip
    for name, kind in kinds.items():
        if type(values.get(name)) is not kind:
            raise SpecError(
                f"{path}: the invitation is not complete, because the entry {name!r} is missing. "
                f"Copy the whole file again, or {_ASK}"
            )
    try:
        pem = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(_pem(values["certificate"])))
        given = [values[name] for name in ("federation", "site", "address", "expires")]
        found = Invitation._make([*given, pem, values["token"]])
        same = found.authority == values["authority"]
    except ValueError:
        raise SpecError(
            f"{path}: the certificate in the invitation cannot be read; {_ASK}"
        ) from None
    if not same:
        raise SpecError(
            f"{path}: the certificate in the invitation does not match its digest in the "
            f"invitation; {_ASK}"
        )
    if found._check != values["check"] or set(values) != {"invitation", *kinds}:
        raise SpecError(f"{path}: the invitation was changed on its way; {_ASK}")
    if not _ADDRESS.fullmatch(found.address) or not check_site(found.site):
        told = "the invitation has no valid address of the coordinator, or no valid name of a site"
        raise SpecError(f"{path}: {told}; {_ASK}")
    if not printable(found.federation) == found.federation or len(found.federation) > 200:
        raise SpecError(f"{path}: the name of the federation has letters that cannot be shown")
    if found.expires < (time.time() if now is None else now):
        raise SpecError(f"{path}: the invitation was valid until {when(found.expires)}; {_ASK}")
    return found


def _values(path: Path) -> dict[str, Any]:
    """Nothing where it is no TOML."""
    try:
        return read_toml(path)
    except SpecError as error:
        if "not a TOML file" not in str(error):
            raise
        return {}


def _unquoted(path: Path) -> str:
    """Its text without the marks that a mail program puts before the lines of an answer."""
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    return "\n".join(_QUOTED.sub("", line) for line in text.splitlines())


def _rejoined(text: str) -> dict[str, Any]:
    """Entries that a mail program broke into lines; whether they are whole, `check` says."""
    lines = [f"{name} = {_BREAK.sub('', value)}" for name, value in _ENTRY.findall(text)]
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return {}


def fingerprint(certificate: str) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def check_site(name: Any) -> bool:
    """Letters, digits, - and _: it is the name of folders and files."""
    return isinstance(name, str) and bool(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name))


def check_address(address: str) -> str:
    if not _ADDRESS.fullmatch(address):
        raise Refused(f"{address!r} is not an address; an address looks like fed.example.org:9093")
    return address


def when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _pem(body: str) -> str:
    return f"{ssl.PEM_HEADER}\n{body}\n{ssl.PEM_FOOTER}\n"


def _hash(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
