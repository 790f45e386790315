"""What a SchedulerOverride may say, what the server stamps on it, and when it holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fathom.kinds import scheduler_override, traffic_route
from fathom.kinds.definition import Stamp
from fathom.kinds.override_changes import ADMIN_VERBS, CHANGES, TARGETS, effective_changes
from fathom.kinds.override_stamps import (
    hash_of,
    spec_hash,
    status_at_approval,
    status_at_create,
    status_at_status_update,
    status_at_update,
    status_awaiting_approval,
)
from fathom.kinds.override_validation import validate, validate_update
from fathom.kinds.scheduler_override import (
    Changes,
    SchedulerOverride,
    changes_of,
    expiry_ns,
    override_active,
)
from fathom.kinds.shape import read
from fathom.kube.rules.cluster.priority_classes import USER_VALUE_MAX
from fathom.model.objects import Obj

START, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z"
START_NS = 1_767_225_600 * 1_000_000_000
MINUTE_NS = 60 * 1_000_000_000

# A value for each change, and a target that it may have.
ONE_OF_EACH: dict[str, tuple[Any, str]] = {
    "pauseAutoscaler": (True, "workload/x"),
    "pauseRollout": (True, "deployment/x"),
    "pauseRepair": (True, "workload/x"),
    "pauseExpansion": (True, "job/x"),
    "avoidZones": (["a"], "workload/x"),
    "avoidNodes": (["n"], "workload/x"),
    "avoidNodeClasses": (["big"], "workload/x"),
    "avoidPools": (["p"], "replicaset/x"),
    "avoidTopology": ({"rack": ["7"]}, "workload/x"),
    "allowReservedCapacityClass": ("recovery", "workload/x"),
    "reservedReplicas": (2, "workload/x"),
    "raisePriority": (0, "workload/x"),
    "cordon": (True, "node/n"),
    "drain": (True, "zone/a"),
    "approveRepairs": (["p"], "workload/x"),
    "trafficWeights": ({"eu-west": 1, "eu-east": 0}, "workload/x"),
    "breakGlassRole": ("fixer", "workload/x"),
}
EMPTY: dict[type, Any] = {bool: False, list: [], dict: {}, str: "", int: None}


def override(*, status: Any = None, namespace: str = "fathom-system", **spec: Any) -> Obj:
    usual = {"target": "workload/x", "scope": "cluster", "reason": "why", "expiresAfter": "10m"}
    return {
        "metadata": {"name": "o", "namespace": namespace, "creationTimestamp": START, "generation": 1},
        "spec": {**usual, "changes": {"pauseAutoscaler": True}, **spec},
        "status": status or {},
    }


def fields(obj: Obj, old: Obj | None = None) -> list[str]:
    return [cause.field for cause in (validate(obj) if old is None else validate_update(obj, old))]


def as_struct(obj: Obj) -> SchedulerOverride:
    return read(SchedulerOverride, obj)


def test_the_table_has_every_field_of_changes_in_their_order() -> None:
    assert (
        [field.encode_name for field in msgspec.structs.fields(Changes)] == list(CHANGES) == list(ONE_OF_EACH)
    )


def test_kubectl_explain_says_what_the_table_says() -> None:
    schema = scheduler_override.DEFINITION.schema["properties"]["spec"]["properties"]["changes"]
    explained = {name: field["description"] for name, field in schema["properties"].items()}
    rows = {name: rule.explained for name, rule in CHANGES.items()}
    assert {name: text[: len(rows[name])] for name, text in explained.items()} == rows
    assert explained["drain"] == (
        "As cordon, and pods on the target's nodes are evicted, as disruption budgets allow."
        " Targets: node/, zone/, pool/. At most 168h. Verb: drain."
        " Carried out by: scheduler, override-controller."
    )


def test_a_priority_is_raised_and_a_weight_set_as_far_as_elsewhere_and_no_further() -> None:
    schema = scheduler_override.DEFINITION.schema["properties"]["spec"]["properties"]["changes"]["properties"]
    bounds = ("minimum", "maximum")
    assert [schema["raisePriority"][bound] for bound in bounds] == [-(2**31), USER_VALUE_MAX]
    route = traffic_route.DEFINITION.schema["properties"]["spec"]["properties"]["routes"]["items"]
    weight = schema["trafficWeights"]["additionalProperties"]
    assert [weight[bound] for bound in bounds] == [route["properties"]["weight"][bound] for bound in bounds]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_accepted_for_the_targets_of_its_row_and_for_no_others(change: str) -> None:
    value, target = ONE_OF_EACH[change]
    changes = {change: value}
    if change == "reservedReplicas":
        changes["allowReservedCapacityClass"] = "recovery"
    assert fields(override(target=target, changes=changes)) == []
    for kind in TARGETS:
        misplaced = kind not in CHANGES[change].control_class.targets
        found = fields(override(target=f"{kind}/x", changes=changes))
        assert (f"spec.changes.{change}" in found) is misplaced, kind
    nothing = {change: EMPTY[type(value)]}
    assert fields(override(target=target, changes=nothing)) == ["spec.changes"]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"reason": "recovery-capacity"}, []),
        ({"reason": " \t\n"}, ["spec.reason"]),
        ({"reason": "\u200b \ufeff\u2060\u00ad"}, ["spec.reason"]),
        ({"reason": "\u3164\u2800\x00\u0301"}, ["spec.reason"]),
        ({"reason": "\u0434\u0430"}, []),
        ({"target": "workload/a/b"}, ["spec.target"]),
        ({"target": "workload/x "}, ["spec.target"]),
        ({"target": "deployment/*"}, ["spec.target"]),
        ({"target": "zone/a b", "changes": {"cordon": True}}, ["spec.target"]),
        ({"target": "zone/Zone_A.1", "changes": {"cordon": True}}, []),
        ({"target": "node/n.example.com", "changes": {"cordon": True}}, []),
        ({"scope": "region/eu/west"}, ["spec.scope"]),
        ({"scope": "region/ "}, ["spec.scope"]),
        ({"scope": "node/Rack_7"}, []),
        ({"changes": {"avoidZones": ["a", "*"]}}, ["spec.changes.avoidZones[1]"]),
        ({"changes": {"avoidNodes": ["n 1"]}}, ["spec.changes.avoidNodes[0]"]),
        ({"changes": {"avoidNodeClasses": [" "]}}, ["spec.changes.avoidNodeClasses[0]"]),
        ({"changes": {"avoidPools": ["a/b"]}}, ["spec.changes.avoidPools[0]"]),
        ({"changes": {"avoidTopology": {"": ["7"]}}}, ["spec.changes.avoidTopology"]),
        ({"changes": {"avoidTopology": {"a b": ["7"]}}}, ["spec.changes.avoidTopology"]),
        ({"changes": {"avoidTopology": {"rack": ["7!"]}}}, ["spec.changes.avoidTopology.rack[0]"]),
        ({"changes": {"allowReservedCapacityClass": "a/b"}}, ["spec.changes.allowReservedCapacityClass"]),
        ({"changes": {"approveRepairs": ["P"]}}, ["spec.changes.approveRepairs[0]"]),
        ({"changes": {"trafficWeights": {"": 1}}}, ["spec.changes.trafficWeights"]),
        ({"changes": {"breakGlassRole": "a/b"}}, ["spec.changes.breakGlassRole"]),
        ({"changes": {"breakGlassRole": "system:fixer"}}, []),
        ({"scope": ""}, ["spec.scope"]),
        ({"scope": "region/eu-west"}, []),
        ({"scope": "everywhere"}, ["spec.scope"]),
        ({"changes": {"cordon": False, "avoidZones": [], "avoidTopology": {"rack": []}}}, ["spec.changes"]),
        ({"changes": {"pauseAutoscaler": True, "cordon": False}}, []),
        ({"changes": {"trafficWeights": {"a": 0}}}, ["spec.changes.trafficWeights"]),
        ({"changes": {"breakGlassRole": "r", "pauseRepair": True}}, ["spec.changes.breakGlassRole"]),
        ({"changes": {"breakGlassRole": "r"}, "expiresAfter": "61m"}, ["spec.expiresAfter"]),
        ({"changes": {"breakGlassRole": "r"}, "scope": "zone/a"}, ["spec.scope"]),
        ({"target": "node/n", "changes": {"cordon": True}}, []),
        ({"target": "team/x"}, ["spec.target"]),
    ],
)  # fmt: skip
def test_what_a_spec_may_say(spec: Obj, wrong: list[str]) -> None:
    assert fields(override(**spec)) == wrong


def test_infrastructure_is_steered_from_the_system_namespace_alone() -> None:
    assert fields(override(namespace="mine", target="pool/p", changes={"cordon": True})) == ["spec.target"]


def test_an_override_of_before_without_a_scope_stays_writable() -> None:
    old = override()
    del old["spec"]["scope"]
    assert fields(old, old) == []
    assert fields({**old, "spec": {**old["spec"], "changes": {"pauseRollout": True}}}, old) == []
    scoped = override()
    unscoped = {**scoped, "spec": {**old["spec"], "reason": "other"}}
    assert fields(unscoped, scoped) == ["spec.scope"]


def test_an_extension_needs_a_reason_of_its_own() -> None:
    old = override()
    assert fields(override(expiresAfter="20m"), old) == ["spec.reason"]
    assert fields(override(expiresAfter="20m", reason=" why\u200b "), old) == ["spec.reason"]
    assert fields(override(expiresAfter="20m", reason="it is not over"), old) == []


def test_break_glass_and_the_target_are_never_changed() -> None:
    glass = override(changes={"breakGlassRole": "r"})
    assert fields({**glass, "spec": {**glass["spec"], "reason": "other"}}, glass) == [
        "spec.changes.breakGlassRole"
    ]
    assert fields(override(target="workload/y"), override()) == ["spec.target"]


def test_changes_that_say_nothing_do_not_count() -> None:
    assert effective_changes({"cordon": False, "drain": True, "avoidZones": [], "raisePriority": 0}) == (
        "raisePriority",
        "drain",
    )
    assert changes_of(as_struct(override(changes={"avoidZones": ["a"], "cordon": False}))) == ("avoidZones",)


def test_verbs_of_the_role_admin_are_verbs_of_the_table() -> None:
    verbs = {rule.verb for rule in CHANGES.values()}
    assert verbs - set(ADMIN_VERBS) == {"cordon", "drain", "break-glass"}
    assert set(ADMIN_VERBS) <= verbs


def test_the_server_stamps_who_when_and_who_must_honour_it() -> None:
    changes = {"pauseAutoscaler": True, "avoidZones": ["a"], "allowReservedCapacityClass": "recovery"}
    assert status_at_create(override(changes=changes), Stamp("jane", START, "root")) == {
        "author": "jane",
        "authorImpersonatedBy": "root",
        "expiresAt": "2026-01-01T00:10:00Z",
        "active": False,
        "affectedControllers": ["scheduler", "autoscaler", "quota-controller"],
        "acknowledgements": [
            {"controller": "quota-controller", "state": "Honoring", "observedGeneration": 1, "time": START}
        ],
    }


def test_a_later_end_is_counted_and_an_earlier_one_is_not() -> None:
    old = override()
    old["status"] = {**status_at_create(old, Stamp("jane", START)), "active": True}
    extended = override(expiresAfter="20m", reason="more")
    status = status_at_update(extended, old, Stamp("tom", LATER))
    assert status == {**old["status"], "active": False, "expiresAt": "2026-01-01T00:50:00Z", "extensions": 1}
    shorter = override(expiresAfter="1m", reason="less")
    status = status_at_update(shorter, old, Stamp("tom", "2026-01-01T00:02:00Z"))
    assert status == {**old["status"], "active": False, "expiresAt": "2026-01-01T00:03:00Z"}
    assert status_at_update(old, old, Stamp("tom", LATER)) is None


def test_a_new_spec_is_honoured_by_the_server_at_once_and_by_others_when_they_say_so() -> None:
    old = override(changes={"pauseExpansion": True, "avoidZones": ["a"]})
    told = {"controller": "autoscaler", "state": "Honoring", "observedGeneration": 1}
    stamped = status_at_create(old, Stamp("jane", START))
    old["status"] = {**stamped, "acknowledgements": [*stamped["acknowledgements"], told]}
    status = status_at_update(override(changes={"pauseExpansion": True}), old, Stamp("jane", LATER))
    assert status is not None
    assert status["affectedControllers"] == ["autoscaler", "quota-controller"]
    assert status["acknowledgements"] == [
        {"controller": "quota-controller", "state": "Honoring", "observedGeneration": 2, "time": LATER},
        told,
    ]


def test_reports_change_nothing_that_the_server_stamps() -> None:
    old = override(changes={"pauseExpansion": True})
    asked = {"required": True, "specHash": "h"}
    old["status"] = {**status_at_create(old, Stamp("jane", START)), "approval": asked, "extensions": 2}
    told = {"controller": "autoscaler", "state": "Honoring", "observedGeneration": 1}
    forged = {
        "author": "tom",
        "authorImpersonatedBy": "nobody",
        "expiresAt": "2999-01-01T00:00:00Z",
        "affectedControllers": [],
        "approval": {"required": True, "approved": True, "specHash": hash_of(old)},
        "blastRadius": {"pods": 0},
        "extensions": 0,
        "active": True,
        "acknowledgements": [{"controller": "quota-controller", "state": "Declined"}, told],
    }
    stored = old["status"]
    assert status_at_status_update({**old, "status": forged}, old, Stamp("tom", LATER)) == {
        **stored,
        "active": True,
        "acknowledgements": [*stored["acknowledgements"], told],
    }


def test_of_an_override_of_before_the_controllers_may_say_who_honours_it() -> None:
    old = override()
    told = {"affectedControllers": ["autoscaler"], "author": "tom"}
    assert status_at_status_update({**old, "status": told}, old, Stamp("c", LATER)) == {
        "affectedControllers": ["autoscaler"]
    }


def pending(**spec: Any) -> Obj:
    obj = override(**spec)
    obj["status"] = status_at_create(obj, Stamp("jane", START, "root"))
    obj["status"] = status_awaiting_approval(obj, {}, Stamp("jane", START, "root"))
    return obj


def approved(obj: Obj, by: str, at: str, answer: object = True) -> Obj:
    sent = {**obj, "status": {"approval": {"approved": answer}}}
    return {**obj, "status": status_at_approval(sent, obj, Stamp(by, at))}


def test_nothing_is_in_force_before_the_approval_and_the_clock_starts_with_it() -> None:
    waiting = pending()
    assert waiting["status"]["approval"] == {
        "required": True,
        "specHash": hash_of(waiting),
        "requestedAt": START,
        "requestedBy": ["jane", "root"],
    }
    assert not override_active(as_struct(waiting), START_NS + MINUTE_NS)
    given = approved(waiting, "tom", LATER)
    assert given["status"]["expiresAt"] == "2026-01-01T00:40:00Z"
    assert [override_active(as_struct(given), START_NS + m * MINUTE_NS) for m in (31, 39, 40)] == [
        True,
        True,
        False,
    ]


def test_what_nobody_approves_within_an_hour_lapses() -> None:
    assert expiry_ns(as_struct(pending(expiresAfter="5h"))) == START_NS + 60 * MINUTE_NS


def test_an_approval_is_void_for_another_spec() -> None:
    given = approved(pending(), "tom", LATER)
    edited = {**given, "spec": {**given["spec"], "changes": {"pauseRollout": True}}}
    assert not override_active(as_struct(edited), START_NS + 31 * MINUTE_NS)
    status = status_awaiting_approval(edited, given, Stamp("ann", LATER))
    # Its end stays: a change of the spec must not start the clock again.
    assert status["expiresAt"] == "2026-01-01T00:40:00Z"
    assert status["approval"] == {
        "required": True,
        "specHash": hash_of(edited),
        "requestedAt": LATER,
        "requestedBy": ["jane", "root", "ann"],
    }
    extended = {**given, "spec": {**given["spec"], "expiresAfter": "20m"}}
    assert "expiresAt" not in status_awaiting_approval(extended, given, Stamp("ann", LATER))


def test_a_refusal_and_a_withdrawal_keep_it_from_being_in_force() -> None:
    waiting = pending()
    for answer in (False, None):
        decided = approved(waiting, "tom", START, answer)
        assert not override_active(as_struct(decided), START_NS + MINUTE_NS)
        withdrawn = approved(approved(waiting, "tom", START), "ann", START, answer)
        assert not override_active(as_struct(withdrawn), START_NS + MINUTE_NS)
    again = approved(approved(approved(waiting, "tom", START), "ann", START, None), "tom", LATER)
    assert again["status"]["expiresAt"] == "2026-01-01T00:10:00Z"


def test_the_same_decision_again_changes_nothing() -> None:
    given = approved(pending(), "tom", START)
    assert approved(given, "tom", LATER) == given


def test_the_hash_of_a_spec_does_not_depend_on_how_it_is_written() -> None:
    said = override(changes={"avoidZones": ["a"], "cordon": False})
    assert hash_of(said) == spec_hash(msgspec.to_builtins(as_struct(said).spec))
    bare = override(changes={"avoidZones": ["a"]}, onEnd="")
    assert hash_of(said) == hash_of(bare)
    turned = {**said, "spec": dict(reversed(list(said["spec"].items())))}
    assert hash_of(turned) == hash_of(said) != hash_of(override(changes={"avoidZones": ["b"]}))
    zero = {"raisePriority": 0, "trafficWeights": {"a": 0, "b": 1}}
    assert hash_of(override(changes=zero)) == spec_hash(
        msgspec.to_builtins(as_struct(override(changes=zero)).spec)
    )
    assert hash_of(override(changes=zero)) != hash_of(override(changes={"trafficWeights": {"b": 1}}))
