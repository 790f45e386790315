"""Pods of higher priority preempt others, which take their time to leave, while another scheduler looks for
room too: reserved room goes only to its pod, and in the end no reservation is left without one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fathom.controllers.repair.controller import RepairReservations
from fathom.model.conditions import DISRUPTION_TARGET, is_true
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import NODES, PODS, RESOURCE_QUOTAS
from fathom.sim.checkers.capacity import held
from fathom.sim.checkers.reservations import WaitedForStaysReserved
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.scheduling import (
    CLASSES,
    LEASE,
    QUOTAS,
    SCHEDULERS,
    node,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, LoseReply, LoseRequest, SlowRequest
from fathom.sim.world.invariants import RESERVATIONS, Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

RIVAL, REPAIR = "rival", "repair"
KINDS = ("/pods", "/reservations", "/nodes", "bindingbatches")
OURS = "/apis/fathom.dev/v1alpha1/namespaces/default/reservations"
GRACE_S = 6  # Victims use all of it.
# Longer than a void reservation is kept plus a scan: what is left then is never removed.
QUIET_S = 90.0
# So long that leaders change between eviction and reservation.
RESTART_S = 8.0
CPU_MILLI = 4000  # Of each node.


class NothingIsHeldForNobody(Checker):
    """When settled: every active reservation belongs to a pod that exists and waits for it."""

    name = "repair removes every orphan"

    def settled(self, world: World) -> Iterable[str | Finding]:
        waiting = {uid_of(obj) for obj in world.list("pods") if not lookup(obj, "spec", "nodeName")}
        for reservation in world.list(RESERVATIONS):
            name, phase = metadata(reservation)["name"], lookup(reservation, "status", "phase") or ""
            holder = lookup(reservation, "metadata", "annotations", "fathom.dev/pod-uid")
            if phase in {"", "Active"} and holder not in waiting:
                yield Finding(
                    f"{name} holds room, but no pod waits for it",
                    (f"{RESERVATIONS}/{metadata(reservation)['namespace']}/{name}",),
                )


class VictimsAreLesser(Checker):
    """A scheduler evicts a pod only when a pod of higher priority waits, or has waited when the eviction was
    sent: that may arrive much later. It was begun when the victim's condition was sent, which is the request
    before it. And when settled, no pod waits that preemption would let in."""

    name = "preemption is for pods of higher priority"

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}  # UID -> priority.
        # Until when, and the priority, of those that were bound or are gone.
        self._waited: list[tuple[float, int]] = []
        self._marked: dict[tuple[str, str], float] = {}  # Victim's UID, who marked it -> when that was sent.

    def commit(self, change: Seen) -> Found:
        if change.resource != "pods":
            return None
        violation = self._unjustified_eviction(change)
        if _is_marked(change.new) and not _is_marked(change.old):
            self._marked[uid_of(change.new or {}), change.by] = _sent_s(change)
        uids = dict.fromkeys(uid_of(obj) for obj in (change.old, change.new) if obj is not None)
        ended = [self._waiting.pop(uid) for uid in uids if uid in self._waiting]
        if change.new is not None and not lookup(change.new, "spec", "nodeName"):
            self._waiting[uid_of(change.new)] = _priority(change.new)
        else:
            self._waited += [(change.at_s, priority) for priority in ended]
        return violation

    def _unjustified_eviction(self, change: Seen) -> Found:
        goes = change.new is None or is_deleting(change.new)
        if change.old is None or is_deleting(change.old) or not goes or change.by not in (*SCHEDULERS, RIVAL):
            return None
        begun_s = min(_sent_s(change), self._marked.get((uid_of(change.old), change.by), math.inf))
        waited = (priority for until_s, priority in self._waited if until_s >= begun_s)
        if any(priority > _priority(change.old) for priority in (*self._waiting.values(), *waited)):
            return None
        return f"{change.by} evicted {change.key.name} while no pod of higher priority waited"

    def settled(self, world: World) -> Iterable[str | Finding]:
        pods = world.list("pods")
        for waiting in pods:
            if lookup(waiting, "spec", "nodeName") or is_deleting(waiting):
                continue
            for name in [str(metadata(obj)["name"]) for obj in world.list("nodes")]:
                stay = [held("pods", peer) for peer in pods if _priority(peer) >= _priority(waiting)]
                kept = sum(usage[2].get("cpu", 0) for usage in stay if usage is not None and usage[0] == name)
                on_node = [peer for peer in pods if lookup(peer, "spec", "nodeName") == name]
                if kept + _cpu_milli(waiting) <= CPU_MILLI and any(
                    _priority(peer) < _priority(waiting) for peer in on_node
                ):
                    path = "/".join(("pods", *key_of(waiting)))
                    yield Finding(f"{path} waits although pods of lower priority are on {name}", (path,))


def _sent_s(change: Seen) -> float:
    return change.at_s if change.sent_s is None else change.sent_s


def _is_marked(pod: Obj | None) -> bool:
    return pod is not None and is_true(pod, DISRUPTION_TARGET)


def _priority(pod: Obj) -> int:
    return int(lookup(pod, "spec", "priority") or 0)


def _cpu_milli(pod: Obj) -> int:
    usage = held("pods", {**pod, "spec": {**pod["spec"], "nodeName": "anywhere"}})
    return usage[2].get("cpu", 0) if usage is not None else 0


def checkers() -> Sequence[Checker]:
    return [*scheduling.checkers(), NothingIsHeldForNobody(), VictimsAreLesser()]


def guarded() -> Sequence[Checker]:
    """Also checks that repair releases no reservation too early, whether or not that has consequences."""
    return [*checkers(), WaitedForStaysReserved()]


@scenario(
    Menu(processes=(*SCHEDULERS, RIVAL, REPAIR, AGENT), kinds=KINDS, seconds=25, most=8),
    checkers=guarded,
    scale=16,
)
async def preemption(world: World) -> None:
    """All nodes are full when pods of higher priority come; victims leave slowly, another scheduler competes
    for the room, leaders crash: reserved room goes to its pod, and no reservation is left behind."""
    await _preempt_at_random(world)


@scenario(
    Menu(
        processes=(*SCHEDULERS, REPAIR),
        kinds=("/reservations", "/pods"),
        seconds=25,
        most=6,
        without=all_but("crash", "hold-watch", "lose-reply", "slow-reply"),
    ),
    checkers=guarded,
    scale=16,
)
async def preemption_handed_over(world: World) -> None:
    """Pods preempt others while leaders crash with requests under way and repair is behind: reserved room
    goes to its pod, and no reservation is left behind."""
    await _preempt_at_random(world)


@scenario(
    Menu(
        processes=(*SCHEDULERS, RIVAL, REPAIR, AGENT),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        seconds=25,
        most=8,
    ),
    servers=2,
    checkers=guarded,
    scale=16,
)
async def preemption_behind_two_servers(world: World) -> None:
    """Pods preempt others behind two API servers, of which one may be far behind: reserved room goes to its
    pod, and no reservation is left behind."""
    await _preempt_at_random(world, servers=2)


async def _preempt_at_random(world: World, *, servers: int = 1) -> None:
    await start_processes(world, servers=servers)
    # Far more than they need: it counts them, and what is reserved for them.
    plenty = {"pods": "500", "requests.cpu": "500"}
    await world.apply(RESOURCE_QUOTAS, {"metadata": {"name": "plenty"}, "spec": {"hard": plenty}})
    for number in range(world.scale):
        await world.sleep(2.5 * world.rng.random())
        action = world.rng.choice(("high", "high", "rival", "rival", "low", "delete"))
        if action == "delete":
            await scheduling.delete_some(world)
            continue
        cpu = world.rng.choice(("1", "2", "3"))
        await world.apply(
            PODS, pod_of(f"{action}-{number}", cpu=cpu, high=action == "high", rival=action == "rival")
        )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


# The victims are evicted; the leader crashes before it can reserve the room.
EVICTED: tuple[AnyFault, ...] = (
    LoseRequest(at_s=0.0, target=SCHEDULERS[0], match=f"POST {OURS}", times=99),
    HoldWatch(at_s=3.0, target=RIVAL, match="/reservations", for_s=20.0),
    Crash(at_s=4.0, target=SCHEDULERS[0], for_s=RESTART_S),
)


@scenario(Menu(processes=SCHEDULERS, kinds=KINDS), scripted=EVICTED, checkers=checkers)
async def evicted_and_not_yet_reserved(world: World) -> None:
    """The leader evicts a victim and crashes before it reserves the room: the next leader reserves it, and
    the rival scheduler, which has not heard of that, is refused. One victim for one pod."""
    await one_victim(world, grace_s=20)


# The reservation is created, its scheduler never learns, and crashes; the next leader receives no events of
# reservations.
NOT_TOLD: tuple[AnyFault, ...] = (
    LoseReply(at_s=0.0, target=SCHEDULERS[0], match=f"POST {OURS}", told_s=1.0),
    LoseRequest(at_s=0.0, target=SCHEDULERS[0], match=f"GET {OURS}/", times=99),
    HoldWatch(at_s=3.0, target=SCHEDULERS[1], match="/reservations", for_s=20.0),
    Crash(at_s=5.0, target=SCHEDULERS[0], for_s=RESTART_S),
)


@scenario(Menu(processes=SCHEDULERS, kinds=KINDS), scripted=NOT_TOLD, checkers=checkers)
async def reserved_and_not_told(world: World) -> None:
    """The leader creates a reservation, never learns of it and crashes: the next leader asks for the same
    name and meets it. There is one reservation, though there is room for two."""
    await one_victim(world, grace_s=20, cpu="2")


# Repair has not heard of the pod, the scheduler receives no events of reservations, and its binding is slow.
DEAF_REPAIR: tuple[AnyFault, ...] = (
    HoldWatch(at_s=2.0, target=REPAIR, match="/api/v1/pods", for_s=20.0),
    HoldWatch(at_s=3.0, target=SCHEDULERS[0], match="/reservations", for_s=20.0),
    SlowRequest(at_s=4.0, target=SCHEDULERS[0], match="bindingbatches", delay_s=1.0),
)


@scenario(Menu(processes=(*SCHEDULERS, REPAIR), kinds=KINDS), scripted=DEAF_REPAIR, checkers=checkers)
async def reserved_while_repair_is_deaf(world: World) -> None:
    """Repair has not heard of a pod whose binding is under way: it asks the API server for the pod, and
    leaves its reservation alone."""
    await one_victim(world, grace_s=GRACE_S)


async def one_victim(world: World, *, grace_s: int, cpu: str = "4") -> None:
    """A victim fills the only node; a pod of higher priority comes, and then a rival for its room."""
    await start_processes(world, full=False)
    victim = pod_of("victim", cpu="4", node="node-1")
    victim["spec"]["terminationGracePeriodSeconds"] = grace_s
    await world.apply(PODS, victim)
    await world.sleep(3.2 - world.now_s)
    await world.apply(PODS, pod_of("important", cpu=cpu, high=True))
    await world.sleep(0.5)
    assert lookup(world.get("pods", Key("default", "victim")), "metadata", "deletionTimestamp")
    await world.sleep(4)
    await world.apply(PODS, pod_of("rival", cpu="4", rival=True))
    await world.sleep(grace_s)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    placed = {metadata(obj)["name"]: lookup(obj, "spec", "nodeName") for obj in world.list("pods")}
    assert placed.get("important") == "node-1", placed
    assert not placed.get("rival"), placed
    if "rival" not in placed:
        return  # A scheduler that is starved long enough loses the room to the rival, and preempts it.
    reservations = [
        (lookup(obj, "spec", "nodeName"), lookup(obj, "status", "phase")) for obj in world.list(RESERVATIONS)
    ]
    assert reservations == [("node-1", "Bound")], reservations


async def start_processes(world: World, *, full: bool = True, servers: int = 1) -> None:
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
        await world.sleep(0.3)  # So that the first one leads.
    run_scheduler(world, RIVAL, server=servers, names=(RIVAL,))
    run_controllers(world, REPAIR, RepairReservations, server=servers)
    run_controllers(world, AGENT, SimulatedNodes)
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    await world.apply(QUOTAS, quota("default", cpu="40"))
    for number in range(1, scheduling.NODE_COUNT + 1) if full else (1,):
        await world.apply(NODES, node(f"node-{number}"))
        if full:
            for letter in ("a", "b"):
                await world.apply(PODS, pod_of(f"old-{number}-{letter}", cpu="2", node=f"node-{number}"))


def pod_of(name: str, *, cpu: str, high: bool = False, rival: bool = False, node: str = "") -> Obj:
    obj = pod(name, cpu=cpu, high=high)
    obj["spec"]["terminationGracePeriodSeconds"] = GRACE_S
    if node:
        obj["spec"]["nodeName"] = node
    if rival:
        obj["spec"]["schedulerName"] = RIVAL
    return obj


SCENARIOS: tuple[Scenario, ...] = (
    preemption,
    preemption_handed_over,
    preemption_behind_two_servers,
    evicted_and_not_yet_reserved,
    reserved_and_not_told,
    reserved_while_repair_is_deaf,
)
