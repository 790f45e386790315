"""Pods of a Kubernetes that fathom is attached to: another scheduler decided; the same rules run again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.explain.builders import (
    READY,
    RUNS,
    condition,
    container,
    decided,
    event,
    evidence,
    node,
    pod,
    reported,
    running,
    why,
)

from fathom.explain.evidence import ObjectRef
from fathom.explain.why.answer import DetailGroup
from fathom.explain.why_of.uncontrolled import explain_uncontrolled
from fathom.model.decision import SeenVersions

URL = "https://prod.example:6443"
NOT_KNOWN = DetailGroup(
    "not known",
    (
        "the state that kube-scheduler saw: the rules were run on what is observed now",
        "whether kube-scheduler has another profile, plugins or extenders: the default rules were run",
        "volumes that are not bound yet, and claims to devices, are not decided again",
    ),
)


def placed(on: str, **spec: Any) -> dict[str, Any]:
    status = running(reported(ready=True, running=RUNS), conditions=READY)
    return pod(on=on, status=status, **spec)


def scheduled(by: str) -> dict[str, Any]:
    return {**event("Scheduled", "assigned"), "reportingComponent": by}


@pytest.mark.parametrize(
    ("big", "expected"),
    [
        ("a", "it runs on a; kube-scheduler decided; the same rules give a now"),
        (
            "b",
            "it runs on a; kube-scheduler decided; the same rules give another node now: it would go to b, ",
        ),
    ],
)
def test_a_placed_pod_says_who_decided_and_what_the_same_rules_give(big: str, expected: str) -> None:
    nodes = [node(name, "8" if name == big else "2") for name in "ab"]
    answer = why(
        evidence(pods=[placed("a")], nodes=nodes, events=[scheduled("default-scheduler")], attached=URL)
    )
    assert answer.cause.startswith(expected)
    assert answer.as_wanted
    assert answer.details[-1] == NOT_KNOWN


@pytest.mark.parametrize(
    ("spec", "events", "who"),
    [
        ({}, [], "kube-scheduler"),
        ({"schedulerName": "gpu"}, [], "scheduler gpu"),
        ({}, [scheduled("gpu")], "scheduler gpu"),
    ],
)
def test_without_an_event_the_pod_names_its_scheduler(spec: Any, events: Any, who: str) -> None:
    answer = why(evidence(pods=[placed("a", **spec)], nodes=[node("a")], events=events, attached=URL))
    assert answer.cause == f"it runs on a; {who} decided; the same rules give a now"


def test_a_pod_that_a_kubelet_runs_from_a_file_was_decided_by_nobody() -> None:
    static = placed("a", meta={"annotations": {"kubernetes.io/config.mirror": "1"}})
    answer = why(evidence(pods=[static], nodes=[node("a")], attached=URL))
    assert answer.cause == "it runs on a; no decision on record placed it"


def test_on_fathoms_own_server_nothing_is_said_of_others() -> None:
    answer = why(evidence(pods=[placed("a")], nodes=[node("a")]))
    assert answer.cause == "it runs on a; no decision on record placed it"


def test_a_waiting_pod_has_both_opinions() -> None:
    said = "0/1 nodes are available: 1 Insufficient cpu."
    waiting = pod(cpu="9", status={"conditions": [condition("PodScheduled", "False", "Unschedulable", said)]})
    answer = why(evidence(pods=[waiting], nodes=[node("a")], leases_coordination_k8s_io=[], attached=URL))
    assert answer.summary.startswith("pod shop/web is not scheduled: the only node has too little free cpu")
    ours, unknown = answer.details[:2]
    assert ours.title == "kube-scheduler"
    assert ours.lines[0] == f"kube-scheduler says: {said}"
    assert ours.lines[1].startswith("the same rules give: 0/1 nodes are available: 1 Insufficient cpu")
    assert unknown == NOT_KNOWN


def test_a_pod_that_no_scheduler_has_looked_at_says_so() -> None:
    answer = why(
        evidence(
            pods=[pod(schedulerName="gpu")], nodes=[node("a")], leases_coordination_k8s_io=[], attached=URL
        )
    )
    assert "no scheduler named 'gpu'" in answer.summary


def test_a_workload_that_fathom_has_no_controller_for_is_run_by_those_of_the_cluster() -> None:
    daemons = {"metadata": {"namespace": "shop", "name": "logs", "uid": "uid-logs"}, "spec": {}}
    case = msgspec.structs.replace(
        evidence(daemonsets_apps=[daemons], leases_coordination_k8s_io=[], attached=URL),
        subject=ObjectRef("daemonsets.apps", "shop", "logs"),
    )
    answer = explain_uncontrolled(case, daemons)
    assert (answer.verdict, answer.as_wanted) == ("is run by controllers of that cluster", True)


def test_revisions_of_a_copy_are_not_compared_with_those_of_the_cluster() -> None:
    seen = {"Node": SeenVersions(50)}
    waiting = pod(cpu="9", schedulerName="fathom")
    records = (decided("unschedulable", seen=seen, nodes={"a": "Insufficient cpu"}),)
    own, copy = (
        why(evidence(pods=[waiting], nodes=[node("a")], records=records, attached=url)) for url in ("", URL)
    )
    assert [one.kind for one in own.freshness] == ["Node"]
    assert copy.freshness == ()
    assert copy.cause == own.cause


def test_what_an_observer_does_not_read_is_not_said_to_be_missing() -> None:
    """It copies no ConfigMaps, Secrets or ServiceAccounts: of them only what a kubelet reports is known."""
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "db" not found'}
    broken = pod(
        "web", container(env=env), on="a", status=running(reported(waiting=waiting)), serviceAccountName="web"
    )
    nodes = [node("a")]
    own = why(evidence(pods=[broken], nodes=nodes))
    assert own.cause == "container web needs key a of ConfigMap settings, which does not exist"
    copy = why(evidence(pods=[broken], nodes=nodes, attached=URL, copied=frozenset({"pods", "nodes"})))
    assert copy.cause == "container web needs Secret db, which does not exist"


def test_what_runs_the_pods_of_another_kubernetes_is_called_a_kubelet() -> None:
    own, copy = (why(evidence(pods=[pod(on="a")], nodes=[node("a")], attached=url)) for url in ("", URL))
    assert own.cause == "the agent of a has not begun to start it"
    assert copy.cause == "the kubelet of a has not begun to start it"


def test_a_pod_whose_volume_is_being_made_names_the_claim_the_node_and_who_makes_it() -> None:
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "data"}}]
    meta = {"namespace": "shop", "name": "data", "uid": "uid-data"}
    notes = {"volume.kubernetes.io/selected-node": "a"}
    claim = {"metadata": {**meta, "annotations": notes}, "spec": {"storageClassName": "slow"}}
    storage_class = {
        "metadata": {"name": "slow"},
        "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer",
    }

    def asked(claim: dict[str, Any]) -> str:
        case = evidence(
            pods=[pod(schedulerName="fathom", volumes=volumes)],
            nodes=[node("a"), node("b")],
            persistentvolumeclaims=[claim],
            storageclasses_storage_k8s_io=[storage_class],
            records=(decided("bind", node="a"),),
            attached=URL,
        )
        return why(case).cause

    assert asked(claim) == (
        "it is to run on a, and example.com/disks has not made the volume of its claim data there yet"
    )
    assert "data" not in asked({**claim, "metadata": meta})
