"""What the next leader has not heard of: it does not undo what was right, nor do once more what was done."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.repair.controller import RepairPods
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.scenarios import workloads
from fathom.sim.scenarios.objects import NODES, PODS, REPLICA_SETS, node, pod_spec, replica_set
from fathom.sim.scenarios.staff import AGENT, MANAGERS, come_to_rest, employ, leads
from fathom.sim.scenarios.workloads import DEPLOYMENTS, KINDS, deployment, let_the_first_lead
from fathom.sim.standins.agent import Weather
from fathom.sim.world.controllers import nudge
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, Pause
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

LET_GO = "who was let go lives on"
FAR = "node-far"
UNHEARD_OF = "nobody is taken from a node that is there"

# Nobody probes for a while: the story says who is ready. One is not; that is the last that the second manager
# hears of pods, and less than ten seconds old when it leads. Much later both hear nothing of ReplicaSets, and
# then nothing of nodes.
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
async def what_the_heir_has_not_heard(world: World) -> None:
    """One pod too many was taken already; another is ready by now. A rollout that is stuck is scaled: what is
    available stays. Pods that were let go are nobody's. A node that nobody has told of may be there."""
    await world.apply(NODES, node("node-1"))
    weather = employ(world, Deployments, ReplicaSets, RepairPods, kinds=KINDS)
    await let_the_first_lead(world)
    await world.apply(DEPLOYMENTS, deployment("web", 3, surge=1, missing=0))
    await world.apply(DEPLOYMENTS, deployment("api", 4, surge=1, missing=2))
    await world.apply(REPLICA_SETS, replica_set("solo", 2))
    await world.sleep(7.5 - world.now_s)
    if leads(world, MANAGERS[0]):  # Who leads, and hears late, may act: nobody could know better.
        await _others_are_ready(world)
    await world.sleep(9.5 - world.now_s)
    await world.apply(DEPLOYMENTS, deployment("web", 2, surge=1, missing=0))
    await world.sleep(27.0 - world.now_s)
    await _stuck(world, weather)
    await world.sleep(45.5 - world.now_s)
    left = await _let_go(world, "solo")
    await world.sleep(2)
    for pod in _of(world, "solo"):  # There is news of them when their owner is surely gone.
        patch = {"metadata": {"annotations": {"example.com/left": "behind"}}}
        await world.api.patch(PODS, "default", key_of(pod).name, patch)
    await world.sleep(73.0 - world.now_s)
    await world.apply(NODES, node(FAR))
    await world.apply(PODS, {"metadata": {"name": FAR}, "spec": pod_spec(node=FAR)})
    await world.sleep(25)
    await come_to_rest(world, weather)
    if world.get("pods", Key("default", FAR)) is None:
        world.broken(UNHEARD_OF, f"{FAR} is there, and its pod was taken away", f"nodes/{FAR}")
    there = {uid_of(pod) for pod in _of(world, "solo")}
    for uid in left - there:
        world.broken(LET_GO, f"pod {uid} was left behind by its owner on purpose, and is gone")


def _of(world: World, app: str) -> list[Obj]:
    pods = [pod for pod in world.list("pods", "default") if lookup(pod, "metadata", "labels", "app") == app]
    return [pod for pod in pods if not is_deleting(pod)]


async def _others_are_ready(world: World) -> None:
    late, sick = _of(world, "web")[:2]
    await _probed(world, late, ready=False)
    await world.sleep(9.0 - world.now_s)
    await _probed(world, late, ready=True)
    await _probed(world, sick, ready=False)


async def _probed(world: World, pod: Obj, *, ready: bool) -> None:
    """In the agent's place."""
    there = world.get("pods", key_of(pod))
    if there is None:
        return
    said = set_condition(
        conditions_of(there),
        type="Ready",
        status="True" if ready else "False",
        reason="Probed",
        now=str(metadata(there)["creationTimestamp"]),
    )
    await world.api.patch(
        PODS, "default", key_of(pod).name, {"status": {"conditions": said}}, subresource="status"
    )


async def _stuck(world: World, weather: Weather) -> None:
    """Two old ones are available and three new ones are not, when no more than two are wanted, and no fewer:
    in proportion, one that is available would go."""
    weather.image_s = 60.0
    nudge(world, AGENT)
    await world.apply(DEPLOYMENTS, deployment("api", 4, tag=2, surge=1, missing=2))
    await world.sleep(6)
    await world.apply(DEPLOYMENTS, deployment("api", 2, tag=2, surge=1, missing=0))
    await world.sleep(6)
    weather.clear_up()
    nudge(world, AGENT)


async def _let_go(world: World, name: str) -> set[str]:
    """Their owner goes without them."""
    owner = world.get(REPLICA_SETS.name, Key("default", name))
    assert owner is not None
    left = {uid_of(pod) for pod in _of(world, name) if owner_uid(pod) == uid_of(owner)}
    await world.api.delete(REPLICA_SETS, "default", name, uid=uid_of(owner), policy="Orphan")
    return left


SCENARIOS: tuple[Scenario, ...] = (what_the_heir_has_not_heard,)
