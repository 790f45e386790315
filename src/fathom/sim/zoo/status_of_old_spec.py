"""16. A status is computed from the spec that was read, and written with the generation that is there by
then: it says that it has seen what it has not."""

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
        statuses = tuple(_restamped(said, newest) for said in plan.statuses)
        plan = msgspec.structs.replace(plan, statuses=statuses)
    return await right(self, plan, here=here, seen=seen)


def _restamped(said: WriteStatus, newest: Any) -> WriteStatus:
    if "current" not in said.status:
        return said
    generation = metadata(newest)["generation"]
    current = {**said.status["current"], "generation": generation}
    return WriteStatus(said.target, {**said.status, "current": current, "observedGeneration": generation})


put_back(Commit, "apply", with_newest_generation)
