"""Containers outlive the agent that started them, as real processes do: the next agent takes them over."""

from __future__ import annotations

from functools import partial

from fathom.agent.process import begin as begin_agent
from fathom.agent.simulated_machine import SimulatedMachine
from fathom.model.accounts import node_user
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.resources import NODES, PODS
from fathom.seams.process import Entry
from fathom.sim.checkers import at_home
from fathom.sim.checkers.containers import NothingIsStartedTwice
from fathom.sim.checkers.containers_by_the_rules import observed
from fathom.sim.scenarios.nodes import at_rest
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.staff import all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, CrashAtWrite, LoseRequest, Refuse
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

AGENT = "node-1"
FIRST = ("p-0", "p-1")  # They ask for the label.
DISK = {"example.com/disk": "ssd"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
SCRIPTS = {"sound": "{}", "slow": '{"start_s": 1.5}', "ends": '{"runs_s": 9}', "lingers": '{"stop_s": 2}'}


class RunningPodsAreKept(Checker):
    """An agent that restarts finds running pods, and reports none of them as failed: nobody has ended them.
    (Pods of this scenario never fail by themselves.)"""

    name = "a restart of its agent ends no pod"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        failed = lookup(change.new, "status", "phase") == "Failed"
        deleted = lookup(change.new, "metadata", "deletionTimestamp")
        if not failed or deleted:
            return None
        return (
            f"{change.by} reports that {change.key.name} has failed: {lookup(change.new, 'status', 'reason')}"
        )


@scenario(
    Menu(
        processes=(AGENT,),
        kinds=("/pods", "/nodes"),
        seconds=25,
        most=6,
        without=all_but("crash", "crash-at-write", "stop", "hold-watch", "slow-request", "slow-reply"),
    ),
    checkers=at_home,
    scale=12,
)
async def containers_outlive_their_agent(world: World) -> None:
    """An agent crashes and stops again and again while its pods start, run, end and are deleted, and its node
    loses a label that they asked for: each container runs once at a time, no restart ends a pod, and none
    takes a ready one out of service until its next probe."""
    machine = SimulatedMachine(observe=observed(world, AGENT))
    for checker in (NothingIsStartedTwice({AGENT: machine}), RunningPodsAreKept(), *at_rest(AGENT)):
        world.add_checker(checker)
    await _start_agent(world, partial(begin_agent, machine=machine))
    await world.apply(NODES, {"metadata": {"name": AGENT, "labels": DISK}})
    for number in range(world.scale):
        obj = _pod(f"p-{number}", world.rng.choice(tuple(SCRIPTS)))
        for nth, kind in enumerate(PROBES):
            if world.rng.random() < 0.5:
                obj["spec"]["containers"][0][kind] = _rare_probe(world, 8080 + nth)
        await world.apply(PODS, obj)
        await world.sleep(2 * world.rng.random())
        if number == world.scale // 2:
            await world.until(lambda: _are_admitted(world), within_s=120, what="the first pods are admitted")
            await world.apply(NODES, {"metadata": {"name": AGENT, "labels": dict.fromkeys(DISK)}})
            world.crash(AGENT, restart_after_s=1.0)
        if world.rng.random() < 0.3:
            await _delete_one(world)
    await world.heal_and_settle(quiet_s=20, within_s=600)


async def _start_agent(world: World, begin: Entry) -> None:
    world.process(
        AGENT, begin, account=node_user(AGENT), node=AGENT, driver="simulated", renew_s=2.0, status_s=3.0
    )
    await world.until(
        lambda: world.get("nodes", Key("", AGENT)) is not None, within_s=60, what="the node is registered"
    )


def _are_admitted(world: World) -> bool:
    first = [world.get("pods", Key("default", name)) for name in FIRST]
    return all(pod is None or lookup(pod, "status", "startTime") for pod in first)


def _pod(name: str, app: str) -> Obj:
    spec = pod_spec(node=AGENT)
    if name in FIRST:
        spec["nodeSelector"] = DISK
    if app == "ends":
        spec["restartPolicy"] = "Never"
    notes = {"fathom.dev/simulated": SCRIPTS[app]}
    return {"metadata": {"name": name, "labels": {"app": app}, "annotations": notes}, "spec": spec}


def _rare_probe(world: World, port: int) -> Obj:
    return {"tcpSocket": {"port": port}, "periodSeconds": world.rng.choice((3, 10, 20))}


async def _delete_one(world: World) -> None:
    pods = [pod for pod in world.list("pods") if not lookup(pod, "metadata", "deletionTimestamp")]
    if pods:
        pod = world.rng.choice(pods)
        await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod))
        # Somebody deletes it again, and would wait for longer.
        await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod), grace_s=60)


ALONE = {"fathom.dev/stop-when-alone-seconds": "30"}
# Heartbeats are refused, all else is answered.
UNHEARD: tuple[AnyFault, ...] = (
    Refuse(at_s=10.0, target=AGENT, match="/leases", for_s=70.0, times=10_000, status=500),
)


@scenario(Menu(processes=(AGENT,)), scripted=UNHEARD, checkers=lambda: [*at_home(), *at_rest(AGENT)])
async def stopped_while_unheard(world: World) -> None:
    """A pod that must not run on a node that nobody hears is stopped when the heartbeats are refused, and
    runs again when they are accepted, though nothing else has changed."""
    await _start_agent(world, begin_agent)
    meta = {"name": "careful", "annotations": ALONE}
    await world.apply(PODS, {"metadata": meta, "spec": pod_spec(node=AGENT)})
    await world.sleep(70)
    assert not _runs(world, "careful"), "nobody has heard the node for long, and the pod runs"
    await world.until(lambda: _runs(world, "careful"), within_s=120, what="the pod runs again")
    await world.heal_and_settle(quiet_s=20, within_s=600)


# Some of the agent's requests never arrive, and nobody tells it. The last one of a pod is its removal.
UNSENT: tuple[AnyFault, ...] = tuple(
    LoseRequest(at_s=at_s, target=AGENT, match=match)
    for at_s, match in ((6.0, "DELETE "), (10.0, "PATCH "), (14.0, "DELETE "), (24.0, "DELETE "))
)


@scenario(
    Menu(
        processes=(AGENT,),
        kinds=("/pods", "DELETE "),
        seconds=30,
        most=4,
        without=all_but("lose-request", "lose-reply", "slow-request", "refuse", "hold-watch", "crash"),
    ),
    scripted=UNSENT,
    checkers=lambda: [*at_home(), *at_rest(AGENT)],
    scale=8,
)
async def removed_though_requests_are_lost(world: World) -> None:
    """Pods end, or are deleted and stop, and requests of their agent are lost on the way, also the last one
    that removes a pod: every deleted pod goes, though nothing else happens to it."""
    await _start_agent(world, begin_agent)
    for number in range(world.scale):
        await world.apply(PODS, _pod(f"p-{number}", world.rng.choice(tuple(SCRIPTS))))
        await world.sleep(3 * world.rng.random())
        if number % 2:
            await _delete_one(world)
    await world.heal_and_settle(quiet_s=20, within_s=600)


# The agent dies after a write about a pod, whichever comes next: a start, a readiness, an end, a removal.
DIES_OFTEN: tuple[AnyFault, ...] = tuple(
    CrashAtWrite(at_s=2.0 + 1.5 * number, target=AGENT, match="/pods", times=1 + number % 2, for_s=0.7)
    for number in range(16)
)


@scenario(
    Menu(
        processes=(AGENT,),
        kinds=("/pods",),
        seconds=25,
        most=3,
        without=all_but("lose-request", "slow-reply", "hold-watch", "stop"),
    ),
    scripted=DIES_OFTEN,
    checkers=lambda: [*at_home(), *at_rest(AGENT)],
    scale=10,
)
async def restarted_after_each_write(world: World) -> None:
    """An agent dies again and again just after it has written about a pod, while pods start, end, are deleted
    and stop: the next one goes on from what is stored, and every deleted pod goes."""
    keeps = world.rng.random() < 0.5
    machine = SimulatedMachine(keeps_containers=keeps, observe=observed(world, AGENT))
    for checker in (NothingIsStartedTwice({AGENT: machine}), RunningPodsAreKept()) if keeps else ():
        world.add_checker(checker)
    await _start_agent(world, partial(begin_agent, machine=machine))
    for number in range(world.scale):
        await world.apply(PODS, _pod(f"pod-{number}", world.rng.choice(tuple(SCRIPTS))))
        await world.sleep(2 * world.rng.random())
        for _ in range(world.rng.randrange(3)):
            await _delete_one(world)
    await world.heal_and_settle(quiet_s=20, within_s=600)


def _runs(world: World, name: str) -> bool:
    pod = world.get("pods", Key("default", name))
    statuses = lookup(pod, "status", "containerStatuses") or ()
    return any(lookup(status, "state", "running") for status in statuses)


SCENARIOS: tuple[Scenario, ...] = (
    containers_outlive_their_agent,
    stopped_while_unheard,
    removed_though_requests_are_lost,
    restarted_after_each_write,
)
