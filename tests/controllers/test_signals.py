"""Every row of the table of signals has a producer in running code, and this exercises each of them. Who
adds a row adds a test here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module

import pytest
from immutables import Map
from tests.control.worlds import told

from fathom.agent.probing import ProbeTally, judge
from fathom.cache.contents import Contents
from fathom.cache.indexed import HeldObject
from fathom.cache.snapshot import Snapshot
from fathom.control.process import Controllers
from fathom.control.signals import raised_of
from fathom.controllers.node_health.controller import operators_word
from fathom.controllers.node_health.evidence import SIGNALS, NodeReport
from fathom.controllers.node_health.gateway_reports import GatewayReports
from fathom.controllers.observed_generation import BEHIND_S, GenerationBehind, with_observed
from fathom.gateway.budget import CONNECTIONS_MIN, WINDOW_S, ErrorBudget
from fathom.gateway.controller import pods_of_suspect_nodes
from fathom.gateway.proxy import UNSEEN_MAX, Proxy, ProxyReport
from fathom.gateway.routes import RouteEndpoint, RouteListener
from fathom.model.conditions import SERVING_CONDITION, conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of
from fathom.model.resources import DEPLOYMENTS
from fathom.model.times import SECOND_NS
from fathom.schedule.loop.process import SchedulerProcess
from fathom.seams.log import NoLog
from fathom.sim.scenarios.real import MANAGERS, SCHEDULERS, deployment, run_real_cluster
from fathom.sim.world.faults import LoseReply, LoseRequest, Partition, Refuse
from fathom.sim.world.world import World

pytestmark = pytest.mark.slow

NODES = ("node-1", "node-2", "node-3", "node-4")


def messages_of(world: World, node: str) -> str:
    found = world.get("nodes", Key("", node))
    return " ".join(str(each.get("message")) for each in conditions_of(found or {}))


def cut_off(name: str, at_s: float, for_s: float) -> Partition:
    return Partition(at_s=at_s, for_s=for_s, target=name, drops=True)


def test_an_operator_says_that_a_node_is_gone() -> None:
    node = {"metadata": {"name": "n", "annotations": {"fathom.dev/declare-lost": "burnt"}}}
    assert operators_word(node) == NodeReport("operator", "gone", "burnt")
    off = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service"}]}}
    assert operators_word(off) == NodeReport("operator", "gone", "the node is tainted out-of-service")
    assert operators_word({"metadata": {"name": "n"}}) is None


def test_an_agent_that_is_cut_off_is_missed_by_its_lease_its_status_and_the_servers_connection() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=NODES, spare=False)
        await world.sleep(15 + 35)
        assert "the node's Lease is not renewed" in messages_of(world, "node-1")
        await world.sleep(50)
        said = messages_of(world, "node-1")
        assert "the node's status is not renewed" in said
        assert "the API server does not reach the node" in said
        assert "fathom.dev/lost" in taints_of(world, "node-1")

    told(story, faults=[cut_off("node-1", 15, 100)])


def taints_of(world: World, node: str) -> set[str]:
    found = world.get("nodes", Key("", node)) or {}
    return {str(taint["key"]) for taint in (found.get("spec") or {}).get("taints") or ()}


def test_an_agent_that_answers_the_server_spares_its_node() -> None:
    """1. Its renewals are lost. 2. It is silent for long, and its pods would be evicted. 3. It answers."""

    async def story(world: World) -> None:
        run_real_cluster(world, nodes=NODES, spare=False)
        await world.sleep(400)
        assert "no pod is evicted: the API server reaches the agent" in messages_of(world, "node-1")
        found = world.get("nodes", Key("", "node-1")) or {}
        assert {taint["effect"] for taint in found["spec"]["taints"]} == {"NoSchedule"}

    told(story, faults=[LoseRequest(at_s=15, target="node-1", match="PATCH ", times=1_000_000)])


# The gateway.


def held(kind: str, one: Obj) -> dict[str, HeldObject]:
    contents = Contents(Map({key_of(one): one}), {}, [])
    return {kind: HeldObject(contents, revision=1, heard_s=0.0, synced=True)}


def test_a_gateway_says_of_pods_on_a_node_in_doubt_whether_it_reaches_them() -> None:
    async def story() -> None:
        proxy = Proxy(lambda pod, uid, reached: None, NoLog())
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.64.0.1", 0)
        port = int(server.sockets[0].getsockname()[1])
        alive, dead = (
            RouteEndpoint("127.64.0.1", port, "d/a", "a"),
            RouteEndpoint("127.64.0.2", port, "d/b", "b"),
        )
        pretended = RouteEndpoint("127.64.0.3", port, "d/c", "c", real=False)
        await proxy.apply((RouteListener("127.97.0.9", 0, "d/web", endpoints=(alive, dead, pretended)),))
        for _ in range(UNSEEN_MAX):
            for endpoint in (alive, dead, pretended):
                await proxy._look(endpoint)
        assert proxy.proxy_report().reached == {"a": True, "b": False}
        await proxy.close()
        server.close()

    asyncio.run(asyncio.wait_for(story(), 20))


def probed(uid: str, status: str, stamp: str) -> Obj:
    condition = {"type": SERVING_CONDITION, "status": status, "lastProbeTime": stamp}
    return {"metadata": {"name": uid, "uid": uid}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("statuses", "verdict"), [(("True", "False"), "alive"), (("False", "False"), "gone"), ((), None)]
)
def test_what_the_gateway_says_counts_from_when_it_was_said_anew(
    statuses: Sequence[str], verdict: str | None
) -> None:
    reached = GatewayReports()
    reached.listen("n", [probed(str(index), each, "1") for index, each in enumerate(statuses)], 0)
    assert reached.report("n", 0) is None  # It may be from long ago.
    reached.listen("n", [probed(str(index), each, "2") for index, each in enumerate(statuses)], SECOND_NS)
    found = reached.report("n", SECOND_NS)
    assert (None if found is None else found.verdict) == verdict
    later = reached.report("n", 60 * SECOND_NS)
    assert (None if later is None else later.verdict) == (None if verdict == "alive" else verdict)


def test_a_gateway_that_reaches_nobody_says_nothing() -> None:
    suspect = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "fathom.dev/suspect"}]}}
    slice_ = {
        "metadata": {"name": "web", "namespace": "d"},
        "endpoints": [{"nodeName": "n", "targetRef": {"name": "a", "uid": "a"}}],
    }
    view = Snapshot({**held("Node", suspect), **held("EndpointSlice", slice_)}, taken_s=0.0)
    assert [
        one.key.name for one in pods_of_suspect_nodes(view, ProxyReport({"a": False, "elsewhere": True}))
    ] == ["a"]
    assert pods_of_suspect_nodes(view, ProxyReport({"a": False})) == []


def test_a_service_whose_connections_fail_burns_until_they_do_no_more() -> None:
    budget = ErrorBudget()
    budget.note({"d/web": (100, 0)}, now_s=0.0)
    budget.note({"d/web": (100 + CONNECTIONS_MIN, 0)}, now_s=5.0)
    assert budget.burning() == {}
    budget.note({"d/web": (100 + CONNECTIONS_MIN, CONNECTIONS_MIN)}, now_s=10.0)
    assert [*budget.burning()] == ["d/web"]
    budget.note({"d/web": (200 + CONNECTIONS_MIN, CONNECTIONS_MIN)}, now_s=11.0 + WINDOW_S)
    assert budget.burning() == {}


# Pods, and ourselves.


def test_a_probe_that_fails_often_enough_is_a_verdict() -> None:
    tally = ProbeTally(verdict=True)
    for _ in range(3):
        tally = judge(tally, False, {"failureThreshold": 3})
    assert tally.verdict is False


def test_controllers_that_are_cut_off_know_that_it_is_they_who_are_blind() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=NODES, spare=False)
        await world.sleep(1)
        running, seen = world.state(MANAGERS[0]), set[str]()
        assert isinstance(running, Controllers)
        for _ in range(10):
            await world.sleep(8)
            seen |= running.health.raised().keys()
        assert seen >= {"request-timeout", "watch-disconnect"}
        await world.sleep(180)
        assert running.health.raised() == {}

    told(story, faults=[cut_off(MANAGERS[0], 15, 70)])


def test_a_process_whose_passes_fail_says_so_where_others_read_it() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=NODES, spare=False)
        for index in range(12):
            await world.apply(DEPLOYMENTS, deployment(f"web-{index}", 2))
        seen: set[str] = set()
        for _ in range(30):
            await world.sleep(2)
            for one in world.list("componentsignals.fathom.dev"):
                seen |= raised_of(one).keys()
        assert "controller-errors" in seen

    refused = "POST /apis/apps/v1/namespaces/default/replicasets"
    told(story, faults=[Refuse(at_s=0, target=MANAGERS[0], match=refused, status=409, times=100_000)])


def test_pods_that_wait_for_their_first_attempt_are_told_of() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=NODES, spare=False)
        for index in range(14):
            await world.apply(DEPLOYMENTS, deployment(f"web-{index}", 1, cpu=f"{10 + index}m"))
        seen: set[str] = set()
        for _ in range(40):
            await world.sleep(2)
            for one in world.list("componentsignals.fathom.dev"):
                seen |= raised_of(one).keys()
        assert "queue-age" in seen

    hangs = LoseReply(at_s=0, target=SCHEDULERS[0], match="bindingbatches", times=100_000)
    told(story, faults=[hangs])


def test_bindings_that_are_refused_again_and_again_are_told_of() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=NODES, spare=False)
        await world.sleep(10)
        running = world.state(SCHEDULERS[0])
        assert isinstance(running, SchedulerProcess)
        signals, counts = running.scheduler.signals, running.scheduler.counts
        assert signals.raised() == {}
        counts.refused["NodeFull"] = counts.refused.get("NodeFull", 0) + 30
        assert [*signals.raised()] == ["bind-conflicts"]

    told(story)


def test_a_controller_that_does_not_observe_the_newest_generation_is_behind() -> None:
    behind, key = GenerationBehind(), Key("d", "web")
    workload = {"metadata": {"generation": 4}, "status": {"observedGeneration": 3}}
    assert behind.wait_s(key, workload, now_ns=0) == BEHIND_S
    assert behind.wait_s(key, workload, now_ns=round(BEHIND_S * SECOND_NS)) == 0
    said = with_observed([], workload, behind=True, now="2026-01-01T00:00:00Z")
    condition = find_condition(said, "Observed") or {}
    assert (condition["status"], condition["message"]) == (
        "False",
        "its controller has observed generation 3, but the newest is 4",
    )
    workload["status"]["observedGeneration"] = 4
    assert behind.wait_s(key, workload, now_ns=round(BEHIND_S * SECOND_NS)) is None
    assert with_observed([], workload, behind=False, now="2026-01-01T00:00:00Z") == []


# The table.

_AGENT = test_an_agent_that_is_cut_off_is_missed_by_its_lease_its_status_and_the_servers_connection
_BLIND = test_controllers_that_are_cut_off_know_that_it_is_they_who_are_blind
EXERCISED: dict[str, Callable[..., None]] = {
    "operator": test_an_operator_says_that_a_node_is_gone,
    "lease": _AGENT,
    "status": _AGENT,
    "connection": _AGENT,
    "gateway": test_a_gateway_says_of_pods_on_a_node_in_doubt_whether_it_reaches_them,
    "readiness": test_a_probe_that_fails_often_enough_is_a_verdict,
    "request-timeout": _BLIND,
    "watch-disconnect": _BLIND,
    "controller-errors": test_a_process_whose_passes_fail_says_so_where_others_read_it,
    "queue-age": test_pods_that_wait_for_their_first_attempt_are_told_of,
    "bind-conflicts": test_bindings_that_are_refused_again_and_again_are_told_of,
    "observed-generation": test_a_controller_that_does_not_observe_the_newest_generation_is_behind,
    "slo-burn": test_a_service_whose_connections_fail_burns_until_they_do_no_more,
}


def test_every_row_names_a_producer_that_is_there_and_is_exercised_here() -> None:
    assert {signal.name for signal in SIGNALS} == EXERCISED.keys()
    for signal in SIGNALS:
        module, _, name = signal.producer.partition(":")
        assert hasattr(import_module(module), name), signal
        assert signal.decides, signal
