"""What the override's effects on nodes, reservations and roles are, found by its UID. Pure.

    in force ──> found by the mark ──> recorded in the status: object, its UID, field
    ended    ──> found by the mark, or recorded and still there: then somebody has removed the mark

Accounts need no record: only the server writes them. The route is recorded before it is written, see
`plan_routes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fathom.controllers.overrides.facts import OverrideFacts
from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.override_scope import WorkloadName, targets_workload
from fathom.kinds.override_status import MADE_BY, is_marked
from fathom.kinds.scheduler_override import Effect, Residue, SchedulerOverride, scope_includes
from fathom.kinds.shape import read
from fathom.model.objects import Obj, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.tenancy import charged_to

ROLE, RESERVATION, TAINT, ROUTE = "role", "reservation", "taint", "route"
EFFECTS_MAX = 100  # In a status. By hand nobody makes as many.


def recorded_effects(override: SchedulerOverride, facts: OverrideFacts) -> tuple[Effect, ...]:
    """Those that the status names, and those that can be seen now."""
    named = tuple(each for each in override.status.effects if each.effect != ROUTE)
    seen = (*_on_nodes(override, facts), *_reservations(facts), *facts.made_under_it)
    return tuple(dict.fromkeys((*named, *seen)))[:EFFECTS_MAX]


def _reservations(facts: OverrideFacts) -> list[Effect]:
    return [
        Effect(RESERVATION, f"Reservation {'/'.join(key_of(each))}", uid_of(each))
        for each in facts.reservations
    ]


def holds_class(
    override: SchedulerOverride, reservation: Obj, workload: Iterable[WorkloadName], classes: Iterable[Obj]
) -> bool:
    """Whether the reservation holds room of the class that the override lends to its target, and the class
    does not admit the tenant: the server let it in by the override. (Its account names the tenant and the
    class; only pods are counted by override.) `workload`: whom it is for."""
    lent = override.spec.changes.allow_reserved_capacity_class
    tenant, _, drawn = charged_to(reservation) or ("", "", "")
    if not lent or drawn != lent or not targets_workload(override, key_of(reservation).namespace, workload):
        return False
    parsed = (read(CapacityClass, each) for each in classes)
    return any(each.name == lent and not each.admits(tenant) for each in parsed)


# Nodes. A cordon or taint that neither carries the UID nor is recorded is somebody else's; only the key that
# is fathom's own, without a UID, may be of any override that reaches the node.


class NodeField(NamedTuple):
    name: str  # 'taint KEY' or 'annotation KEY'.
    value: str

    def is_marked(self, uid: str) -> bool:
        return self.value == uid or is_marked(self.value, uid)


def _on_nodes(override: SchedulerOverride, facts: OverrideFacts) -> list[Effect]:
    uid = override.metadata.uid
    return [
        Effect(TAINT, _name(node), uid_of(node), field.name)
        for node in facts.nodes
        for field in fields_of(node)
        if field.is_marked(uid)
    ]


def node_residue(override: SchedulerOverride, facts: OverrideFacts) -> list[Residue]:
    recorded = {(each.uid, each.field) for each in override.status.effects if each.effect == TAINT}
    residue = []
    for node in facts.nodes:
        for field in fields_of(node):
            is_recorded = (uid_of(node), field.name) in recorded
            why = _left(override, node, field, is_recorded=is_recorded)
            residue += [Residue(TAINT, _name(node), why)] if why else []
    return list(dict.fromkeys(residue))


def _left(override: SchedulerOverride, node: Obj, field: NodeField, *, is_recorded: bool) -> str:
    """What is left of the override there; '': nothing."""
    meta = override.metadata
    if field.is_marked(meta.uid):
        return field.name
    if "@" in field.value:
        return ""  # Of another override.
    if is_recorded:
        return f"{field.name}: its mark is gone"
    own_key = field.name in {f"taint {MADE_BY}", f"annotation {MADE_BY}"}
    if not own_key or not scope_includes(override.spec.scope, labels_of(node)):
        return ""
    nameless = field.value in {"", meta.name, f"{meta.namespace}/{meta.name}"}
    return f"{field.name}: it has no UID" if nameless else ""


def fields_of(node: Obj) -> list[NodeField]:
    """The fields of a node that may be an override's."""
    taints = lookup(node, "spec", "taints") or ()
    notes = metadata(node).get("annotations") or {}
    fields = [NodeField(f"taint {each.get('key')}", str(each.get("value") or "")) for each in taints]
    noted = [NodeField(f"annotation {MADE_BY}", str(notes[MADE_BY] or ""))] if MADE_BY in notes else []
    return [*fields, *noted]


def _name(node: Obj) -> str:
    return f"Node {key_of(node).name}"
