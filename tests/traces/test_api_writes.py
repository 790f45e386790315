"""An API server with traces on: which spans its requests leave, and what its log lines say of decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.binding.cluster import NODES, PODS, batch, item, node
from tests.api.harness import Api, config_map, pod, tell

from fathom.model.traced import TracedRecord, TracedWrite
from fathom.model.well_known import DECISION_ANNOTATION, DECISION_HEADER
from fathom.traces.maker import SpanMaker
from fathom.traces.span import (
    Span,
    SpanLink,
    client_link,
    decision_id,
    request_id,
    root_id,
    trace_id,
)

CLIENT = f"00-{'ab' * 16}-{'cd' * 8}-01"
MAPS = "/api/v1/namespaces/default/configmaps"


class KeptRecords:
    def __init__(self) -> None:
        self.records: list[TracedRecord] = []

    def add(self, record: TracedRecord) -> None:
        self.records.append(record)

    def spans(self, uid: str) -> list[Span]:
        maker = SpanMaker()
        spans = [span for record in self.records for span in maker.spans_of(record)]
        return [span for span in spans if span.trace == trace_id(uid)]


def ready(pod: dict[str, Any]) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "observedGeneration": pod["metadata"]["generation"]}]
    return {"status": {"conditions": conditions}}


def test_a_pods_requests_are_one_trace_and_each_names_the_decision_that_it_carries_out(
    tmp_path: Path,
) -> None:
    kept = KeptRecords()

    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        owner = (await api.post(MAPS, config_map("owner"))).obj["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
        created = await api.post(
            PODS,
            pod("p0", ownerReferences=[{**reference, "controller": True}]),
            headers={DECISION_HEADER: "r-1", "traceparent": CLIENT},
        )
        await batch(api, item("p0", "n1", annotations={DECISION_ANNOTATION: "s-1"}))
        written = await api.patch(f"{PODS}/p0/status", ready(created.obj))
        uid, revision = created.obj["metadata"]["uid"], int(created.obj["metadata"]["resourceVersion"])
        root, create, bind, status = kept.spans(uid)
        assert (root.id, root.parent) == (root_id(uid), 0)
        assert root.links == (SpanLink(trace_id(owner), decision_id("r-1")), *client_link(CLIENT))
        assert (create.id, create.parent) == (request_id(uid, revision), decision_id("r-1"))
        assert (bind.name, bind.parent) == ("create pods/binding", decision_id("s-1"))
        assert bind.attributes["fathom.decision"] == "s-1"
        assert (status.name, status.parent) == ("patch pods/status", root.id)
        assert status.id == request_id(uid, int(written.obj["metadata"]["resourceVersion"]))
        assert [span.attributes["fathom.pod.ready"] for span in (create, bind, status)] == [
            False, False, True,
        ]  # fmt: skip
        assert 0 < create.start_ns <= create.end_ns <= bind.end_ns <= status.end_ns

    tell(story, tmp_path, traces=kept)


def test_reads_and_refused_writes_leave_no_span(tmp_path: Path) -> None:
    kept = KeptRecords()

    async def story(api: Api) -> None:
        assert (await api.post(MAPS, config_map("a"))).status == 201
        written = len([record for record in kept.records if _is_of(record, "configmaps")])
        assert (await api.post(MAPS, config_map("a"))).status == 409
        assert (await api.get(f"{MAPS}/a")).status == 200
        spans = [
            span
            for record in kept.records
            if _is_of(record, "configmaps") and isinstance(record, TracedWrite) and record.entry.name == "a"
            for span in SpanMaker().spans_of(record)
        ]
        assert written > 0
        assert [span.name for span in spans] == ["configmaps", "create configmaps"]

    tell(story, tmp_path, traces=kept)


def _is_of(record: TracedRecord, resource: str) -> bool:
    return isinstance(record, TracedWrite) and record.entry.resource == resource


def test_a_log_line_about_a_request_names_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").touch()

    async def story(api: Api) -> None:
        async def broken(*arguments: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(api.core.store, "commit", broken)
        answer = await api.post(MAPS, config_map("a"), headers={DECISION_HEADER: "d-1"})
        assert answer.status == 500
        monkeypatch.undo()

    tell(story, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["event"]: line["decision"] for line in lines if "decision" in line} == {
        "unexpected error": "d-1",
        "request": "d-1",
    }
