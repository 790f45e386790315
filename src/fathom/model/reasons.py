"""The table of reasons why a pod or a workload is not running yet, each with its cause and its cure.

A reason is an id, never a sentence: a boundary, or a boundary and a detail (`quota/risk-zone-c`). The
boundary says who must act. Programs compare ids; sentences are made from them for people.
`script/reasons` makes `docs/reasons.md` from this table, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

ADMISSION: Final = "admission"
QUOTA: Final = "quota"
GATE: Final = "gate"
SCHEDULER: Final = "scheduler"
TOPOLOGY: Final = "topology"
CAPACITY: Final = "capacity"
NODES: Final = "nodes"
NODE: Final = "node"
IMAGE: Final = "image"
CONFIG: Final = "config"
CRASH: Final = "crash"
PROBE: Final = "probe"
START: Final = "start"
ENDPOINTS: Final = "endpoints"
GATEWAY: Final = "gateway"

OLD_VIEW: Final = "scheduler/view"
REFUSED_NODES: Final = "scheduler/refused"
AFFINITY: Final = "topology/affinity"
ZONE_SKEW: Final = "topology/zone"
VOLUME: Final = "topology/volume"
PODS_PER_NODE: Final = "capacity/pods"
HOST_PORTS: Final = "capacity/ports"
CAPACITY_CLASS: Final = "capacity/class"
NODE_NAME: Final = "nodes/name"
TAINT: Final = "nodes/taint"
CORDON: Final = "nodes/unschedulable"
OVERRIDE: Final = "nodes/override"


def boundary_of(reason: str) -> str:
    return reason.partition("/")[0]


class KnownReason(msgspec.Struct, frozen=True):
    name: str  # As in `pendingReasons[].reason`; a detail in capitals stands for a name.
    cause: str
    remedy: str  # What to do, in one word: `Decision.rejected[].remedy`.
    cure: str  # The same as a sentence.

    @property
    def boundary(self) -> str:
        return boundary_of(self.name)


REASONS: tuple[KnownReason, ...] = (
    KnownReason(
        ADMISSION,
        "The API server refuses the workload's pods, or its controller has not created them yet.",
        "FixPod",
        "Read the refusal in the condition ReplicaFailure or in Events, and change the pod template.",
    ),
    KnownReason(
        QUOTA,
        "A ResourceQuota of the namespace refuses the pods.",
        "RaiseQuota",
        "Raise the ResourceQuota, request less, or remove pods that count against it.",
    ),
    KnownReason(
        "quota/TENANT-ZONE-CLASS",
        "The TenantQuota has no room left in that zone and capacity class.",
        "RaiseQuota",
        "Raise the TenantQuota's limit, request less, or remove pods of the tenant.",
    ),
    KnownReason(
        GATE,
        "A readiness gate of the pod is not true.",
        "OpenGate",
        "The owner of the gate must set its condition to True.",
    ),
    KnownReason(
        "gate/NAME",
        "The pod has a scheduling gate of that name.",
        "OpenGate",
        "The owner of the gate must remove it from spec.schedulingGates.",
    ),
    KnownReason(
        SCHEDULER,
        "No scheduler has tried to place the pod yet, or the one that tried gave no boundary.",
        "AskScheduler",
        "Check that the scheduler runs, and read the message of the condition PodScheduled.",
    ),
    KnownReason(
        "scheduler/NAME",
        "No scheduler with the name in spec.schedulerName has tried to place the pod.",
        "AskScheduler",
        "Start that scheduler, or correct spec.schedulerName.",
    ),
    KnownReason(
        OLD_VIEW,
        "The scheduler's caches are older than the policy's maxViewAgeSeconds.",
        "Wait",
        "Wait until the API server updates the scheduler's caches; if it does not, check the connection.",
    ),
    KnownReason(
        REFUSED_NODES,
        "The API server has just refused bindings to these nodes, though the scheduler's caches allow them.",
        "Wait",
        "Wait until the scheduler's caches have caught up.",
    ),
    KnownReason(
        TOPOLOGY,
        "A topology spread constraint of the pod does not allow the nodes.",
        "RelaxConstraint",
        "Raise maxSkew, or make a node available in the domain that has the fewest such pods.",
    ),
    KnownReason(
        AFFINITY,
        "Node affinity, a nodeSelector, pod affinity or pod anti-affinity does not allow the nodes.",
        "RelaxConstraint",
        "Label a node, change the pod's affinity, or move the pods that its anti-affinity excludes.",
    ),
    KnownReason(
        ZONE_SKEW,
        "Zones would differ by more pods than the SchedulingPolicy's maxZoneSkew.",
        "RelaxConstraint",
        "Raise maxZoneSkew, or make a node available in the zone with the fewest pods of the workload.",
    ),
    KnownReason(
        VOLUME,
        "The volumes behind the pod's claims cannot be reached from the nodes, or are not bound.",
        "BindVolume",
        "Bind each claim to a volume that a node with free capacity can reach.",
    ),
    KnownReason(
        CAPACITY,
        "The nodes have too little free CPU, memory or other resources.",
        "AddCapacity",
        "Add a node, remove pods, or request less.",
    ),
    KnownReason(
        PODS_PER_NODE,
        "The nodes run their maximum number of pods.",
        "AddCapacity",
        "Add a node, or remove pods.",
    ),
    KnownReason(
        HOST_PORTS,
        "The host ports that the pod requests are in use.",
        "FreePort",
        "Remove the pods that use the ports, or remove hostPort from the pod.",
    ),
    KnownReason(
        CAPACITY_CLASS,
        "The nodes are reserved for a CapacityClass that the pod may not use, or are not in its own.",
        "OpenClass",
        "Add the tenant to the class, allow the class with a SchedulerOverride, or request no class.",
    ),
    KnownReason(
        NODES,
        "The cluster has no nodes.",
        "AddNode",
        "Add a node.",
    ),
    KnownReason(
        NODE_NAME,
        "The pod names a node that does not exist.",
        "AddNode",
        "Add the node, or correct the pod.",
    ),
    KnownReason(
        TAINT,
        "The nodes have taints that the pod does not tolerate, or conditions that count as taints.",
        "TolerateTaint",
        "Repair the node if the taint reports a fault; else tolerate the taint or remove it.",
    ),
    KnownReason(
        CORDON,
        "The nodes are cordoned.",
        "UncordonNode",
        "Uncordon a node.",
    ),
    KnownReason(
        OVERRIDE,
        "A SchedulerOverride keeps the pod from the nodes.",
        "EndOverride",
        "End the override, or let it expire.",
    ),
    KnownReason(
        NODE,
        "The pod's node cannot be reached, so it does not report the pod as ready.",
        "RepairNode",
        "Repair the node, or delete the pod.",
    ),
    KnownReason(
        "node/NAME",
        "The agent of that node has not started the pod, or sends no heartbeats.",
        "RepairNode",
        "Check the agent of the node.",
    ),
    KnownReason(
        IMAGE, "A container's image is not available.", "FixImage", "Correct the image, or provide it."
    ),
    KnownReason(
        CONFIG,
        "A container's configuration is not available: a ConfigMap, a Secret, a user.",
        "FixConfig",
        "Create what the container refers to, or correct the reference.",
    ),
    KnownReason(
        CRASH,
        "A container exits repeatedly, or cannot be started.",
        "FixContainer",
        "Read the container's logs and the exit code in lastError.",
    ),
    KnownReason(
        PROBE,
        "A container runs, but its probes have not passed.",
        "FixProbe",
        "Read the probe's answer in the condition Starting.",
    ),
    KnownReason(START, "The pod's containers are being started.", "Wait", "Wait."),
    KnownReason(
        ENDPOINTS,
        "No EndpointSlice of the pod's Service lists the pod as ready yet.",
        "Wait",
        "Wait; check the endpoints controller if this lasts.",
    ),
    KnownReason(
        GATEWAY,
        "The gateway cannot reach the pod.",
        "FixNetwork",
        "Read the condition fathom.dev/Serving of the pod.",
    ),
    KnownReason(
        "finalizer/NAME",
        "The workload is being deleted, and that finalizer blocks the deletion.",
        "RemoveFinalizer",
        "The owner of the finalizer must finish its work and remove it.",
    ),
    KnownReason(
        "deletion",
        "The workload is being deleted.",
        "Wait",
        "Wait until its pods are gone.",
    ),
    KnownReason("paused", "The rollout is paused.", "Resume", "Resume the rollout, or end the override."),
    KnownReason(
        "rollout",
        "The rollout handles other replicas first, or has timed out.",
        "Wait",
        "Wait for the existing replicas; if the rollout timed out, correct the pod template.",
    ),
)

_BY_NAME = {entry.name: entry for entry in REASONS}
_BY_BOUNDARY = {entry.boundary: entry for entry in reversed(REASONS)}  # The first of each boundary.


def remedy_for(reason: str) -> str:
    """The remedy in one word; '' if the table does not have the boundary, as with a user's own filter."""
    entry = _BY_NAME.get(reason) or _BY_BOUNDARY.get(boundary_of(reason))
    return entry.remedy if entry is not None else ""


# Reasons of waiting containers, set by the agent: kubelet's ids and fathom's.
CONTAINER_BOUNDARIES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "ErrImageNeverPull", "ErrImagePull", "ImageInspectError", "ImageNotMapped", "ImagePullBackOff",
            "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed",
        ),
        IMAGE,
    ),
    **dict.fromkeys(("ConfigPodSandboxError", "CreateContainerConfigError"), CONFIG),
    **dict.fromkeys(
        (
            "CrashLoopBackOff", "CreateContainerError", "CreatePodSandboxError", "Error",
            "KillContainerError", "KillPodSandboxError", "PostStartHookError", "PreCreateHookError",
            "PreStartHookError", "RunContainerError", "RunInitContainerError", "SetupNetworkError",
            "StartError", "TeardownNetworkError", "VerifyNonRootError",
            "LivenessProbeFailed", "MemoryRefused", "StartupProbeFailed",
        ),
        CRASH,
    ),
    **dict.fromkeys(("ContainersNotReady", "ProbePending", "WaitingForProbe"), PROBE),
    "ReadinessGatesNotReady": GATE,
    "NodeUnreachable": NODE,
}  # fmt: skip


# Reasons of containers that have ended, set by the agent where kubelet has no id of its own: which probe
# ended it, or that it used most of its memory limit and was refused more.
LIVENESS_FAILED: Final = "LivenessProbeFailed"
STARTUP_FAILED: Final = "StartupProbeFailed"
MEMORY_REFUSED: Final = "MemoryRefused"
# `fathom down` ended it with its cluster: no fault of the program, and no crash.
CLUSTER_STOPPED: Final = "ClusterStopped"
# Kubernetes' reason for a container that the kernel killed at its memory limit.
OOM_KILLED: Final = "OOMKilled"


def container_boundary(reason: str) -> str:
    return CONTAINER_BOUNDARIES.get(reason, START)


# The API server's cause when another process now holds the writer's lease.
FENCED: Final = "Fenced"
# The API server's cause when an override has come that the writer had not seen when it decided.
OVERRIDE_UNSEEN: Final = "OverrideUnseen"
# The API server's causes when it refuses a pod because of a quota.
QUOTA_EXCEEDED: Final = "QuotaExceeded"
QUOTA_NEEDS_REQUESTS: Final = "QuotaNeedsRequests"
_QUOTA_CAUSES = frozenset({QUOTA_EXCEEDED, QUOTA_NEEDS_REQUESTS})


def refusal_boundary(causes: Iterable[str]) -> str:
    """The boundary that refused, from the causes in the server's answer."""
    return QUOTA if _QUOTA_CAUSES.intersection(causes) else ADMISSION


# Pod reasons set by a node that rejects a pod, as kubelet does.
_REJECTIONS = frozenset(
    {
        "NodeAffinity", "NodeName", "NodePorts", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
        "TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
    }
)  # fmt: skip
OUT_OF = "OutOf"  # With the resource that the node lacks: OutOfcpu.


def is_rejection(reason: str) -> bool:
    return reason in _REJECTIONS or reason.startswith(OUT_OF)
