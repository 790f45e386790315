"""Answers that come late: the scheduler does not believe what is over by then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.control.worlds import told

from fathom.client.outcomes import Committed
from fathom.model.conditions import DISRUPTION_TARGET, is_true
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, uid_of
from fathom.model.resources import NODES, PODS
from fathom.schedule.loop.state import SchedulerState
from fathom.schedule.loop.watched_kinds import RESERVATION
from fathom.sim.scenarios.preempting import OURS
from fathom.sim.scenarios.scheduling import CLASSES, QUOTAS, node, pod, quota, run_scheduler
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.faults import AnyFault, HoldWatch, LoseReply, Refuse, SlowReply, SlowRequest
from fathom.sim.world.invariants import RESERVATIONS
from fathom.sim.world.world import World

HIGH = Key("default", "important")
LATE_S = 6.0
SLOW_CREATE = SlowReply(at_s=0.0, target="scheduler", match=f"POST {OURS}", delay_s=LATE_S)


def desk_of(world: World) -> SchedulerState:
    state = world.state("scheduler").scheduler._state  # type: ignore[attr-defined]  # Its own.
    assert isinstance(state, SchedulerState)
    return state


def believed(world: World) -> tuple[list[str], list[str]]:
    """Whom the scheduler takes something to be reserved for, and who claims room in its table."""
    known = desk_of(world).known
    return sorted(known.held_for), sorted(known.table.claims)


async def begun(world: World) -> None:
    """A node is full of pods that take long to leave, and an important pod waits for their room."""
    run_scheduler(world, "scheduler")
    run_controllers(world, "agent", SimulatedNodes)
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    await world.apply(QUOTAS, quota("default", cpu="40"))
    await world.apply(NODES, node("node-1"))
    victim = pod("victim", cpu="4")
    victim["spec"] |= {"terminationGracePeriodSeconds": 60, "nodeName": "node-1"}
    await world.apply(PODS, victim)
    await world.sleep(2)
    await world.apply(PODS, pod("important", cpu="4", high=True))
    await world.until(lambda: bool(world.list(RESERVATIONS)), within_s=4, what="its room is reserved")


async def give_back(world: World) -> None:
    """As repair does, or a person."""
    (held,) = world.list(RESERVATIONS)
    assert isinstance(
        await world.api.delete(RESERVATION.resource, *key_of(held), uid=uid_of(held)), Committed
    )
    await world.sleep(0.5)  # The scheduler hears of it, and still has no answer to its create.
    assert believed(world)[0] == []


def test_a_reservation_that_is_gone_when_its_create_is_answered_is_not_believed_in() -> None:
    async def story(world: World) -> None:
        await begun(world)
        await give_back(world)
        await world.sleep(LATE_S + 1)
        uid = uid_of(world.get("pods", HIGH) or {})
        assert world.list(RESERVATIONS) == []
        assert believed(world) == ([], [uid])  # The nomination is there still, and no more than that.

    told(story, faults=[SLOW_CREATE])


def test_a_pod_that_is_gone_when_its_create_is_answered_leaves_no_claim() -> None:
    async def story(world: World) -> None:
        await begun(world)
        await give_back(world)
        await world.delete(PODS, "important")
        await world.sleep(LATE_S + 30)
        assert believed(world) == ([], [])

    lost = LoseReply(at_s=0.0, target="scheduler", match=f"DELETE {OURS}", told_s=1.0, times=99)
    told(story, faults=[SLOW_CREATE, lost])


def test_a_pod_that_is_gone_leaves_no_reservation_whose_create_is_answered_late() -> None:
    async def story(world: World) -> None:
        await begun(world)
        await world.delete(PODS, "important")
        await world.sleep(LATE_S + 5)
        assert world.list(RESERVATIONS) == []
        assert believed(world) == ([], [])

    told(story, faults=[SLOW_CREATE])


def test_a_reservation_that_could_not_be_given_back_is_still_counted() -> None:
    async def story(world: World) -> None:
        await begun(world)
        await world.sleep(1)
        await world.apply(NODES, node("node-2"))
        there = "node-2"
        await world.until(
            lambda: lookup(world.get("pods", HIGH), "spec", "nodeName") == there,
            within_s=30,
            what="it has room",
        )
        await world.sleep(3)
        (held,) = world.list(RESERVATIONS)  # Nobody could delete it.
        holder = "/".join(("reservation", *key_of(held)))
        assert believed(world) == ([uid_of(world.get("pods", HIGH) or {})], [holder])

    told(story, faults=[Refuse(at_s=0.0, target="scheduler", match=f"DELETE {OURS}", times=99, status=429)])


# Victims of a pod that does not need their room any more.

NO_EVENTS = HoldWatch(at_s=2.5, target="scheduler", match="/api/v1/pods", for_s=LATE_S + 5)
NOMINATE = "PATCH /api/v1/namespaces/default/pods/important/status"
MARK = "PATCH /api/v1/namespaces/default/pods/victim/status"
LATE = SlowRequest(at_s=0.0, target="scheduler", match=NOMINATE, delay_s=LATE_S)
NEVER_ANSWERED = LoseReply(at_s=0.0, target="scheduler", match=NOMINATE, told_s=LATE_S)
MARKED_LATE = SlowRequest(at_s=0.0, target="scheduler", match=MARK, delay_s=LATE_S)


async def victim_after(world: World, change: Callable[[World], Awaitable[None]]) -> Obj:
    """The victim, when the answer that the scheduler waits for has come; `change` happens before that."""
    run_scheduler(world, "scheduler")
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    await world.apply(QUOTAS, quota("default", cpu="40"))
    await world.apply(NODES, node("node-1"))
    await world.apply(PODS, bound("victim", "node-1"))
    await world.sleep(2 - world.now_s)
    await world.apply(PODS, pod("important", cpu="4", high=True))
    await world.sleep(1)
    await change(world)
    await world.sleep(LATE_S + 1)
    victim = world.get("pods", Key("default", "victim"))
    assert victim is not None
    return victim


def bound(name: str, node: str, *, high: bool = False) -> Obj:
    obj = pod(name, cpu="4", high=high)
    obj["spec"] |= {"nodeName": node, "terminationGracePeriodSeconds": 60}
    return obj


async def goes(world: World) -> None:
    await world.delete(PODS, "important")


async def is_replaced(world: World) -> None:
    await world.apply(NODES, node("node-2"))
    await goes(world)
    await world.apply(PODS, bound("important", "node-2", high=True))


async def is_bound(world: World) -> None:
    await world.apply(NODES, node("node-2"))
    binding = {"metadata": {"name": "important"}, "target": {"kind": "Node", "name": "node-2"}}
    outcome = await world.api.create(PODS, "default", binding, "binding")
    assert isinstance(outcome, Committed), outcome


async def waits(world: World) -> None:
    await world.sleep(0)


@pytest.mark.parametrize("change", [goes, is_replaced, is_bound])
@pytest.mark.parametrize(
    "faults",
    [[LATE, NO_EVENTS], [NEVER_ANSWERED, NO_EVENTS], [MARKED_LATE]],
    ids=["nominated late", "nomination never answered", "victim marked late"],
)
def test_nobody_is_evicted_for_a_pod_that_does_not_wait_any_more(
    change: Callable[[World], Awaitable[None]], faults: list[AnyFault]
) -> None:
    async def story(world: World) -> None:
        victim = await victim_after(world, change)
        assert not is_deleting(victim)
        assert not is_true(victim, DISRUPTION_TARGET)

    told(story, faults=faults)


@pytest.mark.parametrize(
    "fault",
    [LATE, NEVER_ANSWERED, MARKED_LATE, Refuse(at_s=0.0, target="scheduler", match=NOMINATE, status=409)],
    ids=["nominated late", "nomination never answered", "victim marked late", "nomination refused"],
)
def test_the_victim_of_a_pod_that_still_waits_is_evicted(fault: AnyFault) -> None:
    async def story(world: World) -> None:
        victim = await victim_after(world, waits)
        assert is_deleting(victim)
        assert is_true(victim, DISRUPTION_TARGET)

    told(story, faults=[fault, NO_EVENTS])
