"""17. Repair gives back a reservation because its own cache does not show the pod that holds it, whose bind
is under way."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.sim.standins.repair import Repair
from fathom.sim.standins.reserver import POD_NAME
from fathom.sim.zoo import put_back

SCENARIOS = ("reservations",)
BREAKS = "no bound pod without capacity"


async def from_cache(self: Any, reservation: Obj) -> Obj | None:
    name = lookup(reservation, "metadata", "annotations", POD_NAME)
    found: Obj | None = self._kit.snapshot().get("Pod", Key(key_of(reservation).namespace, str(name)))
    return found


put_back(Repair, "_pod", from_cache)
