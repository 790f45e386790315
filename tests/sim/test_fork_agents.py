"""How simulated containers go on in a fork: by what the pods' statuses say."""

from __future__ import annotations

import pytest

from fathom.agent.settings import Script
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, moment_ns, timestamp
from fathom.sim.fork_agents import agent_options, is_alive, scripts_of

NOW = "2026-03-01T12:00:00Z"
NOW_NS = moment_ns(NOW) or 0


def pod(name: str, status: Obj, *, phase: str = "Running", owner: str = "") -> Obj:
    owners = [{"uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", **status}]},
    }


def waiting(reason: str) -> Obj:
    return {"state": {"waiting": {"reason": reason}}}


def running(seconds: int, *, ready: bool) -> Obj:
    started = timestamp(NOW_NS - seconds * SECOND_NS)
    return {"ready": ready, "state": {"running": {"startedAt": started}}}


CRASHED = {"startedAt": "2026-03-01T11:59:00Z", "finishedAt": "2026-03-01T11:59:07Z", "exitCode": 3}


@pytest.mark.parametrize(
    ("status", "script"),
    [
        (running(600, ready=True), None),
        (running(10, ready=False), None),
        (running(600, ready=False), Script(fail="readiness")),
        (waiting("ImagePullBackOff"), Script(fail="image")),
        (waiting("CreateContainerConfigError"), Script(fail="start")),
        (
            {**waiting("CrashLoopBackOff"), "lastState": {"terminated": CRASHED}},
            Script(fail="crash", crash_s=7.0, exit_code=3),
        ),
    ],
)
def test_a_container_goes_on_doing_what_its_status_says(status: Obj, script: Script | None) -> None:
    expected = {} if script is None else {"web-1": script}
    assert scripts_of([pod("web-1", status)], now_ns=NOW_NS) == expected


def test_new_pods_of_an_owner_fail_where_all_of_its_pods_fail() -> None:
    failing = [pod(f"web-{number}", waiting("ImagePullBackOff"), owner="rs") for number in range(2)]
    assert scripts_of(failing, now_ns=NOW_NS)["rs"] == Script(fail="image")
    well = pod("web-3", running(600, ready=True), owner="rs")
    assert "rs" not in scripts_of([*failing, well], now_ns=NOW_NS)


def test_pods_of_a_job_run_as_long_as_those_that_have_ended() -> None:
    ended = {"state": {"terminated": {**CRASHED, "exitCode": 0}}}
    pods = [
        pod("job-1", ended, phase="Succeeded", owner="job"),
        pod("job-2", running(2, ready=True), owner="job"),
    ]
    assert scripts_of(pods, now_ns=NOW_NS) == {"job": Script(runs_s=7.0)}


def node(ready: str = "True") -> Obj:
    return {
        "metadata": {"name": "node-1", "labels": {"zone": "a"}},
        "spec": {"podCIDR": "127.130.7.0/24"},
        "status": {
            "capacity": {"cpu": "4"},
            "addresses": [{"type": "InternalIP", "address": "127.130.7.1"}],
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def lease(seconds_ago: int) -> Obj:
    return {"spec": {"renewTime": timestamp(NOW_NS - seconds_ago * SECOND_NS)}}


def test_nodes_that_were_silent_stay_silent() -> None:
    assert is_alive(node(), lease(9), now_ns=NOW_NS)
    assert is_alive(node(), None, now_ns=NOW_NS)
    assert not is_alive(node(), lease(31), now_ns=NOW_NS)
    assert not is_alive(node("Unknown"), lease(9), now_ns=NOW_NS)


def test_an_agent_has_the_addresses_of_its_node() -> None:
    options = agent_options(node(), {})
    assert (options["node"], options["pod_range"], options["address"]) == (
        "node-1",
        "127.130.7",
        "127.130.7.1",
    )
    assert options["takes_over"] is True
