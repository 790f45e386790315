"""An agent refuses what does not fit its node, and only then."""

from __future__ import annotations

import contextlib
import signal

import pytest
from tests.agent.living import AgentProcess, Cluster, condition, lives, pid_of, status_of

from fathom.model.objects import Obj

pytestmark = pytest.mark.live
EVENTS = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="


def asking(**requests: str) -> Obj:
    return {"resources": {"requests": requests}}


def bound_unseen(cluster: Cluster, name: str, **fields: object) -> None:
    """A pod on a node of which the server has no word just then: it cannot say that the pod does not fit. The
    agent tells of its node again by and by."""
    for _ in range(5):
        with contextlib.suppress(AssertionError):
            cluster.server.request("DELETE", "/api/v1/nodes/n1")
        with contextlib.suppress(AssertionError):  # The agent was faster.
            cluster.run(name, "sleep", "300", **fields)
            return
    raise AssertionError(f"{name} cannot be created")


def events(cluster: Cluster, name: str) -> list[tuple[str, str, str]]:
    found = cluster.server.request("GET", EVENTS + name)["items"]
    return [(one["type"], one["reason"], one["message"]) for one in found]


def test_a_pod_that_asks_for_more_than_the_node_has_fails_as_with_kubelet(cluster: Cluster) -> None:
    bound_unseen(cluster, "huge", container=asking(cpu="64"))
    pod = cluster.until_ended("huge")
    said = "Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 4000"
    status = pod["status"]
    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed", "OutOfcpu", f"Pod was rejected: {said}"
    )  # fmt: skip
    assert condition(pod, "Ready") == "False"
    assert status_of(pod) == {}
    cluster.until("huge", lambda pod: ("Warning", "OutOfcpu", said) in events(cluster, "huge"))
    cluster.delete("huge")
    cluster.until_gone("huge")


def test_what_runs_is_counted_and_never_refused_afterwards(cluster: Cluster, agent: AgentProcess) -> None:
    cluster.run("first", "sleep", "300", container=asking(cpu="3"))
    before = cluster.until_ready("first")
    bound_unseen(cluster, "second", container=asking(cpu="1001m"))
    assert cluster.until_ended("second")["status"]["reason"] == "OutOfcpu"
    agent.end(signal.SIGKILL)
    agent.start()
    bound_unseen(cluster, "third", container=asking(cpu="1001m"))
    assert cluster.until_ended("third")["status"]["reason"] == "OutOfcpu"
    cluster.run("fits", "sleep", "300", container=asking(cpu="1"))
    cluster.until_ready("fits")
    assert lives(pid_of(before))
    assert status_of(cluster.pod("first")) == status_of(before)


def test_whoever_is_being_ended_holds_its_room_until_it_is(cluster: Cluster) -> None:
    slow = "trap 'sleep 3; exit 0' TERM; sleep 300 & wait"
    cluster.run("leaving", "sh", "-c", slow, container=asking(cpu="3"), terminationGracePeriodSeconds=20)
    cluster.until_ready("leaving")
    cluster.delete("leaving")
    bound_unseen(cluster, "early", container=asking(cpu="2"))
    assert cluster.until_ended("early")["status"]["reason"] == "OutOfcpu"
    cluster.until_gone("leaving")
    cluster.run("late", "sleep", "300", container=asking(cpu="2"))
    cluster.until_ready("late")


def test_a_label_that_was_given_just_now_counts(cluster: Cluster, agent: AgentProcess) -> None:
    bound_unseen(cluster, "unlabelled", nodeSelector={"disk": "fast"})
    assert cluster.until_ended("unlabelled")["status"]["reason"] == "NodeAffinity"
    agent.end()
    agent.start()  # So that the node is there at once.
    cluster.until("unlabelled", lambda pod: cluster.server.request("GET", "/api/v1/nodes")["items"])
    cluster.server.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"disk": "fast"}}})
    cluster.run("labelled", "sleep", "300", nodeSelector={"disk": "fast"})
    cluster.until_ready("labelled")


def test_a_port_of_the_host_is_given_once(cluster: Cluster) -> None:
    ports = {"ports": [{"containerPort": 18080, "hostPort": 18080}]}
    cluster.run("holds", "sleep", "300", container=ports)
    cluster.until_ready("holds")
    bound_unseen(cluster, "wants", container=ports)
    assert cluster.until_ended("wants")["status"]["reason"] == "NodePorts"
