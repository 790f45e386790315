"""Pods that are bound to a node past any scheduler, some of which do not fit there. The agent is real: it
refuses these, and never one that it has taken."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.agent.process import begin as begin_agent
from fathom.controllers.podstates import is_ready, is_rejected
from fathom.controllers.replicasets import ReplicaSets
from fathom.model.objects import Obj, labels_of, lookup, uid_of
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.invariants import Checker
from fathom.sim.menu import Menu
from fathom.sim.scenario import Scenario, scenario
from fathom.sim.scenarios.objects import REPLICA_SETS, replica_set
from fathom.sim.scenarios.staff import MANAGERS, manage
from fathom.sim.world import World

NODE = "node-1"
KINDS = ("/pods", "/replicasets")
FITS, HUGE, LATER = "fits", "huge", "later"
LASTS_S = 120
# Three at once, then one every ten seconds: with some room for clocks that are wrong.
MADE_MAX = 3 + LASTS_S // 10 + 10


def checkers() -> Sequence[Checker]:
    return [*at_home(), OnePodPerSlot()]


@scenario(
    Menu(processes=(*MANAGERS, NODE), kinds=KINDS, seconds=60, most=6, without=("skew",)), checkers=checkers
)
async def pods_do_not_fit(world: World) -> None:
    """Who fits runs on, whatever else is bound to his node and however often agents die; who does not is
    refused, and made anew a few times, not for ever."""
    manage(world, ReplicaSets, kinds=KINDS)
    world.process(NODE, begin_agent, node=NODE, driver="simulated", capacity={"cpu": "4", "memory": "8Gi"})
    await world.apply(REPLICA_SETS, _asking(FITS, 2, cpu="1500m"))
    await world.until(lambda: _ready(world, FITS) == 2, within_s=300, what="who fits is ready")
    await world.apply(REPLICA_SETS, _asking(HUGE, 1, cpu="64"))
    await world.apply(REPLICA_SETS, _asking(LATER, 1, cpu="1001m"))
    taken, made = _uids(world, FITS), dict.fromkeys(_uids(world, HUGE))
    for _ in range(LASTS_S):
        await world.sleep(1)
        made |= dict.fromkeys(_uids(world, HUGE))
        refused = {uid_of(pod) for pod in world.list("pods") if is_rejected(pod)}
        assert not refused & taken, "a pod that was taken was refused"
    world.heal()
    assert len(made) <= MADE_MAX, f"{len(made)} pods were made that do not fit"
    await world.until(
        lambda: {*_reasons(world, HUGE), *_reasons(world, LATER)} == {"OutOfcpu"},
        within_s=300,
        what="who does not fit is told why",
    )
    assert _uids(world, FITS) == taken
    assert _ready(world, HUGE) == _ready(world, LATER) == 0
    await world.apply(REPLICA_SETS, _asking(FITS, 1, cpu="1500m"))
    await world.until(lambda: _ready(world, LATER) == 1, within_s=300, what="there is room, and it is taken")


def _asking(name: str, replicas: int, *, cpu: str) -> Obj:
    made = replica_set(name, replicas)
    spec = made["spec"]["template"]["spec"]
    spec |= {"nodeName": NODE, "terminationGracePeriodSeconds": 1}
    spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def _pods(world: World, name: str) -> list[Obj]:
    return [pod for pod in world.list("pods") if labels_of(pod).get("app") == name]


def _uids(world: World, name: str) -> set[str]:
    return {uid_of(pod) for pod in _pods(world, name)}


def _ready(world: World, name: str) -> int:
    return sum(is_ready(pod) for pod in _pods(world, name))


def _reasons(world: World, name: str) -> set[str]:
    ended = (pod for pod in _pods(world, name) if lookup(pod, "status", "phase") == "Failed")
    return {str(lookup(pod, "status", "reason")) for pod in ended} or {"none has failed"}


SCENARIOS: tuple[Scenario, ...] = (pods_do_not_fit,)
