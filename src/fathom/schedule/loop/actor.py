"""What the scheduler reads and writes. Its bindings are committed by the binder: `api/binding/actor.py`."""

from __future__ import annotations

from fathom.control.actor import LEADING_READS, LEADING_TIMERS, LEADING_WRITES
from fathom.model.accounts import SCHEDULER as ACCOUNT
from fathom.model.conditions import BLOCKED_BY_POLICY
from fathom.model.declared import (
    API_SERVER,
    DISRUPTIONS,
    MUTATING_ROOM,
    NODE_ROOM,
    SCHEDULING_QUEUE,
    TENANT_QUOTAS,
    Actor,
    Reads,
    Writes,
)
from fathom.schedule.loop.watched_kinds import KINDS

SCHEDULER = Actor(
    name="scheduler",
    process="scheduler",
    account=ACCOUNT,
    reads=(
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("Node", ("metadata", "spec", "status.allocatable", "status.conditions", "status.images")),
        Reads("Namespace", ("metadata.labels",)),
        Reads("PodDisruptionBudget", ("spec", "status.disruptionsAllowed")),
        Reads("PersistentVolume", ("metadata", "spec", "status.phase")),
        Reads("PersistentVolumeClaim", ("metadata", "spec", "status.phase")),
        Reads("TenantQuota", ("spec", "status")),
        Reads("CapacityClass", ("spec", "status")),
        Reads("SchedulingPolicy", ("spec",)),
        Reads("PolicyRollout", ("spec", "status")),
        Reads("SchedulerOverride", ("spec", "status")),
        Reads("Reservation", ("spec", "status")),
        *LEADING_READS,
    ),
    writes=(
        Writes(
            "Pod",
            (
                "status.conditions[type=DisruptionTarget]",
                "status.conditions[type=PodScheduled]",
                "status.conditions[type=Queued]",
                "status.conditions[type=SchedulingRetrying]",
                f"status.conditions[type={BLOCKED_BY_POLICY}]",
                "status.nominatedNodeName",
            ),
            deletes=True,
        ),
        Writes("Reservation", ("metadata.annotations", "spec"), creates=True, deletes=True),
        Writes("PolicyRollout", ("status.observedBy",)),
        Writes("SchedulerOverride", ("status.acknowledgements", "status.conditions[type=Degraded]")),
        *LEADING_WRITES,
    ),
    woken_by=tuple(kind.name for kind in KINDS),
    takes=(NODE_ROOM, TENANT_QUOTAS, DISRUPTIONS),
    waits_in=(SCHEDULING_QUEUE, MUTATING_ROOM),
    calls=(API_SERVER,),
    timers=LEADING_TIMERS,
)
