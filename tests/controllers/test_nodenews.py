"""What people hear of nodes: each change of state once, and nothing while nothing changes."""

from __future__ import annotations

from typing import cast

from fathom.cache.snapshot import Snapshot
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.control.event_writer import EventChange
from fathom.control.plan import Plan
from fathom.controllers.node_health.brake_status import plan_shown, shown
from fathom.controllers.node_health.events import of_node_states, of_quarantine
from fathom.controllers.node_health.evidence import Assessment, Evidence, NodeState
from fathom.controllers.node_health.plan import HeldBack, plan_node
from fathom.controllers.node_health.plan_trust import TAINT, plan_trust
from fathom.model.decision import considered
from fathom.model.objects import Obj
from fathom.model.trust import ANNOTATION

NOW = "2026-01-01T00:00:00Z"
NOW_NS = 1_767_225_600 * 1_000_000_000
HEARD = Assessment(NodeState.HEALTHY)
SILENT = Assessment(NodeState.LOST, (Evidence("lease", "not renewed for 90 s"),))
DONE = Committed({})


def node(*taints: Obj, name: str = "n1", note: str = "") -> Obj:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW, "reason": "KubeletReady"}
    return {
        "metadata": {"name": name, "uid": "u1", "annotations": {ANNOTATION: note} if note else {}},
        "spec": {"taints": list(taints)},
        "status": {"conditions": [ready]},
    }


def changes(subject: Obj, plan: Plan, outcome: Outcome = DONE) -> list[EventChange]:
    before = cast(Snapshot, None)  # Of no use here.
    return [
        EventChange(subject, before, action, outcome, plan.why) for action in (*plan.actions, *plan.statuses)
    ]


def told(subject: Obj, found: Assessment, allowed: NodeState, held: str = "") -> tuple[list[str], Obj]:
    """The reasons of what is told, and the node as it is then."""
    plan = plan_node(subject, found, allowed, HeldBack("BrakeHolds", held) if held else None, now=NOW)
    reasons = [report.reason for one in changes(subject, plan) for report in of_node_states(one)]
    status = plan.statuses[0].status if plan.statuses else subject["status"]
    return reasons, {**subject, "status": status}


def test_each_state_is_told_when_it_is_new() -> None:
    suspect, later = told(node(), SILENT, NodeState.SUSPECT)
    again, _ = told(later, SILENT, NodeState.SUSPECT)
    unreachable, later = told(later, SILENT, NodeState.UNREACHABLE)
    lost, later = told(later, SILENT, NodeState.LOST)
    recovered, later = told(later, HEARD, NodeState.HEALTHY)
    assert (suspect, again) == (["NodeSuspect"], [])
    assert (unreachable, lost) == (["NodeNotReady", "NodeUnreachable"], ["NodeLost"])
    assert recovered == ["NodeRecovered"]
    assert told(later, HEARD, NodeState.HEALTHY)[0] == []


def test_of_several_states_that_are_new_at_once_the_strongest_is_told() -> None:
    assert told(node(), SILENT, NodeState.LOST)[0] == ["NodeNotReady", "NodeLost"]


def test_that_the_brake_holds_is_told_once() -> None:
    held, later = told(node(), SILENT, NodeState.SUSPECT, "too many are silent")
    assert held == ["NodeSuspect", "NodeReactionHeld"]
    assert told(later, SILENT, NodeState.SUSPECT, "too many are silent")[0] == []
    assert told(later, SILENT, NodeState.UNREACHABLE)[0] == ["NodeNotReady", "NodeUnreachable"]


def test_what_was_not_written_is_not_told() -> None:
    plan = plan_node(node(), SILENT, NodeState.LOST, None, now=NOW)
    refused = changes(node(), plan, Rejected(403, "Forbidden", "no"))
    assert [report for one in refused for report in of_node_states(one)] == []


def test_a_quarantine_and_its_end_are_told() -> None:
    def reasons(subject: Obj) -> tuple[list[str], Obj]:
        plan = plan_trust(subject, (), lambda uid: True, now_ns=NOW_NS, now=NOW)
        found = [report for one in changes(subject, plan) if (report := of_quarantine(one)) is not None]
        return [one.reason for one in found], plan.statuses[0].status if plan.statuses else subject["status"]

    aside = node(TAINT, note=f'{{"points":100,"at_ns":{NOW_NS},"why":"a, b"}}')
    quarantined, status = reasons(aside)
    again, _ = reasons({**aside, "status": status})
    forgiven, _ = reasons({**node(), "status": status})
    assert (quarantined, again, forgiven) == (["NodeQuarantined"], [], ["NodeForgiven"])


def test_the_brake_is_shown_in_one_object_and_written_only_when_it_changes() -> None:
    _, held = told(node(), SILENT, NodeState.SUSPECT, "too many are silent")
    data = shown({"data": {"share_percent": "40", "evictions": "2"}}, [held, node(name="n2")])
    assert (data["share_percent"], data["flips_per_minute"], data["holds"]) == ("40", "20", "true")
    assert data["held"] == f"n1: since {NOW}: too many are silent"
    assert data["zones"] == f"without a zone: holds since {NOW}"
    assert data["wrong"] == "evictions is not a limit of the brake"
    limits: Obj = {"metadata": {"namespace": "fathom-system", "name": "node-brake", "resourceVersion": "7"}}
    assert plan_shown(None, data, limits).considered == (considered("configmaps", limits, decisive=True),)
    (create,) = plan_shown(None, data).creates
    made = {**create.obj, "metadata": {**create.obj["metadata"], "uid": "u"}}
    assert plan_shown(made, data) == Plan()
    (patch,) = plan_shown({**made, "data": {**data, "mine": "x"}}, shown(None, [])).patches
    assert (patch.patch["data"]["mine"], patch.patch["data"]["holds"]) == (None, "false")
