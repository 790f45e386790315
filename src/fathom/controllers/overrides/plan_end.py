"""The end of an override: what is undone, and the proof that nothing is left. Pure.

Effects are found by the override's UID, not by its name: in accounts (which only the server writes), in
marks, and in the status, which names what was changed before it was changed, and what carried a mark that
somebody may have removed since.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.control.plan import Delete, Evict, Patch, target
from fathom.controllers.overrides.effects import node_residue
from fathom.controllers.overrides.facts import OverrideFacts, account_parts, charged_override, is_placement
from fathom.controllers.overrides.plan_evictions import next_evictions, staying
from fathom.controllers.overrides.plan_routes import RouteActions, plan_restore, route_residue
from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.override_status import is_marked, reference
from fathom.kinds.scheduler_override import USED_OVERRIDES, Effect, Residue, SchedulerOverride
from fathom.kinds.shape import read
from fathom.model.conditions import EVICTED_FOR, conditions_of, find_condition
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.tenancy import ACCOUNT

MOVE = "move"
RESIDUE_MAX = 100  # Entries in a status; the last one says that there are more.
RECHARGES_AT_ONCE = 16


class Undoing(msgspec.Struct, frozen=True):
    """What the end does next, and what is left at this moment."""

    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete | Evict, ...] = ()
    residue: tuple[Residue, ...] = ()

    @property
    def acts(self) -> bool:
        return bool(self.patches or self.deletes)


def plan_undoing(override: SchedulerOverride, facts: OverrideFacts) -> Undoing:
    placements = [pod for pod in facts.placements if is_placement(pod, override)]
    moves = override.spec.on_end == MOVE
    kept, evicted = ([], placements) if moves else (placements, [])
    routes = plan_restore(override, facts)
    evictions = next_evictions(evicted, facts.siblings, facts.refused, override=reference(override))
    return Undoing(
        patches=(*routes.patches, *_recharges(override, facts, kept)),
        deletes=(*routes.deletes, *_released(override, facts), *evictions),
        residue=_bounded(_residue(override, facts, placements, routes, moves=moves)),
    )


def _residue(
    override: SchedulerOverride,
    facts: OverrideFacts,
    placements: Sequence[Obj],
    routes: RouteActions,
    *,
    moves: bool,
) -> list[Residue]:
    stay = staying(placements, facts.siblings, facts.refused) if moves else {}
    pods = [_placement(override, facts, pod, stay) for pod in sorted(placements, key=key_of)]
    reservations = [
        Residue("reservation", f"Reservation {'/'.join(key_of(each))}", "it holds room on its account")
        for each in facts.reservations
    ]
    roles = [_role(each) for each in facts.made_under_it]
    listed = {each.object for each in pods}
    evictions = [each for each in _evicting(override, facts) if each.object not in listed]
    return [
        *pods,
        *evictions,
        *reservations,
        *node_residue(override, facts),
        *route_residue(override, facts),
        *roles,
    ]


def _placement(override: SchedulerOverride, facts: OverrideFacts, pod: Obj, stay: dict[str, str]) -> Residue:
    name = "/".join(key_of(pod))
    effect = "account" if charged_override(pod) == override.metadata.uid else "placement"
    if is_deleting(pod):
        message = "it is being deleted"
    else:
        earlier = {each.object: each.message for each in override.status.residue}
        refused = facts.refused.get(uid_of(pod)) or earlier.get(f"Pod {name}")
        message = stay.get(name) or refused or _held(facts, pod)
    return Residue(effect, f"Pod {name}", message)


def _held(facts: OverrideFacts, pod: Obj) -> str:
    node = str(lookup(pod, "spec", "nodeName") or "")
    reserved = _reserved_for(facts, pod)
    where = f"it is on node {node}"
    return f"{where}, which is reserved for capacity class {reserved}" if reserved else where


def _evicting(override: SchedulerOverride, facts: OverrideFacts) -> list[Residue]:
    """Pods of drained nodes whose eviction has begun and not finished."""
    return [
        Residue("eviction", f"Pod {'/'.join(key_of(pod))}", "it is being evicted")
        for pod in sorted(facts.residents, key=key_of)
        if is_deleting(pod) and evicted_by(pod, override)
    ]


def evicted_by(pod: Obj, override: SchedulerOverride) -> bool:
    condition = find_condition(conditions_of(pod), EVICTED_FOR) or {}
    return str(condition.get("reason") or "").rpartition("@")[2] == override.metadata.uid


def _role(effect: Effect) -> Residue:
    return Residue("role", effect.object, "it was made under break-glass")


def _recharges(override: SchedulerOverride, facts: OverrideFacts, pods: Sequence[Obj]) -> tuple[Patch, ...]:
    """Move placements that stay to the ordinary account of their tenant. Where the server has refused that,
    or the node is reserved for the class, they stay on the override's: residue."""
    wanted = [
        _recharge(override, facts, pod)
        for pod in sorted(pods, key=key_of)
        if not is_deleting(pod) and uid_of(pod) not in facts.refused and not _reserved_for(facts, pod)
    ]
    return tuple(wanted[:RECHARGES_AT_ONCE])


def _recharge(override: SchedulerOverride, facts: OverrideFacts, pod: Obj) -> Patch:
    notes: Obj = {USED_OVERRIDES: _without(pod, override)}
    if charged_override(pod) == override.metadata.uid:
        tenant, zone, capacity_class = account_parts(pod)[:3]
        stays = any(each.name == capacity_class and each.admits(tenant) for each in _classes(facts))
        notes[ACCOUNT] = f"{tenant}/{zone}/{capacity_class if stays else ''}"
    return Patch(target("Pod", pod), {"metadata": {"annotations": notes}}, destructive=True)


def _without(pod: Obj, override: SchedulerOverride) -> str | None:
    """The pod's mark without this override."""
    marks = str((metadata(pod).get("annotations") or {}).get(USED_OVERRIDES) or "")
    name = f"{override.metadata.namespace}/{override.metadata.name}"
    kept = [
        entry.strip()
        for entry in marks.split(",")
        if entry.strip()
        and not is_marked(entry, override.metadata.uid)
        and not (entry.strip() == name and is_placement(pod, override))
    ]
    return ",".join(kept) or None


def _reserved_for(facts: OverrideFacts, pod: Obj) -> str:
    """The class that the pod's node is reserved for, if the pod's tenant may not use that class."""
    name = str(lookup(pod, "spec", "nodeName") or "")
    node = next((each for each in facts.nodes if key_of(each).name == name), None)
    parts = account_parts(pod)
    if node is None or not parts:
        return ""
    closed = (
        each.name
        for each in _classes(facts)
        if each.exclusive and each.holds(labels_of(node)) and not each.admits(parts[0])
    )
    return next(closed, "")


def _classes(facts: OverrideFacts) -> list[CapacityClass]:
    return [read(CapacityClass, each) for each in facts.classes]


def _released(override: SchedulerOverride, facts: OverrideFacts) -> list[Delete]:
    return [
        Delete(target("Reservation", each), as_read=True)
        for each in facts.reservations
        if not is_deleting(each)
    ]


def _bounded(residue: list[Residue]) -> tuple[Residue, ...]:
    if len(residue) <= RESIDUE_MAX:
        return tuple(residue)
    more = len(residue) - RESIDUE_MAX
    return (*residue[:RESIDUE_MAX], Residue("more", "", f"and {more} others"))
