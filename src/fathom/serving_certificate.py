"""A self-signed certificate, made anew at each start of a process.

Clients trust it because they read it from the object that it is published in.

    python -m fathom.serving_certificate NAME ADDRESS      prints certificate and key, as PEM

It is a command because the library that makes it takes 8 MB of memory, which a small process needs only once.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import msgspec

from fathom.seams.outside import SystemClock

DAYS = 365


class Pair(msgspec.Struct, frozen=True):
    certificate: str  # PEM
    key: str


def self_signed(name: str, address: str, *, now_ns: int) -> Pair:
    from cryptography import x509  # noqa: PLC0415  # See above.
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.fromtimestamp(now_ns / 1e9, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.decode(), private.decode())


def main() -> None:
    name, address = sys.argv[1:]
    pair = self_signed(name, address, now_ns=SystemClock().now_ns())
    sys.stdout.write(msgspec.json.encode(pair).decode())


if __name__ == "__main__":
    main()
