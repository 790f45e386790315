"""Any update of an object that is being deleted and has no finalizer removes it, before its grace period
is over."""

from __future__ import annotations

from fathom.api.removal import is_over
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    is_over,
    'return not meta.get("deletionGracePeriodSeconds")',
    "return True",
)
