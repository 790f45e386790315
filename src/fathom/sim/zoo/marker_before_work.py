"""7. A controller writes the mark that says "done" before it does the work: if it crashes in between, the
work is never done (kubernetes#50067)."""

from __future__ import annotations

from typing import Any

from fathom.control.plan import Plan
from fathom.control.reconcile_result import ReconcileResult
from fathom.model.objects import Key, labels_of
from fathom.sim.scenarios import disk_controller
from fathom.sim.zoo import put_back

SCENARIOS = ("crash-after-any-write",)
BREAKS = "converges after a crash at any write"

right, reconcile = disk_controller.plan_claim, disk_controller.Cleanup.reconcile


def marked_only(claim: Any, disk: Any) -> Plan:
    plan = right(claim, disk)
    return Plan(patches=plan.patches, why=plan.why) if plan.creates else plan


async def then_made(self: Any, key: Key) -> ReconcileResult:
    claim = self._kit.snapshot().get("ConfigMap", key)
    makes = claim is not None and disk_controller.CLAIM in labels_of(claim) and right(claim, None).creates
    again = await reconcile(self, key)
    if not makes or again.failure is not None:
        return again
    return ReconcileResult.after(await self._kit.apply(key, Plan(creates=makes), seen=self._kit.snapshot()))


put_back(disk_controller, "plan_claim", marked_only)
put_back(disk_controller.Cleanup, "reconcile", then_made)
