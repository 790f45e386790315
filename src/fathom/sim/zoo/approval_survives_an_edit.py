"""54. An approval is a fact about the override, not about its spec: whoever edits it afterwards has what
nobody approved (docs/overrides.md: the approval is bound to the hash of the spec)."""

from __future__ import annotations

from fathom.api.admission.overrides import plugin
from fathom.kinds import override_stamps, scheduler_override
from fathom.kinds.definition import Stamp
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.model.objects import Obj, lookup
from fathom.sim.zoo import put_back

SCENARIOS = ("approved-and-edited",)
BREAKS = "only what was approved is in force"


def keeps_the_approval(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    before = lookup(old, "status", "approval") or {}
    asked = RIGHT(obj, old, stamp)
    return {**asked, "approval": before} if before.get("approved") else asked


def for_any_spec(override: SchedulerOverride) -> bool:
    asked = override.status.approval
    return asked is None or not asked.required or asked.approved is True


RIGHT = override_stamps.status_awaiting_approval
put_back(plugin, "status_awaiting_approval", keeps_the_approval)
put_back(scheduler_override, "approval_given", for_any_spec)
