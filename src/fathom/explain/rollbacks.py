"""Whether schedulers have observed that a scheduling policy was rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.explain.evidence import Evidence, Recorded, revision_of
from fathom.explain.sourced import Sourced
from fathom.explain.why_of.control_plane import SCHEDULER, processes_of
from fathom.explain.why_of.lookups import NAMESPACES, ROLLOUTS, path_of
from fathom.kinds.policy_rollout import PolicyRollout
from fathom.kinds.scheduler_override import workloads_of
from fathom.kinds.shape import read
from fathom.model.decision import SeenVersions
from fathom.model.objects import Key, Obj, key_of
from fathom.model.tenancy import tenant_of
from fathom.schedule.policy_rollout.plan import ROLLED_BACK


def policy_rollback(evidence: Evidence, workload: Obj, pods: Sequence[Obj]) -> Obj | None:
    """The newest PolicyRollout that was rolled back and applies to the workload."""
    rollouts = [
        obj
        for obj in evidence.objects.list(ROLLOUTS)
        if (rollout := read(PolicyRollout, obj)).status.phase == ROLLED_BACK
        and _includes(evidence, rollout, workload, pods)
    ]
    return max(rollouts, key=_began, default=None)


def _began(rollout: Obj) -> tuple[str, int]:
    return str(read(PolicyRollout, rollout).status.step_started_at), revision_of(rollout)


def _includes(evidence: Evidence, rollout: PolicyRollout, workload: Obj, pods: Sequence[Obj]) -> bool:
    namespace = key_of(workload).namespace
    home = evidence.objects.get(NAMESPACES, Key("", namespace))
    names: Iterable[str] = {key_of(workload).name, *(name for pod in pods[:1] for name in workloads_of(pod))}
    tenant = tenant_of(pods[0] if pods else workload, home)
    return rollout.spec.scope.includes(tenant=tenant, namespace=namespace, workloads=names)


def rollback_observed(evidence: Evidence, obj: Obj, last: Recorded | None) -> Sourced:
    """By what the schedulers reported; else inferred from the revision that their caches have reached."""
    rollout = read(PolicyRollout, obj)
    activation = rollout.status.activation_revision
    observers = [each for each in rollout.status.observed_by if each.controller.startswith(SCHEDULER)]
    if activation and observers:
        reached = [f"{each.controller} has reached {each.revision}" for each in observers]
        observed = all(each.revision >= activation for each in observers)
        source = (
            f"PolicyRollout {path_of(obj)}: status.observedBy, activation {activation}, {', '.join(reached)}"
        )
        return Sourced(observed, source)
    used = _used(evidence, last)
    if used is None:
        return Sourced(
            None, f"PolicyRollout {path_of(obj)} was rolled back; what schedulers have seen: no data"
        )
    versions, where = used
    revision = max(versions.revision, versions.applied)
    source = (
        f"inferred: {where} has PolicyRollouts at {revision}, {path_of(obj)} changed at {revision_of(obj)}"
    )
    return Sourced(revision >= revision_of(obj), source)


def _used(evidence: Evidence, last: Recorded | None) -> tuple[SeenVersions, str] | None:
    for process in processes_of(evidence, SCHEDULER):
        if (versions := process.caches.get("PolicyRollout")) is not None:
            return versions, f"the cache of {process.process}"
    if last is None or (versions := last.kept.decision.seen.get("PolicyRollout")) is None:
        return None
    return versions, f"decision {last.kept.decision.id}"
