"""The status of an override that has not ended: who has observed it, what matches, what it changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.controllers.overrides.effects import recorded_effects
from fathom.controllers.overrides.facts import OverrideFacts
from fathom.controllers.overrides.plan_changes import IN_FORCE, change_states, waiting_states
from fathom.controllers.overrides.plan_routes import effects_of
from fathom.kinds.override_changes import AT_THE_WRITE, OVERRIDE_CONTROLLER
from fathom.kinds.override_status import (
    DEGRADED,
    EFFECTIVE,
    OBSERVED,
    REPAIR_COMPLETE,
    STOPPED,
    Acknowledger,
    Observers,
    acknowledged,
    affected_by,
    observers,
    stopped_message,
)
from fathom.kinds.scheduler_override import ChangeState, Effect, SchedulerOverride, override_active
from fathom.model.conditions import Status, conditions_of, set_conditions, without_condition
from fathom.model.objects import Obj


class OverrideReport(msgspec.Struct, frozen=True):
    """The status, and what it says, for the plan's reason."""

    status: Obj
    observers: Observers
    changes: tuple[ChangeState, ...] = ()
    active: bool = False

    @property
    def why(self) -> str:
        if self.observers.lost:
            return f"{', '.join(self.observers.lost)} acknowledged it and has stopped"
        if self.observers.waiting:
            return f"waits for {', '.join(self.observers.waiting)} to observe it"
        return "all affected controllers have observed it" if self.active else "it is not in force"


def report(
    obj: Obj, override: SchedulerOverride, facts: OverrideFacts, *, now: str, now_ns: int
) -> OverrideReport:
    affected = affected_by(override)
    entries = acknowledged(
        obj, _own(affected, facts), cache_revision=facts.cache_revision, now=now, now_ns=now_ns
    )
    seen = override if entries is None else _with_acknowledgements(override, entries)
    who = observers(seen, affected, facts.leases)
    in_force = override_active(override, now_ns)
    active = in_force and who.observed
    changes = change_states(override, facts, who.declined) if in_force else waiting_states(override)
    status = {
        "observedGeneration": override.metadata.generation,
        "affectedControllers": list(affected),
        "active": active,
        **({} if entries is None else {"acknowledgements": entries}),
        "changes": _listed(changes),
        "effects": _listed(_effects(override, facts) if in_force else override.status.effects),
        "residue": None,
        "conditions": _conditions(obj, override, who, changes, now=now, in_force=in_force),
    }
    return OverrideReport(status, who, changes, active)


def _own(affected: Sequence[str], facts: OverrideFacts) -> list[Acknowledger]:
    """The override controller's own acknowledgement, and those of the API server, where it gave none."""
    own = [Acknowledger(OVERRIDE_CONTROLLER, facts.epoch)] if OVERRIDE_CONTROLLER in affected else []
    return [*own, *(Acknowledger(name) for name in affected if name in AT_THE_WRITE)]


def _with_acknowledgements(override: SchedulerOverride, entries: list[Obj]) -> SchedulerOverride:
    status = msgspec.to_builtins(override.status)
    changed = msgspec.convert({**status, "acknowledgements": entries}, type(override.status))
    return msgspec.structs.replace(override, status=changed)


def _effects(override: SchedulerOverride, facts: OverrideFacts) -> tuple[Effect, ...]:
    others = recorded_effects(override, facts)
    return (*others, *effects_of(override, facts)) if override.spec.changes.traffic_weights else others


def _conditions(
    obj: Obj,
    override: SchedulerOverride,
    who: Observers,
    changes: Sequence[ChangeState],
    *,
    now: str,
    in_force: bool,
) -> list[Obj]:
    # An extended override may have ended before.
    conditions = without_condition(conditions_of(obj), REPAIR_COMPLETE)
    stated = {
        OBSERVED: _observed(who),
        EFFECTIVE: _effective(changes, in_force=in_force),
        DEGRADED: _degraded(who),
    }
    return set_conditions(conditions, stated, observed_generation=override.metadata.generation, now=now)


def _observed(who: Observers) -> tuple[Status, str, str]:
    if who.observed:
        return "True", "AllAcknowledged", "all affected controllers have observed this generation"
    return "False", "Waiting", f"{', '.join(who.waiting)} did not observe this generation yet"


def _effective(changes: Sequence[ChangeState], *, in_force: bool) -> tuple[Status, str, str]:
    if not in_force:
        return "False", "NotApproved", "nothing is in force before its approval"
    idle = [f"{change.name}: {change.message or change.reason}" for change in changes if not _acts(change)]
    if len(idle) == len(changes):
        return "False", "NothingMatches", "; ".join(idle)
    return "True", "InForce", "; ".join(idle)


def _acts(change: ChangeState) -> bool:
    return change.state == IN_FORCE


def _degraded(who: Observers) -> tuple[Status, str, str]:
    if not who.lost:
        return "False", "AllRunning", ""
    return "True", STOPPED, stopped_message(who.lost)


def _listed(items: Sequence[msgspec.Struct]) -> list[Obj] | None:
    """None removes an empty field."""
    return [msgspec.to_builtins(item) for item in items] or None
