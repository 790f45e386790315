"""What the agent's host did for a pod, as records for spans."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.record.entries import StoppedClock
from tests.traces.records import POD_UID

from fathom.agent.host.traced_calls import TracedCalls
from fathom.agent.runtime import ContainerNotStarted, ContainerRun, Launch, ProbeResult
from fathom.agent.runtime_client import Probing
from fathom.model.traced import TracedRecord, TracedRuntimeCall

POD = {"metadata": {"name": "web-1", "uid": POD_UID, "resourceVersion": "42"}}
RUN = ContainerRun(id="run-1", uid=POD_UID, container="web", attempt=2, started_ns=1)
CONTAINER = {"container": "web", "attempt": 2}


class KeptRecords:
    def __init__(self) -> None:
        self.records: list[TracedRecord] = []

    def add(self, record: TracedRecord) -> None:
        self.records.append(record)


def recorded(call: str, body: Any, answer: Any, status: int = 200) -> list[TracedRecord]:
    kept, clock = KeptRecords(), StoppedClock()
    clock.ns = 20
    TracedCalls(kept, "node-1", clock).called(call, msgspec.json.encode(body), status, answer, 10)
    return kept.records


def record(call: Any, **fields: Any) -> TracedRuntimeCall:
    return TracedRuntimeCall(call=call, node="node-1", uid=POD_UID, began_ns=10, ended_ns=20, **fields)


def probing(**probe: Any) -> Probing:
    return Probing(RUN, {"metadata": {"uid": POD_UID}}, probe, "127.0.0.2")


@pytest.mark.parametrize(
    ("call", "body", "answer", "status", "expected"),
    [
        ("admit", POD, None, 200, record("admit", revision=42)),
        ("start", Launch(POD, "web", 2), RUN, 200, record("start", revision=42, **CONTAINER)),
        (
            "start",
            Launch(POD, "web", 2),
            ContainerNotStarted("ErrImagePull", "no such image"),
            422,
            record("start", revision=42, error="ErrImagePull: no such image", **CONTAINER),
        ),
        (
            "start",
            Launch(POD, "web", 2),
            "No space left on device",
            500,
            record("start", revision=42, error="No space left on device", **CONTAINER),
        ),
        (
            "probe",
            probing(httpGet={"path": "/healthz", "port": 80}),
            ProbeResult(True),
            200,
            record("probe", probe="httpGet /healthz", **CONTAINER),
        ),
        (
            "probe",
            probing(exec={"command": ["false"]}, hook=True),
            ProbeResult(False, "exit code 1"),
            200,
            record("probe", probe="hook exec", error="exit code 1", **CONTAINER),
        ),
    ],
)
def test_a_call_for_a_pod_is_recorded_with_its_container_and_result(
    call: str, body: Any, answer: Any, status: int, expected: TracedRuntimeCall
) -> None:
    assert recorded(call, body, answer, status) == [expected]


@pytest.mark.parametrize("call", ["listing", "signal", "remove"])
def test_other_calls_have_no_span(call: str) -> None:
    assert recorded(call, None, None) == []
