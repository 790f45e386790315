"""A scheduler's record names a quota as it was when its limits last changed: at an older revision than
the one in the view that the decision was made from."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.schedule.loop.consulted import ConsultedObjects
from fathom.sim.zoo import put_back

SCENARIOS = ("scheduling",)
BREAKS = "a decision's records are true"

right = ConsultedObjects.put


def only_other_limits(self: ConsultedObjects, kind: str, before: Obj | None, after: Obj | None) -> None:
    if before is None or after is None or before.get("spec") != after.get("spec"):
        right(self, kind, before, after)


put_back(ConsultedObjects, "put", only_other_limits)
