"""Pods that are bound to a node without a scheduler, some of which do not fit there. The agent is real: it
rejects these, and never a pod that it has accepted."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.pod_states import is_ready, is_rejected
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj, labels_of, lookup, uid_of
from fathom.model.resources import PODS, REPLICA_SETS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.scenarios.objects import pod_spec, replica_set
from fathom.sim.scenarios.staff import MANAGERS, manage, run_agent
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
KINDS = ("/pods", "/replicasets")
FITS, HUGE = "fits", "huge"
LASTS_S = 120


def checkers() -> Sequence[Checker]:
    return [*at_home(), OnePodPerSlot()]


@scenario(
    Menu(processes=(*MANAGERS, NODE), kinds=KINDS, seconds=60, most=6, without=("skew",)), checkers=checkers
)
async def pods_do_not_fit(world: World) -> None:
    """Pods are bound to a node without a scheduler, and some do not fit: the agent rejects those and says
    why. Pods that it has accepted run on, whatever else is bound to the node and however often agents
    crash."""
    manage(world, ReplicaSets, kinds=KINDS)
    # Before the node exists, nobody knows its capacity.
    await world.apply(PODS, {"metadata": {"name": HUGE, "labels": {"app": HUGE}}, "spec": _spec("64")})
    run_agent(world, NODE, capacity={"cpu": "4", "memory": "8Gi"})
    await world.apply(REPLICA_SETS, _replica_set_with_cpu(FITS, 2, cpu="2"))
    await world.until(lambda: _ready(world, FITS) == 2, within_s=300, what="the pods that fit are ready")
    accepted = _uids(world, FITS)
    for _ in range(LASTS_S):
        await world.sleep(1)
        refused = {uid_of(pod) for pod in world.list("pods") if is_rejected(pod)}
        assert not refused & accepted, "an accepted pod was rejected"
    world.heal()
    await world.until(
        lambda: _reasons(world, HUGE) == {"OutOfcpu"}, within_s=300, what="the pod that does not fit says why"
    )
    await world.until(
        lambda: _ready(world, FITS) == 2, within_s=300, what="the pods that fit are ready again"
    )
    assert _uids(world, FITS) == accepted


def _replica_set_with_cpu(name: str, replicas: int, *, cpu: str) -> Obj:
    workload = replica_set(name, replicas)
    workload["spec"]["template"]["spec"] = _spec(cpu)
    return workload


def _spec(cpu: str) -> Obj:
    spec = pod_spec(node=NODE)
    spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return spec


def _pods(world: World, name: str) -> list[Obj]:
    return [pod for pod in world.list("pods") if labels_of(pod).get("app") == name]


def _uids(world: World, name: str) -> set[str]:
    return {uid_of(pod) for pod in _pods(world, name)}


def _ready(world: World, name: str) -> int:
    return sum(is_ready(pod) for pod in _pods(world, name))


def _reasons(world: World, name: str) -> set[str]:
    ended = (pod for pod in _pods(world, name) if lookup(pod, "status", "phase") == "Failed")
    return {str(lookup(pod, "status", "reason")) for pod in ended} or {"no pod has failed"}


SCENARIOS: tuple[Scenario, ...] = (pods_do_not_fit,)
