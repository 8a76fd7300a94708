"""Keys and certificates: a small authority of the federation's own, and a key pair per site."""

import datetime
import ipaddress
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..._errors import Refused, SpecError
from ..._files import Disk, save, shown
from ..._text import sentence_list

YEARS = 10
CURVE = ec.SECP384R1()
_PEM, _SSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
_PLAIN = serialization.NoEncryption()
_OPEN = serialization.PublicFormat.OpenSSH


class Authority(NamedTuple):
    """Who has its key can make servers that the sites believe."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, name: str) -> "Authority":
        key, subject = _new_key(), _subject(f"{name} authority")
        ca = x509.BasicConstraints(ca=True, path_length=0)
        builder = _builder(subject, subject, key.public_key())
        builder = builder.add_extension(ca, critical=True)
        builder = builder.add_extension(_usage(sign=True), critical=True)
        identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identity, critical=False)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SpecError(
                f"{folder / 'ca.key'} is not a key that feddcd made for TLS certificates"
            )
        return cls(key, x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()))

    def save(self, folder: Path) -> None:
        form = serialization.PrivateFormat.PKCS8
        _private(folder / "ca.key", self.key.private_bytes(_PEM, form, _PLAIN))
        (folder / "ca.crt").write_bytes(self.pem())

    def pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)


def write_server(authority: Authority, folder: Path, hosts: list[str]) -> None:
    """server.key and server.crt for these names and addresses, and the authority's ca.crt."""
    signer, ca = authority
    key = _new_key()
    builder = _builder(_subject(hosts[0]), ca.subject, key.public_key())
    for extension, critical in (
        (x509.SubjectAlternativeName([_host(host) for host in hosts]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(sign=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(signer, hashes.SHA256())
    plain = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _PLAIN)
    _private(folder / "server.key", plain)
    (folder / "server.crt").write_bytes(certificate.public_bytes(_PEM))
    (folder / "ca.crt").write_bytes(authority.pem())


def check_server(folder: Path) -> None:
    """SpecError, with the name of the file, unless the server can start with its three files."""
    held: dict[str, Any] = {}
    for name, load in _SERVER.items():
        try:
            held[name] = load((folder / name).read_bytes())
        except OSError as error:
            raise _unusable(folder, name, f"cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _unusable(folder, name, "was changed or damaged") from None
    own, ca = held["server.crt"], held["ca.crt"]
    if held["server.key"].public_key() != own.public_key():
        raise _unusable(folder, "server.key", "does not belong to server.crt")
    try:
        own.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        raise _unusable(folder, "server.crt", "does not belong to ca.crt") from None


def _unusable(folder: Path, name: str, why: str) -> SpecError:
    at = shlex.quote(shown(folder.parent))
    return SpecError(
        f"{shown(folder / name)} {why}. Put {sentence_list(sorted(_SERVER))} back from a backup. "
        "If there is no backup, give this command, and follow the instructions that it prints: "
        f"feddcd federation certify {at}"
    )


_SERVER: dict[str, Callable[[bytes], Any]] = {
    "ca.crt": x509.load_pem_x509_certificate,
    "server.crt": x509.load_pem_x509_certificate,
    "server.key": lambda data: serialization.load_pem_private_key(data, None),
}


def serves(folder: Path, host: str) -> bool:
    """Whether the server's certificate holds this name or address."""
    certificate = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return _host(host) in list(names)


def write_pair(folder: Path) -> bytes:
    """A site's `key` and `key.pub`; returns the public one: the other never leaves its folder."""
    key = _new_key()
    _private(folder / "key", key.private_bytes(_PEM, serialization.PrivateFormat.OpenSSH, _PLAIN))
    public = public_of(key)
    (folder / "key.pub").write_bytes(public)
    return public


def load_private(path: Path) -> ec.EllipticCurvePrivateKey:
    """A site's own key."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SpecError(f"{path} is not a private key, or has a password: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SpecError(f"{path} is not a key of the kind that feddcd makes for a site (ECDSA)")
    return key


def public_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """As `key.pub` has it."""
    return key.public_key().public_bytes(_SSH, serialization.PublicFormat.OpenSSH)


def public_pem(key: bytes) -> bytes:
    """A public key, in whatever form, as Flower writes it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _load(key).public_bytes(_PEM, form)


def same_key(a: bytes, b: bytes) -> bool:
    """Whether two public keys, in whatever form, are one."""
    try:
        return _plain(a) == _plain(b)
    except (ValueError, UnsupportedAlgorithm):
        return False


def check_node_key(key: bytes) -> None:
    """Refused unless it is a public key of the one kind that sites have."""
    try:
        if not key.decode("ascii").strip().isprintable():  # one line
            raise ValueError
        found = _load(key)
    except (ValueError, UnsupportedAlgorithm):
        raise Refused("the key that the site sent is not a public key") from None
    if not isinstance(found, ec.EllipticCurvePublicKey) or found.curve.name != CURVE.name:
        told = "the key that the site sent is not of the kind that feddcd makes for a site"
        raise Refused(f"{told} (ECDSA with the curve {CURVE.name})")


def _plain(key: bytes) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _load(key).public_bytes(serialization.Encoding.DER, form)


def _load(key: bytes):
    if key.lstrip().startswith(b"-----"):
        return serialization.load_pem_public_key(key)
    return serialization.load_ssh_public_key(key)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(CURVE)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey):
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign, key_cert_sign=sign, crl_sign=sign, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _private(path: Path, data: bytes) -> None:
    """In a new file: one that is there may be open to others."""
    save(Disk(), path, data)
