"""28. The garbage collector checks whether an object with the owner's name exists, not whether it has the
owner's UID: children of a deleted owner live on under its namesake."""

from __future__ import annotations

from fathom.controllers.housekeeping import garbage_collector
from fathom.controllers.housekeeping.plan_garbage import Owner, waits_for_dependents
from fathom.model.objects import Obj
from fathom.sim.zoo import put_back

SCENARIOS = ("owners-come-and-go",)
BREAKS = "nothing is orphaned when settled"


async def by_name(self: garbage_collector.Collector, obj: Obj, reference: Obj) -> Owner | None:
    ref = self._owner_ref(obj, reference)
    if ref is None:
        return None
    owner = await self._read(ref)
    waits = owner is not None and waits_for_dependents(owner)
    return Owner(str(reference["uid"]), exists=owner is not None, waits=waits)


put_back(garbage_collector.Collector, "_look_up", by_name)
