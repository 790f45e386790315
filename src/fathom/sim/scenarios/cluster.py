"""A whole cluster, real except for its containers: workloads are rolled out and scaled, nodes die, everything
fails."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Key, lookup
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.scenarios.real import (
    DECIDERS,
    MANAGERS,
    NODES,
    SCHEDULERS,
    checkers,
    deployment,
    ready_pods,
    run_real_cluster,
    until_ready,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, CrashAtWrite, LoseReply, Partition, Pause
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/nodes", "/leases", "/replicasets", "/deployments", "/bindingbatches")
# No process with work left is silent for longer: backoffs and open breakers end after 30 s, and a node is
# lost after 80.
QUIET_S = 90.0


@scenario(Menu(processes=(*DECIDERS, *NODES), kinds=KINDS, seconds=40, most=8), checkers=checkers, scale=6)
async def cluster(world: World) -> None:
    """Workloads are rolled out, scaled and rolled out again while all parts of a cluster fail: in the end
    each has its replicas, and never two pods in one slot."""
    run_real_cluster(world)
    for name, replicas in (("web", 4), ("api", 3)):
        await world.apply(DEPLOYMENTS, deployment(name, replicas))
    for step in range(world.scale):
        await world.sleep(2 + 6 * world.rng.random())
        name, replicas = world.rng.choice(("web", "api")), world.rng.randrange(1, 6)
        await world.apply(DEPLOYMENTS, deployment(name, replicas, tag=2 + step))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


SERVERS = ("api-1", "api-2", "api-3")
TWENTY_NODES = tuple(f"node-{number}" for number in range(1, 21))


@scenario(
    Menu(processes=(*DECIDERS, *TWENTY_NODES), servers=SERVERS, kinds=KINDS, seconds=40, most=10),
    servers=len(SERVERS),
    checkers=checkers,
    scale=4,
)
async def three_servers_and_twenty_nodes(world: World) -> None:
    """Workloads are scaled and rolled out on a control plane of three API servers, two schedulers and two
    controller processes while all of it fails: in the end each has its replicas, each pod bound once."""
    run_real_cluster(world, nodes=TWENTY_NODES, servers=len(SERVERS))
    for name in ("web", "api"):
        await world.apply(DEPLOYMENTS, deployment(name, 10, cpu="500m"))
    for step in range(world.scale):
        await world.sleep(3 + 6 * world.rng.random())
        name, replicas = world.rng.choice(("web", "api")), world.rng.randrange(1, 30)
        await world.apply(DEPLOYMENTS, deployment(name, replicas, tag=2 + step // 2, cpu="500m"))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


@scenario(Menu(processes=DECIDERS, kinds=KINDS, seconds=30, most=5), checkers=checkers)
async def a_node_dies(world: World) -> None:
    """A node dies: its pods are replaced on other nodes, once, and only when the node is certainly gone."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 6))
    await world.sleep(5 + 20 * world.rng.random())
    world.kill(world.rng.choice(NODES))
    await world.sleep(60)
    world.heal()
    await until_ready(world, "web", 6, within_s=400)
    await world.settle(quiet_s=QUIET_S, within_s=900)


# The binding is sent and commits, its reply is lost; the node's heartbeat is late; the workload is still
# not ready. A weak scheduler would bind again elsewhere, a weak detector would evict.
BINDING = (
    LoseReply(at_s=20.0, for_s=8.0, target=SCHEDULERS[0], match="bindingbatches", times=1),
    Partition(at_s=22.0, for_s=25.0, target="node-2"),
    Pause(at_s=26.0, for_s=3.0, target=SCHEDULERS[0]),
)


@scenario(Menu(processes=DECIDERS), scripted=BINDING, checkers=checkers)
async def binding_during_node_failure(world: World) -> None:
    """A binding times out although it committed, and the node's heartbeat is late: the pod is bound once, no
    pod is evicted, and the pod's conditions say how far it is."""
    run_real_cluster(world, nodes=("node-1", "node-2", "node-3"))
    await world.sleep(20.5)
    await world.apply(DEPLOYMENTS, deployment("risk-api", 3))
    await world.sleep(4)
    pods = world.list("pods", "default")
    bound = {pod["metadata"]["uid"]: where for pod in pods if (where := lookup(pod, "spec", "nodeName"))}
    await world.sleep(16)
    for pod in world.list("pods", "default"):
        before = bound.get(pod["metadata"]["uid"])
        assert before is None or lookup(pod, "spec", "nodeName") == before
    late = world.get("nodes", Key("", "node-2"))
    assert late is not None
    assert not any(taint["effect"] == "NoExecute" for taint in lookup(late, "spec", "taints") or ())
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    ready = {pod["metadata"]["uid"] for pod in ready_pods(world, "risk-api")}
    assert len(ready) == 3
    assert bound.keys() <= ready, "a pod was evicted"


VICTIMS = (SCHEDULERS[0], MANAGERS[0], "node-1", "api-1")


def nth_write(seed: str) -> Sequence[AnyFault]:
    """Seeds 0, 1, 2, … go through all writes of all victims."""
    number = int(seed) if seed.isdigit() else 0
    victim, times = VICTIMS[number % len(VICTIMS)], 1 + number // len(VICTIMS)
    return (CrashAtWrite(at_s=0.0, target=victim, times=times, for_s=1.0),)


@scenario(Menu(processes=DECIDERS), faults_of=nth_write, checkers=checkers)
async def a_crash_at_any_write_of_a_cluster(world: World) -> None:
    """A workload is rolled out, rolled out again and scaled in a whole cluster. The scheduler, the
    controllers, an agent or the API server crashes after one of its writes (the seed says which): in the end
    the workload has its replicas."""
    run_real_cluster(world, nodes=NODES[:3])
    await world.apply(DEPLOYMENTS, deployment("web", 4))
    await world.sleep(15)
    await world.apply(DEPLOYMENTS, deployment("web", 4, tag=2))
    await world.sleep(20)
    await world.apply(DEPLOYMENTS, deployment("web", 2, tag=2))
    await world.sleep(10)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


SCENARIOS: tuple[Scenario, ...] = (
    cluster,
    three_servers_and_twenty_nodes,
    a_node_dies,
    binding_during_node_failure,
    a_crash_at_any_write_of_a_cluster,
)
