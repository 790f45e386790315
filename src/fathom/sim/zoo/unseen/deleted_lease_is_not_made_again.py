"""An agent whose Lease was deleted, with its Node for example, goes on renewing the one that is gone: nobody
hears of it by a lease any more."""

from __future__ import annotations

from fathom.agent.heartbeat import Heartbeat
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    Heartbeat._renew,
    (
        "        elif not isinstance(outcome, Unknown):\n"
        "            self._lease = None  # Deleted or changed: read it before the next renewal.\n"
    ),
    "",
)
