"""Deployments whose rollouts end in every way: complete, rolled back by hand or automatically, given up,
paused by a person for a while. The agent is real, so that pods get ready or not by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fathom.control.ownership import controller_of
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.rollouts import OneRevisionPerTemplate
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.scenarios.overriding import OVERRIDES, override
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, manage, run_agent
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
KINDS = ("/pods", "/replicasets", "/deployments", "/scheduleroverrides")
DEADLINE_S, HELD_S = 40, 200
REVISION, AUTO_REVERT = "deployment.kubernetes.io/revision", "fathom.dev/auto-revert"
DONE, GIVEN_UP, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
# How each ends: its version, the reason of its condition Progressing, its revision, and how many ReplicaSets
# are left.
ENDS = {
    "forward": (3, DONE, "3", 2),  # One of two old ReplicaSets exceeds the history limit.
    "back": (1, DONE, "3", 2),
    "stuck": (2, GIVEN_UP, "2", 2),
    "reverts": (1, DONE, "3", 2),
    "swings": (1, GIVEN_UP, "3", 2),  # Both versions are bad: it goes back once, and stays there.
    "held": (2, DONE, "2", 2),
}
FAILS = {"stuck": (2,), "reverts": (2,), "swings": (1, 2)}


def checkers() -> Sequence[Checker]:
    return [*at_home(), OneRevisionPerTemplate(), OnePodPerSlot()]


@scenario(
    Menu(
        processes=(*MANAGERS, NODE),
        kinds=KINDS,
        seconds=60,
        most=6,
        without=("skew",),
        clocks=(NODE,),  # By the managers' clocks the override ends.
    ),
    checkers=checkers,
)
async def rollouts_end(world: World) -> None:
    """Rollouts complete, go back by hand or automatically, exceed their deadline or are paused by an
    override: each ends with the right version, history and reason."""
    manage(world, Deployments, ReplicaSets, kinds=KINDS)
    run_agent(world, NODE)
    for name in ENDS:
        await world.apply(DEPLOYMENTS, _version(name, 1))
    await world.sleep(20)
    await _wait_or_heal(
        world, lambda: _have_revision(world, "1", ENDS), "version 1 of every Deployment has a revision"
    )
    pause = override("held", {"pauseRollout": True}, lasts_s=HELD_S)
    pause["spec"]["target"] = "deployment/held"
    await world.apply(OVERRIDES, pause)
    await world.sleep(5)
    await _wait_or_heal(
        world, lambda: _end(world, "held")[1] == PAUSED, "the controller has seen the override"
    )
    for name in ENDS:
        await world.apply(DEPLOYMENTS, _version(name, 2))
    await world.sleep(30)
    await _wait_or_heal(
        world, lambda: _have_revision(world, "2", ("forward", "back")), "version 2 has a revision"
    )
    await world.apply(DEPLOYMENTS, _version("forward", 3))
    await world.apply(DEPLOYMENTS, _version("back", 1))
    await world.sleep(20)
    world.heal()
    await world.sleep(40)
    assert _version_of_sets(world, "held") == {1}, (
        "version 2 was rolled out although an override paused the rollout"
    )
    for name, end in ENDS.items():
        await world.until(
            lambda name=name, end=end: _end(world, name) == end,  # type: ignore[misc]  # Bound for this turn.
            within_s=400,
            what=f"{name} ends with {end} (now {_end(world, name)})",
        )
    await world.settle(quiet_s=max(QUIET_S, 3 * DEADLINE_S), within_s=1200)
    assert {name: _end(world, name) for name in ENDS} == ENDS


async def _wait_or_heal(world: World, is_so: Callable[[], bool], goal: str) -> None:
    """Wait for this; if it is not so yet, end all faults first. A version that no controller saw before the
    next one came has no revision, and an override acts only when a controller has seen it."""
    if not is_so():
        world.heal()
    await world.until(is_so, within_s=60, what=goal)


def _have_revision(world: World, number: str, names: Iterable[str]) -> bool:
    return all(_end(world, name)[2] == number for name in names)


def _version(name: str, tag: int) -> Obj:
    version = deployment(name, 2, tag=tag)
    version["spec"] |= {"progressDeadlineSeconds": DEADLINE_S, "revisionHistoryLimit": 1}
    if name in {"reverts", "swings"}:
        version["metadata"]["annotations"] = {AUTO_REVERT: "true"}
    script = '{"fail": "readiness"}' if tag in FAILS.get(name, ()) else "{}"
    version["spec"]["template"]["metadata"]["annotations"] = {"fathom.dev/simulated": script}
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}
    version["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
    return version


def _end(world: World, name: str) -> tuple[int, str, str, int]:
    current = world.get(DEPLOYMENTS.name, Key("default", name)) or {}
    progressing = find_condition(conditions_of(current), "Progressing") or {}
    revision = (metadata(current).get("annotations") or {}).get(REVISION, "") if current else ""
    return _tag(current), str(progressing.get("reason")), revision, len(_sets(world, name))


def _sets(world: World, name: str) -> list[Obj]:
    return [
        replica_set
        for replica_set in world.list("replicasets.apps", "default")
        if (controller_of(replica_set) or {}).get("name") == name
    ]


def _version_of_sets(world: World, name: str) -> set[int]:
    return {_tag(replica_set) for replica_set in _sets(world, name)}


def _tag(obj: Obj) -> int:
    containers = lookup(obj, "spec", "template", "spec", "containers") or [{}]
    return int(str(containers[0].get("image", ":0")).rpartition(":")[2])


SCENARIOS: tuple[Scenario, ...] = (rollouts_end,)
