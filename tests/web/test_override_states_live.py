"""The page's state of an override is the command line's, for every state there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from fathom.kinds.override_summary import state_of
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import read
from fathom.model.times import moment_ns

pytestmark = pytest.mark.live

Obj = dict[str, Any]
NOW = "2026-11-17T12:00:00Z"
SOON, PAST, LONG_AGO = "2026-11-17T12:30:00Z", "2026-11-17T11:30:00Z", "2026-11-17T10:00:00Z"
STATES = """async ([objects, now]) => {
    const {stateOf} = await import("/ui/overrides.js");
    return objects.map((each) => stateOf(each, Date.parse(now))[1]);
}"""


def ack(controller: str, state: str = "Honoring", generation: int = 2) -> Obj:
    return {"controller": controller, "state": state, "observedGeneration": generation}


def obj(status: Obj, **meta: Any) -> Obj:
    changes = {"pauseAutoscaler": True, "avoidZones": ["a"]}
    spec = {
        "target": "workload/web",
        "scope": "cluster",
        "reason": "r",
        "expiresAfter": "1h",
        "changes": changes,
    }
    whole = {"affectedControllers": ["scheduler", "autoscaler"], "expiresAt": SOON, **status}
    return {
        "metadata": {"name": "o", "namespace": "n", "generation": 2, **meta},
        "spec": spec,
        "status": whole,
    }


BOTH = [ack("scheduler"), ack("autoscaler")]
WAITS = {"required": True, "specHash": "x", "requestedAt": PAST}
CASES = {
    "Observed 0/2": obj({}),
    "Observed 1/2": obj({"acknowledgements": [ack("scheduler"), ack("autoscaler", generation=1)]}),
    "Active": obj({"acknowledgements": [ack("scheduler-0of2"), ack("scheduler-1of2"), ack("autoscaler")]}),
    "Declined": obj({"acknowledgements": [ack("scheduler"), ack("autoscaler", "Declined")]}),
    "Degraded": obj({"acknowledgements": BOTH, "conditions": [{"type": "Degraded", "status": "True"}]}),
    "NoMatch": obj({"acknowledgements": BOTH, "changes": [{"name": "avoidZones", "state": "NoMatch"}]}),
    "Waiting for approval": obj({"approval": WAITS, "expiresAt": None}),
    "Lapsed": obj({"approval": {**WAITS, "requestedAt": LONG_AGO}, "expiresAt": None}),
    "Refused": obj({"approval": {**WAITS, "approved": False}}),
    "Ended": obj({"acknowledgements": BOTH, "expiresAt": PAST}),
    "Ending": obj({"acknowledgements": BOTH}, deletionTimestamp=NOW),
    "Residue": obj({"residue": [{"effect": "taint", "object": "Node a"}]}, deletionTimestamp=NOW),
}


def test_the_page_and_the_command_line_name_the_same_state(page_as: Callable[..., Page]) -> None:
    now_ns = moment_ns(NOW)
    assert now_ns is not None
    assert [state_of(read(SchedulerOverride, each), now_ns) for each in CASES.values()] == list(CASES)
    page = page_as("viewer")
    assert page.evaluate(STATES, [list(CASES.values()), NOW]) == list(CASES)
