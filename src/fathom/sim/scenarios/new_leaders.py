"""A new leader that has missed events: it does not undo what was right, nor do again what was done."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.repair.controller import RepairPods
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.scenarios import workloads
from fathom.sim.scenarios.objects import node, pod_spec, replica_set
from fathom.sim.scenarios.shared_agent import NodeTroubles
from fathom.sim.scenarios.staff import AGENT, MANAGERS, come_to_rest, leads, run_managers_and_agents
from fathom.sim.scenarios.workloads import KINDS, deployment, let_the_first_lead
from fathom.sim.world.controllers import nudge
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, Pause
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

LET_GO = "pods that their owner released live on"
FAR = "node-far"
UNHEARD_OF = "no pod is removed from a node that exists"

# The agent is paused for a while: the scenario says which pods are ready. One is not; that is the last event
# of pods that the second manager receives, and it is less than ten seconds old when it leads. Much later both
# receive no events of ReplicaSets, and then none of nodes.
OLD_VIEWS: tuple[AnyFault, ...] = (
    Pause(at_s=7.0, target=AGENT, for_s=18.0),
    HoldWatch(at_s=8.0, target=MANAGERS[1], match="/pods", for_s=16.0),
    Crash(at_s=10.5, target=MANAGERS[0], for_s=20.0),
    HoldWatch(at_s=45.0, target=MANAGERS[0], match="/replicasets", for_s=20.0),
    HoldWatch(at_s=45.0, target=MANAGERS[1], match="/replicasets", for_s=20.0),
    HoldWatch(at_s=72.0, target=MANAGERS[0], match="/nodes", for_s=20.0),
    HoldWatch(at_s=72.0, target=MANAGERS[1], match="/nodes", for_s=20.0),
)


def checkers() -> Sequence[Checker]:
    return workloads.checkers()


@scenario(Menu(processes=MANAGERS, kinds=KINDS), scripted=OLD_VIEWS, checkers=checkers)
async def what_a_new_leader_has_not_heard(world: World) -> None:
    """A new leader has not seen the last deletion nor which pods are ready now: it deletes no pod too many. A
    stuck rollout is scaled: available pods stay. Pods that their deleted owner released stay. Pods on a node
    that no manager has heard of stay."""
    await world.apply(NODES, node("node-1"))
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, RepairPods, kinds=KINDS)
    await let_the_first_lead(world)
    await world.apply(DEPLOYMENTS, deployment("web", 3, surge=1, missing=0))
    await world.apply(DEPLOYMENTS, deployment("api", 4, surge=1, missing=2))
    await world.apply(REPLICA_SETS, replica_set("solo", 2))
    await world.sleep(7.5 - world.now_s)
    if leads(world, MANAGERS[0]):  # A leader whose events are late may act on them: it cannot know better.
        await _swap_readiness(world)
    await world.sleep(9.5 - world.now_s)
    await world.apply(DEPLOYMENTS, deployment("web", 2, surge=1, missing=0))
    await world.sleep(27.0 - world.now_s)
    await _scale_stuck_rollout(world, troubles)
    await world.sleep(45.5 - world.now_s)
    released = await _release_pods(world, "solo")
    await world.sleep(2)
    for pod in _live_pods(world, "solo"):  # An event of each pod, when its owner is certainly gone.
        patch = {"metadata": {"annotations": {"example.com/left": "behind"}}}
        await world.api.patch(PODS, "default", key_of(pod).name, patch)
    await world.sleep(73.0 - world.now_s)
    await world.apply(NODES, node(FAR))
    await world.apply(PODS, {"metadata": {"name": FAR}, "spec": pod_spec(node=FAR)})
    await world.sleep(25)
    await come_to_rest(world, troubles)
    if world.get("pods", Key("default", FAR)) is None:
        world.broken(UNHEARD_OF, f"node {FAR} exists, but its pod was removed", f"nodes/{FAR}")
    existing = {uid_of(pod) for pod in _live_pods(world, "solo")}
    for uid in released - existing:
        world.broken(LET_GO, f"pod {uid} was released by its owner, but is gone")


def _live_pods(world: World, app: str) -> list[Obj]:
    pods = [pod for pod in world.list("pods", "default") if lookup(pod, "metadata", "labels", "app") == app]
    return [pod for pod in pods if not is_deleting(pod)]


async def _swap_readiness(world: World) -> None:
    late, sick = _live_pods(world, "web")[:2]
    await _write_readiness(world, late, ready=False)
    await world.sleep(9.0 - world.now_s)
    await _write_readiness(world, late, ready=True)
    await _write_readiness(world, sick, ready=False)


async def _write_readiness(world: World, pod: Obj, *, ready: bool) -> None:
    """Write the pod's readiness in the agent's place."""
    current = world.get("pods", key_of(pod))
    if current is None:
        return
    conditions = set_condition(
        conditions_of(current),
        type="Ready",
        status="True" if ready else "False",
        reason="Probed",
        now=str(metadata(current)["creationTimestamp"]),
    )
    await world.api.patch(
        PODS, "default", key_of(pod).name, {"status": {"conditions": conditions}}, subresource="status"
    )


async def _scale_stuck_rollout(world: World, troubles: NodeTroubles) -> None:
    """Two old pods are available and three new ones are not when only two are wanted, and no fewer: scaling
    in proportion would delete an available one."""
    troubles.image_s = 60.0
    nudge(world, AGENT)
    await world.apply(DEPLOYMENTS, deployment("api", 4, tag=2, surge=1, missing=2))
    await world.sleep(6)
    await world.apply(DEPLOYMENTS, deployment("api", 2, tag=2, surge=1, missing=0))
    await world.sleep(6)
    troubles.clear_up()
    nudge(world, AGENT)


async def _release_pods(world: World, name: str) -> set[str]:
    """Delete the owner without its pods."""
    owner = world.get(REPLICA_SETS.name, Key("default", name))
    assert owner is not None
    released = {uid_of(pod) for pod in _live_pods(world, name) if owner_uid(pod) == uid_of(owner)}
    await world.api.delete(REPLICA_SETS, "default", name, uid=uid_of(owner), policy="Orphan")
    return released


SCENARIOS: tuple[Scenario, ...] = (what_a_new_leader_has_not_heard,)
