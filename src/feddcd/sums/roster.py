"""Who may take part: a name and two public keys for each site, signed by every one of them.

The administrators compare six words over the phone. They follow from all names and keys, so that
whoever relays the roster can neither add to it nor exchange a key. They follow from the time at
which it was made, too: of two lists with the same sites, all see which one is newer.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from .._errors import Refused
from .._text import plural, printable
from . import signing
from ._canonical import canonical, digest, parse
from .keys import SiteKeys
from .ring import MOST_SITES

FEWEST = 3  # of two sites each would know the other's part
LONGEST_NAME = 100
KEY = 32  # bytes
MOST_BYTES = 2**20
LATEST = 253_402_300_800  # seconds: the year 10000
PRIME = 2**255 - 19
CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aiou"  # as in proquints
WORD, WORDS = "cvcvcvc", 6
JAPANESE = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC")  # in one name


class RosterMember(NamedTuple):
    """A site: its name and its public keys, Ed25519 and X25519, 32 bytes each."""

    name: str
    signing: bytes
    agreement: bytes

    @classmethod
    def of(cls, name: str, keys: SiteKeys) -> "RosterMember":
        return cls(name, *keys.public())


class Roster:
    """Members in the order of their names, and signatures by name. Names and keys are checked when
    it is made; `check` says whether everybody has signed. `made` is a time in seconds that only
    grows, from one list of a federation to the next; 0 in lists of earlier versions."""

    def __init__(
        self,
        members: Iterable[RosterMember],
        signatures: Mapping[str, bytes] = {},
        made: int = 0,
    ):
        given = [_checked(member) for member in members]
        self.members = tuple(sorted(given, key=lambda member: member.name))
        self.signatures, self.made = dict(signatures), made
        if type(made) is not int or not 0 <= made < LATEST:
            raise Refused(
                f"the time of a roster must be a whole number from 0 to {LATEST - 1}, got "
                f"{made!r:.30}"
            )
        if not 0 < len(self.members) <= MOST_SITES:
            raise Refused(f"a roster must have 1 to {MOST_SITES} sites, got {len(self.members)}")
        _check_distinct(self.members)
        if unknown := set(self.signatures) - set(self.names):
            raise Refused(
                f"the roster has a signature of the site {printable(min(unknown))!r}, but this "
                "site is not in the roster"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    @cached_property
    def digest(self) -> bytes:
        plain = canonical(_plain(self.members))
        if not self.made:
            return digest("feddcd-roster-1", plain)
        return digest("feddcd-roster-2", canonical(self.made), plain)

    def __getitem__(self, name: str) -> RosterMember:
        if name not in self._by_name:
            raise Refused(f"the site {printable(str(name))!r} is not in the roster")
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, RosterMember]:
        return {member.name: member for member in self.members}

    def own(self, keys: SiteKeys) -> RosterMember:
        """The member that these keys belong to."""
        public = keys.public()
        for member in self.members:
            if (member.signing, member.agreement) == public:
                return member
        raise Refused("this site's keys are not in the roster")

    def words(self) -> str:
        """Six words to read out."""
        return _spoken(self.digest)

    def signed(self, keys: SiteKeys) -> "Roster":
        """With this site's signature, too."""
        signature = signing.sign_roster(keys.signing, self.digest)
        return self.with_signatures({self.own(keys).name: signature})

    def with_signatures(self, more: Mapping[str, bytes]) -> "Roster":
        return Roster(self.members, self.signatures | dict(more), self.made)

    def check(self) -> "Roster":
        """Refused unless every member has signed it."""
        for name, member in self._by_name.items():
            if name not in self.signatures:
                raise Refused(f"the site {name!r} has not signed the roster (the list of sites)")
            try:
                signing.verify_roster(member.signing, self.digest, self.signatures[name])
            except Refused:
                raise Refused(
                    f"the signature of the site {name!r} in the roster was not made with the key "
                    "of this site"
                ) from None
        return self

    def cohort(self, names: Iterable[str], fewest: int = FEWEST) -> tuple[str, ...]:
        """The sites of a job, in order, each of them once: for sums at least three."""
        given = list(names)
        if not all(isinstance(name, str) for name in given):
            raise Refused("a cohort must be a list of names")
        chosen = tuple(sorted(set(given)))
        if len(chosen) < len(given):
            raise Refused("a cohort has the same site twice")
        for name in chosen:
            self[name]
        if len(chosen) < fewest:
            raise Refused(
                f"a cohort must have at least {plural(fewest, 'site')}, got {len(chosen)}"
            )
        return chosen

    def to_json(self) -> bytes:
        signatures = {name: signature.hex() for name, signature in self.signatures.items()}
        held = {"members": _plain(self.members), "signatures": signatures}
        return canonical(held | ({"made": self.made} if self.made else {}))

    @classmethod
    def from_json(cls, data: bytes) -> "Roster":
        values = parse(data, MOST_BYTES)
        try:
            members = [RosterMember(n, _bytes(s), _bytes(a)) for n, s, a in values.pop("members")]
            signatures = {name: _bytes(text) for name, text in values.pop("signatures").items()}
            in_order = members == sorted(members)
            made = values.pop("made", 0)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise Refused("the roster (the list of sites) cannot be read") from None
        if values or not in_order:
            raise Refused(
                "the roster has unknown parts, or its sites are not in alphabetical order"
            )
        return cls(members, signatures, made)


def check_name(name: Any) -> str:
    """Printable, no spaces at its ends, the same in every spelling of Unicode, of one script."""
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME):
        raise Refused(f"the name of a site must have 1 to {LONGEST_NAME} letters")
    if not name.isprintable() or name != name.strip():
        raise Refused(
            f"the name {printable(name)!r} of a site has characters that cannot be shown, or has "
            "spaces at its ends"
        )
    if name != unicodedata.normalize("NFKC", name):
        raise Refused(f"the site's name {name!r} has letters that look like other letters")
    if len(scripts := _scripts(name)) > 1:
        raise Refused(f"the site's name {name!r} mixes {' and '.join(scripts)} letters")
    return name


def _scripts(name: str) -> list[str]:
    """The scripts of these letters, by the first word of their names in Unicode; of ASCII only the
    letters. Letters of two scripts can look the same, and a person compares names by eye."""
    found = {
        unicodedata.name(letter, "nameless").split()[0]
        for letter in name
        if letter.isalpha() or not letter.isascii()
    }
    return sorted({"JAPANESE" if script in JAPANESE else script for script in found})


def _checked(member: RosterMember) -> RosterMember:
    name = check_name(member.name)
    for key in (member.signing, member.agreement):
        if not (isinstance(key, bytes) and len(key) == KEY):
            raise Refused(f"a key of the site {name!r} does not have {KEY} bytes")
    if int.from_bytes(member.signing, "little") % 2**255 >= PRIME or _weak(member.signing):
        raise Refused(f"the signing key of the site {name!r} is weak")
    check_agreement(member.agreement, f"the agreement key of the site {name!r}")
    try:
        Ed25519PublicKey.from_public_bytes(member.signing)
    except ValueError:
        raise Refused(f"the signing key of the site {name!r} is weak") from None
    return member


def check_agreement(key: bytes, whose: str) -> None:
    """Refused unless it is a public key of X25519, in its one spelling."""
    if int.from_bytes(key, "little") >= PRIME:
        raise Refused(f"{whose} is not a valid X25519 key, because its number is too large")
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        raise Refused(
            f"{whose} is weak, because other people could compute the masks of that site"
        ) from None


# y of the points of order 1, 2, 4 and 8: signatures by them fit any message
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = {0, 1, PRIME - 1, _ORDER_8, PRIME - _ORDER_8}


def _weak(key: bytes) -> bool:
    return int.from_bytes(key, "little") % 2**255 in _WEAK


def _check_distinct(members: Iterable[RosterMember]) -> None:
    names: set[str] = set()
    keys: set[bytes] = set()
    written: dict[str, str] = {}  # script: a name in it
    for member in members:
        written |= dict.fromkeys(_scripts(member.name), member.name)
        if len(written) > 1:
            told = " and ".join(f"{name!r} ({script})" for script, name in written.items())
            raise Refused(
                "the names in the roster have letters of two scripts, which can look "
                f"the same: {told}"
            )
        folded = unicodedata.normalize("NFKC", member.name.casefold())
        if folded in names:
            raise Refused(f"two sites have the name {member.name!r}, or names that look the same")
        if keys & {member.signing, member.agreement} or member.signing == member.agreement:
            raise Refused(f"a key of the site {member.name!r} occurs twice in the roster")
        names.add(folded)
        keys |= {member.signing, member.agreement}


def _plain(members: Iterable[RosterMember]) -> list[list[str]]:
    return [[member.name, member.signing.hex(), member.agreement.hex()] for member in members]


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str) or text != text.lower():
        raise ValueError
    return bytes.fromhex(text)


def member_words(member: RosterMember, *more: bytes) -> str:
    """Six words of one site, its keys and what else both sides must have alike: for the day on
    which it enrols, before there is a roster with it."""
    held = canonical([*_plain([_checked(member)]), *(part.hex() for part in more)])
    return _spoken(digest("feddcd-enrolment-1", held))


@lru_cache
def _spoken(roster: bytes) -> str:
    """132 bits. They are dear to compute, as whoever makes two rosters may look for equal words."""
    held = hashlib.scrypt(roster, salt=b"feddcd-roster-words-1", n=2**14, r=8, p=1, dklen=17)
    rest = int.from_bytes(held, "big")
    words = []
    for _ in range(WORDS):
        word = ""
        for kind in WORD:
            letters = CONSONANTS if kind == "c" else VOWELS
            rest, at = divmod(rest, len(letters))
            word += letters[at]
        words.append(word)
    return " ".join(words)
