"""Resolves fathom.dev and storage objects into what the rules read: which of them concern a pod, and how.

Pure. An object that cannot be parsed is ignored; the API server that stored it has reported that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.override_changes import WORKLOAD_TARGETS
from fathom.kinds.policy_rollout import PolicyRollout, policy_in
from fathom.kinds.scheduler_override import NODE_CLASS_LABEL, SchedulerOverride, named, names_workload
from fathom.kinds.scheduling_policy import BUILT_IN, SchedulingPolicy
from fathom.kinds.schema import Amount
from fathom.kinds.tenant_quota import TenantQuota
from fathom.model.objects import Obj, labels_of, lookup
from fathom.model.quantity import parse
from fathom.model.well_known import HOSTNAME_LABEL, POOL_LABEL, REGION_LABEL, ZONE_LABEL
from fathom.schedule.decide.context import Allowed, Avoided, Policy, Quota, QuotaLimit, Reserved, Volume
from fathom.schedule.decide.delayed_claims import delayed_claim
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.read_shape import node_terms_of, units
from fathom.schedule.decide.shape import Needs, Pairs

LABELS = {"region": REGION_LABEL, "zone": ZONE_LABEL, "node": HOSTNAME_LABEL, "pool": POOL_LABEL}


def workloads(pod: PodView) -> tuple[str, ...]:
    """Names by which overrides and scopes may name the pod. A pod without an owner is its own workload."""
    return pod.shape.workloads or (pod.key.name,)


def policy_for(
    pod: PodView, rollouts: Iterable[PolicyRollout], policies: Mapping[str, SchedulingPolicy]
) -> Policy:
    """The pod's policy: of the rollouts whose scope includes it, the narrowest decides."""
    identity = f"{pod.key.namespace}/{workloads(pod)[-1]}"
    for rollout in _concerned(pod, rollouts):
        policy = policies.get(policy_in(rollout, identity))
        if policy is not None:
            return msgspec.structs.replace(policy_of(policy), rollout=rollout.metadata.name)
    return Policy(name=BUILT_IN)


def _concerned(pod: PodView, rollouts: Iterable[PolicyRollout]) -> list[PolicyRollout]:
    """The rollouts whose scope includes the pod, the narrowest first."""
    names = workloads(pod)
    concerned = [
        rollout
        for rollout in rollouts
        if rollout.spec.scope.includes(tenant=pod.tenant, namespace=pod.key.namespace, workloads=names)
    ]
    return sorted(concerned, key=lambda rollout: (-rollout.spec.scope.narrowness, rollout.metadata.name))


def other_policy(
    pod: PodView,
    current: Policy,
    rollouts: Iterable[PolicyRollout],
    policies: Mapping[str, SchedulingPolicy],
) -> Policy | None:
    """The policy that the pod would have on the other side of a canary; None if no canary concerns it."""
    listed = _concerned(pod, rollouts)
    canary = next((rollout for rollout in listed if rollout.status.canary and rollout.status.percent), None)
    if canary is None:
        return None
    for percent in (0, 100):
        status = msgspec.structs.replace(canary.status, percent=percent)
        changed = msgspec.structs.replace(canary, status=status)
        policy = policy_for(pod, [changed if rollout is canary else rollout for rollout in listed], policies)
        if policy.name != current.name:
            return policy
    return None


def policy_of(policy: SchedulingPolicy) -> Policy:
    spec = policy.spec
    age_s = spec.max_view_age_seconds
    return Policy(
        name=policy.metadata.name,
        revision=int(policy.metadata.resource_version or 0),
        weights=spec.weights,
        filters=spec.filters,
        disabled_filters=spec.disabled_filters,
        max_zone_skew=spec.max_zone_skew,
        preemption=spec.preemption,
        max_view_age_ms=None if age_s is None else 1000 * age_s,
        regions=spec.scope.regions,
    )


def needs_of(resources: Mapping[str, Amount]) -> Needs:
    return tuple(sorted((name, units(name, parse(str(amount)))) for name, amount in resources.items()))


def quota_of(quota: TenantQuota) -> Quota:
    return Quota(
        quota.metadata.name,
        tuple(
            QuotaLimit(needs_of(limit.resources), limit.zone, limit.capacity_class)
            for limit in quota.spec.limits
        ),
        int(quota.metadata.resource_version or 0),
    )


def reserved_of(capacity_class: CapacityClass) -> Reserved:
    spec = capacity_class.spec
    return Reserved(
        capacity_class.name, tuple(sorted(spec.node_selector.items())), needs_of(spec.resources), spec.tenants
    )


def concerns(override: SchedulerOverride, pod: PodView) -> bool:
    target = named(override.spec.target)
    if target is None or target.kind not in WORKLOAD_TARGETS:
        return False
    if pod.key.namespace != override.metadata.namespace:
        return False
    return names_workload(target, workloads(pod), pod.shape.owner.partition("/")[0])


def avoided_by(override: SchedulerOverride, pod: PodView) -> tuple[Avoided, ...]:
    name, target = override_name(override), named(override.spec.target)
    changes = override.spec.changes
    if target is not None and target.kind in LABELS:
        closed = changes.cordon or changes.drain
        return (Avoided(name, LABELS[target.kind], (target.name,), scope_of(override)),) if closed else ()
    if not concerns(override, pod):
        return ()
    listed = {
        ZONE_LABEL: changes.avoid_zones,
        HOSTNAME_LABEL: changes.avoid_nodes,
        NODE_CLASS_LABEL: changes.avoid_node_classes,
        POOL_LABEL: changes.avoid_pools,
        **changes.avoid_topology,
    }
    scope = scope_of(override)
    return tuple(Avoided(name, label, values, scope) for label, values in sorted(listed.items()) if values)


def allowed_by(override: SchedulerOverride, pod: PodView, *, used: int) -> tuple[Allowed, ...]:
    changes = override.spec.changes
    if not changes.allow_reserved_capacity_class or not concerns(override, pod):
        return ()
    most = changes.reserved_replicas
    remaining = None if most is None else max(0, most - used)
    return (
        Allowed(
            override_name(override), changes.allow_reserved_capacity_class, remaining, scope_of(override)
        ),
    )


def raised_by(override: SchedulerOverride, pod: PodView) -> int | None:
    """The priority that the override gives the pod in the queue, if it gives one. (Its scope is left to the
    queue: a waiting pod is on no node.)"""
    return override.spec.changes.raise_priority if concerns(override, pod) else None


def scope_of(override: SchedulerOverride) -> Pairs:
    place = named(override.spec.scope)
    return ((LABELS[place.kind], place.name),) if place is not None and place.kind in LABELS else ()


def override_name(override: SchedulerOverride) -> str:
    return f"{override.metadata.namespace}/{override.metadata.name}"


def volume_of(
    claim: Obj | None, volumes: Mapping[str, Obj], classes: Mapping[str, Obj] | None = None
) -> Volume:
    """The nodes from which the volume behind a claim can be reached. `classes`: StorageClasses, by name;
    None where nobody binds claims or provisions volumes."""
    if claim is None:
        return Volume(missing=True)
    bound = str(lookup(claim, "spec", "volumeName") or "")
    if not bound:
        delayed = None if classes is None else delayed_claim(claim, volumes, classes)
        return Volume(unbound=delayed is None, delayed=delayed)
    volume = volumes.get(bound)
    if volume is None:
        return Volume(unbound=True)
    required = lookup(volume, "spec", "nodeAffinity", "required")
    labels = labels_of(volume)
    zones = tuple(
        (label, tuple(labels[label].split("__"))) for label in (REGION_LABEL, ZONE_LABEL) if label in labels
    )
    return Volume(node_terms=node_terms_of(required), zones=zones)
