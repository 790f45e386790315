"""An operator's own authority, and what the server tells clients about it in the handshake."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.clients.running import running

from fathom.api.auth.certificates import PkiError, ensure_pki
from fathom.seams.outside import SystemClock

pytestmark = pytest.mark.live

NAME = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
        x509.NameAttribute(NameOID.COMMON_NAME, "our own authority"),
    ]
)
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def authority(folder: Path, key: Key, *, is_ca: bool = True) -> None:
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=100))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        # Not the usual digest of the key: what we sign must name the one that is there.
        .add_extension(x509.SubjectKeyIdentifier(b"0123456789"), critical=False)
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256())
    )
    folder.mkdir(mode=0o700, parents=True)
    (folder / "ca.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.key").write_bytes(pem)


KEYS: dict[str, Callable[[], Key]] = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
}


@pytest.mark.parametrize("kind", KEYS)
def test_an_authority_of_the_operators_own_signs_and_is_trusted(tmp_path: Path, kind: str) -> None:
    """The kubeconfig's client certificate is of it, and so is the server's: `request` shows both."""
    authority(tmp_path / "data" / "pki", KEYS[kind]())
    (tmp_path / "data").chmod(0o700)
    with running(tmp_path) as server:
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
        made = x509.load_pem_x509_certificates((tmp_path / "data/pki/server.pem").read_bytes())[0]
        assert made.issuer == NAME
        identifier = made.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert identifier.key_identifier == b"0123456789"


@pytest.mark.parametrize(
    ("key", "is_ca", "words"),
    [
        (rsa.generate_private_key(65537, 1024), True, "2048 bits"),
        (ed25519.Ed25519PrivateKey.generate(), True, "RSA key"),
        (rsa.generate_private_key(65537, 2048), False, "is not a CA certificate"),
    ],
)
def test_an_authority_that_cannot_sign_for_us_is_refused_in_one_line(
    tmp_path: Path, key: Key, is_ca: bool, words: str
) -> None:
    authority(tmp_path / "pki", key, is_ca=is_ca)
    with pytest.raises(PkiError, match=words) as refused:
        ensure_pki(tmp_path, clock=SystemClock())
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_the_server_names_the_authority_whose_certificates_it_takes(tmp_path: Path, version: str) -> None:
    """Clients with several certificates choose by it."""
    authority(tmp_path / "data" / "pki", KEYS["rsa"]())
    (tmp_path / "data").chmod(0o700)
    with running(tmp_path) as server:
        place = urlsplit(server.url).netloc
        words = ["openssl", "s_client", "-connect", place, version]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30
        )
        server.request("GET", "/api/v1/namespaces")
    assert "Acceptable client certificate CA names" in done.stdout, done.stdout[:2000]
    assert "O = Example, CN = our own authority" in done.stdout.replace("O=", "O = ").replace("CN=", "CN = ")
