"""Overrides where fathom is attached: what is honoured, what is declined, and what their status says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fathom.kinds.attached_override import (
    CARRIED_OUT,
    OverrideRefusal,
    as_acknowledged,
    attached_status,
    honoured,
    refusal,
    without_nodes,
)
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.override_policy import AUTHOR, Vouching
from fathom.kinds.override_status import Acknowledger
from fathom.kinds.override_summary import state_of
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.model.times import moment_ns

CREATED, NOW = "2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z"
NOW_NS = moment_ns(NOW) or 0
VOUCHED = Vouching(moment_ns("2026-01-01T11:00:00Z"))
SCHEDULER = Acknowledger("scheduler-fathom")
ONLY = "only for pods that name an attached scheduler: others do not know of it"


def override(changes: dict[str, Any], **spec: Any) -> dict[str, Any]:
    meta = {
        "namespace": "default", "name": "o", "uid": "u-1", "generation": 1, "creationTimestamp": CREATED,
        "annotations": {AUTHOR: "jane"},
    }  # fmt: skip
    usual = {"target": "workload/web", "scope": "cluster", "reason": "r", "expiresAfter": "45m"}
    return {"metadata": meta, "spec": {**usual, **spec, "changes": changes}}


def status(
    obj: dict[str, Any], policy: Vouching = VOUCHED, by: Acknowledger | None = SCHEDULER, *, now: str = NOW
) -> Any:
    now_ns = moment_ns(now) or 0
    return attached_status(obj, policy, by, cache_revision=7, now=now, now_ns=now_ns)


def entry(controller: str, reason: str = "") -> dict[str, Any]:
    said = {"state": "Declined", "reason": reason} if reason else {"state": "Honoring"}
    return {"controller": controller, **said, "observedGeneration": 1, "cacheRevision": 7, "time": NOW}


def condition(type_: str, state: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": type_, "status": state, "observedGeneration": 1, "lastTransitionTime": NOW, "reason": reason,
        "message": message,
    }  # fmt: skip


def test_what_the_scheduler_carries_out_alone_is_honoured() -> None:
    assert sorted(CARRIED_OUT) == [
        "avoidNodeClasses", "avoidNodes", "avoidPools", "avoidTopology", "avoidZones", "cordon",
        "raisePriority",
    ]  # fmt: skip
    obj = override({"avoidZones": ["a"]})
    assert honoured(obj, VOUCHED) == {**obj, "status": {}}
    assert status(obj) == {
        "author": "jane",
        "expiresAt": "2026-01-01T12:45:00Z",
        "observedGeneration": 1,
        "affectedControllers": ["scheduler"],
        "active": True,
        "acknowledgements": [entry("scheduler-fathom")],
        "changes": [
            {"name": "avoidZones", "state": "InForce", "reason": "SchedulerHonours", "message": ONLY}
        ],
        "conditions": [
            condition(
                "SchedulerOverrideObserved",
                "True",
                "AllAcknowledged",
                "whoever is attached has observed this generation",
            ),
            condition("Effective", "True", "InForce", ""),
        ],
    }


@pytest.mark.parametrize("change", sorted(set(CHANGES) - CARRIED_OUT))
def test_every_other_change_is_declined_since_nobody_carries_it_out(change: str) -> None:
    given = {"trafficWeights": {"a": 1}, "allowReservedCapacityClass": "c", "breakGlassRole": "r"}
    changes: dict[str, Any] = {change: given.get(change, True)}
    changes |= {"allowReservedCapacityClass": "c"} if change == "reservedReplicas" else {}
    if change in {"reservedReplicas", "approveRepairs"}:
        changes[change] = 1 if change == "reservedReplicas" else ["r"]
    obj = override(changes, target="workload/web")
    if change == "drain":
        obj["spec"]["target"], obj["metadata"]["namespace"] = "node/n", "fathom-system"
    assert refusal(obj, VOUCHED) is None
    assert honoured(obj, VOUCHED) is None
    said = status(obj)
    assert said["active"] is False
    assert {each["state"] for each in said["acknowledgements"]} == {"Declined"}
    assert {each["reason"] for each in said["acknowledgements"]} == {"NoEnforcer"}
    assert {(each["state"], each["reason"]) for each in said["changes"]} == {("Declined", "NoEnforcer")}
    shown = msgspec.convert({**obj, "status": said}, SchedulerOverride)
    assert state_of(shown, NOW_NS) == "Declined"


def test_of_several_changes_only_those_that_are_carried_out_are_given_to_decisions() -> None:
    obj = override({"avoidZones": ["a"], "pauseAutoscaler": True, "allowReservedCapacityClass": "c"})
    kept = honoured(obj, VOUCHED)
    assert kept is not None
    assert kept["spec"]["changes"] == {"avoidZones": ["a"]}
    said = status(obj)
    assert said["active"] is False
    assert said["acknowledgements"] == [
        entry("scheduler-fathom"),
        entry("autoscaler", "NoEnforcer"),
        entry("quota-controller", "NoEnforcer"),
    ]
    assert [(each["name"], each["state"], each["message"]) for each in said["changes"]] == [
        ("pauseAutoscaler", "Declined", "no autoscaler is attached"),
        ("avoidZones", "InForce", ONLY),
        ("allowReservedCapacityClass", "Declined", "no quota-controller is attached"),
    ]


@pytest.mark.parametrize(
    ("spec", "policy", "expected"),
    [
        (
            {},
            Vouching(None, "there is no policy"),
            OverrideRefusal("NoEnforcer", "nobody vouches for its author: there is no policy"),
        ),
        (
            {},
            Vouching(moment_ns("2026-01-01T12:00:01Z")),
            OverrideRefusal(
                "NoEnforcer",
                "nobody vouches for its author: it is older than the policy fathom-overrides, or was created"
                " within seconds of it: create it again",
            ),
        ),
        (
            {"requestedThrough": "assistant X via fathom mcp"},
            VOUCHED,
            OverrideRefusal(
                "NoEnforcer", "it waits for a second person's approval, which nobody can give here"
            ),
        ),
        (
            {"expiresAfter": "300h"},
            VOUCHED,
            OverrideRefusal(
                "Invalid", 'spec.expiresAfter: Invalid value: "300h": avoidZones may last at most 168h'
            ),
        ),
        (
            {"target": "node/n"},
            VOUCHED,
            OverrideRefusal(
                "Invalid",
                "spec.target: Forbidden: an override of infrastructure (node) must be in the namespace"
                " fathom-system",
            ),
        ),
    ],
)
def test_an_override_that_nobody_vouches_for_is_declined_as_a_whole(
    spec: dict[str, Any], policy: Vouching, expected: OverrideRefusal
) -> None:
    obj = override({"avoidZones": ["a"]}, **spec)
    assert refusal(obj, policy) == expected
    assert honoured(obj, policy) is None
    said = status(obj, policy)
    assert (said.get("author"), said["active"]) == (None, False)
    assert said["acknowledgements"] == [entry("scheduler-fathom", expected.reason)]


def test_the_scheduler_does_not_acknowledge_while_older_bindings_are_under_way() -> None:
    obj = override({"avoidZones": ["a"], "pauseRollout": True})
    said = status(obj, by=None)
    assert said["acknowledgements"] == [entry("deployment-controller", "NoEnforcer")]
    assert said["active"] is False
    assert said["conditions"][0] == condition(
        "SchedulerOverrideObserved", "False", "Waiting", "scheduler did not observe this generation yet"
    )


def test_a_status_that_is_true_is_not_written_again_and_one_that_is_not_is() -> None:
    obj = override({"avoidZones": ["a"]})
    said = status(obj)
    assert status({**obj, "status": said}) is None
    forged = {**said, "author": "alice", "expiresAt": "2027-01-01T00:00:00Z"}
    assert status({**obj, "status": forged}) == {"author": "jane", "expiresAt": "2026-01-01T12:45:00Z"}
    kept = honoured({**obj, "status": forged}, VOUCHED)
    assert kept is not None
    assert kept["status"] == {}


def test_an_override_whose_policy_is_gone_is_not_honoured_any_more() -> None:
    obj = override({"avoidZones": ["a"]})
    obj["status"] = status(obj)
    said = status(obj, Vouching(None, "there is no policy"), now="2026-01-01T12:10:00Z")
    assert (said["active"], said["author"]) == (False, None)
    assert [each["state"] for each in said["acknowledgements"]] == ["Declined"]


def test_after_its_end_nothing_is_left_to_undo() -> None:
    obj = override({"avoidZones": ["a"]})
    obj["status"] = status(obj)
    said = status(obj, now="2026-01-01T12:45:00Z")
    assert said["active"] is False
    assert [(each["type"], each["status"], each["reason"]) for each in said["conditions"]][-1] == (
        "RepairComplete",
        "True",
        "OverAtOnce",
    )
    assert status({**obj, "status": {**obj["status"], **said}}, now="2026-01-01T12:46:00Z") is None


def test_a_copy_takes_of_an_override_what_its_status_says_to_be_honoured() -> None:
    obj = override({"avoidZones": ["a"], "pauseAutoscaler": True})
    assert as_acknowledged(obj) is None  # Nobody has looked at it.
    shown = {**obj, "status": status(obj)}
    assert as_acknowledged(shown) == {**shown, "spec": {**obj["spec"], "changes": {"avoidZones": ["a"]}}}
    declined = {**obj, "status": status(obj, Vouching(None, "there is no policy"))}
    assert as_acknowledged(declined) is None
    waits = {**obj, "status": status(obj, by=None)}
    assert as_acknowledged(waits) is None


def test_a_change_that_matches_no_node_says_so() -> None:
    zone_a = {
        "metadata": {
            "name": "n-1",
            "labels": {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"},
        }
    }
    zones = override({"avoidZones": ["b", "c"], "avoidNodes": ["n-1"], "avoidPools": []})
    missing = {"avoidZones": "no node in the scope is in b, c"}
    assert without_nodes(zones, [zone_a]) == missing
    assert without_nodes(override({"avoidZones": ["b", "a"]}), [zone_a]) == {}
    elsewhere = override({"avoidZones": ["a"]}, scope="region/us")
    assert without_nodes(elsewhere, [zone_a]) == {"avoidZones": "no node in the scope is in a"}
    cordon = override({"cordon": True}, target="zone/b")
    assert without_nodes(cordon, [zone_a]) == {"cordon": "there is no node in zone/b"}
    assert without_nodes(override({"cordon": True}, target="node/n-1"), [zone_a]) == {}
    said = attached_status(
        zones, VOUCHED, SCHEDULER, unmatched=missing, cache_revision=7, now=NOW, now_ns=NOW_NS
    )
    assert said is not None
    assert [(each["name"], each["state"]) for each in said["changes"]] == [
        ("avoidZones", "NoMatch"),
        ("avoidNodes", "InForce"),
    ]


def test_two_schedulers_do_not_fight_over_a_status() -> None:
    obj = override({"avoidZones": ["a"], "pauseAutoscaler": True})
    obj["status"] = status(obj)
    added = status(obj, by=Acknowledger("scheduler-batch"), now="2026-01-01T12:00:09Z")
    assert list(added) == ["acknowledgements"]
    obj["status"] |= added
    assert status(obj, now="2026-01-01T12:01:00Z") is None
    assert status(obj, by=Acknowledger("scheduler-batch"), now="2026-01-01T12:01:00Z") is None
