"""Events about overrides, once for each change. Pure.

Observed   all affected controllers have observed this generation
Degraded   one that acknowledged it has stopped
Ended      it has expired, or it was deleted
Residue    effects that the end could not undo
"""

from __future__ import annotations

from fathom.client.outcomes import Committed
from fathom.control.event_writer import NORMAL, WARNING, EventChange, EventReport
from fathom.control.plan import WriteStatus
from fathom.controllers.override_pauses import OVERRIDE
from fathom.controllers.overrides.plan import ENDED, RESIDUE
from fathom.kinds.override_status import DEGRADED, OBSERVED, REPAIR_COMPLETE
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj

# Condition, its status, its reason ('': any) -> the Event's reason and type.
_NEWS = (
    (OBSERVED, "True", "", "Observed", NORMAL),
    (DEGRADED, "True", "", "Degraded", WARNING),
    (REPAIR_COMPLETE, "Unknown", ENDED, "Ended", NORMAL),
    (REPAIR_COMPLETE, "False", RESIDUE, "Residue", WARNING),
)


def of_override(change: EventChange) -> tuple[EventReport, ...]:
    action = change.action
    if not isinstance(action, WriteStatus) or not isinstance(change.outcome, Committed):
        return ()
    after = conditions_of({"status": action.status})
    event_reports = []
    for name, status, reason, word, type_ in _NEWS:
        condition = find_condition(after, name)
        if condition is not None and _became(change.subject, condition, name, status, reason):
            message = str(condition.get("message") or "")
            event_reports.append(EventReport(OVERRIDE, change.subject, word, message, type_))
    return tuple(event_reports)


def _became(subject: Obj, condition: Obj, name: str, status: str, reason: str) -> bool:
    """Whether the condition has just become so, for this generation."""
    before = find_condition(conditions_of(subject), name) or {}
    compared = ("status", "observedGeneration", *(("reason",) if reason else ()))
    changed = any(before.get(field) != condition.get(field) for field in compared)
    return (
        changed
        and condition.get("status") == status
        and condition.get("reason") in {reason or condition.get("reason")}
    )
