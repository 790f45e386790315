"""8. A controller removes an external object only at the moment it sees the owner go, without a finalizer and
without a search for leftovers: if it misses that moment, the object leaks (cassandra-operator#398)."""

from __future__ import annotations

from typing import Any

from fathom.control.plan import Plan
from fathom.control.reconcile_result import ReconcileResult
from fathom.model.objects import Key
from fathom.sim.scenarios import disk_controller
from fathom.sim.zoo import put_back

SCENARIOS = ("claims",)
BREAKS = "nothing leaked when settled"

right = disk_controller.Cleanup.reconcile


async def on_the_edge(self: Any, key: Key) -> ReconcileResult:
    """Remembers the claims that it has seen."""
    view, seen = self._kit.snapshot(), vars(self).setdefault("seen", {})
    claim = view.get("ConfigMap", key)
    gone = seen.pop(key, None) if claim is None else None
    if claim is not None:
        seen[key] = claim
        return await right(self, key)
    disk = view.get("Secret", Key(disk_controller.CLOUD, disk_controller.disk_name(gone))) if gone else None
    plan = disk_controller.plan_leftovers([disk]) if disk else Plan()
    return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


put_back(disk_controller, "has_finalizer", lambda claim, name: True)
put_back(disk_controller, "leftovers", lambda claim, disks: [])
put_back(disk_controller.Cleanup, "reconcile", on_the_edge)
