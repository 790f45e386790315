"""An override from its first sight to its proof, one pass after the other. Pure.

    seen ──> finalizer ──> observed by all ──> in force ──time is over, or deleted──> ended
    ended ──> the end is written ──> effects are undone ──> nothing is left: RepairComplete ──> finalizer goes
                                          └── what stays is residue, by name, and RepairComplete is not True

The end is written first, and effects are looked for in caches that have reached that write: a placement whose
checks read the override as it was before can no longer be committed after it, so none is missed.
"""

from __future__ import annotations

import msgspec

from fathom.cache.needs import NoOlderThan
from fathom.control.plan import (
    NOTHING,
    OWN_WRITES,
    Evict,
    Plan,
    add_finalizer,
    remove_finalizer,
    write_status,
)
from fathom.controllers.overrides.facts import OverrideFacts
from fathom.controllers.overrides.plan_end import Undoing, plan_undoing
from fathom.controllers.overrides.plan_evictions import next_evictions
from fathom.controllers.overrides.plan_routes import NO_ACTIONS, plan_weights
from fathom.controllers.overrides.plan_status import report
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.override_status import (
    DEGRADED,
    EFFECTIVE,
    FINALIZER,
    REPAIR_COMPLETE,
    has_ended,
    reference,
)
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, override_active
from fathom.model.conditions import Status, conditions_of, find_condition, set_condition
from fathom.model.decision import considered
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, key_of, metadata

KIND = "SchedulerOverride"
ENDED, UNDOING, RESIDUE, NOTHING_LEFT = "Ended", "Undoing", "Residue", "NothingLeft"
NEEDS = (OWN_WRITES, NoOlderThan(FRESH_S))
WAITS_FOR_CACHES = "the caches have not reached the end of the override"


def plan_override(
    obj: Obj, override: SchedulerOverride, facts: OverrideFacts, *, now: str, now_ns: int
) -> Plan:
    if has_ended(override, now_ns):
        plan = _plan_end(obj, override, facts, now=now)
    else:
        plan = _plan_in_force(obj, override, facts, now=now, now_ns=now_ns)
    named = override.spec.changes.allow_reserved_capacity_class
    lent = [each for each in facts.classes if key_of(each).name == named]
    cited = (considered(CAPACITY_CLASSES, each, decisive=True) for each in lent)
    return msgspec.structs.replace(plan, considered=(considered(OVERRIDES, obj, decisive=True), *cited))


def _plan_in_force(
    obj: Obj, override: SchedulerOverride, facts: OverrideFacts, *, now: str, now_ns: int
) -> Plan:
    finalizer = add_finalizer(KIND, obj, FINALIZER)
    if finalizer:
        return Plan(patches=finalizer, why="a finalizer keeps the override until its end is proven")
    reported = report(obj, override, facts, now=now, now_ns=now_ns)
    routes = NO_ACTIONS
    evictions: tuple[Evict, ...] = ()
    if override_active(override, now_ns):
        changes = override.spec.changes
        routes = plan_weights(override, facts) if changes.traffic_weights else NO_ACTIONS
        evictions = _drained(override, facts) if changes.drain else ()
    return Plan(
        creates=routes.creates,
        patches=routes.patches,
        deletes=evictions,
        statuses=write_status(KIND, obj, reported.status),
        needs=NEEDS,
        why=reported.why,
        because=f"override {'/'.join(override.metadata.key)}: {override.spec.reason}",
    )


def _drained(override: SchedulerOverride, facts: OverrideFacts) -> tuple[Evict, ...]:
    return next_evictions(facts.residents, facts.siblings, facts.refused, override=reference(override))


# The end.


def _plan_end(obj: Obj, override: SchedulerOverride, facts: OverrideFacts, *, now: str) -> Plan:
    if not _end_is_written(obj, override):
        why = "it was deleted" if override.metadata.deletion_timestamp else "it has expired"
        status = _ended(obj, override, "Unknown", ENDED, f"{why}: its effects are being looked for", now=now)
        return Plan(statuses=write_status(KIND, obj, status), why=f"it has ended: {why}")
    if facts.seen_revision < int(metadata(obj).get("resourceVersion") or 0):
        return Plan(why=WAITS_FOR_CACHES)
    undoing = plan_undoing(override, facts)
    if not undoing.residue and not undoing.acts:
        return _proven(obj, override, now=now)
    return Plan(
        patches=undoing.patches,
        deletes=undoing.deletes,
        statuses=write_status(KIND, obj, _left(obj, override, undoing, now=now)),
        needs=NEEDS,
        why="; ".join(f"{each.effect} {each.object}: {each.message}" for each in undoing.residue[:5]),
        because=f"override {'/'.join(override.metadata.key)} has ended",
    )


def _proven(obj: Obj, override: SchedulerOverride, *, now: str) -> Plan:
    """The proof is in the status before the finalizer goes."""
    status = _ended(obj, override, "True", NOTHING_LEFT, "no effect of the override is left", now=now)
    written = write_status(KIND, obj, {**status, "residue": None})
    if written:
        return Plan(statuses=written, why="no effect of it is left")
    if not override.metadata.deletion_timestamp:
        return NOTHING
    return Plan(patches=remove_finalizer(KIND, obj, FINALIZER), why="no effect of it is left")


def _left(obj: Obj, override: SchedulerOverride, undoing: Undoing, *, now: str) -> Obj:
    reason = UNDOING if undoing.acts and not _was_left(obj, override, undoing) else RESIDUE
    names = ", ".join(each.object for each in undoing.residue[:5])
    message = f"{'being undone' if reason == UNDOING else 'left'}: {names}" if names else "being undone"
    residue = [msgspec.to_builtins(each) for each in undoing.residue] or None
    return {**_ended(obj, override, "False", reason, message, now=now), "residue": residue}


def _was_left(obj: Obj, override: SchedulerOverride, undoing: Undoing) -> bool:
    """Whether all of it was called residue before: another try does not change that."""
    condition = find_condition(conditions_of(obj), REPAIR_COMPLETE) or {}
    before = {each.object for each in override.status.residue}
    return condition.get("reason") == RESIDUE and all(each.object in before for each in undoing.residue)


def _end_is_written(obj: Obj, override: SchedulerOverride) -> bool:
    condition = find_condition(conditions_of(obj), REPAIR_COMPLETE)
    current = (condition or {}).get("observedGeneration") == override.metadata.generation
    return condition is not None and current and not override.status.active


def _ended(
    obj: Obj, override: SchedulerOverride, status: Status, reason: str, message: str, *, now: str
) -> Obj:
    conditions = conditions_of(obj)
    over: tuple[tuple[str, Status, str, str], ...] = (
        (EFFECTIVE, "False", ENDED, "it has ended"),
        (DEGRADED, "False", ENDED, ""),
        (REPAIR_COMPLETE, status, reason, message),
    )
    for name, value, why, text in over:
        conditions = set_condition(
            conditions,
            type=name,
            status=value,
            reason=why,
            message=text,
            observed_generation=override.metadata.generation,
            now=now,
        )
    return {
        "observedGeneration": override.metadata.generation,
        "active": False,
        "changes": None,
        "conditions": conditions,
    }
