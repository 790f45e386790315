"""The change that would give a pod a node, in words that one can act on, with a command to type.

`schedule/decide/remedies.py` finds the changes and tries each; here they are worded for this pod: which
container, which object, which command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fathom.explain.why import commands
from fathom.explain.why.answer import NOBODY, Change
from fathom.explain.why.case import NODES, ContainerFacts, PodCase
from fathom.explain.why.replacing import room_to_replace
from fathom.kinds.capacity_class import CAPACITY_CLASS, CAPACITY_CLASSES
from fathom.kinds.override_changes import EVERYWHERE
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.podresources import REQUESTS, container_amounts, pod_amounts
from fathom.model.well_known import QUARANTINE_TAINT
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.quota import quota_reason
from fathom.schedule.decide.remedies import (
    CORDON,
    NAMED_MAX,
    OPERATOR,
    SYSTEM,
    TAINTS,
    TENANT_ADMIN,
    shown,
)
from fathom.schedule.decide.resolve import workloads
from fathom.schedule.decide.shape import CPU, MEMORY, PODS
from fathom.schedule.decide.trial import Remedy

POLICIES, ROLLOUTS = "schedulingpolicies.fathom.dev", "policyrollouts.fathom.dev"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITIES = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}
# Resources of which a container may use more than it requests.
OVERCOMMITTED = frozenset({CPU, MEMORY, "ephemeral-storage"})


def worded(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change:
    """The change for a remedy; in the remedy's own words where there is no better wording."""
    if remedy.parts:
        parts = [worded(part, case, world) for part in remedy.parts]
        return msgspec.structs.replace(joined(parts), nodes=remedy.nodes)
    wording = WORDINGS.get(remedy.rule)
    change = wording(remedy, case, world) if wording is not None else None
    if change is None:
        who = NOBODY if remedy.by == "time" else remedy.by
        change = Change(remedy.change, who=who)
    return msgspec.structs.replace(_with_room(remedy, change, case), nodes=remedy.nodes)


def _with_room(remedy: Remedy, change: Change, case: PodCase) -> Change:
    """A changed template makes new pods, for which there must be room in the namespace."""
    changes_template = change.who == commands.owner_text(case) and remedy.rule != "VolumeBinding"
    room = room_to_replace(case) if change.command and changes_template else None
    return change if room is None else joined([room, change])


def joined(parts: Sequence[Change]) -> Change:
    """Several changes, where none alone is enough."""
    typed = [part.command for part in parts]
    return Change(
        "; and ".join(dict.fromkeys(part.what for part in parts)),
        " && ".join(dict.fromkeys(typed)) if all(typed) else "",
        " and ".join(dict.fromkeys(part.who for part in parts)),
    )


# Nodes.


def _uncordon(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change:
    command = commands.kubectl("uncordon", remedy.node)
    return Change(command, command, OPERATOR)


def _tolerate(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    key, value, effect = remedy.about
    if key == QUARANTINE_TAINT or key.startswith(SYSTEM):
        return None
    toleration = {"key": key, "effect": effect}
    toleration |= {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
    shown_taint = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    operation = commands.set_field(case, ("spec", "tolerations", commands.END), toleration)
    return Change(
        f"tolerate the taint {shown_taint}",
        commands.spec_change(case, [operation], in_place=True),
        commands.owner_text(case),
    )


def _affinity(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    match remedy.about:
        case ():
            return _without_affinity(case, "nodeAffinity", "nodeSelector")
        case ("nodeAffinity",) | ("nodeSelector",):
            return _without_affinity(case, *remedy.about)
        case ("nodeAffinity", term, index, key):
            path = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/{term}/matchExpressions/{index}"
            return _dropped(case, f"{key} from its required node affinity", path)
        case (key, value):
            path = commands.pointer(("spec", "nodeSelector", key))
            return _dropped(case, f"{key}={value} from the nodeSelector", path)
    return None


def _dropped(case: PodCase, what: str, *paths: str) -> Change:
    """Fields of the pod's spec that go."""
    operations: list[commands.Operation] = [{"op": "remove", "path": path} for path in paths]
    return Change(f"drop {what}", commands.spec_change(case, operations), commands.owner_text(case))


def _without_affinity(case: PodCase, *fields: str) -> Change:
    """Drop all that the pod requires of nodes' labels: no single requirement was enough."""
    paths: dict[str, str] = {}
    if "nodeAffinity" in fields and lookup(case.pod, "spec", "affinity", "nodeAffinity", REQUIRED):
        paths["required node affinity"] = f"/spec/affinity/nodeAffinity/{REQUIRED}"
    if "nodeSelector" in fields and lookup(case.pod, "spec", "nodeSelector"):
        paths["nodeSelector"] = "/spec/nodeSelector"
    return _dropped(case, f"its {' and '.join(paths)}", *paths.values())


def _override(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change:
    names = [name.partition("/") for name in remedy.about]
    typed = [commands.kubectl("delete", "scheduleroverride", name, namespace=ns) for ns, _, name in names]
    return Change(f"end override {' and '.join(remedy.about)}", " && ".join(typed), OPERATOR)


def _capacity_class(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    match remedy.about:
        case (name,):
            return _class_override(name, case)
        case (name, tenant):
            return _class_tenant(name, tenant, case)
    return _class_dropped(remedy, case)


def _class_dropped(remedy: Remedy, case: PodCase) -> Change | None:
    name = (metadata(case.pod).get("annotations") or {}).get(CAPACITY_CLASS)
    if not name:
        return None
    exists = case.evidence.objects.get(CAPACITY_CLASSES, Key("", str(name))) is not None
    operation: commands.Operation = {
        "op": "remove", "path": commands.pointer(("metadata", "annotations", CAPACITY_CLASS))
    }  # fmt: skip
    what = remedy.change if exists else f"{remedy.change}: it does not exist"
    return Change(what, commands.spec_change(case, [operation], in_place=True), commands.owner_text(case))


def _class_tenant(name: str, tenant: str, case: PodCase) -> Change:
    capacity_class = case.evidence.objects.get("capacityclasses.fathom.dev", Key("", name))
    added: commands.Operation = (
        {"op": "add", "path": "/spec/tenants/-", "value": tenant}
        if lookup(capacity_class, "spec", "tenants")
        else {"op": "add", "path": "/spec/tenants", "value": [tenant]}
    )
    return Change(
        f"admit tenant {tenant} to capacity class {name}",
        commands.json_patch("capacityclass", name, [added]),
        OPERATOR,
    )


def _class_override(name: str, case: PodCase) -> Change:
    workload = workloads(case.view)[-1]
    spec = {
        "target": f"workload/{workload}",
        "scope": EVERYWHERE,
        "reason": "REASON",
        "expiresAfter": "24h",
        "changes": {"allowReservedCapacityClass": name},
    }
    meta = {"namespace": case.key.namespace, "name": f"{workload}-uses-{name}"}
    what = f"allow capacity class {name} to workload {workload} by an override"
    return Change(what, commands.applied({**_own("SchedulerOverride", "", spec), "metadata": meta}), OPERATOR)


def _volume(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change:
    namespace = case.key.namespace
    claims = {claim: world.volumes.get((namespace, claim)) for claim in remedy.about}
    missing = [claim for claim, volume in claims.items() if volume is not None and volume.missing]
    if missing:
        what = f"create PersistentVolumeClaim {', '.join(missing)}, and a volume for it"
        return Change(what, _claim_command(namespace, missing), commands.owner_text(case))
    unbound = [claim for claim, volume in claims.items() if volume is not None and volume.unbound]
    if unbound:
        return Change(f"bind PersistentVolumeClaim {', '.join(unbound)} to a volume", "", OPERATOR)
    return Change(remedy.change, "", OPERATOR)


def _claim_command(namespace: str, claims: Sequence[str]) -> str:
    """Claims and their volumes, bound to each other: nothing provisions volumes, or binds claims later."""
    objects = [obj for claim in claims for obj in _claim_and_volume(namespace, claim)]
    return commands.applied({"apiVersion": "v1", "kind": "List", "items": objects})


def _claim_and_volume(namespace: str, claim: str) -> tuple[Obj, Obj]:
    name = f"{namespace}-{claim}"
    common: Obj = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    meta = {"namespace": namespace, "name": claim}
    spec = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    place = {"hostPath": {"path": f"/var/lib/volumes/{name}"}, "claimRef": meta}
    held = {**common, "capacity": {"storage": "1Gi"}, **place}
    return (
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": held},
    )


# Room.


def _resources(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    """Lower what the pod requests to what the nearest node has free; where that is nothing, more room."""
    if not remedy.short:
        return _capacity_class(remedy, case, world)
    lowered = _lowered(case, {name: free for name, _, free in remedy.short})
    if lowered is None:
        unknown = [name for name, _, _ in remedy.short if not _is_known(case, name)]
        if unknown:
            return Change(f"add a node that has {' and '.join(unknown)}: none has", "", OPERATOR)
        lacks = " and ".join(_lack(name, requested - free) for name, requested, free in remedy.short)
        return Change(f"free {lacks} on {remedy.node}, or add a node", "", OPERATOR)
    container, amounts = lowered
    texts = {name: shown(name, amount) for name, amount in amounts.items()}
    what = " and ".join(f"{name} of container {container.name} to {text}" for name, text in texts.items())
    operations = [
        commands.set_container_field(case, container, ("resources", field, name), text)
        for name, text in texts.items()
        for field in _amount_fields(container, name)
    ]
    return Change(f"lower {what}", commands.spec_change(case, operations), commands.owner_text(case))


def _is_known(case: PodCase, resource: str) -> bool:
    """Whether any node has some of it, free or not. A device of another name cannot be freed."""
    nodes = case.evidence.objects.list(NODES)
    return any(resource in (lookup(node, "status", "allocatable") or {}) for node in nodes)


def _amount_fields(container: ContainerFacts, resource: str) -> tuple[str, ...]:
    """Of devices and the like the API wants the same request and limit; other limits may stay above."""
    limited = resource not in OVERCOMMITTED and lookup(container.spec, "resources", "limits", resource)
    return ("requests", "limits") if limited else ("requests",)


def _lack(resource: str, missing: int) -> str:
    return "a place for one more pod" if resource == PODS else f"{shown(resource, missing)} {resource}"


def _lowered(case: PodCase, free: Mapping[str, int]) -> tuple[ContainerFacts, dict[str, int]] | None:
    """The container whose lower requests make the pod fit, and these requests. None: no single one does."""
    total = pod_amounts(case.pod, REQUESTS)
    for container in _by_size(case.containers, next(iter(free))):
        own = container_amounts(container.spec, REQUESTS)
        amounts = {
            name: _units(name, own.get(name)) - (_units(name, total.get(name)) - most)
            for name, most in free.items()
        }
        if min(amounts.values()) > 0 and _fits(_with_requests(case.pod, container, amounts), free):
            return container, amounts
    return None


def _by_size(containers: Sequence[ContainerFacts], resource: str) -> list[ContainerFacts]:
    """Those that request most of the resource first; of equals, those that go on running."""

    def requested(container: ContainerFacts) -> int:
        return _units(resource, container_amounts(container.spec, REQUESTS).get(resource))

    return sorted(containers, key=lambda each: (-requested(each), each.is_init, each.index))


def _with_requests(pod: Obj, container: ContainerFacts, amounts: Mapping[str, int]) -> Obj:
    containers = list(lookup(pod, "spec", container.field) or ())
    resources = container.spec.get("resources") or {}
    requests = {**(resources.get("requests") or {}), **{name: shown(name, n) for name, n in amounts.items()}}
    containers[container.index] = {**container.spec, "resources": {**resources, "requests": requests}}
    return {**pod, "spec": {**pod["spec"], container.field: containers}}


def _fits(pod: Obj, free: Mapping[str, int]) -> bool:
    total = pod_amounts(pod, REQUESTS)
    return all(_units(name, total.get(name)) <= most for name, most in free.items())


def _units(resource: str, amount: object) -> int:
    if amount is None:
        return 0
    return int(getattr(amount, "milli" if resource == CPU else "value"))


def _ports(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    """Name the pods that have the ports, or drop one from the pod."""
    if remedy.about[:1] == ("hostPort",):
        return _without_port(case, *remedy.about[1:])
    if not remedy.about:
        return None
    ports = ", ".join(str(port.port) for port in case.view.shape.ports)
    names = [f"pod {holder}" for holder in remedy.about]
    return Change(
        f"free host port {ports} on {remedy.node}: delete {' and '.join(names)},"
        f" which {'has it' if len(names) == 1 else 'have them'}",
        _deleted(remedy.about),
        " and ".join(f"the owner of {name}" for name in names),
    )


def _deleted(pods: Sequence[str]) -> str:
    places = [name.partition("/") for name in pods]
    return " && ".join(commands.kubectl("delete", "pod", name, namespace=place) for place, _, name in places)


def _without_port(case: PodCase, number: str, protocol: str) -> Change | None:
    for index, container in enumerate(lookup(case.pod, "spec", "containers") or ()):
        for at, port in enumerate(container.get("ports") or ()):
            if (str(port.get("hostPort")), port.get("protocol", "TCP")) == (number, protocol):
                path = f"/spec/containers/{index}/ports/{at}/hostPort"
                return _dropped(case, f"host port {number} of container {container.get('name')}", path)
    return None


def _neighbours(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    """Move the pods that are in the way, or drop a term of the pod's own."""
    field, *index = remedy.about or ("",)
    if field not in AFFINITIES:
        if not 0 < len(remedy.about) <= NAMED_MAX:
            return None
        listed = f"pod{'s' if len(remedy.about) > 1 else ''} {' and '.join(remedy.about)}"
        what = f"delete {listed}, from which anti-affinity keeps it apart"
        return Change(what, _deleted(remedy.about), f"the owner of {listed}")
    terms = lookup(case.pod, "spec", "affinity", field, REQUIRED) or ()
    over = f" over {terms[int(index[0])].get('topologyKey')}" if index and terms else ""
    at = index if len(terms) > 1 else ()  # The only term goes with its list.
    change = _dropped(
        case, f"its required {AFFINITIES[field]}{over}", f"/spec/affinity/{field}/{'/'.join((REQUIRED, *at))}"
    )
    near = ", or start a pod that it selects" if field == "podAffinity" else ""
    return msgspec.structs.replace(change, what=change.what + near)


# Limits.


def _quota(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    if not remedy.about:  # Not the limits are to change, but what the pod requests.
        return _resources(remedy, case, world)
    tenant = world.quota.tenant if world.quota is not None else ""
    quota = case.evidence.objects.get("tenantquotas.fathom.dev", Key("", tenant))
    if world.quota is None or quota is None:
        return None
    at = {quota_reason(tenant, limit): index for index, limit in enumerate(world.quota.limits)}
    raised = [
        (name, shown(name, before), shown(name, after), limit)
        for (name, before, after), limit in zip(remedy.short, remedy.about, strict=True)
    ]
    what = " and ".join(
        f"{name} of {limit} from {before} to {after}" for name, before, after, limit in raised
    )
    operations: list[commands.Operation] = [
        {
            "op": "replace",
            "path": commands.pointer(("spec", "limits", at[limit], "resources", name)),
            "value": after,
        }
        for name, _, after, limit in raised
    ]
    return Change(f"raise {what}", commands.json_patch("tenantquota", tenant, operations), TENANT_ADMIN)


def _spread(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    if not remedy.about:
        return _dropped(case, "its topologySpreadConstraints", "/spec/topologySpreadConstraints")
    key, before, after = remedy.about
    constraints = lookup(case.pod, "spec", "topologySpreadConstraints") or ()
    index = next(
        (
            index
            for index, constraint in enumerate(constraints)
            if constraint.get("topologyKey") == key and str(constraint.get("maxSkew")) == before
        ),
        None,
    )
    if index is None:
        return None
    if after == "0":  # No node that it could use has the label.
        return _dropped(case, f"its spread over {key}", f"/spec/topologySpreadConstraints/{index}")
    path = f"/spec/topologySpreadConstraints/{index}/maxSkew"
    return Change(
        f"raise maxSkew over {key} from {before} to {after}",
        commands.spec_change(case, [{"op": "replace", "path": path, "value": int(after)}]),
        commands.owner_text(case),
    )


def _zone_skew(remedy: Remedy, case: PodCase, world: PlacementContext) -> Change | None:
    """Policies never change: a copy with the new limit is rolled out, to the pod's workload alone."""
    name, before, after = remedy.about
    policy, workload = case.evidence.objects.get(POLICIES, Key("", name)), workloads(case.view)[-1]
    rollout = case.evidence.objects.get(ROLLOUTS, Key("", world.policy.rollout))
    if policy is None or after == "0" or lookup(rollout, "spec", "scope", "workloads"):
        return None  # Of two rollouts the one with the narrower scope applies.
    copied = f"{name}-skew-{after}"
    scope = {"namespaces": [case.key.namespace], "workloads": [workload]}
    spec = {"from": name, "to": copied, "scope": scope, "steps": [{"percent": 100}]}
    objects = [
        _own("SchedulingPolicy", copied, {**(policy.get("spec") or {}), "maxZoneSkew": int(after)}),
        _own("PolicyRollout", f"{copied}-{case.key.namespace}-{workload}", spec),
    ]
    what = f"raise maxZoneSkew of policy {name} from {before} to {after} for workload {workload}"
    listed: Obj = {"apiVersion": "v1", "kind": "List", "items": objects}
    return Change(f"{what}, by a copy of it", commands.applied(listed), OPERATOR)


def _own(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


Wording = Callable[[Remedy, PodCase, PlacementContext], Change | None]
WORDINGS: Mapping[str, Wording] = {
    CORDON: _uncordon,
    TAINTS: _tolerate,
    "NodeAffinity": _affinity,
    "Override": _override,
    "CapacityClass": _capacity_class,
    "VolumeBinding": _volume,
    "NodePorts": _ports,
    "NodeResourcesFit": _resources,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _neighbours,
    "MaxZoneSkew": _zone_skew,
    "TenantQuota": _quota,
}
