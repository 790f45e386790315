"""What the API server's own parts read and write in the commits of others' requests: the binder, evictions,
and the ledger. Admission plugins declare theirs in their classes."""

from __future__ import annotations

from fathom.model.conditions import BLOCKED_BY_POLICY
from fathom.model.declared import (
    COMMIT_LANES,
    DISRUPTIONS,
    NODE_ROOM,
    TENANT_QUOTAS,
    Actor,
    Reads,
    Writes,
)

PROCESS = "api-server"

# Everything that it reads is a precondition of the commit: a change in between makes the commit fail.
BINDER = Actor(
    name="binder",
    process=PROCESS,
    reads=(
        Reads("Pod", ("metadata", "spec", "status"), source="commit"),
        Reads("Node", ("metadata", "spec", "status.allocatable", "status.conditions"), source="commit"),
        Reads("NodeLedger", source="commit"),
        Reads("TenantLedger", source="commit"),
        Reads("TenantQuota", ("spec",), source="commit"),
        Reads("CapacityClass", ("spec",), source="commit"),
        Reads("SchedulerOverride", ("spec", "status"), source="commit"),
        Reads("SchedulingPolicy", ("spec",), source="commit"),
        Reads("PolicyRollout", ("spec", "status"), source="commit"),
        Reads("Reservation", ("spec", "status"), source="commit"),
        Reads("Fence", source="commit"),
        Reads("Namespace", ("metadata.labels",), source="commit"),
        Reads("PlacementRules", source="commit"),
        Reads("ResourceQuota", ("spec", "status"), source="commit"),
        Reads("QuotaRules", source="commit"),
        Reads("ReplicaSet", ("metadata.ownerReferences",), source="commit"),
    ),
    writes=(
        Writes(
            "Pod",
            (
                "metadata.annotations",
                "spec.nodeName",
                "status.conditions[type=Bound]",
                "status.conditions[type=PodScheduled]",
                "status.conditions[type=Queued]",
                "status.conditions[type=SchedulingRetrying]",
                f"status.conditions[type={BLOCKED_BY_POLICY}]",
                "status.nominatedNodeName",
            ),
        ),
        Writes("Reservation", ("status",)),
    ),
    takes=(NODE_ROOM, TENANT_QUOTAS),
    waits_in=(COMMIT_LANES,),
)

EVICTIONS = Actor(
    name="eviction",
    process=PROCESS,
    reads=(
        Reads("Pod", ("metadata", "status"), source="commit"),
        Reads("PodDisruptionBudget", ("spec", "status"), source="commit"),
        Reads("SchedulerOverride", ("spec", "status"), source="commit"),
    ),
    writes=(
        Writes(
            "Pod",
            ("status.conditions[type=DisruptionTarget]", "status.conditions[type=fathom.dev/EvictedFor]"),
            deletes=True,
        ),
        Writes("PodDisruptionBudget", ("status.disruptedPods", "status.disruptionsAllowed")),
    ),
    takes=(DISRUPTIONS,),
)
