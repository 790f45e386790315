"""16. A controller computes a status from the spec that it read and writes it with the newest generation: the
status claims to have observed a spec that it has not."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.control.commit import Commit
from fathom.control.plan import Plan, WriteStatus
from fathom.model.objects import metadata
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas",)
BREAKS = "conditions name the generation they observed"

right = Commit.apply


async def with_newest_generation(self: Any, plan: Plan, *, here: Any, seen: Any) -> Any:
    newest = await self._api.get(here.kind.resource, *here.key) if plan.statuses else None
    if newest is not None and here.kind.name == "ReplicaSet":
        statuses = tuple(_restamped(write, newest) for write in plan.statuses)
        plan = msgspec.structs.replace(plan, statuses=statuses)
    return await right(self, plan, here=here, seen=seen)


def _restamped(write: WriteStatus, newest: Any) -> WriteStatus:
    if "current" not in write.status:
        return write
    generation = metadata(newest)["generation"]
    current = {**write.status["current"], "generation": generation}
    return WriteStatus(write.target, {**write.status, "current": current, "observedGeneration": generation})


put_back(Commit, "apply", with_newest_generation)
