"""A repeated deletion with a longer grace period lengthens it, instead of only ever shortening it."""

from __future__ import annotations

from fathom.api.removal import _repeated_deletion
from fathom.sim.zoo import rewrite

ROOM = "api"
WITHOUT_EFFECT = (
    "Only pods have a grace period, and their rules take the shortest one that was ever asked for: "
    "this is the second guard. The story `deleted-again` would show it if both were gone."
)

rewrite(
    _repeated_deletion,
    "if grace_s < before_s:",
    "if grace_s != before_s:",
)
