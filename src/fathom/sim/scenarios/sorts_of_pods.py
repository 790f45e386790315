"""Pods of every sort on one real node: with init containers and sidecars, with probes that fail now and then,
with every restart policy, and some that do not end when they are asked to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from fathom.agent.process import begin as begin_agent
from fathom.agent.simulated import SCRIPT
from fathom.agent.simulated_machine import SimulatedMachine
from fathom.model.accounts import node_user
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import PODS
from fathom.model.times import SECOND_NS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.containers_by_the_rules import BACKOFF_MAX_S, observed
from fathom.sim.scenarios.nodes import RENEW_S, STATUS_S, at_rest
from fathom.sim.scenarios.staff import all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
QUIET_S = 35.0  # A container that has crashed may wait for its next run.
PORTS = {"startupProbe": 8081, "readinessProbe": 8082, "livenessProbe": 8083}
FOR_EVER_S = 100_000  # Longer than any scenario.


def checkers() -> Sequence[Checker]:
    return [*at_home(), *at_rest(NODE)]


@scenario(
    Menu(
        processes=(NODE,),
        kinds=("/pods", "/nodes"),
        seconds=30,
        most=6,
        without=all_but("crash", "stop", "pause", "hold-watch", "drop-watch", "slow-request", "slow-reply"),
    ),
    checkers=checkers,
    scale=14,
)
async def pods_of_every_sort(world: World) -> None:
    """Pods start, fail probes, end, get other images, and are deleted, some again with a shorter grace
    period: their containers start and stop in order, run again as their policies say, and live for as long as
    they may and no longer."""
    keeps = world.rng.random() < 0.5
    machine = SimulatedMachine(keeps_containers=keeps, observe=observed(world, NODE))
    await _begin_node(world, machine)
    for number in range(world.scale):
        # One that does not fit beside the others is refused.
        await world.api.create(PODS, "default", _pod(world, f"p-{number}"))
        await world.sleep(6 * world.rng.random())
        if world.rng.random() < 0.5:
            await _delete_one(world)
        if world.rng.random() < 0.5:
            await _hurry_one(world)
        if world.rng.random() < 0.3:
            await _change_image(world)
    world.heal()
    await world.sleep(5)
    for pod in _of(world, deleted=True):  # Some would otherwise stay for ten minutes.
        await _delete(world, pod, grace_s=1)
    await world.settle(quiet_s=QUIET_S, within_s=900)


async def _begin_node(world: World, machine: SimulatedMachine) -> None:
    world.process(
        NODE, partial(begin_agent, machine=machine), account=node_user(NODE), node=NODE, driver="simulated",
        renew_s=RENEW_S, status_s=STATUS_S, capacity={"cpu": "6", "memory": "8Gi"},
    )  # fmt: skip
    await world.until(
        lambda: world.get("nodes", Key("", NODE)) is not None, within_s=60, what="the node is registered"
    )


@scenario(
    Menu(
        processes=(NODE,),
        kinds=("/pods", "/nodes"),
        seconds=60,
        most=2,
        without=all_but("crash", "stop", "slow-request", "slow-reply"),
        clocks=("nobody",),  # The scenario itself sets them.
    ),
    checkers=checkers,
    scale=3,
    timed=True,
)
async def crashing_while_clocks_are_set(world: World) -> None:
    """Containers crash again and again, and the clock of their node is set: none waits for its next run for
    longer than the longest back-off."""
    machine = SimulatedMachine(keeps_containers=world.rng.random() < 0.5, observe=observed(world, NODE))
    await _begin_node(world, machine)
    for number in range(world.scale):
        script = {"exit_code": 3, "runs_s": 1 + 3 * world.rng.random()}
        meta = {"name": f"p-{number}", "annotations": {SCRIPT: json.dumps(script)}}
        containers = [{"name": "main", "image": "example/main"}]
        spec = {"nodeName": NODE, "containers": containers, "terminationGracePeriodSeconds": 2}
        await world.api.create(PODS, "default", {"metadata": meta, "spec": spec})
    # Each step forward ends a wait early.
    for ahead_s in world.rng.choice(((-400,), (-1000, -90_000), (90_000, -200), (-90_000, 1000))):
        await world.sleep(30 + 70 * world.rng.random())
        world.engine.processes[NODE].set_clock(ahead_s * SECOND_NS)
    await world.sleep(BACKOFF_MAX_S + 60)
    await world.settle(quiet_s=QUIET_S, within_s=2000)
    world.heal()
    await world.sleep(BACKOFF_MAX_S + 60)
    await world.settle(quiet_s=QUIET_S, within_s=2000)


# Pods.


def _pod(world: World, name: str) -> Obj:
    rng = world.rng
    policy = rng.choice(("Always", "Always", "OnFailure", "Never"))
    scripts: dict[str, Obj] = {}
    first = [_first(world, f"first-{number}", scripts) for number in range(rng.choice((0, 1, 1, 2, 3)))]
    mains = [_main(world, f"main-{number}", policy, scripts) for number in range(rng.choice((1, 1, 2)))]
    mains[0]["resources"] = {"requests": {"cpu": rng.choice(("100m", "500m", "2"))}}
    spec = {
        "nodeName": NODE,
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": rng.choice((2, 5)),
        "initContainers": first,
        "containers": mains,
    }
    if rng.random() < 0.25:  # It does not end before it is killed.
        spec["terminationGracePeriodSeconds"] = 600
        scripts = {each: {**script, "stop_s": FOR_EVER_S} for each, script in scripts.items()}
    if rng.random() < 0.1:
        spec["activeDeadlineSeconds"] = 15
    notes = {"fathom.dev/simulated": json.dumps({"containers": scripts})}
    return {"metadata": {"name": name, "annotations": notes}, "spec": spec}


def _first(world: World, name: str, scripts: dict[str, Obj]) -> Obj:
    """An init container that succeeds, at last, or a sidecar, which may need some time to start."""
    container: Obj = {"name": name, "image": "example/first"}
    match world.rng.choice(("succeeds", "fails-first", "sidecar", "slow-sidecar", "slow-sidecar")):
        case "succeeds":
            scripts[name] = {"runs_s": 3 * world.rng.random()}
        case "fails-first":
            scripts[name] = {"runs_s": 1, "fail": "crash", "fails": 1}
        case "sidecar":
            scripts[name] = {"stop_s": 2 * world.rng.random()}
            container |= {"restartPolicy": "Always"} | _probes(world, scripts[name], "livenessProbe")
        case _:
            scripts[name] = {"ready_s": 2 + 4 * world.rng.random()}
            container |= {"restartPolicy": "Always"} | _probes(world, scripts[name], "startupProbe")
            container["startupProbe"]["failureThreshold"] = 20
    return container


def _main(world: World, name: str, policy: str, scripts: dict[str, Obj]) -> Obj:
    rng = world.rng
    container: Obj = {"name": name, "image": "example/main"}
    scripts[name] = {"stop_s": 2 * rng.random(), "ready_s": 3 * rng.random()}
    if rng.random() < 0.6:
        chosen = [kind for kind in PORTS if rng.random() < 0.6]
        container |= _probes(world, scripts[name], *chosen)
    elif policy != "Always":
        scripts[name] |= {
            "runs_s": 5 * rng.random(),
            "exit_code": 0 if policy == "OnFailure" else rng.randrange(2),
        }
    else:
        scripts[name] |= {"fail": "crash", "fails": rng.randrange(2)}
    if rng.random() < 0.2:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": 1}}}
    return container


def _probes(world: World, script: Obj, *kinds: str) -> Obj:
    """They fail now and then in the first run of their container, sometimes as often as is too much."""
    rng = world.rng
    script |= {"fails": 1, "flaps": {}}
    probes: dict[str, Obj] = {}
    for kind in kinds:
        script["flaps"][str(PORTS[kind])] = "".join(rng.choice(".xx") for _ in range(rng.randrange(16)))
        probes[kind] = {
            "tcpSocket": {"port": PORTS[kind]},
            "periodSeconds": rng.choice((1, 2)),
            # A container that would be ended for it gets its time to start.
            "failureThreshold": rng.choice((6, 7, 8) if kind == "livenessProbe" else (3, 4, 5)),
            "initialDelaySeconds": rng.choice((0, 0, 3)),
        }
    if "readinessProbe" in probes:
        probes["readinessProbe"]["successThreshold"] = rng.choice((1, 2))
    return probes


# What people do.


def _of(world: World, *, deleted: bool) -> list[Obj]:
    return [pod for pod in world.list("pods") if is_deleting(pod) is deleted]


async def _delete(world: World, pod: Obj, *, grace_s: int | None) -> None:
    await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod), grace_s=grace_s)


async def _delete_one(world: World) -> None:
    if pods := _of(world, deleted=False):
        await _delete(world, world.rng.choice(pods), grace_s=world.rng.choice((None, None, None, 0, 30)))


async def _hurry_one(world: World) -> None:
    """Somebody does not want to wait any longer."""
    if pods := _of(world, deleted=True):
        pod = world.rng.choice(pods)
        left_s = int(metadata(pod).get("deletionGracePeriodSeconds") or 1)
        await _delete(world, pod, grace_s=world.rng.randrange(1, left_s + 1))


async def _change_image(world: World) -> None:
    if pods := _of(world, deleted=False):
        pod = world.rng.choice(pods)
        containers = [
            {**each, "image": f"{each['image']}-next"} for each in lookup(pod, "spec", "containers") or ()
        ]
        patch = {"metadata": {"uid": uid_of(pod)}, "spec": {"containers": containers}}
        await world.api.patch(PODS, "default", key_of(pod).name, patch)


SCENARIOS: tuple[Scenario, ...] = (pods_of_every_sort, crashing_while_clocks_are_set)
