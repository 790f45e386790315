"""Signed tokens: JSON Web Signatures with ES256 or RS256, and no other part of JOSE.

The key decides the algorithm; the token's header is only compared with it, so neither `none` nor a public key
misused as a shared secret is accepted.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

TOKEN_BYTES_MAX = 16 * 1024  # A bound service account token has about 1 KiB.


class TokenHeader(msgspec.Struct, frozen=True):
    alg: str
    kid: str = ""


class SigningKey:
    def __init__(self, private: PrivateKey) -> None:
        self._private = private
        self.public = VerifyingKey(private.public_key())

    def sign(self, claims: bytes) -> str:
        header = msgspec.json.encode({"alg": self.public.algorithm, "kid": self.public.key_id})
        signed = f"{_encode(header)}.{_encode(claims)}"
        return f"{signed}.{_encode(self._signature(signed.encode()))}"

    def _signature(self, signed: bytes) -> bytes:
        if isinstance(self._private, rsa.RSAPrivateKey):
            return self._private.sign(signed, padding.PKCS1v15(), SHA256())
        r, s = decode_dss_signature(self._private.sign(signed, _ecdsa()))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


class VerifyingKey:
    def __init__(self, public: PublicKey) -> None:
        self._public = public
        self.algorithm = "RS256" if isinstance(public, rsa.RSAPublicKey) else "ES256"
        der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _encode(hashlib.sha256(der).digest())

    def claims(self, token: str) -> bytes | None:
        """The token's claims, if this key signed it."""
        if len(token) > TOKEN_BYTES_MAX or not token.isascii() or token.count(".") != 2:
            return None
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        try:
            header = msgspec.json.decode(_decode(head), type=TokenHeader)
            if header != TokenHeader(self.algorithm, self.key_id):
                return None
            self._check(_decode(signature), signed.encode())
            return _decode(body)
        except (InvalidSignature, ValueError, RecursionError):  # msgspec's errors are ValueErrors.
            return None

    def _check(self, signature: bytes, signed: bytes) -> None:
        if isinstance(self._public, rsa.RSAPublicKey):
            self._public.verify(signature, signed, padding.PKCS1v15(), SHA256())
            return
        if len(signature) != 64:
            raise InvalidSignature
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        self._public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(SHA256()))


def _ecdsa() -> ec.ECDSA:
    """Deterministic where the library supports it, so that a simulated server signs the same token again."""
    try:
        return ec.ECDSA(SHA256(), deterministic_signing=True)
    except UnsupportedAlgorithm:
        return ec.ECDSA(SHA256())


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Strict: Python's decoder would skip characters outside of the alphabet."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _encode(raw) != text:
        raise binascii.Error("not base64url")
    return raw
