"""A second deletion with a longer grace period prolongs that of the first."""

from __future__ import annotations

from fathom.api.removal import _repeated_deletion
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    _repeated_deletion,
    "if grace_s < before_s:",
    "if grace_s != before_s:",
)
