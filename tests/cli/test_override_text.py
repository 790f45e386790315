"""What `fathom override` shows, from objects alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.kinds.test_override_summary import AFFECTED, NOW_NS, acks, lesson

from fathom.cli.problem import Problem
from fathom.cli.steer.override_actions import waiting_text
from fathom.cli.steer.override_arguments import check_later
from fathom.cli.steer.override_review import review_lines
from fathom.cli.steer.override_text import (
    approval_lines,
    change_text,
    confirmation_lines,
    list_rows,
    no_match_lines,
    override_of,
    residue_lines,
    show_lines,
)
from fathom.cli.tables import table_lines
from fathom.terminal import visible

Obj = dict[str, Any]

RADIUS = {"pods": 12, "nodes": 1, "tenants": 1, "zonePercent": 33, "belowMinimum": 2}


def listed(objs: list[Obj], **how: Any) -> list[str]:
    return table_lines(list_rows(objs, **how))


def test_a_list_has_the_columns_of_the_command() -> None:
    objs = [
        lesson(acknowledgements=acks("scheduler", "autoscaler")),
        {**lesson(acknowledgements=acks(*AFFECTED)), "metadata": {"name": "b", "namespace": "shop"}},
    ]
    head, first, second = listed(objs, now_ns=NOW_NS, with_namespace=False)
    assert head.split() == ["NAME", "TARGET", "CHANGES", "OWNER", "EXPIRES", "ACK", "STATE"]
    changes = "pauseAutoscaler,avoidZones,allowReservedCapacityClass"
    assert re.split(" {3,}", first) == [
        "risk-api-eu-west-recovery", "workload/risk-api", changes, "alice", "31m", "2/3", "Observed 2/3"
    ]  # fmt: skip
    assert second.split()[-2:] == ["3/3", "Active"]
    head, first, _ = listed(objs, now_ns=NOW_NS, with_namespace=True, wide=True)
    assert head.split()[0] == "NAMESPACE"
    assert first.split()[0] == "default"
    assert first.split()[-2:] == ["region/eu-west", "recovery-capacity"]


def test_an_override_is_shown_in_plain_words() -> None:
    states = [
        {"name": "pauseAutoscaler", "state": "InForce", "reason": "AutoscalerPaused"},
        {"name": "avoidZones", "state": "NoMatch", "reason": "NoNode", "message": "no node is in eu-west-a"},
    ]
    conditions = [
        {"type": "SchedulerOverrideObserved", "status": "False", "reason": "Waiting", "message": "autoscaler"}
    ]
    obj = lesson(
        acknowledgements=[{**acks("scheduler")[0], "cacheRevision": 71}, *acks("quota-controller")],
        changes=states,
        blastRadius=RADIUS,
        extensions=1,
        conditions=conditions,
    )
    about_class = "Pods of the target may use the reserved capacity of this class."
    assert show_lines(obj, now_ns=NOW_NS) == [
        "override default/risk-api-eu-west-recovery: Observed 2/3",
        "  what          pauseAutoscaler: The autoscaler changes the target's replicas in neither direction."
        " [InForce: AutoscalerPaused]",
        "                avoidZones eu-west-a: New pods of the target are not placed in these zones."
        " [NoMatch: NoNode: no node is in eu-west-a]",
        f"                allowReservedCapacityClass recovery: {about_class}",
        "  for           workload/risk-api in namespace default",
        "  where         region/eu-west",
        "  why           recovery-capacity",
        "  asked by      alice, at 2026-03-01T12:00:00Z",
        "  until         2026-03-01T12:45:00Z (in 31m), 45m after it was written; extended 1 time",
        "  honoured by   scheduler: Honoring (generation 1, cache at revision 71)",
        "                quota-controller: Honoring (generation 1)",
        "                autoscaler: has not acknowledged generation 1",
        "  concerns      12 pods, 1 node, 1 tenant, at most 33 % of a zone's nodes, 2 workloads left below"
        " the minimum of replicas",
        "  approval      not needed",
        "  at its end    pauseAutoscaler, avoidZones: over at once",
        "                allowReservedCapacityClass: what was done under it stays",
        "                pods that it placed stay (onEnd: keep)",
        "  conditions    SchedulerOverrideObserved=False (Waiting): autoscaler",
        "  undo it with  fathom override end risk-api-eu-west-recovery -n default",
    ]


def shown(**status: Any) -> dict[str, str]:
    """The lines of one override by their titles."""
    lines = show_lines(lesson(**status), now_ns=NOW_NS)[1:]
    return {line[2:15].strip(): line[16:] for line in lines if line[2] != " "}


def test_an_approval_says_who_decided_and_about_which_spec() -> None:
    waiting = shown(approval={"required": True, "specHash": "0123456789abcdef"})
    assert waiting["approval"] == (
        "needed: nothing is in force before somebody other than alice runs"
        " `fathom override approve risk-api-eu-west-recovery -n default`"
    )
    assert waiting["until"] == "45m after its approval"
    decided = {"required": True, "approver": "bob", "approvedAt": "2026-03-01T12:05:00Z"}
    approved = shown(approval={**decided, "approved": True, "specHash": "0123456789abcdef"})
    assert approved["approval"] == "approved by bob at 2026-03-01T12:05:00Z, spec 0123456789ab"
    refused = shown(approval={**decided, "approved": False})
    assert refused["approval"] == "refused by bob at 2026-03-01T12:05:00Z"


def test_a_risky_change_that_nobody_must_approve_says_why() -> None:
    obj = lesson()
    obj["spec"]["changes"] = {"trafficWeights": {"eu-west": 1}}
    shown = next(line for line in show_lines(obj, now_ns=NOW_NS) if line.startswith("  approval"))
    assert shown == "  approval      not needed (it is risky, and the SteeringLimits have approvals off)"
    obj["spec"]["changes"] = {"breakGlassRole": "fixer"}
    shown = next(line for line in show_lines(obj, now_ns=NOW_NS) if line.startswith("  approval"))
    assert shown.split() == ["approval", "not", "needed"]


def test_the_approver_sees_the_whole_hash_of_the_spec() -> None:
    obj = lesson(approval={"required": True, "specHash": "0123456789abcdef"})
    lines = approval_lines(obj, place="prod", now_ns=NOW_NS)
    assert lines[-1] == "  spec hash  0123456789abcdef"
    assert lines[3] == "  target     workload/risk-api"


def test_what_is_left_behind_is_named() -> None:
    residue = [{"effect": "taint", "object": "node/a", "message": "kept by bob"}, {"effect": "route"}]
    assert shown(residue=residue)["left behind"] == "taint node/a: kept by bob"
    name = "override default/risk-api-eu-west-recovery"
    assert residue_lines(lesson(residue=residue), proven=True) == [
        f"{name} has ended, and left 2 effects behind:",
        "  taint node/a: kept by bob",
        "  route",
        "it stays until they are gone: fathom override show risk-api-eu-west-recovery -n default",
    ]
    assert residue_lines(lesson(), proven=True) == [
        f"{name} has ended, and it is proven that nothing is left of it"
    ]
    assert residue_lines(lesson(), proven=False) == [
        f"{name} has ended; what is left of it was not checked, because it had no finalizer"
    ]


def test_an_override_that_is_ending_has_neither_acknowledgements_nor_a_way_to_undo_it() -> None:
    obj = lesson(3, acknowledgements=acks(*AFFECTED, generation=2))
    obj["metadata"]["deletionTimestamp"] = "2026-03-01T12:13:00Z"
    lines = show_lines(obj, now_ns=NOW_NS)
    assert lines[0] == "override default/risk-api-eu-west-recovery: Ending"
    until = next(line.split() for line in lines if line.startswith("  until"))
    assert until[1:6] == ["2026-03-01T12:13:00Z", "(it", "was", "ended),", "instead"]
    assert not any(line.startswith(("  honoured by", "  undo it with")) for line in lines)
    assert listed([obj], now_ns=NOW_NS, with_namespace=False)[1].split()[-2:] == ["-", "Ending"]


def test_changes_that_match_nothing_are_named() -> None:
    states = [
        {"name": "pauseAutoscaler", "state": "InForce"},
        {"name": "avoidZones", "state": "NoMatch", "reason": "NoNode", "message": "no node is in eu-west-a"},
    ]
    assert no_match_lines(lesson(changes=states)) == ["avoidZones matches nothing: no node is in eu-west-a"]


def test_a_confirmation_shows_where_what_and_how_much() -> None:
    lines = confirmation_lines(
        lesson(blastRadius={"pods": 12, "nodes": 0, "tenants": 1}),
        place="prod (cluster eu, https://10.0.0.1:6443)",
        now_ns=NOW_NS,
        warnings=["there is no CapacityClass recovery"],
    )
    titles = [line[2:11].strip() for line in lines]
    assert titles == [
        "context", "namespace", "override", "target", "where", "changes", "", "", "reason", "author", "until",
        "concerns", "approval", "warning",
    ]  # fmt: skip
    assert lines[0] == "  context    prod (cluster eu, https://10.0.0.1:6443)"
    assert lines[11] == "  concerns   12 pods, 0 nodes, 1 tenant, at most 0 % of a zone's nodes"
    assert lines[-1] == "  warning    there is no CapacityClass recovery"


def test_values_of_changes_are_written_as_they_are_typed() -> None:
    assert change_text("cordon", True) == "cordon"
    assert change_text("avoidZones", ["a", "b"]) == "avoidZones a, b"
    assert change_text("avoidTopology", {"x/rack": ["r1", "r2"]}) == "avoidTopology x/rack=r1|r2"
    assert change_text("trafficWeights", {"eu": 90, "us": 10}) == "trafficWeights eu=90, us=10"
    assert change_text("reservedReplicas", 0) == "reservedReplicas 0"


def test_an_extension_must_not_end_it_earlier() -> None:
    override = override_of(lesson())
    check_later(override, "32m", NOW_NS)
    with pytest.raises(Problem, match="--for 30m would end it earlier: it ends in 31m"):
        check_later(override, "30m", NOW_NS)


def test_waiting_names_who_is_missing() -> None:
    assert waiting_text(lesson(acknowledgements=acks("scheduler"))) == (
        "waiting for autoscaler, quota-controller (1/3 have acknowledged it)"
    )
    assert waiting_text(lesson(approval={"required": True})) == "waiting for approval"
    assert waiting_text(lesson(acknowledgements=acks(*AFFECTED))) == ""


def test_one_of_several_schedulers_that_is_missing_is_a_missing_scheduler() -> None:
    others = acks("autoscaler", "quota-controller")
    first, second = acks("scheduler-0of2"), acks("scheduler-1of2")
    both = lesson(acknowledgements=[*others, *first, *second])
    assert waiting_text(both) == ""
    behind = lesson(
        2, acknowledgements=[*acks("autoscaler", "quota-controller", "scheduler-0of2", generation=2), *second]
    )
    assert waiting_text(behind) == "waiting for scheduler (2/3 have acknowledged it)"


def test_a_review_shows_who_had_which_role() -> None:
    review = {
        "metadata": {"name": "r", "namespace": "shop"},
        "spec": {
            "override": {"namespace": "shop", "name": "o"},
            "author": "alice",
            "role": "emergency",
            "reason": "the deployer is down",
            "startsAt": "2026-03-01T12:00:00Z",
            "endsAt": "2026-03-01T12:30:00Z",
        },
        "status": {
            "phase": "Disputed",
            "approver": "bob",
            "approvedAt": "2026-03-02T08:00:00Z",
            "findings": "f",
        },
    }
    assert review_lines(review) == [
        "review shop/r: Disputed",
        "  override  shop/o",
        "  author    alice",
        "  role      ClusterRole emergency",
        "  why       the deployer is down",
        "  time      2026-03-01T12:00:00Z to 2026-03-01T12:30:00Z",
        "  reviewer  bob, at 2026-03-02T08:00:00Z",
        "  findings  f",
    ]


def test_no_line_of_a_hostile_override_reaches_the_terminal_as_it_is() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\nready"
    obj = lesson(author=evil, residue=[{"effect": "taint", "object": evil, "message": evil}])
    obj["spec"]["reason"] = evil
    lines = [
        *show_lines(obj, now_ns=NOW_NS),
        *listed([obj], now_ns=NOW_NS, with_namespace=True, wide=True),
    ]
    assert all("\x1b" not in visible(line) and "\n" not in visible(line) for line in lines)
    assert any(r"\x1b]0;owned" in visible(line) for line in lines)
