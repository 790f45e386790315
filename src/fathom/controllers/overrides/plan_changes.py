"""What became of each change of an override: in force, or matching nothing, or declined. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fathom.controllers.overrides.facts import OverrideFacts, nodes_of
from fathom.controllers.overrides.plan_evictions import staying
from fathom.controllers.overrides.plan_routes import out_of_scope, weights_state
from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.override_changes import CHANGES, EVERYWHERE, WORKLOAD_TARGETS
from fathom.kinds.scheduler_override import (
    NODE_CLASS_LABEL,
    ChangeState,
    SchedulerOverride,
    changes_of,
    named,
    scope_includes,
)
from fathom.kinds.shape import read
from fathom.model.objects import Obj, key_of, labels_of, lookup
from fathom.model.well_known import HOSTNAME_LABEL, POOL_LABEL, ZONE_LABEL

IN_FORCE, NO_MATCH, DECLINED = "InForce", "NoMatch", "Declined"
NAMES_MAX = 3  # In a message.
# Changes that hold for all of a workload: it has to be in the scope. (`trafficWeights` does too, and keeps
# what it has written. The scope of the others is looked at node by node.)
OF_THE_WORKLOAD = frozenset({"pauseAutoscaler", "pauseRollout", "pauseExpansion", "raisePriority"})
# Repair looks at the scope object by object; one that is on no node is in every scope that has a node.
OF_REPAIR = frozenset({"pauseRepair", "approveRepairs"})

Matcher = Callable[[SchedulerOverride, OverrideFacts], ChangeState]


def change_states(
    override: SchedulerOverride, facts: OverrideFacts, declined: Mapping[str, str]
) -> tuple[ChangeState, ...]:
    """`declined`: controllers that do not honour the override, and why."""
    return tuple(_state(name, override, facts, declined) for name in changes_of(override))


def waiting_states(override: SchedulerOverride) -> tuple[ChangeState, ...]:
    """Of an override that needs an approval and does not have it."""
    message = "a second person has to approve it"
    return tuple(ChangeState(name, DECLINED, "NotApproved", message) for name in changes_of(override))


def _state(
    name: str, override: SchedulerOverride, facts: OverrideFacts, declined: Mapping[str, str]
) -> ChangeState:
    refusing = [each for each in CHANGES[name].enforced_by if each in declined]
    if refusing:
        return ChangeState(name, DECLINED, "ControllerDeclined", f"{refusing[0]}: {declined[refusing[0]]}")
    target = named(override.spec.target)
    if target is not None and target.kind in WORKLOAD_TARGETS and not facts.workloads:
        return ChangeState(name, NO_MATCH, "TargetMissing", f"{override.spec.target} does not exist")
    if name in OF_THE_WORKLOAD and not facts.in_scope:
        return out_of_scope(name, override)
    if name in OF_REPAIR and not _has_place(override, facts):
        return ChangeState(name, NO_MATCH, "NoNode", f"no node is in {override.spec.scope}")
    return MATCHERS[name](override, facts)


def _has_place(override: SchedulerOverride, facts: OverrideFacts) -> bool:
    return override.spec.scope in {"", EVERYWHERE} or bool(in_scope(override, facts.nodes))


# One function for each change.


def _always(name: str) -> Matcher:
    return lambda override, facts: ChangeState(name, IN_FORCE, "TargetExists")


def _autoscaler(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    targets = {(str(each.get("kind") or ""), key_of(each).name) for each in facts.workloads}
    scaling = [
        key_of(each).name
        for each in facts.autoscalers
        if _scaled(lookup(each, "spec", "scaleTargetRef")) in targets
    ]
    if scaling:
        return ChangeState("pauseAutoscaler", IN_FORCE, "AutoscalerPaused", f"pauses {_some(scaling)}")
    return ChangeState("pauseAutoscaler", NO_MATCH, "NoAutoscaler", "no autoscaler scales the target")


def _scaled(reference: object) -> tuple[str, str]:
    named_by = reference if isinstance(reference, dict) else {}
    return (str(named_by.get("kind") or ""), str(named_by.get("name") or ""))


def _rollout(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    if any(each.get("kind") == "Deployment" for each in facts.workloads):
        return ChangeState("pauseRollout", IN_FORCE, "RolloutPaused")
    return ChangeState("pauseRollout", NO_MATCH, "NoDeployment", "the target is no Deployment")


def _avoids(name: str, label: str, values_of: Callable[[SchedulerOverride], Sequence[str]]) -> Matcher:
    def state(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
        return _avoidance(name, override, facts, {label: values_of(override)})

    return state


def _topology(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    return _avoidance("avoidTopology", override, facts, override.spec.changes.avoid_topology)


def _avoidance(
    name: str, override: SchedulerOverride, facts: OverrideFacts, listed: Mapping[str, Sequence[str]]
) -> ChangeState:
    """A place that has no node in the scope is named: it may be misspelt."""
    missing = [
        value
        for label, values in listed.items()
        for value in values
        if not any(_has(node, label, value) for node in in_scope(override, facts.nodes))
    ]
    wanted = sum(len(values) for values in listed.values())
    if len(missing) == wanted:
        return ChangeState(name, NO_MATCH, "NoNode", f"no node in the scope is in {_some(missing)}")
    message = f"no node in the scope is in {_some(missing)}" if missing else ""
    return ChangeState(name, IN_FORCE, "NodesAvoided", message)


def _has(node: Obj, label: str, value: str) -> bool:
    by_name = label == HOSTNAME_LABEL and key_of(node).name == value
    return by_name or labels_of(node).get(label) == value


def in_scope(override: SchedulerOverride, nodes: Iterable[Obj]) -> list[Obj]:
    return [node for node in nodes if scope_includes(override.spec.scope, labels_of(node))]


def _class(name: str) -> Matcher:
    def state(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
        wanted = override.spec.changes.allow_reserved_capacity_class
        obj = next((each for each in facts.classes if key_of(each).name == wanted), None)
        if obj is None:
            return ChangeState(name, NO_MATCH, "ClassMissing", f"CapacityClass {wanted} does not exist")
        capacity_class = read(CapacityClass, obj)
        held = [node for node in in_scope(override, facts.nodes) if capacity_class.holds(labels_of(node))]
        if not held:
            message = f"no node in the scope has capacity of class {wanted}"
            return ChangeState(name, NO_MATCH, "NoNode", message)
        return ChangeState(name, IN_FORCE, "CapacityAllowed")

    return state


def _cordon(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    if nodes_of(override, facts.nodes):
        return ChangeState("cordon", IN_FORCE, "NodesCordoned")
    return ChangeState("cordon", NO_MATCH, "NoNode", f"there is no node in {override.spec.target}")


def _drain(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    if not nodes_of(override, facts.nodes):
        return ChangeState("drain", NO_MATCH, "NoNode", f"there is no node in {override.spec.target}")
    stay = staying(facts.residents, facts.siblings, facts.refused)
    if not facts.residents:
        return ChangeState("drain", IN_FORCE, "Drained")
    reasons = [f"{name}: {why}" for name, why in stay.items()]
    return ChangeState("drain", IN_FORCE, "Draining", _some(reasons))


def _repairs(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    existing = {key_of(each).name for each in facts.proposals}
    missing = [name for name in override.spec.changes.approve_repairs if name not in existing]
    if len(missing) == len(override.spec.changes.approve_repairs):
        return ChangeState("approveRepairs", NO_MATCH, "NoProposal", f"no RepairProposal {_some(missing)}")
    message = f"no RepairProposal {_some(missing)}" if missing else ""
    return ChangeState("approveRepairs", IN_FORCE, "RepairsApproved", message)


def _role(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    role = override.spec.changes.break_glass_role
    if facts.role_exists:
        return ChangeState("breakGlassRole", IN_FORCE, "RoleGranted")
    return ChangeState("breakGlassRole", NO_MATCH, "RoleMissing", f"ClusterRole {role} does not exist")


def _some(names: Sequence[str]) -> str:
    more = ", and others" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


MATCHERS: dict[str, Matcher] = {
    "pauseAutoscaler": _autoscaler,
    "pauseRollout": _rollout,
    "pauseRepair": _always("pauseRepair"),
    "pauseExpansion": _always("pauseExpansion"),
    "avoidZones": _avoids("avoidZones", ZONE_LABEL, lambda override: override.spec.changes.avoid_zones),
    "avoidNodes": _avoids("avoidNodes", HOSTNAME_LABEL, lambda override: override.spec.changes.avoid_nodes),
    "avoidNodeClasses": _avoids(
        "avoidNodeClasses", NODE_CLASS_LABEL, lambda override: override.spec.changes.avoid_node_classes
    ),
    "avoidPools": _avoids("avoidPools", POOL_LABEL, lambda override: override.spec.changes.avoid_pools),
    "avoidTopology": _topology,
    "allowReservedCapacityClass": _class("allowReservedCapacityClass"),
    "reservedReplicas": _class("reservedReplicas"),
    "raisePriority": _always("raisePriority"),
    "cordon": _cordon,
    "drain": _drain,
    "approveRepairs": _repairs,
    "trafficWeights": weights_state,
    "breakGlassRole": _role,
}
