"""Controllers acknowledge the overrides that their cache has.

All controllers of a process share its caches, so one controller acknowledges for all of them. It waits for
passes that began before the override came: what they write may follow from an older snapshot.

    1. A pass of the autoscaler takes its snapshot.  2. The override comes.  3. We acknowledge it.
    4. The pass writes what it decided in 1. So in step 3 we wait until that pass has ended.

A request of such a pass may still arrive, if its sender gave up on it. The server refuses it: it names the
overrides that the pass had seen (`Plan.heeds_pauses`).
"""

from __future__ import annotations

from typing import ClassVar

from fathom.control.kit import Kit
from fathom.control.plan import Plan, WriteStatus, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import Primary, Watch
from fathom.controllers.override_pauses import OVERRIDE
from fathom.kinds.override_changes import AUTOSCALER, DEPLOYMENT_CONTROLLER, REPAIR_CONTROLLER
from fathom.kinds.override_status import Acknowledger, acknowledged
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Key, metadata
from fathom.seams.loop_clock import loop_now_ns

# Names in `affectedControllers` -> the loops of this process that carry the changes out.
LOOPS: dict[str, tuple[str, ...]] = {
    AUTOSCALER: ("autoscaling",),
    DEPLOYMENT_CONTROLLER: ("deployments",),
    REPAIR_CONTROLLER: (
        "repair-reservations",
        "repair-pods",
        "repair-deployments",
        "repair-replicasets",
        "repair-jobs",
        "repair-proposals",
    ),
}
PASS_ENDS_S = 0.1


class _Acknowledging:
    name: ClassVar[str]
    watches: ClassVar[tuple[Watch, ...]]
    controllers: ClassVar[tuple[str, ...]]

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        # By override: its UID and generation, and when we first saw that. Ends with the override.
        self._seen: dict[Key, tuple[tuple[str, int], int]] = {}

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        override = view.get("SchedulerOverride", key)
        if override is None:
            self._seen.pop(key, None)
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
        meta = metadata(override)
        generation = (str(meta.get("uid") or ""), int(meta.get("generation") or 0))
        if self._seen.get(key, (None,))[0] != generation:
            self._seen[key] = (generation, loop_now_ns())
        oldest_ns = self._kit.oldest_pass_ns([loop for name in self.controllers for loop in LOOPS[name]])
        if oldest_ns is not None and oldest_ns <= self._seen[key][1]:
            return ReconcileResult.in_s(
                PASS_ENDS_S, "a pass that began before the override was seen is still going on"
            )
        status = WriteStatus(target("SchedulerOverride", override), {"acknowledgements": entries})
        why = f"the cache has generation {generation[1]}"
        return ReconcileResult.after(await self._kit.apply(key, Plan(statuses=(status,), why=why), seen=view))


def acknowledging(*names: str, controller: str = "override-acknowledgements") -> type[_Acknowledging]:
    """The controller that acknowledges for these controllers of its process."""

    class Acknowledging(_Acknowledging):
        controllers = names
        name = controller
        watches = (Primary(OVERRIDE, conditions=False),)
        reads: ClassVar[tuple[Reads, ...]] = (Reads("SchedulerOverride"),)
        writes: ClassVar[tuple[Writes, ...]] = (Writes("SchedulerOverride", ("status.acknowledgements",)),)

    return Acknowledging


Acknowledgements = acknowledging(AUTOSCALER, DEPLOYMENT_CONTROLLER, REPAIR_CONTROLLER)
