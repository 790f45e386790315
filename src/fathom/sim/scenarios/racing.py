"""A rollback races repair: the event list of the lesson on replay, from a run of the real scheduler, policy
rollout and repair.

seed: 82219
00:01 admit risk-api generation 42
00:02 delay quota watch by 8 seconds
00:03 schedule replica-042
00:04 timeout binding write after commit
00:05 restart scheduler leader
00:07 rollback policy to v4
00:08 repair scans reservations

The faults are scripted; the seed drives the rest. Each line is from an event of the run, and what did not
happen has no line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fathom.control.lease import Timing
from fathom.control.ownership import owned
from fathom.controllers.repair.controller import RepairReservations
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of, with_metadata
from fathom.model.resources import NODES, PODS, REPLICA_SETS
from fathom.model.times import SECOND_NS
from fathom.schedule.policy_rollout.controller import PolicyRollouts
from fathom.sim.report.chronicle import (
    Chronicle,
    ChronicleEvent,
    CommitSeen,
    DecisionMade,
    FaultTookEffect,
    InputReceived,
    LogLine,
    ProcessChanged,
    RequestSent,
)
from fathom.sim.scenarios import preempting
from fathom.sim.scenarios.failures import RESERVATIONS as RESERVATION
from fathom.sim.scenarios.failures import reservation
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.scheduling import (
    CLASSES,
    LEASE,
    POLICIES,
    QUOTAS,
    ROLLOUTS,
    SCHEDULERS,
    node,
    own,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, LoseReply, LoseRequest
from fathom.sim.world.invariants import RESERVATIONS, Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

LEADER, NEXT = SCHEDULERS
REPAIR, ROLLING = "repair", "rollouts"
# So short that the next leader takes over a second after the first one crashed.
TIMING = Timing(duration_s=1, renew_deadline_s=0.8, retry_s=0.2)
REPLICA = "/api/v1/namespaces/default/pods/replica-042"
WORKLOAD, GENERATION = "risk-api", 42

SCRIPT: tuple[AnyFault, ...] = (
    HoldWatch(at_s=0.8, target=REPAIR, match="/reservations", for_s=7.3),
    HoldWatch(at_s=2.0, target=LEADER, match="/tenantquotas", for_s=8.0),
    LoseReply(at_s=3.0, target=LEADER, match="bindingbatches", told_s=0.4),
    LoseRequest(at_s=3.0, target=LEADER, match=f"GET {REPLICA}", times=99),  # It cannot find out.
    Crash(at_s=5.1, target=LEADER, for_s=4.0),
)


class HealthyCapacityStays(Checker):
    """Once a replica of the workload is healthy, there is always one."""

    name = "rollback never removes the only healthy capacity"

    def __init__(self) -> None:
        self._healthy: dict[str, None] = {}

    def commit(self, change: Seen) -> Found:
        obj = change.new or change.old
        if change.resource != "pods" or lookup(obj, "metadata", "labels", "app") != WORKLOAD:
            return None
        before = len(self._healthy)
        if change.new is not None and _is_healthy(change.new):
            self._healthy[change.path] = None
        else:
            self._healthy.pop(change.path, None)
        return f"{change.path} was the last healthy replica" if before and not self._healthy else None


def _is_healthy(obj: Obj) -> bool:
    return lookup(obj, "status", "phase") == "Running" and not is_deleting(obj)


def checkers() -> Sequence[Checker]:
    return [*preempting.checkers(), HealthyCapacityStays()]


def tale(chronicle: Chronicle, began_ns: int) -> Sequence[str]:
    """The caller fills in `{seed}`."""
    events = [event for event in chronicle.events if event.at_ns >= began_ns]
    lines = [(event, line) for find in LINES for event, line in _first(find, events, chronicle)]
    clock = ((event.at_ns - began_ns) // SECOND_NS for event, _ in lines)
    return [
        "seed: {seed}",
        *(f"{s // 60:02d}:{s % 60:02d} {text}" for s, (_, text) in zip(clock, lines, strict=True)),
    ]


Finder = Callable[[ChronicleEvent, Chronicle], str]


def _first(
    find: Finder, events: Sequence[ChronicleEvent], chronicle: Chronicle
) -> Iterator[tuple[ChronicleEvent, str]]:
    for event in events:
        if line := find(event, chronicle):
            yield event, line
            return


def _admitted(event: ChronicleEvent, _: Chronicle) -> str:
    if not isinstance(event, CommitSeen):
        return ""
    replica_sets = [
        change.entry.body.obj
        for change in event.changes
        if change.entry is not None and "/replicasets.apps/" in change.key
    ]
    numbers = [int(metadata(obj).get("generation") or 0) for obj in replica_sets]
    return f"admit {WORKLOAD} generation {GENERATION}" if GENERATION in numbers else ""


def _delayed(event: ChronicleEvent, _: Chronicle) -> str:
    if (
        isinstance(event, FaultTookEffect)
        and isinstance(event.fault, HoldWatch)
        and "quota" in event.fault.match
    ):
        return f"delay quota watch by {event.fault.for_s:.0f} seconds"
    return ""


def _scheduled(event: ChronicleEvent, _: Chronicle) -> str:
    named = (
        isinstance(event, DecisionMade)
        and event.process == LEADER
        and event.decision.subject.name == "replica-042"
    )
    return "schedule replica-042" if named else ""


def _timed_out(event: ChronicleEvent, chronicle: Chronicle) -> str:
    if not isinstance(event, InputReceived) or event.process != LEADER or event.cause < 0:
        return ""
    reply = chronicle.events[event.cause]
    return "timeout binding write after commit" if isinstance(reply, LogLine) and reply.status == 504 else ""


def _restarted(event: ChronicleEvent, _: Chronicle) -> str:
    died = isinstance(event, ProcessChanged) and event.process == LEADER and event.what == "dies"
    return "restart scheduler leader" if died else ""


def _rolled_back(event: ChronicleEvent, _: Chronicle) -> str:
    if not isinstance(event, CommitSeen):
        return ""
    for change in event.changes:
        if "/policyrollouts." not in change.key or change.entry is None or change.previous is None:
            continue
        before, after = (
            lookup(entry.body.obj, "status", "canary") for entry in (change.previous, change.entry)
        )
        if before == "v5" and after != "v5":
            return "rollback policy to v4"
    return ""


def _scanned(event: ChronicleEvent, _: Chronicle) -> str:
    if not isinstance(event, RequestSent) or event.process != REPAIR or event.method != "GET":
        return ""
    return "repair scans reservations" if event.target.startswith(REPLICA) else ""


LINES: tuple[Finder, ...] = (
    _admitted, _delayed, _scheduled, _timed_out, _restarted, _rolled_back, _scanned,
)  # fmt: skip


@scenario(
    Menu(
        processes=(LEADER, NEXT, REPAIR, ROLLING),
        kinds=("/pods", "/reservations", "bindingbatches"),
        seconds=9,
        # Not the leader's: by its clock it writes when its reservation ends. If that is minutes behind, the
        # reservation has ended for everybody else when it is stored, and the pod is bound without it.
        clocks=(NEXT, REPAIR, ROLLING),
    ),
    scripted=SCRIPT,
    checkers=checkers,
    aftermath_s=3.0,
    tale=tale,
)
async def rollback_races_repair(world: World) -> None:
    """A binding commits but its scheduler sees a timeout and crashes, the policy that it was decided under is
    rolled back, and repair scans the reservations: one binding, one reservation, no healthy replica is
    lost."""
    workload = await _set_up(world)
    await _wait_until(world, 1.05)
    admitted = await world.apply(REPLICA_SETS, _sized(GENERATION))
    assert metadata(admitted)["generation"] == GENERATION, metadata(admitted)
    await _wait_until(world, 2.1)
    await world.apply(QUOTAS, quota("default", cpu="24"))  # The leader does not see this,
    await world.apply(
        ROLLOUTS, own("PolicyRollout", "v5", _rollout())
    )  # so it cannot report that it has seen the rollout.
    await _wait_until(world, 3.05)
    await world.apply(PODS, _replica("replica-042", workload))
    await _wait_until(world, 6.4)
    await world.apply(NODES, node("node-4", zone="a", more={"cpu": "5"}))
    await _wait_until(world, 6.5)
    # It waits because of policy v5: the node with room is in the zone that has two replicas already.
    await world.apply(PODS, _replica("replica-043", workload))
    await _wait_until(world, 11.0)
    await world.heal_and_settle(quiet_s=preempting.QUIET_S, within_s=900)
    placed = {str(metadata(obj)["name"]): lookup(obj, "spec", "nodeName") for obj in world.list("pods")}
    assert placed == {
        "other": "node-3",
        "replica-041": "node-2",
        "replica-042": "node-1",
        "replica-043": "node-4",
    }, placed
    phases = {uid_of(obj): lookup(obj, "status", "phase") for obj in world.list(RESERVATIONS)}
    assert list(phases.values()) == ["Bound"], phases
    status = lookup(world.get(ROLLOUTS.name, Key("", "v5")), "status")
    assert (status["active"], status["phase"]) == ("v4", "RolledBack"), status


async def _set_up(world: World) -> Obj:
    """One healthy replica, one node that another pod fills, a zone that is full, a policy on trial, and a
    leaked reservation."""
    run_controllers(world, REPAIR, RepairReservations)
    run_scheduler(world, LEADER, lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    run_controllers(world, ROLLING, PolicyRollouts)
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    await world.apply(QUOTAS, quota("default", cpu="16"))
    for name, zone in (("node-1", "a"), ("node-2", "a"), ("node-3", "b")):
        await world.apply(NODES, node(name, zone=zone, more={"cpu": "5"}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v4", {}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v5", {"maxZoneSkew": 2}))
    other = pod("other", cpu="4", high=True)
    other["spec"]["nodeName"] = "node-3"
    await world.apply(PODS, other)
    workload = await world.apply(REPLICA_SETS, _sized(1))
    await world.apply(PODS, _replica("replica-041", workload, node="node-2"))
    batch = pod("batch", cpu="4")
    batch["spec"] |= {"nodeName": "node-1", "terminationGracePeriodSeconds": 1}
    await world.apply(PODS, batch)
    for generation in range(2, GENERATION):
        await world.apply(REPLICA_SETS, _sized(generation))
    run_scheduler(world, NEXT, lease=LEASE, timing=TIMING)
    await _wait_until(world, 0.9)
    await world.api.create(RESERVATION, "default", reservation("leaked", pod="replica-040", uid="gone"))
    return workload


def _rollout() -> Obj:
    """Judged when the schedulers have seen it: the second leader is the first that has."""
    return {
        "from": "v4",
        "to": "v5",
        "steps": [{"percent": 100, "hold": "10m"}],
        "scope": {"workloads": [WORKLOAD]},
        "gates": {"noPendingRegression": True, "observedBy": ["scheduler"]},
    }


def _sized(generation: int) -> Obj:
    """Each generation differs from the one before, so that the server increments it."""
    obj = replica_set(WORKLOAD, 2)
    obj["spec"]["minReadySeconds"] = generation
    return obj


def _replica(name: str, workload: Obj, *, node: str = "") -> Obj:
    obj = with_metadata(
        pod(name, cpu="4", labels={"app": WORKLOAD}, high=True),
        annotations={"fathom.dev/slot": name[-2:], "fathom.dev/generation": str(GENERATION)},
    )
    if node:
        obj["spec"]["nodeName"] = node
    return owned(obj, workload)


async def _wait_until(world: World, second: float) -> None:
    """Wait until this second of the scenario, so that its times match the lesson's however long the setup
    took."""
    await world.sleep(max(0.0, second - world.now_s))


SCENARIOS: tuple[Scenario, ...] = (rollback_races_repair,)
