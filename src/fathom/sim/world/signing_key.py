"""The signing key that all worlds share: signatures are random, but no run depends on their bytes."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric import ec

from fathom.api.auth.jws import SigningKey


@lru_cache(maxsize=1)
def world_key() -> SigningKey:
    # Derived from a number, not drawn: making a key would be the only randomness in a run.
    return SigningKey(ec.derive_private_key(82219, ec.SECP256R1()))
