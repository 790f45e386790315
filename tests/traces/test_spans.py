"""Records in, spans out: ids, parents, links, times and attributes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.traces.records import (
    OWNER,
    OWNER_UID,
    POD,
    POD_UID,
    SECOND,
    call,
    decision,
    outcome,
    write,
)

from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.traced import TracedRecord
from fathom.traces.maker import RecentEntries, SpanMaker
from fathom.traces.span import (
    Span,
    SpanLink,
    client_link,
    decision_id,
    request_id,
    root_id,
    start_id,
    trace_id,
    write_id,
)

POD_TRACE, OWNER_TRACE = trace_id(POD_UID), trace_id(OWNER_UID)
VICTIM = Subject("pods", "default", "victim", "0e37df36-f698-41e6-8b9c-2f4a3b1c5d6e")


def spans_of(*records: TracedRecord) -> list[Span]:
    maker = SpanMaker()
    return [span for record in records for span in maker.spans_of(record)]


def test_the_trace_id_is_the_uid_of_the_object() -> None:
    assert f"{trace_id(POD_UID):032x}" == POD_UID.replace("-", "")


@pytest.mark.parametrize("uid", ["", "not-a-uid", "0" * 32, "z" * 32])
def test_what_is_no_uid_has_a_trace_id_too(uid: str) -> None:
    assert 0 < trace_id(uid) < 1 << 128


def test_a_decision_is_a_span_from_the_queue_to_the_decision() -> None:
    assert spans_of(decision()) == [
        Span(
            trace=POD_TRACE,
            id=decision_id("s-1"),
            parent=request_id(POD_UID, 41),
            name="scheduler bind",
            start_ns=int(9.5 * SECOND),
            end_ns=10 * SECOND,
            attributes={
                "fathom.decision": "s-1",
                "fathom.controller": "scheduler",
                "fathom.verdict": "bind",
                "fathom.attempt": 1,
                "fathom.queued_ms": 500.0,
                "fathom.generation": 1,
                "fathom.resource": "pods",
                "fathom.name": "web-1",
                "fathom.uid": POD_UID,
                "k8s.namespace.name": "default",
                "k8s.pod.name": "web-1",
                "k8s.pod.uid": POD_UID,
                "fathom.cause": "event pods default/web-1 at 41",
                "k8s.node.name": "node-1",
            },
        )
    ]


def test_a_write_of_a_decision_about_the_same_object_is_its_child() -> None:
    _, span = spans_of(decision(), outcome())
    assert (span.trace, span.id, span.parent) == (POD_TRACE, write_id("s-1"), decision_id("s-1"))
    assert (span.name, span.kind, span.links, span.error) == ("write pods", "client", (), "")
    assert (span.start_ns, span.end_ns) == (10 * SECOND, 11 * SECOND)
    assert span.attributes["fathom.decision"] == "s-1"
    assert span.attributes["fathom.revision"] == 42


def test_a_write_of_another_object_is_in_that_objects_trace_and_links_to_the_decision() -> None:
    eviction = decision(verdict="preempt")
    _, span = spans_of(eviction, outcome(object=VICTIM))
    assert (span.trace, span.id) == (trace_id(VICTIM.uid), decision_id("s-1"))
    assert span.parent == root_id(VICTIM.uid)
    assert span.links == (SpanLink(POD_TRACE, decision_id("s-1")),)


def test_a_refused_write_is_an_error() -> None:
    _, span = spans_of(decision(), outcome(result="conflict", check="NodeFull", message="NodeFull: no room"))
    assert span.error == "NodeFull: no room"
    assert span.attributes["fathom.check"] == "NodeFull"


def test_what_was_held_was_not_sent_and_has_no_write() -> None:
    assert len(spans_of(decision(verdict="hold"), outcome(result="held"))) == 1


def test_the_second_write_of_one_decision_has_an_id_of_its_own() -> None:
    _, first, second = spans_of(decision(), outcome(), outcome(time_ns=12 * SECOND))
    assert first.id == write_id("s-1") != second.id
    assert first.parent == second.parent == decision_id("s-1")


def test_a_create_is_the_root_and_links_to_the_decision_of_the_owner() -> None:
    root, request = spans_of(write(owner=OWNER_UID))
    assert (root.trace, root.id, root.parent, root.name) == (POD_TRACE, root_id(POD_UID), 0, "pods")
    assert root.links == (SpanLink(OWNER_TRACE, decision_id("r-1")),)
    assert (request.trace, request.id) == (POD_TRACE, request_id(POD_UID, 41))
    assert (request.parent, request.name, request.kind) == (
        decision_id("r-1"), "create pods", "server",
    )  # fmt: skip
    assert (request.start_ns, request.end_ns) == (8 * SECOND, 9 * SECOND)
    assert request.attributes["fathom.decision"] == "r-1"
    assert request.attributes["fathom.pod.ready"] is False


def test_the_write_of_a_client_belongs_to_the_root_and_links_to_the_clients_span() -> None:
    sent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    root, request = spans_of(write(decision="", traceparent=sent))
    link = SpanLink(int("ab" * 16, 16), int("cd" * 8, 16))
    assert root.links == request.links == (link,)
    assert request.parent == root.id
    assert "fathom.decision" not in request.attributes


@pytest.mark.parametrize(
    "header", ["", "00", f"00-{'0' * 32}-{'cd' * 8}-01", f"00-{'AB' * 16}-{'cd' * 8}-01", "00-ab-cd-01"]
)
def test_a_malformed_trace_context_is_no_link(header: str) -> None:
    assert client_link(header) == ()


@pytest.mark.parametrize(
    "fields", [{"code": 409, "revision": 0}, {"dry_run": True}, {"resource": "leases.coordination.k8s.io"}]
)
def test_writes_that_changed_nothing_and_leases_have_no_span(fields: dict[str, Any]) -> None:
    assert spans_of(write(**fields)) == []


def test_a_retry_is_a_child_of_the_decision_that_failed() -> None:
    cause = WakeCause("retry", "NodeFull", decision="s-1")
    spans = spans_of(decision(), decision("s-2", cause=cause, attempt=2))
    assert spans[1].parent == spans[0].id


def test_a_decision_caused_by_another_objects_change_links_to_that_write() -> None:
    """The ReplicaSet created the pod, so it knows its UID when the pod's event wakes it."""
    made = decision("r-1", subject=OWNER, controller="replicaset", verdict="create")
    cause = WakeCause("event", "modified", "pods", "default", "web-1", 44)
    later = decision("r-2", subject=OWNER, controller="replicaset", verdict="status", cause=cause)
    span = spans_of(made, outcome("r-1", object=POD), later)[-1]
    assert (span.trace, span.parent) == (OWNER_TRACE, root_id(OWNER_UID))
    assert span.links == (SpanLink(POD_TRACE, request_id(POD_UID, 44)),)


@pytest.mark.parametrize(
    "cause",
    [
        WakeCause(),
        WakeCause("timer", "every 5 s"),
        WakeCause("retry", "lost", decision="of-an-earlier-process"),
        WakeCause("event", "modified", "nodes", "", "node-1", 44),
        WakeCause("event", event="runtime"),
    ],
    ids=lambda cause: cause.kind,
)
def test_without_a_known_cause_the_parent_is_the_creation(cause: WakeCause) -> None:
    [span] = spans_of(decision(cause=cause))
    assert (span.parent, span.links) == (root_id(POD_UID), ())


def test_a_decision_about_an_object_that_does_not_exist_yet_has_a_trace_of_its_own() -> None:
    subject = msgspec.structs.replace(POD, uid="")
    span, written = spans_of(decision(subject=subject), outcome(object=subject))
    assert (span.trace, span.parent) == (trace_id("s-1"), 0)
    assert (written.trace, written.parent) == (span.trace, span.id)


def test_a_container_starts_because_of_the_binding_and_is_probed_because_it_started() -> None:
    report = decision("g-1", controller="agent", verdict="status", cause=WakeCause("event", event="runtime"))
    start, probe, status = spans_of(call(), call("probe", probe="httpGet /healthz"), report)
    assert (start.id, start.parent) == (start_id(POD_UID, "web", 0), request_id(POD_UID, 42))
    assert probe.parent == start.id
    assert status.parent == probe.id
    assert {start.trace, probe.trace, status.trace} == {POD_TRACE}
    assert start.attributes == {
        "k8s.node.name": "node-1",
        "k8s.pod.uid": POD_UID,
        "k8s.container.name": "web",
        "k8s.container.restart_count": 0,
    }


def test_a_probe_has_a_span_only_when_its_result_changes() -> None:
    passed, failed = call("probe", probe="exec"), call("probe", probe="exec", error="exit code 1")
    assert [span.error for span in spans_of(passed, passed, failed, failed, passed)] == [
        "", "exit code 1", "",
    ]  # fmt: skip


def test_a_start_that_is_tried_again_has_an_id_of_its_own() -> None:
    first, second = spans_of(call(error="ErrImagePull: none"), call(began_ns=20 * SECOND))
    assert first.id == start_id(POD_UID, "web", 0) != second.id
    assert (first.error, second.error) == ("ErrImagePull: none", "")


def test_every_process_makes_the_same_ids_of_the_same_records() -> None:
    assert spans_of(decision(), outcome(), write(), call()) == spans_of(
        decision(), outcome(), write(), call()
    )


def test_a_whole_life_is_one_tree() -> None:
    """Each process has its own maker; together their spans have one root, and every parent exists."""
    controllers = spans_of(decision("r-1", subject=OWNER, verdict="create"), outcome("r-1", object=POD))
    api = spans_of(
        write(owner=OWNER_UID),
        write(id="a-2", subresource="binding", decision="s-1", revision=42),
        write(id="a-3", verb="patch", subresource="status", decision="g-1", revision=43, ready=True),
    )
    scheduler = spans_of(decision(), outcome())
    report = decision("g-1", controller="agent", verdict="status", cause=WakeCause("event", event="runtime"))
    agent = spans_of(call("admit"), call(), call("probe"), report, outcome("g-1", revision=43))
    life = [span for span in (*controllers, *api, *scheduler, *agent) if span.trace == POD_TRACE]
    ids = [span.id for span in life]
    assert len(set(ids)) == len(ids) == 13 - 1
    assert [span.name for span in life if span.parent not in ids] == ["pods"]


def test_the_oldest_is_forgotten_first() -> None:
    recent: RecentEntries[int, str] = RecentEntries(2)
    recent.put(1, "a")
    recent.put(2, "b")
    recent.put(1, "c")
    recent.put(3, "d")
    assert [recent.get(key) for key in (1, 2, 3)] == ["c", None, "d"]
