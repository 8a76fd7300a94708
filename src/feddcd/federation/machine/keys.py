"""Keys and certificates: a small authority of the federation's own, and a key pair per site."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..._files import private

YEARS = 10
_PEM, _SSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
_PLAIN = serialization.NoEncryption()


def write_authority(folder: Path, name: str) -> None:
    """ca.key and ca.crt: who has the first can make servers that the sites believe."""
    key, subject = _new_key(), _subject(f"{name} authority")
    ca = x509.BasicConstraints(ca=True, path_length=0)
    usage = _usage(sign=True)
    builder = _builder(subject, subject, key.public_key())
    builder = builder.add_extension(ca, critical=True).add_extension(usage, critical=True)
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = builder.add_extension(identity, critical=False).sign(key, hashes.SHA256())
    _private(folder / "ca.key", key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _PLAIN))
    (folder / "ca.crt").write_bytes(certificate.public_bytes(_PEM))


def write_server(authority: Path, folder: Path, hosts: list[str]) -> None:
    """server.key and server.crt for these names and addresses."""
    signer = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    ca = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
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


def write_pair(folder: Path) -> bytes:
    """A site's `key` and `key.pub`; returns the public one: the other never leaves its folder."""
    key = _new_key()
    _private(folder / "key", key.private_bytes(_PEM, serialization.PrivateFormat.OpenSSH, _PLAIN))
    public = key.public_key().public_bytes(_SSH, serialization.PublicFormat.OpenSSH)
    (folder / "key.pub").write_bytes(public)
    return public


def same_key(a: bytes, b: bytes) -> bool:
    """Whether two public keys, in whatever form, are one."""
    try:
        return _plain(a) == _plain(b)
    except (ValueError, UnsupportedAlgorithm):
        return False


def _plain(key: bytes) -> bytes:
    load = serialization.load_ssh_public_key
    if key.lstrip().startswith(b"-----"):
        load = serialization.load_pem_public_key
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return load(key).public_bytes(serialization.Encoding.DER, form)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


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
    with open(path, "wb", opener=private) as file:
        file.write(data)
