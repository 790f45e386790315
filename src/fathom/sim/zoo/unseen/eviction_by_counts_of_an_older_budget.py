"""An eviction is allowed by what a disruption budget allowed before its spec was changed: nobody waits until
the new one is counted."""

from __future__ import annotations

from fathom.api.subresources.eviction import take_disruption
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    take_disruption,
    'if observed < (metadata(budget).get("generation") or 0):',
    "if not observed:",
)
