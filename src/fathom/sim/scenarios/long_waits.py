"""Somebody waits for longer than what he holds lasts: reservations are renewed, and what has expired holds
nothing; tokens end with their time, and with what they are bound to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fathom.client.api import Resource
from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of
from fathom.model.resources import PODS, SERVICE_ACCOUNTS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.reservations import NobodyIsBoundTooLate, WaitedForDoesNotExpire
from fathom.sim.scenarios import preempting
from fathom.sim.scenarios.failures import RESERVATIONS, reservation
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.own_requests import begin_deletion, until_committed
from fathom.sim.scenarios.preempting import KINDS, REPAIR, RIVAL, start_processes
from fathom.sim.scenarios.scheduling import SCHEDULERS
from fathom.sim.scenarios.staff import AGENT, all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Pause, SlowRequest
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

GRACE_S = 300  # Two and a half times as long as a reservation lasts.
REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
LASTS_S = 600  # The shortest that a token may last.


def waiting() -> Sequence[Checker]:
    return [*in_time(), WaitedForDoesNotExpire()]


def in_time() -> Sequence[Checker]:
    return [*preempting.guarded(), NobodyIsBoundTooLate()]


@scenario(
    Menu(
        processes=(*SCHEDULERS, RIVAL),
        kinds=KINDS,
        seconds=200,
        most=4,
        without=all_but("slow-reply", "slow-request", "lose-reply", "drop-watch", "crash"),
        clocks=(RIVAL,),  # A reservation of the others ends by their own clock, which is right here.
    ),
    checkers=waiting,
    timed=True,
)
async def reserved_for_long(world: World) -> None:
    """A victim takes five minutes to leave, while another scheduler looks for room: the reservation of the
    pod that waits is renewed in time, and the room goes to it."""
    await _begin_to_preempt(world, grace_s=GRACE_S)
    await world.until(
        lambda: is_deleting(world.get("pods", Key("default", "victim")) or {}),
        within_s=60,
        what="the victim is evicted",
    )
    await world.apply(PODS, preempting.pod_of("rival", cpu="4", rival=True))
    await world.sleep(GRACE_S)
    await _end_well(world)


# The bindings take longer than the reservation lasts, and repair sleeps meanwhile.
SLOW_BINDINGS: tuple[AnyFault, ...] = (
    Pause(at_s=9.0, target=REPAIR, for_s=200.0),
    SlowRequest(at_s=90.0, target=SCHEDULERS[0], match="bindingbatches", delay_s=100.0, times=99),
)


@scenario(Menu(processes=SCHEDULERS, kinds=KINDS), scripted=SLOW_BINDINGS, checkers=in_time)
async def bound_after_the_expiry(world: World) -> None:
    """A binding arrives when the reservation that it names has expired: the API server refuses it, and the
    pod gets its room by another."""
    await _begin_to_preempt(world, grace_s=100)
    await world.sleep(210)
    await _end_well(world)


async def _begin_to_preempt(world: World, *, grace_s: int) -> None:
    """A victim fills the only node, and a pod of higher priority comes."""
    await start_processes(world, full=False)
    victim = preempting.pod_of("victim", cpu="4", node="node-1")
    victim["spec"]["terminationGracePeriodSeconds"] = grace_s
    await world.apply(PODS, victim)
    await world.sleep(3.2 - world.now_s)
    await world.apply(PODS, preempting.pod_of("important", cpu="4", high=True))


async def _end_well(world: World) -> None:
    await world.heal_and_settle(quiet_s=preempting.QUIET_S, within_s=900)
    placed = lookup(world.get("pods", Key("default", "important")), "spec", "nodeName")
    assert placed == "node-1", placed


@scenario(Menu(processes=(REPAIR, *SCHEDULERS), kinds=KINDS, seconds=20, most=4), checkers=preempting.guarded)
async def reserved_for_a_namesake(world: World) -> None:
    """Room is reserved for a pod that is gone, and another pod, which fits nowhere, has taken its name: the
    room is given back."""
    await start_processes(world, full=False)
    first = await world.apply(PODS, preempting.pod_of("taken", cpu="64"))
    await world.apply(RESERVATIONS, reservation("kept", pod="taken", uid=uid_of(first)))
    await begin_deletion(world, PODS, first, grace_s=0)
    await world.apply(PODS, preempting.pod_of("taken", cpu="64"))
    await world.heal_and_settle(quiet_s=preempting.QUIET_S, within_s=900)


@scenario(Menu(processes=(AGENT,)), scripted=(Pause(at_s=0.0, target=AGENT),), checkers=at_home)
async def tokens_end(world: World) -> None:
    """A token is valid for its pod, and for its time: not for a pod that takes the name later, and not a
    second longer."""
    pod = await world.apply(PODS, {"metadata": {"name": "caller"}, "spec": pod_spec()})
    await world.until(
        lambda: world.get(SERVICE_ACCOUNTS.name, Key("default", "default")) is not None,
        within_s=60,
        what="the namespace has its service account",
    )
    bound = await _token(world, {"apiVersion": "v1", "kind": "Pod", "name": "caller", "uid": uid_of(pod)})
    free = await _token(world, None)
    assert await _is_valid(world, bound)
    await begin_deletion(world, PODS, pod, grace_s=0)
    assert not await _is_valid(world, bound), "the pod of the token is gone"
    await world.apply(PODS, {"metadata": {"name": "caller"}, "spec": pod_spec()})
    assert not await _is_valid(world, bound), "another pod has the name of the token's pod"
    await asyncio.sleep(LASTS_S - 10)
    assert await _is_valid(world, free)
    await asyncio.sleep(15)
    assert not await _is_valid(world, free), "the time of the token is over"


async def _token(world: World, bound: Obj | None) -> str:
    spec = {"expirationSeconds": LASTS_S, **({"boundObjectRef": bound} if bound else {})}
    request = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    granted = await until_committed(
        world, lambda: world.api.create(SERVICE_ACCOUNTS, "default", request, subresource="token")
    )
    return str(lookup(granted, "status", "token"))


async def _is_valid(world: World, token: str) -> bool:
    review = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token}}
    reviewed = await until_committed(world, lambda: world.api.create(REVIEWS, "", review))
    return bool(lookup(reviewed, "status", "authenticated"))


SCENARIOS: tuple[Scenario, ...] = (
    reserved_for_long,
    bound_after_the_expiry,
    reserved_for_a_namesake,
    tokens_end,
)
