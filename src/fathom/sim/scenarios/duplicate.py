"""Two reservations for one replica: the incident that the lesson on replay works through, step by step.

    1. Start with replica-042 pending.
    2. Commit the reservation's create, but return a timeout to the scheduler.
    3. Restart the leader before status is updated: its reads to find out do not get through.
    4. Delay the reservation watch for the new leader.
    5. Retry scheduling: the new leader's create takes a second to arrive.
    6. It must reuse, confirm or conflict with the first reservation instead of making another one.

Scheduler, repair and agent are the real ones. A replica reserves room only where it must preempt, so the node
is full with a pod of lower priority when it comes. The faults are scripted; the seed drives the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.control.lease import Timing
from fathom.control.ownership import owned
from fathom.controllers.repair.controller import RepairReservations
from fathom.kinds.reservation import GENERATION, SLOT
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import PODS, REPLICA_SETS
from fathom.sim.checkers.reservations import WaitedForStaysReserved
from fathom.sim.scenarios import preempting
from fathom.sim.scenarios.incident import LEADER, NEXT, REPAIR, tale
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.scheduling import CLASSES, LEASE, pod, run_scheduler
from fathom.sim.scenarios.staff import run_agent
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, LoseReply, LoseRequest, SlowRequest
from fathom.sim.world.invariants import RESERVATIONS, Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
# So short that the next leader takes over a second after the first one crashed.
TIMING = Timing(duration_s=1, renew_deadline_s=0.8, retry_s=0.2)
OURS = preempting.OURS
VICTIM_S = 4  # It uses its whole grace period, and ends while the next leader is still retrying.

SCRIPT: tuple[AnyFault, ...] = (
    LoseReply(at_s=0.0, target=LEADER, match=f"POST {OURS}", told_s=1.0),
    LoseRequest(at_s=0.0, target=LEADER, match=f"GET {OURS}/", times=99),
    HoldWatch(at_s=0.6, target=NEXT, match="/reservations", for_s=5.0),
    Crash(at_s=2.4, target=LEADER, for_s=1.5),
    SlowRequest(at_s=2.5, target=NEXT, match=f"POST {OURS}", delay_s=1.0),
    HoldWatch(at_s=3.0, target=REPAIR, match="/reservations", for_s=3.2),
)


def checkers() -> Sequence[Checker]:
    return [*preempting.checkers(), WaitedForStaysReserved()]


@scenario(
    Menu(processes=(LEADER, NEXT, REPAIR), kinds=("/reservations", "/pods"), seconds=6),
    scripted=SCRIPT,
    checkers=checkers,
    aftermath_s=3.0,
    tale=tale,
)
async def duplicate_reservation(world: World) -> None:
    """A reservation's create commits but its client sees a timeout, the leader restarts, and the next
    leader's watch is late: there is one reservation, and its pod runs."""
    run_controllers(world, REPAIR, RepairReservations)
    run_scheduler(world, LEADER, lease=LEASE, timing=TIMING)
    run_agent(world, NODE, capacity={"cpu": "4"})
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    workload = await world.apply(REPLICA_SETS, replica_set("risk-api", 1))
    await _wait_until(world, 0.25)  # By then the first scheduler has the lease.
    run_scheduler(world, NEXT, lease=LEASE, timing=TIMING)
    await world.apply(PODS, victim())
    await _wait_until(world, 0.65)  # The next one has listed everything; its watch is held from now on.
    await world.apply(PODS, replica(workload))
    await world.sleep(8)
    await world.heal_and_settle(quiet_s=preempting.QUIET_S)
    pod = world.get("pods", Key("default", "replica-042"))
    assert pod is not None
    assert lookup(pod, "status", "phase") == "Running", "replica-042 does not run"
    assert len(world.list(RESERVATIONS)) == 1


async def _wait_until(world: World, second: float) -> None:
    """Wait until this second of the scenario, so that its times match the lesson's however long the setup
    took."""
    await world.sleep(max(0.0, second - world.now_s))


def victim() -> Obj:
    """It has the whole node, runs at once, and takes long to stop."""
    batch = pod("batch-007", cpu="4")
    batch["metadata"]["annotations"] = {"fathom.dev/simulated": '{"image_s": 0, "start_s": 0, "stop_s": 60}'}
    batch["spec"] |= {"nodeName": NODE, "terminationGracePeriodSeconds": VICTIM_S}
    return batch


def replica(workload: Obj) -> Obj:
    """Half of what the victim frees: there would be room for a second reservation."""
    pending = pod("replica-042", cpu="2", labels={"app": "risk-api"}, high=True)
    pending["metadata"]["annotations"] = {SLOT: "42", GENERATION: "42"}
    return owned(pending, workload)


SCENARIOS: tuple[Scenario, ...] = (duplicate_reservation,)
