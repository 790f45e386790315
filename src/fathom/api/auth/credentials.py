"""What a session of the web page stands on: a credential without its secret, checked with each request."""

from __future__ import annotations

import msgspec

from fathom.api.auth.accounts import TokenClaims
from fathom.model.user import User


class Credential(msgspec.Struct, frozen=True):
    """Of a static token the digest, of a service account's token the claims, of a certificate its end."""

    user: User
    token: bytes = b""
    claims: TokenClaims | None = None
    until_ns: int = 0
