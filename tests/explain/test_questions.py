"""The views of an Explanation: why, with the full explanation of pods; status; stuck."""

from __future__ import annotations

import msgspec
from tests.explain.evidence_of import (
    at,
    condition,
    deployment,
    evidence,
    failing,
    lease,
    node,
    obj,
    pod,
    replica_set,
    waiting,
    write,
)

from fathom.explain.evidence import ObjectRef
from fathom.explain.questions import STATUS, STUCK, StuckObjects, answer, wanted
from fathom.explain.status import StatusView
from fathom.explain.why.answer import Explanation

ROOM = {"cpu": "1", "memory": "8Gi", "pods": "110"}


def test_a_workload_whose_pod_fits_no_node_gets_the_change_that_the_decider_has_tried() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    large = waiting("web-1-0", own, "capacity", "0/1 nodes are available")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    small = node("n1")
    small["status"]["allocatable"] = ROOM
    answered = answer(evidence(web, own, large, small, lease("scheduler", renewed_s=2)))
    assert isinstance(answered, Explanation)
    assert answered.change is not None
    assert "cpu" in answered.change.what
    assert answered.change.command.startswith("kubectl")
    dead = answer(evidence(web, own, large, small, lease("scheduler", renewed_s=90)))
    assert isinstance(dead, Explanation)
    assert dead.cause.startswith("1 pod is not ready: ")
    assert "lease" in dead.cause
    assert "capacity" not in dead.cause.partition(";")[0]


def test_a_change_for_several_replicas_says_that_it_is_tried_for_one() -> None:
    web = deployment(3)
    own = replica_set(web, 3)
    large = [waiting(f"web-1-{number}", own, "capacity", "0/1 nodes are available") for number in range(3)]
    for each in large:
        each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    small = node("n1")
    small["status"]["allocatable"] = ROOM
    led = lease("scheduler", renewed_s=2)
    answered, alone = (answer(evidence(web, own, *pods, small, led)) for pods in (large, large[:1]))
    assert isinstance(answered, Explanation)
    assert isinstance(alone, Explanation)
    assert answered.change is not None
    assert alone.change is not None
    assert answered.change.what == f"{alone.change.what}, tried for one of 3 pods"
    assert answered.change.command == alone.change.command


def test_two_causes_at_once_are_both_in_the_first_line() -> None:
    web = deployment(3)
    own = replica_set(web, 3)
    bad = [failing(f"web-1-{number}", own, "ErrImagePull", "no such image") for number in range(2)]
    late = waiting("web-1-2", own, "capacity", "0/1 nodes are available")
    answered = answer(evidence(web, own, *bad, late, node("n1"), lease("scheduler", renewed_s=2)))
    assert isinstance(answered, Explanation)
    assert answered.cause.startswith("2 pods are not ready: image")
    assert answered.cause.endswith("; also 1 pod: capacity")


def test_a_pod_that_is_gone_is_explained_as_a_pod() -> None:
    asked = evidence(pod("web-0"))
    gone = msgspec.structs.replace(asked, subject=ObjectRef("pods", "shop", "web-9"))
    answered = answer(gone)
    assert isinstance(answered, Explanation)
    assert (answered.as_wanted, answered.stage) == (False, "gone")


def test_what_is_stuck_is_asked_about_a_namespace_and_needs_no_records() -> None:
    web, home = deployment(1), obj("Namespace", "shop", namespace="")
    asked = evidence(home, web)
    assert wanted(asked.subject, asked.objects, view=STUCK).objects == ()
    answered = answer(asked, view=STUCK)
    assert isinstance(answered, StuckObjects)
    assert [item.subject.name for item in answered.items] == ["web"]
    elsewhere = answer(evidence(obj("Namespace", "other", namespace=""), web), view=STUCK)
    assert isinstance(elsewhere, StuckObjects)
    assert elsewhere == StuckObjects(True, ())


def test_what_is_stuck_in_the_cluster_names_who_cordoned_a_node_and_when() -> None:
    shut = node("n1", unschedulable=True)
    asked = evidence(obj("Namespace", "", namespace=""), shut, node("n2"))
    query = wanted(asked.subject, asked.objects, view=STUCK)
    assert (query.objects, [each.name for each in query.writes_of]) == ((), ["n1"])
    audit = (write("alice", shut, "spec.unschedulable", at_s=-600),)
    answered = answer(msgspec.structs.replace(asked, audit=audit), view=STUCK)
    assert isinstance(answered, StuckObjects)
    assert [item.summary for item in answered.items] == [
        f"Node n1 is cordoned: cordoned by alice, 10m ago ({at(-600)}). Change: uncordon the node"
        " (a cluster operator)"
    ]


def test_a_workload_on_a_node_that_the_brake_keeps_suspect_does_not_read_as_ready() -> None:
    web = deployment(2)
    own = replica_set(web, 2)
    late, held = (
        condition("fathom.dev/Suspect", "True", "Silent", "no heartbeat"),
        condition("fathom.dev/Held", "True", "ManySilent", "3 of 3 nodes are silent"),
    )
    silent, well = node("n1", late, held), node("n2")
    pods = (pod("web-1-0", own, node="n1"), pod("web-1-1", own, node="n2"))
    answered = answer(evidence(web, own, *pods, silent, well))
    assert isinstance(answered, Explanation)
    assert (answered.as_wanted, answered.kind) == (False, "held")
    assert answered.verdict == "is in doubt with 2 of 2 replicas ready"
    assert answered.cause.startswith("1 pod is ready only by the last report: its node n1 is suspect since ")
    assert "the brake on node actions holds: 3 of 3 nodes are silent" in answered.cause
    assert answered.change is not None
    hidden = msgspec.structs.replace(evidence(web, own, *pods, silent, well), may_read_nodes=False)
    unnamed = answer(hidden)
    assert isinstance(unnamed, Explanation)
    assert "n1" not in unnamed.summary
    listed = answer(evidence(obj("Namespace", "", namespace=""), web, own, *pods, silent, well), view=STUCK)
    assert isinstance(listed, StuckObjects)
    assert [item.subject.name for item in listed.items] == ["n1", "web"], "the node first"
    only_late = answer(evidence(web, own, *pods, node("n1", late), well))
    assert isinstance(only_late, Explanation)
    assert only_late.as_wanted


def test_status_is_a_view_of_its_own() -> None:
    assert isinstance(answer(evidence(deployment(1)), view=STATUS), StatusView)


def test_the_records_of_a_pod_are_those_that_its_explanation_wants() -> None:
    alone = pod("web-0")
    asked = evidence(alone, node("n1"))
    assert [ref.resource for ref in wanted(asked.subject, asked.objects).objects] == ["pods", "nodes"]
