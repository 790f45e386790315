"""The cluster's PKI: a CA, the server's certificate, client certificates, the token-signing key.

All files are in DIR/pki, readable by their owner only:

    ca.key  ca.crt     the CA; losing the key means new credentials for every client. An operator may bring
                       one: an elliptic curve or RSA key, and its certificate
    front-proxy-ca.*   the CA of a proxy that names the user on whose behalf it asks: never the clients' CA
    server.pem         the server's key and certificate in one file, so that they are replaced together
    sa.key             signs service account tokens

A derived file (server.pem) is renewed when its names change or it expires soon. Files that clients depend on
are never replaced silently: a damaged or expired CA is an error that says what to do.
"""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import msgspec
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fathom.api.auth.jws import PrivateKey
from fathom.model.times import SECOND_NS
from fathom.model.user import AUTHENTICATED, MASTERS, User
from fathom.private_files import write_private
from fathom.seams.outside import Clock

CA_DAYS = 3650
SERVER_DAYS = 365
CLIENT_DAYS = 365
RENEW_DAYS = 30  # A server that restarts monthly never serves an expired certificate.
SKEW = timedelta(minutes=5)  # A certificate must be valid also for clients whose clocks are behind.

ALWAYS = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.96.0.1",  # The address of the Service `default/kubernetes`: see api/own_service.
)
ADMIN = User("fathom-admin", (MASTERS,))

_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL}){{0,126}}")


AuthorityKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
RSA_BITS_MIN = 2048


class PkiError(Exception):
    """One line for the operator: which file, what is wrong with it, what to do."""


class Pki(msgspec.Struct, frozen=True):
    ca: x509.Certificate
    ca_key: AuthorityKey
    ca_file: Path
    server_file: Path  # Key and certificate, for ssl.SSLContext.load_cert_chain.
    accounts_key: PrivateKey

    @property
    def ca_pem(self) -> bytes:
        return self.ca.public_bytes(Encoding.PEM)


def ensure_pki(directory: Path, names: Sequence[str] | None = (), *, clock: Clock) -> Pki:
    """Load the files in DIRECTORY/pki; create missing ones. `names`: further DNS names and addresses that
    clients use for this server; None: do not make the server's certificate. Raises PkiError."""
    pki = directory / "pki"
    now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
    try:
        pki.mkdir(mode=0o700, parents=True, exist_ok=True)
        pki.chmod(0o700)
        ca, ca_key = _ensure_ca(pki, "ca", "fathom-ca", now)
        if names is not None:
            _ensure_server(pki / "server.pem", ca, ca_key, sorted(_names(names)), now)
        accounts_key = _ensure_accounts_key(pki / "sa.key")
    except OSError as error:
        raise PkiError(
            f"{error.filename or pki}: {error.strerror}; check the directory's permissions"
        ) from None
    return Pki(ca, ca_key, pki / "ca.crt", pki / "server.pem", accounts_key)


def served_names(names: Iterable[str]) -> frozenset[str]:
    """What the server's certificate is for, with these further names. Raises PkiError."""
    return frozenset(_names(names))


def ensure_front_proxy_ca(directory: Path, *, clock: Clock) -> bytes:
    """The certificate (PEM) of the CA that vouches for a proxy in front of extension API servers. Raises
    PkiError."""
    now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
    try:
        ca, _ = _ensure_ca(directory / "pki", "front-proxy-ca", "fathom-front-proxy-ca", now)
    except OSError as error:
        raise PkiError(f"{error.filename}: {error.strerror}; check the directory's permissions") from None
    return ca.public_bytes(Encoding.PEM)


def _names(extra: Iterable[str]) -> dict[str, None]:
    """DNS names and addresses in canonical spelling."""
    for name in extra:
        if not _is_address(name) and not _DNS_NAME.fullmatch(name):
            raise PkiError(
                f"{name!r} is neither a DNS name nor an IP address; give names without port or scheme"
            )
    host = socket.gethostname()
    mine = (host,) if _DNS_NAME.fullmatch(host) else ()
    return {
        str(ip_address(name)) if _is_address(name) else name.lower(): None
        for name in (*ALWAYS, *mine, *extra)
    }


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


# The CA.


def _ensure_ca(pki: Path, name: str, subject: str, now: datetime) -> tuple[x509.Certificate, AuthorityKey]:
    key_file, file = pki / f"{name}.key", pki / f"{name}.crt"
    if file.exists() and not key_file.exists():
        raise PkiError(f"{key_file} is missing beside {file.name}; {_RESTORE.format(pki=pki)}")
    if not key_file.exists():
        write_private(key_file, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    key = _load_key(key_file, _RESTORE.format(pki=pki))
    if not isinstance(key, AuthorityKey) or _is_weak(key):
        problem = f"neither an elliptic curve key nor an RSA key of {RSA_BITS_MIN} bits or more"
        raise PkiError(f"{key_file} is {problem}; {_RESTORE.format(pki=pki)}")
    if not file.exists():  # Also after a crash between the two writes: the existing key is used.
        write_private(file, _make_ca(key, subject, now).public_bytes(Encoding.PEM))
    ca = _load_certificate(file, _RESTORE.format(pki=pki))
    if ca.public_key() != key.public_key():
        raise PkiError(f"{file} does not belong to {key_file.name}; {_RESTORE.format(pki=pki)}")
    if not _is_authority(ca):
        raise PkiError(f"{file} is not a CA certificate; {_RESTORE.format(pki=pki)}")
    if not ca.not_valid_before_utc <= now < ca.not_valid_after_utc:
        raise PkiError(
            f"{file} is valid only until {ca.not_valid_after_utc:%Y-%m-%d}; {_RENEW.format(pki=pki)}"
        )
    return ca, key


_RESTORE = "restore it from a backup, or remove {pki} for a new CA (all clients then need new credentials)"
_RENEW = "check the clock, or remove {pki} for a new CA (all clients then need new credentials)"


def _is_weak(key: AuthorityKey) -> bool:
    return isinstance(key, rsa.RSAPrivateKey) and key.key_size < RSA_BITS_MIN


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _make_ca(key: AuthorityKey, subject: str, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# Certificates that the CA signs.


class _Leaf(msgspec.Struct, frozen=True):
    subject: x509.Name
    purpose: x509.ObjectIdentifier
    days: int
    names: Sequence[str] = ()


def _issue(leaf: _Leaf, ca: x509.Certificate, ca_key: AuthorityKey, now: datetime) -> tuple[bytes, bytes]:
    """Certificate and key, as PEM. No certificate outlives the CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + timedelta(days=leaf.days), ca.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([leaf.purpose]), critical=False)
        .add_extension(authority_identifier(ca, ca_key), critical=False)
    )
    if leaf.names:
        alternatives = [_alternative(name) for name in leaf.names]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(ca_key, SHA256()).public_bytes(Encoding.PEM), _key_pem(key)


def authority_identifier(ca: x509.Certificate, ca_key: AuthorityKey) -> x509.AuthorityKeyIdentifier:
    """The key identifier in the CA's certificate: an operator's own CA may use another one for its key."""
    try:
        identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _alternative(name: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(name)) if _is_address(name) else x509.DNSName(name)


def _ensure_server(
    file: Path, ca: x509.Certificate, ca_key: AuthorityKey, names: list[str], now: datetime
) -> None:
    if file.exists() and _serves(file, ca, names, now):
        return
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fathom-apiserver")])
    leaf = _Leaf(subject, ExtendedKeyUsageOID.SERVER_AUTH, SERVER_DAYS, names)
    certificate, key = _issue(leaf, ca, ca_key, now)
    write_private(file, key + certificate)


def _serves(file: Path, ca: x509.Certificate, names: list[str], now: datetime) -> bool:
    """Whether the file is signed by our CA, for these names, and will stay valid for a while."""
    remedy = "remove it and start again: a new one is made"
    certificate = _load_certificate(file, remedy)
    if certificate.public_key() != _load_key(file, remedy).public_key():
        raise PkiError(f"{file} holds a key and a certificate that do not belong together; {remedy}")
    try:
        certificate.verify_directly_issued_by(ca)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    listed = sorted(str(alternative.value) for alternative in alternatives)
    return listed == names and now + timedelta(days=RENEW_DAYS) < certificate.not_valid_after_utc


def issue_client(pki: Pki, user: User, *, clock: Clock, days: int = CLIENT_DAYS) -> tuple[bytes, bytes]:
    """A certificate and key (PEM) that authenticate their holder as this user, in these groups."""
    groups = [group for group in user.groups if group != AUTHENTICATED]
    try:
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user.name),
            ]
        )
    except ValueError:
        raise PkiError(
            f"{user.name!r} does not fit into a certificate (a name has 1 to 64 characters); use a token"
        ) from None
    now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
    return _issue(_Leaf(subject, ExtendedKeyUsageOID.CLIENT_AUTH, days), pki.ca, pki.ca_key, now)


def kubeconfig(
    pki: Pki, server_url: str, user: User = ADMIN, *, clock: Clock, context: str = "fathom"
) -> str:
    """A kubeconfig that needs no other file: it contains the CA and a new client certificate."""
    certificate, key = issue_client(pki, user, clock=clock)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": context,
                "cluster": {"server": server_url, "certificate-authority-data": _b64(pki.ca_pem)},
            }
        ],
        "users": [
            {
                "name": user.name,
                "user": {"client-certificate-data": _b64(certificate), "client-key-data": _b64(key)},
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": user.name}}],
        "current-context": context,
        "preferences": {},
    }
    return yaml.safe_dump(config, sort_keys=False)


def _b64(raw: bytes) -> str:
    return b64encode(raw).decode()


# Files.


def _ensure_accounts_key(file: Path) -> PrivateKey:
    if not file.exists():
        write_private(file, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    remedy = "restore it from a backup, or remove it (all service account tokens then become invalid)"
    key = _load_key(file, remedy)
    fits = (isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1") or (
        isinstance(key, rsa.RSAPrivateKey) and key.key_size >= 2048
    )
    if not fits or not isinstance(key, PrivateKey):
        raise PkiError(f"{file} is neither a P-256 nor an RSA key of 2048 bits or more; {remedy}")
    return key


def _load_key(file: Path, remedy: str) -> PrivateKeyTypes:
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    try:
        return load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError):  # TypeError: the key is encrypted.
        raise PkiError(f"{file} is not a readable private key; {remedy}") from None


def _load_certificate(file: Path, remedy: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except ValueError:
        raise PkiError(f"{file} is not a readable certificate; {remedy}") from None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
