"""52. A controller reads an override from the API server before it acknowledges it: it acknowledges a
generation that its cache, from which all its decisions come, does not have yet."""

from __future__ import annotations

from typing import Any

from fathom.control.plan import Plan, WriteStatus, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.controllers.override_pauses import OVERRIDE
from fathom.controllers.overrides.acknowledging import Acknowledgements, _Acknowledging
from fathom.kinds.override_status import Acknowledger, acknowledged
from fathom.model.declared import Reads
from fathom.model.objects import Key
from fathom.sim.zoo import put_back

SCENARIOS = ("overrides-are-edited",)
BREAKS = "no override is acknowledged before it is observed"


async def from_the_server(self: Any, key: Key) -> ReconcileResult:
    view, override = self._kit.snapshot(), await self._kit.api.get(OVERRIDE.resource, *key)
    if override is None:
        return ReconcileResult.never()
    entries = acknowledged(
        override,
        [Acknowledger(name, self._kit.epoch) for name in self.controllers],
        cache_revision=view.revision("SchedulerOverride"),
        now=self._kit.now(),
        now_ns=self._kit.now_ns(),
    )
    if entries is None:
        return ReconcileResult.never()
    status = WriteStatus(target("SchedulerOverride", override), {"acknowledgements": entries})
    return ReconcileResult.after(
        await self._kit.apply(key, Plan(statuses=(status,), why="the server has it"), seen=view)
    )


put_back(_Acknowledging, "reconcile", from_the_server)
put_back(Acknowledgements, "reads", (Reads("SchedulerOverride"), Reads("SchedulerOverride", source="api")))
