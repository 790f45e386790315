"""The agent in a simulated world, with scripted containers."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from tests.agent.objects import container
from tests.sim.small import passes, story

from fathom.agent.process import begin
from fathom.agent.settings import Script
from fathom.agent.simulated import script_of
from fathom.agent.simulated_machine import SimulatedMachine
from fathom.client.api import Resource
from fathom.model.conditions import conditions_of
from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import HoldWatch, Partition
from fathom.sim.world.scenario import Scenario, plan_of, tell
from fathom.sim.world.world import World

PODS = Resource("", "v1", "pods")
READINESS = {"tcpSocket": {"port": 80}, "periodSeconds": 10}


def bound(name: str, *, script: dict[str, Any] | None = None, policy: str = "Always", **fields: Any) -> Obj:
    notes = {"fathom.dev/simulated": json.dumps(script)} if script else {}
    return {
        "metadata": {"name": name, "annotations": notes},
        "spec": {"nodeName": "n1", "restartPolicy": policy, "containers": [container(**fields)],
                 "terminationGracePeriodSeconds": 5},
    }  # fmt: skip


def agent(world: World, machine: SimulatedMachine | None = None) -> None:
    world.process("agent", partial(begin, machine=machine), node="n1", driver="simulated", zone="a")


def pod_of(world: World, name: str) -> Obj:
    return world.get("pods", Key("default", name)) or {}


def ready(world: World, name: str) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions_of(pod_of(world, name)))


def test_a_node_registers_itself_and_a_pod_on_it_becomes_ready_and_goes() -> None:
    async def tale(world: World) -> None:
        agent(world)
        await world.until(lambda: world.get("nodes", Key("", "n1")) is not None, within_s=10, what="a node")
        await world.apply(PODS, bound("web", readinessProbe=READINESS))
        await world.until(lambda: ready(world, "web"), within_s=10, what="ready")
        node, pod = world.get("nodes", Key("", "n1")) or {}, pod_of(world, "web")
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
        assert node["spec"]["podCIDR"] == pod["status"]["podIP"].rpartition(".")[0] + ".0/24"
        assert pod["status"]["phase"] == "Running"
        lease = world.get("leases.coordination.k8s.io", Key("kube-node-lease", "n1")) or {}
        assert lease["spec"]["holderIdentity"] == "n1"
        await world.delete(PODS, "web")
        await world.until(lambda: not pod_of(world, "web"), within_s=20, what="the pod goes")

    passes(story(tale, processes=("agent",)))


def test_an_agent_that_crashes_adopts_what_it_had_reported() -> None:
    async def tale(world: World) -> None:
        agent(world)
        await world.apply(PODS, bound("web"))
        await world.until(lambda: ready(world, "web"), within_s=20, what="ready")
        before = pod_of(world, "web")["status"]["containerStatuses"]
        world.crash("agent", restart_after_s=3.0)
        await world.sleep(30)
        assert pod_of(world, "web")["status"]["containerStatuses"] == before

    passes(story(tale, processes=("agent",)))


def test_an_agent_that_crashes_does_not_probe_again_whether_a_container_has_started() -> None:
    """1. A container has started, and is not ready. 2. Its agent restarts: the startup probe fails by now."""

    async def tale(world: World) -> None:
        agent(world)
        script = {"fails": 1, "flaps": {"80": 100 * "x"}}
        startup = {"tcpSocket": {"port": 81}, "periodSeconds": 1, "failureThreshold": 2}
        await world.apply(PODS, bound("web", script=script, readinessProbe=READINESS, startupProbe=startup))
        await world.until(lambda: bool(_first(world, "web").get("started")), within_s=20, what="started")
        before = pod_of(world, "web")["status"]["containerStatuses"]
        assert not ready(world, "web")
        sick = json.dumps({**script, "flaps": {"80": 100 * "x", "81": 100 * "x"}})
        await world.apply(PODS, {"metadata": {"name": "web", "annotations": {"fathom.dev/simulated": sick}}})
        world.crash("agent", restart_after_s=3.0)
        await world.sleep(30)
        assert pod_of(world, "web")["status"]["containerStatuses"] == before

    passes(story(tale, processes=("agent",)))


def test_a_container_that_keeps_crashing_is_backed_off_and_says_so() -> None:
    async def tale(world: World) -> None:
        agent(world)
        await world.apply(PODS, bound("sad", script={"fail": "crash", "exit_code": 3}))
        await world.until(
            lambda: lookup(_first(world, "sad"), "state", "waiting", "reason") == "CrashLoopBackOff",
            within_s=60,
            what="back-off",
        )
        status = _first(world, "sad")
        assert lookup(status, "lastState", "terminated", "exitCode") == 3
        assert status["restartCount"] == 1

    passes(story(tale, processes=("agent",)))


def test_a_job_like_pod_succeeds_once_and_is_not_started_again() -> None:
    async def tale(world: World) -> None:
        agent(world)
        await world.apply(PODS, bound("once", script={"runs_s": 2}, policy="Never"))
        await world.until(
            lambda: lookup(pod_of(world, "once"), "status", "phase") == "Succeeded", within_s=20, what="done"
        )
        await world.sleep(30)
        assert _first(world, "once")["restartCount"] == 0

    passes(story(tale, processes=("agent",)))


def test_one_failed_probe_now_and_then_changes_nothing() -> None:
    async def tale(world: World) -> None:
        agent(world)
        often = {**READINESS, "periodSeconds": 1}
        await world.apply(PODS, bound("falters", script={"falters": 3}, readinessProbe=often))
        await world.apply(PODS, bound("fails", script={"falters": 1}, readinessProbe=often))
        await world.until(lambda: ready(world, "falters"), within_s=20, what="ready")
        for _ in range(20):
            await world.sleep(0.5)
            assert ready(world, "falters")
            assert not ready(world, "fails")

    passes(story(tale, processes=("agent",)))


def test_pods_live_on_and_are_restarted_while_no_server_answers() -> None:
    async def tale(world: World) -> None:
        agent(world)
        await world.apply(PODS, bound("web", script={"fail": "crash", "fails": 1, "crash_s": 12}))
        await world.until(lambda: ready(world, "web"), within_s=20, what="ready")
        await world.until(
            lambda: _first(world, "web").get("restartCount") == 1, within_s=90, what="reported afterwards"
        )
        assert ready(world, "web")

    partition = Partition(at_s=5.0, for_s=30.0, target="agent")
    passes(story(tale, processes=("agent",)), [partition])


def test_a_partitioned_agent_stops_only_who_asks_for_it_and_starts_him_again() -> None:
    async def tale(world: World) -> None:
        agent(world)
        shy = bound("shy")
        shy["metadata"]["annotations"] = {"fathom.dev/stop-when-alone-seconds": "30"}
        await world.apply(PODS, shy)
        await world.apply(PODS, bound("bold"))
        await world.until(lambda: ready(world, "shy") and ready(world, "bold"), within_s=20, what="ready")
        await world.sleep(110)
        assert (_first(world, "shy")["restartCount"], _first(world, "bold")["restartCount"]) == (1, 0)
        assert ready(world, "shy")

    partition = Partition(at_s=10.0, for_s=70.0, target="agent")
    passes(story(tale, processes=("agent",)), [partition])


# The next agent listens to the runtime from second 6 on, and lists its pods anew ten seconds later.
UNSEEN_PODS = HoldWatch(at_s=5.5, for_s=14.5, target="agent", match="/pods")


async def _agent_begins_anew(world: World, machine: SimulatedMachine) -> None:
    """The agent of a machine with one pod that runs for 10 s crashes, and the next one begins."""
    agent(world, machine)
    await world.apply(PODS, bound("once", script={"runs_s": 10}, policy="Never"))
    await world.until(lambda: ready(world, "once"), within_s=4, what="ready")
    await world.sleep(5 - world.now_s)
    world.crash("agent", restart_after_s=1.0)


def test_a_container_that_ends_before_the_next_agent_knows_its_pod_is_reported_as_ended() -> None:
    async def tale(world: World) -> None:
        await _agent_begins_anew(world, SimulatedMachine())
        await world.until(
            lambda: lookup(pod_of(world, "once"), "status", "phase") == "Succeeded", within_s=60, what="done"
        )
        assert world.now_s > 15, "the next agent knew its pod before the container ended"
        assert lookup(_first(world, "once"), "state", "terminated", "exitCode") == 0

    passes(story(tale, processes=("agent",)), [UNSEEN_PODS])


def test_a_container_that_ends_before_the_next_agent_knows_that_its_pod_is_gone_is_forgotten() -> None:
    async def tale(world: World) -> None:
        machine = SimulatedMachine()
        await _agent_begins_anew(world, machine)
        await world.api.delete(PODS, "default", "once", uid=uid_of(pod_of(world, "once")), grace_s=0)
        await world.until(lambda: not machine.runs, within_s=10, what="the container has ended")
        assert world.now_s > 10, "the next agent has stopped the container"
        await world.until(lambda: not machine.pods, within_s=60, what="nothing is left of the pod")

    passes(story(tale, processes=("agent",)), [UNSEEN_PODS])


def test_a_pod_that_is_removed_by_force_while_it_is_being_deleted_does_not_run_on_for_its_grace_period() -> (
    None
):
    async def tale(world: World) -> None:
        machine = SimulatedMachine()
        agent(world, machine)
        pod = bound("web", script={"stop_s": 10_000})
        pod["spec"]["terminationGracePeriodSeconds"] = 600
        await world.apply(PODS, pod)
        await world.until(lambda: ready(world, "web"), within_s=20, what="ready")
        await world.api.delete(PODS, "default", "web", uid=uid_of(pod_of(world, "web")))
        await world.sleep(5)
        assert len(machine.runs) == 1
        await world.api.delete(PODS, "default", "web", uid=uid_of(pod_of(world, "web")), grace_s=0)
        await world.sleep(5)
        assert not machine.runs
        assert not machine.pods

    passes(story(tale, processes=("agent",)))


def _first(world: World, name: str) -> Obj:
    found = lookup(pod_of(world, name), "status", "containerStatuses") or [{}]
    return found[0] if isinstance(found[0], dict) else {}


async def busy_node(world: World) -> None:
    """Pods come, crash, end and go, whatever happens to their agent and to the network."""
    agent(world)
    await world.apply(PODS, bound("stays", readinessProbe=READINESS))
    await world.apply(PODS, bound("goes"))
    await world.apply(PODS, bound("once", script={"runs_s": 3}, policy="Never"))
    await world.apply(PODS, bound("falls", script={"fail": "crash", "fails": 1, "crash_s": 4}))
    await world.sleep(6)
    await world.delete(PODS, "goes")
    await world.sleep(20)
    await world.heal_and_settle(quiet_s=45)
    assert not pod_of(world, "goes")
    assert ready(world, "stays")
    assert ready(world, "falls")
    assert lookup(pod_of(world, "once"), "status", "phase") == "Succeeded"
    for pod in world.list("pods"):
        for status in lookup(pod, "status", "containerStatuses") or ():
            assert status["restartCount"] <= 2, "started over more often than it failed"


FAULTS = Scenario(
    name="busy_node",
    about="",
    story=busy_node,
    menu=Menu(processes=("agent",)),
    servers=1,
    checkers=tuple,
)


@pytest.mark.parametrize("seed", range(25))
def test_a_node_comes_to_the_same_end_whatever_happens_on_the_way(seed: int) -> None:
    result = tell(FAULTS, plan_of(FAULTS, str(seed)))
    assert result.violation is None, result.violation


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (tell(FAULTS, plan_of(FAULTS, "7")) for _ in range(2))
    assert first.trace == second.trace


def test_a_script_that_is_nested_too_deeply_changes_nothing() -> None:
    deep = '{"containers":{"a":' * 5000 + "{}" + "}}" * 5000
    pod = {"metadata": {"annotations": {"fathom.dev/simulated": deep}}}
    assert script_of(pod, Script(ready_s=3)) == Script(ready_s=3)
