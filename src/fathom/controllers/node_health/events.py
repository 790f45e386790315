"""Events about nodes whose state has changed, once for each change. Pure.

NodeSuspect, NodeUnreachable, NodeLost    the strongest new state, with its evidence
NodeReactionHeld                          the brake holds back the reaction
NodeRecovered                             the node's heartbeats are back
NodeQuarantined, NodeForgiven             starts fail there that succeed elsewhere; they no longer do
"""

from __future__ import annotations

from fathom.client.outcomes import Committed
from fathom.control.event_writer import NORMAL, WARNING, EventChange, EventReport
from fathom.control.plan import Patch, WriteStatus
from fathom.control.watches import NODE
from fathom.controllers.node_health.plan import HELD, STATES
from fathom.controllers.node_health.plan_trust import QUARANTINED
from fathom.controllers.workload_events import of_node
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of

SUSPECT = STATES[0][1]


def of_node_states(change: EventChange) -> tuple[EventReport, ...]:
    after = _written(change)
    ready = of_node(change)
    events = [] if ready is None else [ready]
    new_states = [state for state, name in STATES if _became(change, after, name, "True") is not None]
    if new_states:
        condition = find_condition(after, dict(STATES)[new_states[-1]]) or {}
        events.append(
            _news(change, f"Node{new_states[-1].word}", str(condition.get("message") or ""), WARNING)
        )
    held = _became(change, after, HELD, "True")
    if held is not None:
        events.append(_news(change, "NodeReactionHeld", str(held.get("message") or ""), WARNING))
    if _became(change, after, SUSPECT, "False") is not None:
        name = key_of(change.subject).name
        events.append(_news(change, "NodeRecovered", f"Node {name} sends heartbeats again", NORMAL))
    return tuple(events)


def of_quarantine(change: EventChange) -> EventReport | None:
    after = _written(change)
    quarantine = _became(change, after, QUARANTINED, "True")
    if quarantine is not None:
        return _news(change, "NodeQuarantined", str(quarantine.get("message") or ""), WARNING)
    if _became(change, after, QUARANTINED, "False") is not None:
        return _news(change, "NodeForgiven", "pods no longer fail to start on this node", NORMAL)
    return None


def _written(change: EventChange) -> list[Obj]:
    """The conditions that this change wrote, if any."""
    action = change.action
    if not isinstance(action, WriteStatus | Patch) or not isinstance(change.outcome, Committed):
        return []
    status = action.status if isinstance(action, WriteStatus) else action.patch.get("status") or {}
    return [condition for condition in status.get("conditions") or () if isinstance(condition, dict)]


def _became(change: EventChange, after: list[Obj], name: str, status: str) -> Obj | None:
    """The condition, if it has just changed to this status. An absent condition counts as False."""
    before = find_condition(conditions_of(change.subject), name) or {"status": "False"}
    condition = find_condition(after, name)
    if condition is None or condition.get("status") != status or before.get("status") == status:
        return None
    return condition


def _news(change: EventChange, reason: str, message: str, type_: str) -> EventReport:
    return EventReport(NODE, change.subject, reason, message, type_)
