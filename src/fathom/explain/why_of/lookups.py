"""What all kinds look up in the evidence: children, Events, decisions, field writers, names to show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fathom.explain.evidence import Evidence, ObjectRef, Recorded, committed_writes, mentioning
from fathom.explain.why.answer import Explanation, Freshness
from fathom.model.audit import AuditEntry
from fathom.model.decision import SeenVersions
from fathom.model.fields import steps_of, touching
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.resource_names import AUTOSCALERS, BUDGETS, DEPLOYMENTS, JOBS, REPLICA_SETS, SLICES
from fathom.model.times import SECOND_NS, moment_ns

PODS, NODES, EVENTS = "pods", "nodes", "events"
SERVICES = "services"
PROGRESS, ROLLOUTS = "workloadprogresses.fathom.dev", "policyrollouts.fathom.dev"
OVERRIDES, POLICIES = "scheduleroverrides.fathom.dev", "schedulingpolicies.fathom.dev"
RESOURCE_QUOTAS, TENANT_QUOTAS = "resourcequotas", "tenantquotas.fathom.dev"
NAMESPACES = "namespaces"
CONFIG_MAPS, SECRETS = "configmaps", "secrets"

# The kinds as caches and decisions name them.
KIND_NAMES: Mapping[str, str] = {
    PODS: "Pod", NODES: "Node", DEPLOYMENTS: "Deployment", REPLICA_SETS: "ReplicaSet", JOBS: "Job",
    SERVICES: "Service", SLICES: "EndpointSlice", AUTOSCALERS: "HorizontalPodAutoscaler",
    BUDGETS: "PodDisruptionBudget", PROGRESS: "WorkloadProgress", ROLLOUTS: "PolicyRollout",
    OVERRIDES: "SchedulerOverride", POLICIES: "SchedulingPolicy", RESOURCE_QUOTAS: "ResourceQuota",
    TENANT_QUOTAS: "TenantQuota", NAMESPACES: "Namespace",
}  # fmt: skip
RESOURCES: Mapping[str, str] = {kind: resource for resource, kind in KIND_NAMES.items()}

CLUSTER_SCOPED = frozenset({NODES, NAMESPACES, ROLLOUTS, POLICIES, TENANT_QUOTAS})

# Explains one pod. `explain/why.py` has the full one; `pod_causes.py` one that reads its status alone.
ExplainPod = Callable[[Obj, Evidence], Explanation]

NAMES_SHOWN = 10


# Objects.


def subject_of(evidence: Evidence) -> Obj | None:
    """The subject as it is; None if it is gone, also where another object has its name now."""
    obj = evidence.objects.get(evidence.subject.resource, evidence.subject.key)
    wanted = evidence.subject.uid
    return None if obj is not None and wanted and uid_of(obj) != wanted else obj


def ref(resource: str, obj: Obj) -> ObjectRef:
    return ObjectRef(resource, *key_of(obj), uid_of(obj))


def path_of(obj: Obj) -> str:
    return "/".join(part for part in key_of(obj) if part)


def title(resource: str, key: Key) -> str:
    """'Deployment shop/web'"""
    return f"{KIND_NAMES.get(resource, resource)} {'/'.join(part for part in key if part)}"


def controller_uid(obj: Obj) -> str:
    for reference in metadata(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid") or "")
    return ""


def owned_by(evidence: Evidence, resource: str, owner: Obj) -> list[Obj]:
    """Compares UIDs: an object of the same name that was created later is another owner."""
    uid, namespace = uid_of(owner), key_of(owner).namespace
    return [obj for obj in evidence.objects.list(resource, namespace) if controller_uid(obj) == uid]


def generation_of(obj: Obj) -> int:
    return int(metadata(obj).get("generation") or 0)


def observed_generation(obj: Obj) -> int:
    return int(lookup(obj, "status", "observedGeneration") or 0)


# What the user may see.


def shown_names(evidence: Evidence, objects: Iterable[Obj]) -> tuple[str, ...]:
    """The names of the objects in namespaces that the user may read, the first few."""
    readable = evidence.readable
    names = [path_of(obj) for obj in objects if readable is None or key_of(obj).namespace in {"", *readable}]
    return tuple(sorted(names)[:NAMES_SHOWN])


def node_name(evidence: Evidence, name: str) -> str:
    return name if evidence.may_read_nodes or not name else "a node"


# Events.


def events_of(evidence: Evidence, obj: Obj) -> list[Obj]:
    """Events about this very object, newest first."""
    uid, namespace = uid_of(obj), key_of(obj).namespace or "default"
    events = [
        event
        for event in mentioning(evidence.objects, EVENTS, namespace, uid)
        if (lookup(event, "involvedObject", "uid") or lookup(event, "regarding", "uid")) == uid
    ]
    return sorted(events, key=_event_ns, reverse=True)


def _event_ns(event: Obj) -> int:
    times = (event.get(name) for name in ("lastTimestamp", "eventTime", "deprecatedLastTimestamp"))
    stamps = [*times, metadata(event).get("creationTimestamp")]
    return max((moment_ns(stamp) or 0 for stamp in stamps), default=0)


def event_message(event: Obj) -> str:
    return str(event.get("message") or event.get("note") or "")


# Records.


def decisions_about(evidence: Evidence, obj: Obj, *, resource: str = "") -> list[Recorded]:
    """Decisions about this object, oldest first. A decision without a UID is matched by its name."""
    key, uid = key_of(obj), uid_of(obj)
    wanted = resource or evidence.subject.resource
    return [
        recorded
        for recorded in evidence.decisions
        if (subject := recorded.kept.decision.subject).resource == wanted
        and (subject.namespace, subject.name) == key
        and subject.uid in {"", uid}
    ]


def last_decision(
    evidence: Evidence, obj: Obj, controller: str = "", *, resource: str = ""
) -> Recorded | None:
    decisions = decisions_about(evidence, obj, resource=resource)
    named = [recorded for recorded in decisions if recorded.kept.decision.controller.startswith(controller)]
    return named[-1] if named else None


def freshness_of(evidence: Evidence, recorded: Recorded | None) -> tuple[Freshness, ...]:
    if recorded is None or evidence.attached:  # A copy has revisions of its own: see `why/records.py`.
        return ()
    return tuple(_freshness(evidence, kind, seen) for kind, seen in recorded.kept.decision.seen.items())


def _freshness(evidence: Evidence, kind: str, seen: SeenVersions) -> Freshness:
    applied = max(seen.revision, seen.applied)
    return Freshness(kind, seen.revision, applied, max(newest(evidence, kind), applied), seen.age_ms)


def newest(evidence: Evidence, kind: str) -> int:
    """The revision of the kind's last change; 0 if there is none, or the kind is not known here."""
    return evidence.objects.last_change(RESOURCES.get(kind, kind))


def last_writer(evidence: Evidence, obj: Obj, resource: str, field: str) -> AuditEntry | None:
    """The last write that surely changed this field."""
    entries = [
        entry
        for entry in committed_writes(evidence.audit, ref(resource, obj))
        if any(_is_within(path, field) for path in touching(entry.changed, field))
    ]
    return entries[-1] if entries else None


def _is_within(path: str, field: str) -> bool:
    steps = steps_of(field)
    return steps_of(path)[: len(steps)] == steps


def written_by(entry: AuditEntry | None) -> str:
    """'by alice since 2026-01-01T00:00:00Z (decision d-1)'; '' without an entry."""
    if entry is None:
        return ""
    decision = f" (decision {entry.decision})" if entry.decision else ""
    behind = f", impersonated by {entry.impersonator}" if entry.impersonator else ""
    return f"by {entry.user}{behind} since {entry.time}{decision}"


# Times.


def age_s(evidence: Evidence, stamp: object) -> float | None:
    """Seconds from the timestamp until now; None if it cannot be parsed."""
    at_ns = moment_ns(stamp)
    return None if at_ns is None else (evidence.now_ns - at_ns) / SECOND_NS
