"""postStart and preStop hooks of real programs: no hook outlives its container, and none is cut short while
there is time."""

from __future__ import annotations

import signal

import pytest
from tests.agent.living import AgentProcess, Cluster, condition, eventually, processes, status_of

from fathom.model.objects import Obj, lookup

pytestmark = pytest.mark.live


def hooks(**commands: str) -> Obj:
    return {"lifecycle": {name: {"exec": {"command": ["sh", "-c", text]}} for name, text in commands.items()}}


def test_a_program_that_ends_before_its_hook_has_ended(cluster: Cluster) -> None:
    slow = hooks(postStart="sleep 300")
    cluster.run("short", "sh", "-c", "sleep 0.5; exit 3", restartPolicy="Never", container=slow)
    ended = cluster.until_ended("short")
    assert lookup(status_of(ended), "state", "terminated", "exitCode") == 3


def test_a_pod_is_deleted_in_the_middle_of_its_hook(cluster: Cluster) -> None:
    cluster.run("hooking", "sleep", "300", container=hooks(postStart="sleep 300.125"))
    cluster.until("hooking", lambda pod: lookup(pod, "status", "podIP"))
    eventually(lambda: processes("300.125"))
    assert condition(cluster.pod("hooking"), "Ready") == "False"
    cluster.delete("hooking")
    cluster.until_gone("hooking")


@pytest.mark.full
def test_a_hook_that_takes_its_time_is_waited_for(cluster: Cluster) -> None:
    cluster.run("patient", "sleep", "300", container=hooks(postStart="sleep 33"))
    pod = cluster.until("patient", lambda pod: condition(pod, "Ready") == "True", within_s=60)
    assert status_of(pod)["restartCount"] == 0


def test_a_hook_that_its_agent_did_not_live_to_see_is_run_again(
    cluster: Cluster, agent: AgentProcess
) -> None:
    hook = hooks(postStart="echo x >> begun; sleep 4.125")
    twice = ["sh", "-c", '[ "$(wc -l < begun)" = 2 ]']
    probe = {"readinessProbe": {"exec": {"command": twice}, "periodSeconds": 1}}
    cluster.run("twice", "sh", "-c", "while true; do sleep 1; done", container={**hook, **probe})
    cluster.until("twice", lambda pod: lookup(pod, "status", "podIP"))
    eventually(lambda: processes("4.125"))
    agent.end(signal.SIGKILL)
    agent.start()
    assert status_of(cluster.pod("twice")).get("containerID") is None
    assert status_of(cluster.until_ready("twice"))["restartCount"] == 0


def test_a_hook_over_http_is_well_whatever_is_answered(cluster: Cluster) -> None:
    serve = ("python3", "-m", "http.server", "--bind", "$(POD_IP)", "8080")
    ask = {"lifecycle": {"preStop": {"httpGet": {"path": "/not/there", "port": 8080}}}}
    probe = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}
    cluster.run("told", *serve, container={**ask, **probe}, terminationGracePeriodSeconds=10)
    cluster.until_ready("told")
    cluster.delete("told")
    cluster.until_gone("told")
    core = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=told"
    reasons = {one["reason"] for one in cluster.server.request("GET", core)["items"]}
    assert ("Killing" in reasons, "FailedPreStopHook" in reasons) == (True, False)
