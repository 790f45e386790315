"""Answers that do not tell what happened, and what people ask for a second time: a proxy says that a write
took too long, which was carried out, and a deletion is asked for again with more time."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, uid_of
from fathom.model.resources import PODS, REPLICA_SETS
from fathom.seams.streams import Streams
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.objects import pod_spec, replica_set
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, MANAGERS, QUIET_S, manage
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, LoseReply, LoseRequest, Refuse
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

APP = "web"
KINDS = ("/pods", "/replicasets")
WRITES = ("POST /api/v1/namespaces/default/pods", "DELETE /api/v1/namespaces/default/pods")
READS = "GET /api/v1/namespaces/default/pods/"
LOOK_S = 0.05


def checkers() -> Sequence[Checker]:
    return at_home()


def timeouts(seed: str) -> Sequence[AnyFault]:
    """Lost replies of creates and deletes of pods. Later than a pod takes to leave, a proxy answers."""
    rng = Streams(seed).stream("timeouts")
    return [
        LoseReply(at_s=40 * rng.random(), target=name, match=match, told_s=round(1 + 5 * rng.random(), 3))
        for name in MANAGERS
        for match in WRITES
        for _ in range(4)
    ]


def lost_and_unread(seed: str) -> Sequence[AnyFault]:
    """Creates and deletes of pods are lost, or their replies are, and then reads of pods fail for a while."""
    rng = Streams(seed).stream("lost-and-unread")
    faults: list[AnyFault] = []
    for name in MANAGERS:
        for match in WRITES:
            for lost in (LoseReply, LoseReply, LoseRequest):
                faults.append(lost(at_s=40 * rng.random(), target=name, match=match))
        faults += [
            Refuse(at_s=45 * rng.random(), target=name, match=READS, times=rng.randrange(1, 4), status=503)
            for _ in range(6)
        ]
    return sorted(faults, key=lambda fault: fault.at_s)


@scenario(Menu(processes=MANAGERS, kinds=KINDS), faults_of=lost_and_unread, checkers=checkers, scale=8)
async def written_and_not_to_be_read(world: World) -> None:
    """Creates and deletes of pods get no answer, and the reads that are to tell what came of them fail too:
    nothing is on record as done, or as not done, that is not so."""
    manage(world, ReplicaSets, kinds=KINDS)
    run_controllers(world, AGENT, SimulatedNodes)
    for number in range(world.scale):
        await world.apply(REPLICA_SETS, replica_set(APP, 4 if number % 2 == 0 else world.rng.randrange(1, 3)))
        await world.sleep(2 + 6 * world.rng.random())
    await world.heal_and_settle(quiet_s=QUIET_S)


@scenario(Menu(processes=MANAGERS, kinds=KINDS), faults_of=timeouts, checkers=checkers, scale=10)
async def answered_with_a_timeout(world: World) -> None:
    """Creates and deletes of pods are carried out, and answered with a timeout; other pods take the names of
    those that leave. Nothing is on record as refused that was done, and no record names the others."""
    manage(world, ReplicaSets, kinds=KINDS)
    run_controllers(world, AGENT, SimulatedNodes)
    for number in range(world.scale):
        await world.apply(REPLICA_SETS, replica_set(APP, 4 if number % 2 == 0 else world.rng.randrange(1, 3)))
        await _take_names(world, seconds=2 + 4 * world.rng.random())
    for pod in _strangers(world):
        await world.delete(PODS, key_of(pod).name)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _take_names(world: World, *, seconds: float) -> None:
    """Give the name of every pod that goes to another pod, at once. Those of the last time go first."""
    for pod in _strangers(world):
        await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod), grace_s=0)
    leaving: dict[str, None] = {}
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        leaving |= {key_of(pod).name: None for pod in world.list("pods", "default") if is_deleting(pod)}
        for name in [name for name in leaving if world.get("pods", Key("default", name)) is None]:
            del leaving[name]
            stranger = {"metadata": {"name": name, "labels": {"app": "stranger"}}, "spec": pod_spec()}
            await world.api.create(PODS, "default", stranger)
        await world.sleep(LOOK_S)


def _strangers(world: World) -> list[Obj]:
    pods = world.list("pods", "default")
    return [pod for pod in pods if labels_of(pod).get("app") == "stranger" and not is_deleting(pod)]


@scenario(Menu(processes=(AGENT,), seconds=20, most=3), servers=2, checkers=checkers, scale=6)
async def deleted_again(world: World) -> None:
    """A pod is deleted, and deleted again with more time, or with less: its time never gets longer, and it
    goes."""
    run_controllers(world, AGENT, SimulatedNodes)
    for number in range(world.scale):
        name = f"p-{number}"
        pod = await world.apply(PODS, {"metadata": {"name": name}, "spec": pod_spec()})
        for _ in range(3):
            grace_s = world.rng.choice((3, 8, 20))
            await world.api.delete(PODS, "default", name, uid=uid_of(pod), grace_s=grace_s)
            await world.sleep(2 * world.rng.random())
    for pod in world.list("pods", "default"):
        await world.delete(PODS, key_of(pod).name)
    await world.heal_and_settle(quiet_s=QUIET_S)


SCENARIOS: tuple[Scenario, ...] = (
    answered_with_a_timeout,
    written_and_not_to_be_read,
    deleted_again,
)
