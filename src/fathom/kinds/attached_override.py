"""A SchedulerOverride in a Kubernetes that is not fathom's: what of it is honoured, and what its status says.

The attached scheduler is the only one there that carries changes out. A change that also needs somebody else
is declined as a whole: half a drain would be a cordon that nobody asked for. So is an override for whose
author nobody vouches. All of it follows from the object and the policy, so that several schedulers say the
same. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fathom.kinds.override_changes import CHANGES, SCHEDULER, effective_changes
from fathom.kinds.override_policy import AUTHOR, NAME, Vouching
from fathom.kinds.override_status import (
    EFFECTIVE,
    HONORING,
    OBSERVED,
    REPAIR_COMPLETE,
    Acknowledger,
    Observers,
    acknowledged,
    affected_by,
    has_ended,
    is_controller,
    observers,
)
from fathom.kinds.override_validation import validate
from fathom.kinds.scheduler_override import (
    NODE_CLASS_LABEL,
    ChangeState,
    SchedulerOverride,
    changes_of,
    cordons,
    expiry_ns,
    scope_includes,
)
from fathom.kinds.shape import read
from fathom.kinds.values import mapping, text
from fathom.model.conditions import Status, conditions_of, set_condition, set_conditions
from fathom.model.objects import Obj, labels_of, lookup, metadata
from fathom.model.times import moment_ns, timestamp
from fathom.model.well_known import HOSTNAME_LABEL, POOL_LABEL, ZONE_LABEL

NO_ENFORCER, INVALID = "NoEnforcer", "Invalid"
IN_FORCE, NO_MATCH, DECLINED, HONOURS = "InForce", "NoMatch", "Declined", "SchedulerHonours"
NOTHING_UNMATCHED: Mapping[str, str] = {}
ONLY_ATTACHED = "only for pods that name an attached scheduler: others do not know of it"

# What an attached scheduler carries out alone.
CARRIED_OUT = frozenset(name for name, rule in CHANGES.items() if rule.enforced_by == (SCHEDULER,))


class OverrideRefusal(msgspec.Struct, frozen=True):
    """Why nothing of an override is honoured."""

    reason: str
    message: str


def refusal(obj: Obj, policy: Vouching) -> OverrideRefusal | None:
    if causes := validate(obj):
        return OverrideRefusal(INVALID, f"{causes[0].field}: {causes[0].message}")
    if text(lookup(obj, "spec", "requestedThrough")):
        return OverrideRefusal(
            NO_ENFORCER, "it waits for a second person's approval, which nobody can give here"
        )
    if policy.since_ns is None:
        return OverrideRefusal(NO_ENFORCER, f"nobody vouches for its author: {policy.why_not}")
    created_ns = moment_ns(metadata(obj).get("creationTimestamp"))
    if created_ns is None or created_ns < policy.since_ns:
        why = f"it is older than the policy {NAME}, or was created within seconds of it: create it again"
        return OverrideRefusal(NO_ENFORCER, f"nobody vouches for its author: {why}")
    return None


def honoured(obj: Obj, policy: Vouching) -> Obj | None:
    """The override with the changes that are carried out; None: there are none. Without its status: whoever
    may write that could put off its end."""
    changes = {name: value for name, value in _changes(obj).items() if name in CARRIED_OUT}
    if refusal(obj, policy) is not None or not effective_changes(changes):
        return None
    return {**obj, "spec": {**mapping(obj.get("spec")), "changes": changes}, "status": {}}


def as_acknowledged(obj: Obj) -> Obj | None:
    """The override as far as its own status says that an attached scheduler honours it; None: it does not.
    For whoever explains that scheduler's decisions from a copy of the cluster."""
    try:
        override = read(SchedulerOverride, obj)
    except ValueError:
        return None
    generation, status = override.metadata.generation, override.status
    honours = any(
        is_controller(entry.controller, SCHEDULER)
        and (entry.state, entry.observed_generation) == (HONORING, generation)
        for entry in status.acknowledgements
    )
    in_force = {change.name for change in status.changes if change.state != DECLINED}
    changes = {name: value for name, value in _changes(obj).items() if name in in_force}
    if not honours or not changes:
        return None
    return {**obj, "spec": {**mapping(obj.get("spec")), "changes": changes}}


def _changes(obj: Obj) -> Obj:
    return mapping(lookup(obj, "spec", "changes"))


def attached_status(
    obj: Obj,
    policy: Vouching,
    scheduler: Acknowledger | None,
    *,
    unmatched: Mapping[str, str] = NOTHING_UNMATCHED,
    cache_revision: int,
    now: str,
    now_ns: int,
) -> Obj | None:
    """The fields of its status that must be written; None: it says the truth. `scheduler`: who acknowledges;
    None while requests are under way that were decided without the override. `unmatched`: see
    `without_nodes`."""
    override = read(SchedulerOverride, {**obj, "status": {}})
    refused = refusal(obj, policy)
    if has_ended(override, now_ns):
        return _different(obj, _ended(obj, override, now=now))
    known = {**obj, "status": {"acknowledgements": lookup(obj, "status", "acknowledgements") or []}}
    entries = acknowledged(
        known,
        _acknowledgers(obj, override, refused, scheduler),
        cache_revision=cache_revision,
        now=now,
        now_ns=now_ns,
    )
    if entries is not None:
        known = {**obj, "status": {"acknowledgements": entries}}
    affected = affected_by(override)
    who = observers(read(SchedulerOverride, known), affected, ())
    changes = [_state(name, refused, unmatched.get(name, "")) for name in changes_of(override)]
    ends_ns = expiry_ns(override)
    status = {
        "author": None if refused else text(lookup(obj, "metadata", "annotations", AUTHOR)) or None,
        "expiresAt": None if ends_ns is None else timestamp(ends_ns),
        "observedGeneration": override.metadata.generation,
        "affectedControllers": list(affected),
        "active": who.observed and not who.declined,
        "acknowledgements": known["status"]["acknowledgements"],
        "changes": [msgspec.to_builtins(change) for change in changes],
        "conditions": _conditions(obj, override, who, changes, now=now),
    }
    return _different(obj, status)


def _acknowledgers(
    obj: Obj, override: SchedulerOverride, refused: OverrideRefusal | None, scheduler: Acknowledger | None
) -> list[Acknowledger]:
    """The scheduler's own, and those that no enforcer writes, since none is attached."""
    reason = refused.reason if refused else NO_ENFORCER
    others = [Acknowledger(name, 0, reason) for name in affected_by(override) if name != SCHEDULER]
    if scheduler is None:
        return others
    carried_out = refused is None and any(name in CARRIED_OUT for name in effective_changes(_changes(obj)))
    own = msgspec.structs.replace(scheduler, declines="" if carried_out else reason)
    return [own, *others]


def without_nodes(obj: Obj, nodes: Iterable[Obj]) -> dict[str, str]:
    """The changes that keep pods off nodes and match none in the scope, and why: a name may be misspelt. As
    `controllers/overrides/plan_changes.py` reports them on fathom's own server."""
    override = read(SchedulerOverride, {**obj, "status": {}})
    scoped = [
        (str(metadata(node).get("name") or ""), labels)
        for node in nodes
        if scope_includes(override.spec.scope, labels := labels_of(node))
    ]
    unmatched = {}
    for change, listed in _avoided(override).items():
        places = [(label, value) for label, values in listed.items() for value in values]
        if places and not any(_is_in(node, *place) for node in scoped for place in places):
            unmatched[change] = f"no node in the scope is in {', '.join(value for _, value in places)}"
    if override.spec.changes.cordon and not any(cordons(override, *node) for node in scoped):
        unmatched["cordon"] = f"there is no node in {override.spec.target}"
    return unmatched


def _avoided(override: SchedulerOverride) -> dict[str, Mapping[str, tuple[str, ...]]]:
    changes = override.spec.changes
    return {
        "avoidZones": {ZONE_LABEL: changes.avoid_zones},
        "avoidNodes": {HOSTNAME_LABEL: changes.avoid_nodes},
        "avoidNodeClasses": {NODE_CLASS_LABEL: changes.avoid_node_classes},
        "avoidPools": {POOL_LABEL: changes.avoid_pools},
        "avoidTopology": changes.avoid_topology,
    }


def _is_in(node: tuple[str, Mapping[str, str]], label: str, value: str) -> bool:
    name, labels = node
    return labels.get(label) == value or (label == HOSTNAME_LABEL and name == value)


def _state(name: str, refused: OverrideRefusal | None, unmatched: str = "") -> ChangeState:
    if refused is not None:
        return ChangeState(name, DECLINED, refused.reason, refused.message)
    if unmatched:
        return ChangeState(name, NO_MATCH, "NoNode", unmatched)
    if name in CARRIED_OUT:
        return ChangeState(name, IN_FORCE, HONOURS, ONLY_ATTACHED)
    absent = [each for each in CHANGES[name].enforced_by if each != SCHEDULER]
    return ChangeState(name, DECLINED, NO_ENFORCER, f"no {' and no '.join(absent)} is attached")


def _conditions(
    obj: Obj, override: SchedulerOverride, who: Observers, changes: list[ChangeState], *, now: str
) -> list[Obj]:
    stated = {OBSERVED: _observed(who), EFFECTIVE: _effective(changes)}
    return set_conditions(
        conditions_of(obj), stated, observed_generation=override.metadata.generation, now=now
    )


def _observed(who: Observers) -> tuple[Status, str, str]:
    if who.observed:
        return "True", "AllAcknowledged", "whoever is attached has observed this generation"
    return "False", "Waiting", f"{', '.join(who.waiting)} did not observe this generation yet"


def _effective(changes: list[ChangeState]) -> tuple[Status, str, str]:
    idle = [f"{each.name}: {each.message}" for each in changes if each.state != IN_FORCE]
    if len(idle) == len(changes):
        return "False", "NothingInForce", "; ".join(idle)
    return "True", "InForce", "; ".join(idle)


def _ended(obj: Obj, override: SchedulerOverride, *, now: str) -> Obj:
    """All that was carried out is over at once: nothing has to be undone, or looked for."""
    conditions = set_condition(
        conditions_of(obj),
        type=REPAIR_COMPLETE,
        status="True",
        reason="OverAtOnce",
        message="what was carried out ends with the override; pods stay where they were placed",
        observed_generation=override.metadata.generation,
        now=now,
    )
    return {"active": False, "conditions": conditions}


def _different(obj: Obj, status: Obj) -> Obj | None:
    current = mapping(obj.get("status"))
    changed = {name: value for name, value in status.items() if current.get(name) != value}
    return changed or None
