"""Each look at a lease counts as a new sighting of it: that of a crashed component never ends."""

from __future__ import annotations

from fathom.control.component_leases import ComponentLeases
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    ComponentLeases.fetch,
    "sighted(self._sightings.get(key_of(lease).name), lease, now_ns=now_ns)",
    "sighted(None, lease, now_ns=now_ns)",
)
