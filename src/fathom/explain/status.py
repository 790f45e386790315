"""`fathom status`: the debug view of one workload, joined from every source, each field with its source.

It answers what no single signal does: whether the last scheduling decision used the newest state, whether a
rollback has been observed, what the autoscaler reacts to, and whether repair is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fathom.controllers.deployment.revisions import HISTORY, notes_of, split
from fathom.controllers.deployment.revisions import revision_of as template_revision
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.pod_stages import held_by
from fathom.explain.evidence import Evidence, Gap, ObjectRef, Recorded, revision_of
from fathom.explain.rollbacks import policy_rollback, rollback_observed
from fathom.explain.sourced import Sourced
from fathom.explain.status_summary import Replicas, summary_of
from fathom.explain.timeline.timeline import singular
from fathom.explain.why.answer import ActiveOverride
from fathom.explain.why.records import RESOURCES as WATCHED_RESOURCES
from fathom.explain.why_of.active_overrides import active_overrides
from fathom.explain.why_of.autoscalers import autoscaler_reason
from fathom.explain.why_of.control_plane import SCHEDULER, processes_of
from fathom.explain.why_of.lookups import (
    PODS,
    PROGRESS,
    RESOURCES,
    generation_of,
    last_decision,
    observed_generation,
    owned_by,
    path_of,
    subject_of,
    title,
)
from fathom.explain.why_of.pod_causes import causes_of, decisive
from fathom.explain.why_of.refusals import refusal_of
from fathom.explain.why_of.service_levels import services_of, sourced_level
from fathom.kinds.workload_progress import REPAIR_COMPLETE
from fathom.model.conditions import SCHEDULING_RETRYING, conditions_of, find_condition
from fathom.model.decision import SeenVersions
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.resource_names import AUTOSCALERS, DEPLOYMENTS, REPLICA_SETS
from fathom.model.times import timestamp


class StatusView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A document of the API: its names are stable."""

    workload: ObjectRef
    summary: str  # How it is, in one sentence.
    generation: Sourced
    rollback_observed: Sourced  # true, false; null without a rollback.
    pending_replicas: Sourced  # Names of pods that are not ready; of pods that do not exist, how many.
    last_reason: Sourced  # Of the last scheduling decision about a pending replica: 'quota/risk-zone-c'.
    cache_revision: Mapping[str, Sourced]  # Kind -> the revision that the scheduler used: see `_used`.
    latest_revision: Mapping[str, Sourced]  # Kind -> the revision of its own last change.
    autoscaler_reason: Sourced
    repair_condition: Sourced
    service_levels: Mapping[str, Sourced]  # Service -> error rate and SLO burn, as the gateway measures them.
    active_overrides: tuple[ActiveOverride, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def kinds_behind(self) -> tuple[str, ...]:
        """Kinds of which the scheduler has not seen the newest change."""
        return tuple(
            kind
            for kind, used in self.cache_revision.items()
            if (latest := self.latest_revision.get(kind)) is not None
            and (used.value or 0) < (latest.value or 0)
        )


class NoSubject(Exception):
    """The object does not exist."""


def explain_status(evidence: Evidence) -> StatusView:
    workload = subject_of(evidence)
    if workload is None:
        raise NoSubject(f"{title(evidence.subject.resource, evidence.subject.key)} does not exist")
    pods, creator = _pods_of(evidence, workload)
    waiting = [pod for pod in pods if is_active(pod) and not is_ready(pod)]
    decision = _last_scheduling(evidence, waiting or pods)
    used = _used(evidence, decision, waits=bool(waiting))
    view = StatusView(
        workload=evidence.subject,
        summary="",
        generation=_generation(evidence, workload),
        rollback_observed=_rollback(evidence, workload, pods, creator),
        pending_replicas=_pending(evidence, workload, pods, waiting),
        last_reason=_last_reason(evidence, waiting, decision, creator or workload),
        cache_revision=used,
        latest_revision={kind: _latest(evidence, kind) for kind in used},
        autoscaler_reason=_autoscaler(evidence, workload),
        repair_condition=_repair(evidence, workload),
        service_levels={
            path_of(service): sourced_level(evidence, service)
            for service in services_of(evidence.objects, workload)
        },
        active_overrides=active_overrides(evidence),
        gaps=evidence.gaps,
    )
    return msgspec.structs.replace(view, summary=_summary(evidence, workload, view, pods))


def _summary(evidence: Evidence, workload: Obj, view: StatusView, pods: Sequence[Obj]) -> str:
    wanted = lookup(workload, "spec", "replicas") if evidence.subject.resource != PODS else None
    every = _pods_of_all_templates(evidence, workload, pods)
    replicas = Replicas(
        wanted=None if wanted is None else int(wanted),
        pods=every,
        newest=pods,
        missing=0 if wanted is None else max(0, int(wanted) - sum(map(is_active, every))),
        reason=str(view.last_reason.value or ""),
        behind=view.kinds_behind,
    )
    return summary_of(f"{singular(evidence.subject.resource)}/{key_of(workload).name}", replicas)


def _pods_of_all_templates(evidence: Evidence, workload: Obj, newest: Sequence[Obj]) -> Sequence[Obj]:
    if evidence.subject.resource != DEPLOYMENTS:
        return newest
    sets = owned_by(evidence, REPLICA_SETS, workload)
    return [pod for each in sets for pod in owned_by(evidence, PODS, each)]


def _generation(evidence: Evidence, workload: Obj) -> Sourced:
    name = title(evidence.subject.resource, key_of(workload))
    observed = f", status.observedGeneration is {observed_generation(workload)}"
    status = observed if lookup(workload, "status", "observedGeneration") is not None else ""
    return Sourced(generation_of(workload), f"{name}: metadata.generation{status}")


# Its pods.


def _pods_of(evidence: Evidence, workload: Obj) -> tuple[list[Obj], Obj | None]:
    """The pods of its newest template, and the ReplicaSet that creates them."""
    if evidence.subject.resource == PODS:
        return [workload], None
    if evidence.subject.resource != DEPLOYMENTS:
        return owned_by(evidence, PODS, workload), workload
    sets = split(workload, owned_by(evidence, REPLICA_SETS, workload))
    return ([] if sets.new is None else owned_by(evidence, PODS, sets.new)), sets.new


def _pending(evidence: Evidence, workload: Obj, pods: Sequence[Obj], waiting: Sequence[Obj]) -> Sourced:
    names = sorted(key_of(pod).name for pod in waiting)
    active = sum(map(is_active, pods))
    wanted = lookup(workload, "spec", "replicas") if evidence.subject.resource != PODS else active
    missing = max(0, int(wanted if wanted is not None else active) - active)
    absent = [f"{missing} not created"] if missing else []
    return Sourced(
        [*names, *absent], f"pods of {path_of(workload)} at revision {evidence.objects.revision(PODS)}"
    )


# The last scheduling decision.


def _last_scheduling(evidence: Evidence, pods: Sequence[Obj]) -> Recorded | None:
    """The newest decision of a scheduler about one of these pods."""
    decisions = [
        recorded
        for pod in pods
        if (recorded := last_decision(evidence, pod, SCHEDULER, resource=PODS)) is not None
    ]
    return max(decisions, key=lambda recorded: recorded.kept.decision.time_ns, default=None)


def _decision_source(recorded: Recorded) -> str:
    decision = recorded.kept.decision
    pod, time = f"{decision.subject.namespace}/{decision.subject.name}", timestamp(decision.time_ns)
    return f"decision {decision.id} of {decision.controller} about pod {pod} at {time}"


def _last_reason(
    evidence: Evidence, waiting: Sequence[Obj], recorded: Recorded | None, creator: Obj
) -> Sourced:
    if recorded is not None and waiting:
        rejected = recorded.kept.decision.rejected
        if rejected:
            reason = rejected[0].reason or rejected[0].boundary
            return Sourced(reason, f"{_decision_source(recorded)}: {recorded.kept.decision.message}")
    for pod in waiting:
        retrying = find_condition(conditions_of(pod), SCHEDULING_RETRYING) or {}
        if retrying.get("status") == "True":
            return Sourced(held_by(pod), f"condition {SCHEDULING_RETRYING} of pod {path_of(pod)}")
    first = decisive(causes_of(evidence, waiting))
    if first is not None:
        pod, cause = first
        return Sourced(cause.reason, f"status of pod {path_of(pod)}: {cause.message}".removesuffix(": "))
    refusal = refusal_of(evidence, [creator])
    if refusal is not None:
        return Sourced(refusal.boundary, f"condition ReplicaFailure of {path_of(creator)}: {refusal.message}")
    return Sourced(None, "no pod of it waits for a node")


# Revisions.


def _used(evidence: Evidence, recorded: Recorded | None, *, waits: bool) -> dict[str, Sourced]:
    """By kind: what the last decision about a waiting pod used. Where the scheduler's cache has the newest
    change by now, that: the change did not make it decide anew, such as a heartbeat, or the pod's own
    condition. Without a waiting pod no decision is due: the caches alone can be behind."""
    if evidence.attached:
        return {}  # A copy has revisions of its own, and those of the scheduler are the cluster's.
    caches, process = _caches(evidence)
    now = {kind: Sourced(_newest(seen), f"caches of {process}") for kind, seen in caches.items()}
    if recorded is None or not recorded.kept.decision.seen or not waits:
        return now
    used = {}
    for kind, seen in recorded.kept.decision.seen.items():
        decided = Sourced(_newest(seen), _decision_source(recorded))
        is_known = kind in now and now[kind].value >= _last_change(evidence, kind) > decided.value
        both = f"caches of {process}; {decided.source} used {decided.value}"
        used[kind] = Sourced(now[kind].value, both) if is_known else decided
    return used


def _caches(evidence: Evidence) -> tuple[Mapping[str, SeenVersions], str]:
    """Of the scheduler that leads; of another one where none says that it does."""
    schedulers = [process for process in processes_of(evidence, SCHEDULER) if process.caches]
    first = min(schedulers, key=lambda process: process.leads is not True, default=None)
    return ({}, "") if first is None else (first.caches, first.process)


def _newest(seen: SeenVersions) -> int:
    return max(seen.revision, seen.applied)


def _last_change(evidence: Evidence, kind: str) -> int:
    return evidence.objects.last_change(_resource(kind))


def _resource(kind: str) -> str:
    return RESOURCES.get(kind) or WATCHED_RESOURCES.get(kind, kind)


def _latest(evidence: Evidence, kind: str) -> Sourced:
    """The kind's last change, of which object, and who wrote it, if the audit log has that."""
    changed = _last_change(evidence, kind)
    newest = max(evidence.objects.list(_resource(kind)), key=revision_of, default=None)
    if newest is None or revision_of(newest) < changed:
        gone = f"{kind}: an object was deleted" if changed else f"there is no {kind}"
        return Sourced(changed, gone)
    writer = next((entry for entry in evidence.audit if entry.revision == changed), None)
    by = f", written by {writer.user}" if writer is not None else ""
    name = f" {path_of(newest)}" if _may_name(evidence, newest) else ""
    return Sourced(changed, f"{kind}{name}: metadata.resourceVersion{by}")


def _may_name(evidence: Evidence, obj: Obj) -> bool:
    namespace = key_of(obj).namespace
    if not namespace:
        return evidence.may_read_nodes
    return evidence.readable is None or namespace in evidence.readable


# Rollback, autoscaler, repair.


def _rollback(evidence: Evidence, workload: Obj, pods: Sequence[Obj], creator: Obj | None) -> Sourced:
    """Of the scheduling policy; else of the workload's own template."""
    rollout = policy_rollback(evidence, workload, pods)
    if rollout is not None:
        return rollback_observed(evidence, rollout, _last_scheduling(evidence, pods))
    if creator is not None and evidence.subject.resource == DEPLOYMENTS and HISTORY in notes_of(creator):
        observed = observed_generation(workload) >= generation_of(workload)
        number = template_revision(creator)
        return Sourced(observed, f"Deployment rolled back, as revision {number}: status.observedGeneration")
    return Sourced(None, "no PolicyRollout of this workload was rolled back")


def _autoscaler(evidence: Evidence, workload: Obj) -> Sourced:
    namespace, name = key_of(workload)
    for autoscaler in evidence.objects.list(AUTOSCALERS, namespace):
        if lookup(autoscaler, "spec", "scaleTargetRef", "name") != name:
            continue
        reason, condition = autoscaler_reason(autoscaler)
        recorded = last_decision(evidence, autoscaler, "autoscaling", resource=AUTOSCALERS)
        by = f", decision {recorded.kept.decision.id}" if recorded is not None else ""
        what = f"condition {condition} of " if condition else ""
        source = f"{what}HorizontalPodAutoscaler {path_of(autoscaler)}{by}"
        return Sourced(reason or None, source)
    return Sourced(None, "no HorizontalPodAutoscaler has this workload as its target")


def _repair(evidence: Evidence, workload: Obj) -> Sourced:
    progress = _progress(evidence, workload)
    condition = None if progress is None else find_condition(conditions_of(progress), REPAIR_COMPLETE)
    if progress is None or condition is None:
        return Sourced(None, "no WorkloadProgress of this workload has the condition " + REPAIR_COMPLETE)
    fields = ("type", "status", "observedGeneration", "reason", "message")
    value: dict[str, Any] = {
        name: condition[name] for name in fields if condition.get(name) not in (None, "")
    }
    return Sourced(value, f"condition {REPAIR_COMPLETE} of WorkloadProgress {path_of(progress)}")


def _progress(evidence: Evidence, workload: Obj) -> Obj | None:
    """Of the workload, or of the one above a pod or ReplicaSet."""
    uids = {uid_of(workload)}
    namespace = key_of(workload).namespace
    for resource in (REPLICA_SETS, DEPLOYMENTS):
        for obj in (workload, *evidence.objects.list(resource, namespace)):
            if uid_of(obj) in uids:
                references = metadata(obj).get("ownerReferences") or ()
                uids |= {str(reference.get("uid")) for reference in references if reference.get("controller")}
    for progress in evidence.objects.list(PROGRESS, namespace):
        if lookup(progress, "spec", "workload", "uid") in uids:
            return progress
    return None
