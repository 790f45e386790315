"""WorkloadProgress: how far a workload has come, stage by stage, and what holds it up."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import REQUIRED, Count, Time, field_schema
from fathom.kinds.shape import Conditions, Meta, ObjectRef, Shape
from fathom.model.column import Column


class PendingReason(Shape, frozen=True):
    reason: Annotated[str, REQUIRED] = ""  # 'quota/risk-zone-c', 'topology/zone'
    count: Count = 0
    message: str = ""
    since: Time = ""  # For repeated crashes: the time of the first.


class LastAction(Shape, frozen=True):
    controller: str = ""
    action: str = ""
    decision: str = ""
    time: Time = ""


class LastError(Shape, frozen=True):
    controller: str = ""
    reason: str = ""
    message: str = ""
    time: Time = ""


class Progress(Shape, frozen=True):
    """Counts for one generation of a workload. A replica counts in every stage that it has reached and not
    left again: ready replicas are also bound ones."""

    generation: Count = 0
    desired: Count = 0
    admitted: Count = 0
    queued: Count = 0
    scheduled: Count = 0
    bound: Count = 0
    starting: Count = 0
    ready: Count = 0
    serving: Count = 0
    pending_reasons: tuple[PendingReason, ...] = ()
    last_action: LastAction | None = None
    last_error: LastError | None = None
    deadline: Time | None = None
    stuck_at: Annotated[
        str, field_schema("The boundary at which it is stuck: image, probe, quota, node, ...")
    ] = ""


class WorkloadProgressSpec(Shape, frozen=True):
    workload: Annotated[ObjectRef, REQUIRED] = ObjectRef()


class WorkloadProgressStatus(Shape, frozen=True):
    current: Progress = Progress()
    previous: Progress | None = None
    observed_generation: Count = 0
    conditions: Conditions = ()


class WorkloadProgress(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[WorkloadProgressSpec, REQUIRED] = WorkloadProgressSpec()
    status: WorkloadProgressStatus = WorkloadProgressStatus()


DEFINITION = KindDefinition(
    shape=WorkloadProgress,
    plural="workloadprogresses",
    namespaced=True,
    short_names=("wp",),
    columns=(
        Column("Kind", "string", ".spec.workload.kind"),
        Column("Generation", "integer", ".status.current.generation"),
        Column("Desired", "integer", ".status.current.desired"),
        Column("Bound", "integer", ".status.current.bound"),
        Column("Ready", "integer", ".status.current.ready"),
        Column("Serving", "integer", ".status.current.serving"),
        # Of the generation before: during a rollout these still answer requests.
        Column("Old-Serving", "integer", ".status.previous.serving"),
        Column("Pending", "string", ".status.current.pendingReasons[*].reason"),
        Column("Stuck", "string", ".status.current.stuckAt"),
        Column("Message", "string", ".status.current.pendingReasons[*].message", priority=1),
    ),
    view_role_reads=True,
)
PROGRESS = DEFINITION.resource
