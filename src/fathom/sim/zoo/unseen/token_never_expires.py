"""The expiry of a service account's token is not looked at."""

from __future__ import annotations

from fathom.api.auth.accounts import AccountTokens
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    AccountTokens._fault,
    "if now_s >= claims.exp:",
    "if False:",
)
