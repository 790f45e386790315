"""What lists show of an override, from its spec and status alone."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.api.tables import columns_of, row
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.override_summary import (
    AckCounts,
    ack_counts,
    changes_text,
    remaining,
    set_changes,
    state_of,
)
from fathom.kinds.scheduler_override import DEFINITION, Changes, SchedulerOverride
from fathom.kinds.shape import read
from fathom.kube.definitions.own import own_kind
from fathom.model.objects import Obj
from fathom.model.times import moment_ns

NOW_NS = moment_ns("2026-03-01T12:14:00Z") or 0
AFTER_NS = moment_ns("2026-03-01T13:00:00Z") or 0
AFFECTED = ["scheduler", "autoscaler", "quota-controller"]


def lesson(generation: int = 1, **status: Any) -> Obj:
    """Lesson 021's override, created at 12:00 for 45 minutes."""
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {
            "name": "risk-api-eu-west-recovery",
            "namespace": "default",
            "generation": generation,
            "creationTimestamp": "2026-03-01T12:00:00Z",
        },
        "spec": {
            "target": "workload/risk-api",
            "scope": "region/eu-west",
            "reason": "recovery-capacity",
            "expiresAfter": "45m",
            "changes": {
                "pauseAutoscaler": True,
                "avoidZones": ["eu-west-a"],
                "allowReservedCapacityClass": "recovery",
            },
        },
        "status": {
            "author": "alice",
            "expiresAt": "2026-03-01T12:45:00Z",
            "affectedControllers": AFFECTED,
            **status,
        },
    }


def acks(*names: str, generation: int = 1, state: str = "Honoring") -> list[Obj]:
    return [{"controller": name, "state": state, "observedGeneration": generation} for name in names]


def override(generation: int = 1, **status: Any) -> SchedulerOverride:
    return read(SchedulerOverride, lesson(generation, **status))


def test_changes_are_those_that_are_set_in_the_order_of_the_table() -> None:
    assert changes_text(override()) == "pauseAutoscaler,avoidZones,allowReservedCapacityClass"
    changes = {"reservedReplicas": 0, "raisePriority": 0, "cordon": False, "avoidPools": [], "drain": True}
    obj = lesson()
    obj["spec"]["changes"] = changes
    assert set_changes(read(SchedulerOverride, obj)) == {
        "reservedReplicas": 0,
        "raisePriority": 0,
        "drain": True,
    }


def test_every_change_of_the_table_is_a_field_and_every_field_a_row() -> None:
    assert set(CHANGES) == set(Changes.__struct_encode_fields__)


def test_an_acknowledgement_of_an_earlier_generation_does_not_count() -> None:
    said = [*acks("scheduler", generation=2), *acks("autoscaler", generation=1)]
    counts = ack_counts(override(2, acknowledgements=said))
    assert counts == AckCounts(("scheduler",), (), ("autoscaler", "quota-controller"))
    assert str(counts) == "1/3"


def test_without_a_status_the_affected_controllers_follow_from_the_changes() -> None:
    assert ack_counts(override(affectedControllers=[])).missing == tuple(AFFECTED)


NO_MATCH = [{"name": "avoidZones", "state": "NoMatch"}]


@pytest.mark.parametrize(
    ("status", "now_ns", "state", "expires"),
    [
        ({}, NOW_NS, "Observed 0/3", "31m"),
        ({"acknowledgements": acks("scheduler", "autoscaler")}, NOW_NS, "Observed 2/3", "31m"),
        ({"acknowledgements": acks(*AFFECTED)}, NOW_NS, "Active", "31m"),
        ({"acknowledgements": acks(*AFFECTED), "changes": NO_MATCH}, NOW_NS, "NoMatch", "31m"),
        ({"acknowledgements": acks("scheduler", state="Declined")}, NOW_NS, "Declined", "31m"),
        ({"conditions": [{"type": "Degraded", "status": "True"}]}, NOW_NS, "Degraded", "31m"),
        ({"approval": {"required": True}}, NOW_NS, "Waiting for approval", "-"),
        ({"approval": {"required": True}}, AFTER_NS, "Lapsed", "-"),
        ({"approval": {"required": True, "approved": False}}, NOW_NS, "Refused", "31m"),
        ({"acknowledgements": acks(*AFFECTED)}, AFTER_NS, "Ended", "ended"),
        ({"residue": [{"effect": "taint", "object": "node/a"}]}, AFTER_NS, "Residue", "ended"),
    ],
)
def test_the_state_says_how_far_it_is(status: Obj, now_ns: int, state: str, expires: str) -> None:
    made = override(**status)
    assert (state_of(made, now_ns), remaining(made, now_ns)) == (state, expires)


def test_an_override_that_is_being_deleted_is_ending() -> None:
    obj = lesson()
    obj["metadata"]["deletionTimestamp"] = "2026-03-01T12:13:00Z"
    made = read(SchedulerOverride, obj)
    assert (state_of(made, NOW_NS), remaining(made, NOW_NS)) == ("Ending", "ended")


def test_kubectl_shows_the_same_columns() -> None:
    kind = own_kind(DEFINITION)
    cells = row(kind, lesson(acknowledgements=acks("scheduler", "autoscaler")), now_ns=NOW_NS)["cells"]
    assert dict(zip([column.name for column in columns_of(kind)], cells, strict=True)) == {
        "Name": "risk-api-eu-west-recovery",
        "Target": "workload/risk-api",
        "Changes": "pauseAutoscaler,avoidZones,allowReservedCapacityClass",
        "Owner": "alice",
        "Expires": "31m",
        "Ack": "2/3",
        "State": "Observed 2/3",
        "Scope": "region/eu-west",
        "Reason": "recovery-capacity",
        "Age": "14m",
    }


def test_an_object_that_cannot_be_read_still_has_a_row() -> None:
    kind = own_kind(DEFINITION)
    broken = {"metadata": {"name": "x"}, "spec": {"target": "workload/a", "changes": 3}}
    cells = row(kind, broken, now_ns=NOW_NS)["cells"]
    assert cells[:3] == ["x", "workload/a", "<invalid>"]
