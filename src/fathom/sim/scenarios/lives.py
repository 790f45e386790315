"""Deployments whose rollouts come to an end in every way there is: done, gone back by hand or by themselves,
given up, held by a person for a while. The agent is real, so that pods get ready or not by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fathom.agent.process import begin as begin_agent
from fathom.control.ownership import controller_of
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.accounts import node_user
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.sim.checkers import at_home
from fathom.sim.checkers.rollouts import OneRevisionPerTemplate
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.scenarios.overriding import OVERRIDES, override
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, manage
from fathom.sim.scenarios.workloads import DEPLOYMENTS, deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
KINDS = ("/pods", "/replicasets", "/deployments", "/scheduleroverrides")
DEADLINE_S, HELD_S = 40, 200
REVISION, AUTO_REVERT = "deployment.kubernetes.io/revision", "fathom.dev/auto-revert"
DONE, GIVEN_UP, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
# How each ends: the version that it has then, what it says, its revision, how many ReplicaSets are left.
ENDS = {
    "forward": (3, DONE, "3", 2),  # One of two old ones is beyond its limit.
    "back": (1, DONE, "3", 2),
    "stuck": (2, GIVEN_UP, "2", 2),
    "reverts": (1, DONE, "3", 2),
    "swings": (1, GIVEN_UP, "3", 2),  # Both are bad: it goes back once, and stays there.
    "held": (2, DONE, "2", 2),
}
FAILS = {"stuck": (2,), "reverts": (2,), "swings": (1, 2)}


def checkers() -> Sequence[Checker]:
    return [*at_home(), OneRevisionPerTemplate(), OnePodPerSlot()]


@scenario(
    Menu(processes=(*MANAGERS, NODE), kinds=KINDS, seconds=60, most=6, without=("skew",)), checkers=checkers
)
async def rollouts_end(world: World) -> None:
    """One of each sort; in the end each has the version and the history that it should, and says how it
    went."""
    manage(world, Deployments, ReplicaSets, kinds=KINDS)
    world.process(NODE, begin_agent, account=node_user(NODE), node=NODE, driver="simulated")
    for name in ENDS:
        await world.apply(DEPLOYMENTS, _version(name, 1))
    await world.sleep(20)
    await _once(world, lambda: _have_revision(world, "1", ENDS), "the first ones are known")
    held = override("held", {"pauseRollout": True}, lasts_s=HELD_S)
    held["spec"]["target"] = "deployment/held"
    await world.apply(OVERRIDES, held)
    await world.sleep(5)
    await _once(world, lambda: _end(world, "held")[1] == PAUSED, "the override is known")
    for name in ENDS:
        await world.apply(DEPLOYMENTS, _version(name, 2))
    await world.sleep(30)
    await _once(world, lambda: _have_revision(world, "2", ("forward", "back")), "the second ones are known")
    await world.apply(DEPLOYMENTS, _version("forward", 3))
    await world.apply(DEPLOYMENTS, _version("back", 1))
    await world.sleep(20)
    world.heal()
    await world.sleep(40)
    assert _version_of_sets(world, "held") == {1}, "it was rolled out, though a person had paused that"
    for name, end in ENDS.items():
        await world.until(
            lambda name=name, end=end: _end(world, name) == end,  # type: ignore[misc]  # Bound for this turn.
            within_s=400,
            what=f"{name} ends with {end} (now {_end(world, name)})",
        )
    await world.settle(quiet_s=max(QUIET_S, 3 * DEADLINE_S), within_s=1200)
    assert {name: _end(world, name) for name in ENDS} == ENDS


async def _once(world: World, is_so: Callable[[], bool], what: str) -> None:
    """A version that no controller has seen before the next one came has no revision, and nobody keeps to an
    override that nobody has heard of. So where they could not run until now, what holds them ends here."""
    if not is_so():
        world.heal()
    await world.until(is_so, within_s=60, what=what)


def _have_revision(world: World, number: str, names: Iterable[str]) -> bool:
    return all(_end(world, name)[2] == number for name in names)


def _version(name: str, tag: int) -> Obj:
    made = deployment(name, 2, tag=tag)
    made["spec"] |= {"progressDeadlineSeconds": DEADLINE_S, "revisionHistoryLimit": 1}
    if name in {"reverts", "swings"}:
        made["metadata"]["annotations"] = {AUTO_REVERT: "true"}
    script = '{"fail": "readiness"}' if tag in FAILS.get(name, ()) else "{}"
    made["spec"]["template"]["metadata"]["annotations"] = {"fathom.dev/simulated": script}
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}
    made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
    return made


def _end(world: World, name: str) -> tuple[int, str, str, int]:
    found = world.get(DEPLOYMENTS.name, Key("default", name)) or {}
    said = find_condition(conditions_of(found), "Progressing") or {}
    revision = (metadata(found).get("annotations") or {}).get(REVISION, "") if found else ""
    return _tag(found), str(said.get("reason")), revision, len(_sets(world, name))


def _sets(world: World, name: str) -> list[Obj]:
    return [
        one
        for one in world.list("replicasets.apps", "default")
        if (controller_of(one) or {}).get("name") == name
    ]


def _version_of_sets(world: World, name: str) -> set[int]:
    return {_tag(one) for one in _sets(world, name)}


def _tag(obj: Obj) -> int:
    containers = lookup(obj, "spec", "template", "spec", "containers") or [{}]
    return int(str(containers[0].get("image", ":0")).rpartition(":")[2])


SCENARIOS: tuple[Scenario, ...] = (rollouts_end,)
