"""WorkloadProgress: how far a workload has come, stage by stage, and what holds it up."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import Count, Time, field_schema
from fathom.kinds.shape import Conditions, Meta, ObjectRef, Shape
from fathom.model.column import Column

REPAIR_COMPLETE = "RepairComplete"  # The condition in which repair says that it has nothing left to do.


class PendingReason(Shape, frozen=True):
    reason: Annotated[
        str,
        field_schema(
            "What these replicas wait for: the component that must act, often with a detail, such as"
            " quota/risk-zone-c or image. docs/reasons.md lists them.",
            required=True,
        ),
    ] = ""
    count: Annotated[
        Count, field_schema("How many replicas wait for it. 0 where the deletion of the workload waits.")
    ] = 0
    message: Annotated[str, field_schema("Details, of one of these replicas; at most 500 characters.")] = ""
    since: Annotated[
        Time, field_schema("Only for the reason crash: when the first of the repeated crashes was.")
    ] = ""


class LastAction(Shape, frozen=True):
    controller: Annotated[str, field_schema("Who did it: deployments, replicasets, jobs or scheduler.")] = ""
    action: Annotated[str, field_schema("What was done, such as: bind Pod web-1 to node-2.")] = ""
    decision: Annotated[
        str,
        field_schema(
            "The id of the scheduler's decision, for `kubectl get decision ID`. Absent for other actions."
        ),
    ] = ""
    time: Annotated[Time, field_schema("When it was done.")] = ""


class LastError(Shape, frozen=True):
    controller: Annotated[
        str, field_schema("Who reports it: deployments, replicasets, jobs, scheduler or agent.")
    ] = ""
    reason: Annotated[
        str, field_schema("The reason in one word, such as Unschedulable, FailedCreate or CrashLoopBackOff.")
    ] = ""
    message: Annotated[
        str, field_schema("The name of the object and what happened to it; at most 500 characters.")
    ] = ""
    time: Annotated[Time, field_schema("When it happened.")] = ""


class Progress(Shape, frozen=True):
    generation: Annotated[Count, field_schema("The metadata.generation of the workload that is counted.")] = 0
    desired: Annotated[
        Count, field_schema("How many replicas are wanted; of a Job, how many pods should run now.")
    ] = 0
    admitted: Annotated[
        Count,
        field_schema(
            "Replicas whose pods exist. A replica counts in every stage that it has reached: those that are"
            " ready are bound too."
        ),
    ] = 0
    queued: Annotated[
        Count, field_schema("Replicas without scheduling gates: they wait for a node, or have one.")
    ] = 0
    scheduled: Annotated[
        Count, field_schema("Replicas for which a node was chosen. At present the same as bound.")
    ] = 0
    bound: Annotated[Count, field_schema("Replicas whose pods have a node (spec.nodeName).")] = 0
    starting: Annotated[Count, field_schema("Replicas that the agent of their node has begun to start.")] = 0
    ready: Annotated[Count, field_schema("Replicas whose pods are Ready.")] = 0
    serving: Annotated[
        Count,
        field_schema("Ready replicas that get traffic from their Service, or that no Service selects."),
    ] = 0
    pending_reasons: Annotated[
        tuple[PendingReason, ...],
        field_schema("What the other replicas wait for, the most frequent reason first; at most ten."),
    ] = ()
    last_action: Annotated[
        LastAction | None, field_schema("The newest creation or binding for the workload.")
    ] = None
    last_error: Annotated[
        LastError | None, field_schema("The newest error of the workload, its ReplicaSets or its pods.")
    ] = None
    deadline: Annotated[
        Time | None,
        field_schema(
            "When the next replica that has not arrived counts as stuck. Absent: none is on its way."
        ),
    ] = None
    stuck_at: Annotated[
        str,
        field_schema(
            "What holds a replica beyond its deadline: image, probe, quota, node, ... Absent: none is late."
        ),
    ] = ""


class WorkloadProgressSpec(Shape, frozen=True):
    workload: Annotated[
        ObjectRef,
        field_schema("The Deployment, Job or ReplicaSet whose replicas are counted.", required=True),
    ] = ObjectRef()


class WorkloadProgressStatus(Shape, frozen=True):
    current: Annotated[Progress, field_schema("The replicas of the workload's newest generation.")] = (
        Progress()
    )
    previous: Annotated[
        Progress | None,
        field_schema(
            "The replicas of the generation before: as they are now if they can be told apart, else as they"
            " were last counted."
        ),
    ] = None
    observed_generation: Annotated[
        Count, field_schema("The metadata.generation of the workload that this status describes.")
    ] = 0
    conditions: Annotated[
        Conditions,
        field_schema(
            "Bound, Ready: all replicas are. SchedulingRetrying: some wait for a node. Stuck: one is late."
            " RepairComplete: repair has nothing left to do. Observed is False: its controller is behind."
        ),
    ] = ()


class WorkloadProgress(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        WorkloadProgressSpec, field_schema("The workload that this object is about.", required=True)
    ] = WorkloadProgressSpec()
    status: Annotated[
        WorkloadProgressStatus, field_schema("How far the workload has come. The controllers write it.")
    ] = WorkloadProgressStatus()


DEFINITION = KindDefinition(
    shape=WorkloadProgress,
    about="How many replicas of a workload have reached each stage, and what the others wait for. The"
    " controllers keep one for each Deployment and Job, and for each ReplicaSet without a controller.",
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
