"""What people hear of what controllers did."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.cache.snapshot import Snapshot
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.control.event_writer import EventChange, EventReport, event_of
from fathom.control.plan import Action, Create, Delete, Patch, Target, WriteStatus
from fathom.control.watches import AUTOSCALER, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET
from fathom.controllers.workload_events import (
    of_autoscaler,
    of_deployment,
    of_eviction,
    of_job,
    of_node,
    of_replica_set,
)
from fathom.model.objects import Key, Obj

DONE = Committed({})
REFUSED = Rejected(403, "Forbidden", "no")


class Seen:
    """A snapshot that knows these objects."""

    def __init__(self, **objs: Obj) -> None:
        self._objs = objs

    def get(self, kind: str, key: Key) -> Obj | None:
        return self._objs.get(f"{kind}_{key.name}")


def obj(name: str, **fields: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"u-{name}"}, **fields}


def at(kind: str, name: str) -> Target:
    return Target(kind, Key("default", name), f"u-{name}", "7")


def change(
    action: Action,
    outcome: Outcome = DONE,
    *,
    why: str = "",
    because: str = "",
    subject: Obj | None = None,
    seen: dict[str, Obj] | None = None,
) -> EventChange:
    before: Snapshot = Seen(**(seen or {}))  # type: ignore[assignment]  # all that is asked of it
    return EventChange(subject if subject is not None else obj("web"), before, action, outcome, why, because)


WEB = obj("web")


@pytest.mark.parametrize(
    ("action", "outcome", "reason", "message", "type_"),
    [
        (Create("Pod", obj("web-0")), DONE, "SuccessfulCreate", "Created pod: web-0", "Normal"),
        (Create("Pod", obj("web-0")), REFUSED, "FailedCreate", "Error creating: no", "Warning"),
        (Delete(at("Pod", "web-0")), DONE, "SuccessfulDelete", "Deleted pod: web-0", "Normal"),
    ],
)
def test_pods_that_come_and_go(
    action: Action, outcome: Outcome, reason: str, message: str, type_: str
) -> None:
    assert of_replica_set(change(action, outcome)) == EventReport(REPLICA_SET, WEB, reason, message, type_)
    assert of_job(change(action, outcome)) == EventReport(JOB, WEB, reason, message, type_)


@pytest.mark.parametrize("reason", ["CircuitOpen", "NotLeader"])
def test_what_was_not_even_sent_is_no_news(reason: str) -> None:
    assert of_replica_set(change(Create("Pod", obj("web-0")), Rejected(0, reason, "later"))) is None


def test_a_rollout_is_told_step_by_step() -> None:
    made = Create("ReplicaSet", obj("web-1", spec={"replicas": 2}))
    grown = Patch(at("ReplicaSet", "web-1"), {"spec": {"replicas": 3}})
    shrunk = Patch(at("ReplicaSet", "web-1"), {"spec": {"replicas": 0}})
    noted = Patch(at("ReplicaSet", "web-1"), {"metadata": {"annotations": {"a": "b"}}})
    there = {"ReplicaSet_web-1": obj("web-1", spec={"replicas": 2})}
    told = [of_deployment(change(one, seen=there)) for one in (made, grown, shrunk, noted)]
    words = [None if one is None else one.message for one in told]
    assert words == [
        "Scaled up replica set web-1 from 0 to 2",
        "Scaled up replica set web-1 from 2 to 3",
        "Scaled down replica set web-1 from 2 to 0",
        None,
    ]
    assert told[0] == EventReport(
        DEPLOYMENT, WEB, "ScalingReplicaSet", "Scaled up replica set web-1 from 0 to 2"
    )


def test_a_revision_that_cannot_be_made_is_told_of() -> None:
    create = Create("ReplicaSet", obj("web-1"))
    words = 'Failed to create new replica set "web-1": no'
    assert of_deployment(change(create, REFUSED)) == EventReport(
        DEPLOYMENT, WEB, "ReplicaSetCreateError", words, "Warning"
    )
    assert of_deployment(change(create, Rejected(409, "AlreadyExists", "there"))) is None


def test_a_return_to_an_older_revision_is_a_warning() -> None:
    back = Patch(at("Deployment", "web"), {"spec": {"template": {"spec": {}}}})
    found = of_deployment(change(back, why="back to web-1: no progress within the deadline"))
    words = "Rolled back to web-1: no progress within the deadline"
    assert found == EventReport(DEPLOYMENT, WEB, "DeploymentRollback", words, "Warning")


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> Obj:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def test_how_a_job_ends_is_told_once() -> None:
    late = condition(
        "Failed", reason="DeadlineExceeded", message="Job was active longer than specified deadline"
    )
    failed = Patch(at("Job", "web"), {"status": {"conditions": [late]}}, subresource="status")
    assert of_job(change(failed)) == EventReport(JOB, WEB, "DeadlineExceeded", late["message"], "Warning")
    assert of_job(change(failed, subject=obj("web", status={"conditions": [late]}))) is None
    well = WriteStatus(at("Job", "web"), {"conditions": [condition("Complete")]})
    assert of_job(change(well)) == EventReport(JOB, WEB, "Completed", "Job completed")


def test_a_job_that_is_suspended_and_resumed() -> None:
    stops = WriteStatus(at("Job", "web"), {"conditions": [condition("Suspended")]})
    goes_on = WriteStatus(at("Job", "web"), {"conditions": [condition("Suspended", "False")]})
    resting = obj("web", status={"conditions": [condition("Suspended")]})
    assert of_job(change(stops)) == EventReport(JOB, WEB, "Suspended", "Job suspended")
    assert of_job(change(goes_on, subject=resting)) == EventReport(JOB, resting, "Resumed", "Job resumed")
    assert of_job(change(goes_on)) is None


def test_an_autoscaler_says_why() -> None:
    scaled = Patch(at("Deployment", "web"), {"spec": {"replicas": 2}})
    found = of_autoscaler(change(scaled, because="cpu resource above target"))
    words = "New size: 2; reason: cpu resource above target"
    assert found == EventReport(AUTOSCALER, WEB, "SuccessfulRescale", words)
    refused = of_autoscaler(change(scaled, REFUSED, because="cpu"))
    words = "New size: 2; reason: cpu; error: no"
    assert refused == EventReport(AUTOSCALER, WEB, "FailedRescale", words, "Warning")


def test_what_an_autoscaler_cannot_read_is_told_once_and_without_an_introduction() -> None:
    words = "the HPA was unable to compute the replica count: no metrics"
    unread = condition("ScalingActive", "False", reason="FailedGetResourceMetric", message=words)
    patch = Patch(at("HorizontalPodAutoscaler", "web"), {"status": {"conditions": [unread]}})
    found = of_autoscaler(change(patch, because="no metrics"))
    assert found == EventReport(AUTOSCALER, WEB, "FailedGetResourceMetric", "no metrics", "Warning")
    assert of_autoscaler(change(patch, subject=obj("web", status={"conditions": [unread]}))) is None


def test_a_pod_hears_what_drove_it_away() -> None:
    pod = obj("web-0")
    found = of_eviction(
        change(Delete(at("Pod", "web-0")), why="evicted by NoExecute taint bad", seen={"Pod_web-0": pod})
    )
    words = "Marking for deletion Pod default/web-0: evicted by NoExecute taint bad"
    assert found == EventReport(POD, pod, "TaintManagerEviction", words)


def test_a_node_that_falls_silent_is_told_of_once() -> None:
    silent = WriteStatus(
        at("Node", "web"), {"conditions": [condition("Ready", "Unknown"), condition("Suspect")]}
    )
    ready, gone = (
        obj("web", status={"conditions": [condition("Ready", one)]}) for one in ("True", "Unknown")
    )
    words = "Node web status is now: NodeNotReady"
    assert of_node(change(silent, subject=ready)) == EventReport(NODE, ready, "NodeNotReady", words)
    assert of_node(change(silent, subject=gone)) is None
    assert of_node(change(silent, REFUSED, subject=ready)) is None


def test_an_event_names_whom_it_is_about() -> None:
    event = event_of(
        "fathom-jobs", "2026-01-01T00:00:00Z", EventReport(JOB, WEB, "Completed", "Job completed"), "web.1"
    )
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": "default",
            "name": "web",
            "uid": "u-web",
            "resourceVersion": "",
        },
        "type": "Normal",
        "reason": "Completed",
        "message": "Job completed",
        "source": {"component": "fathom-jobs"},
        "reportingComponent": "fathom-jobs",
        "reportingInstance": "",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
