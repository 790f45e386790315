"""Policies are rolled out while the controller that judges the rollout, and the schedulers that carry it out,
are blind, behind or down: no step ends before it was observed for as long as it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from zlib import crc32

import msgspec

from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import LEASES, NODES, PODS
from fathom.schedule.policy_rollout.controller import PolicyRollouts
from fathom.sim.checkers.leaders import FENCES
from fathom.sim.scenarios.scheduling import (
    POLICIES,
    ROLLOUTS,
    checkers,
    delete_some,
    node,
    own,
    pod,
    run_scheduler,
)
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, HoldWatch, Refuse
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

MANAGERS = ("rollouts-1", "rollouts-2")
SHARDS = ("scheduler-0of2", "scheduler-1of2")
HOLD_S = 20.0
SHORT_S = 3.0  # Shorter than a scheduler may be behind.
BLIND_S = 60.0
ALLOWED_S = 30.0  # The age that signals may have, by default.
# No step begins while a cache is behind, and a watch that is silent from its first moment, after a list in
# pages, is waited for a minute and a half.
QUIET_S = 100.0


class StepsAreLookedAt(Checker):
    """Counts for itself: a step lasts as long as it says, and ends only when every scheduler that has ever
    reported has reported this step."""

    name = "every scheduler sees a rollout step before the next one"
    resources = frozenset({ROLLOUTS.name})

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._began_s: dict[int, float] = {}  # Step -> when.

    def commit(self, change: Seen) -> Found:
        old, new = _status(change.old), _status(change.new)
        step = int(new.get("step") or 0)
        if new.get("phase") != "RolledBack":
            self._began_s.setdefault(step, change.at_s)
        if step <= int(old.get("step") or 0) or new.get("phase") == "RolledBack":
            return None
        lasted_s = change.at_s - self._began_s.get(step - 1, change.at_s)
        if lasted_s < self._hold_s - 1.0:  # Its times are whole seconds.
            return f"step {step - 1} ended after {lasted_s:.1f} s"
        activation = int(old.get("activationRevision") or 0)
        behind = [
            observer
            for observer in old.get("observedBy") or ()
            if int(observer.get("revision") or 0) < activation
        ]
        return f"step {step - 1} ended before {behind[0]['controller']} had seen it" if behind else None


def _status(rollout: Obj | None) -> Obj:
    return lookup(rollout, "status") or {}


def judged() -> Sequence[Checker]:
    return [*checkers(), StepsAreLookedAt(HOLD_S)]


def judged_soon() -> Sequence[Checker]:
    return [*checkers(), StepsAreLookedAt(SHORT_S)]


@scenario(
    Menu(processes=(*MANAGERS, *SHARDS), kinds=("/pods", "/nodes", "/policyrollouts"), seconds=25, most=8),
    checkers=judged_soon,
)
async def policy_rollout_by_two_schedulers(world: World) -> None:
    """A policy is rolled out while two schedulers share the tenants: no step begins before both have seen the
    one before, and the rollout completes."""
    await _start_rollout(world, hold_s=SHORT_S)
    await world.sleep(25)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    status = _status(world.get(ROLLOUTS.name, Key("", "canary")))
    assert (status.get("phase"), status.get("active")) == ("Complete", "v5"), status


# For a minute the leader receives no events of pods, and its requests for them are refused.
BLIND: tuple[AnyFault, ...] = tuple(
    fault
    for name in MANAGERS
    for fault in (
        HoldWatch(at_s=8.0, target=name, match="/api/v1/pods", for_s=BLIND_S),
        Refuse(at_s=8.0, target=name, match="/api/v1/pods", for_s=BLIND_S, times=10_000),
    )
)


@scenario(Menu(processes=MANAGERS, kinds=("/pods",)), scripted=BLIND, checkers=judged)
async def policy_rollout_with_stale_signals(world: World) -> None:
    """A policy rollout cannot tell for a minute whether pods are waiting: that time does not count towards
    the hold of a step."""
    await _start_rollout(world, hold_s=HOLD_S)
    began_s = world.now_s
    await world.until(lambda: _phase(world) == "Complete", within_s=300, what="the rollout completes")
    least_s = 2 * HOLD_S + BLIND_S - ALLOWED_S - 5.0
    assert world.now_s - began_s >= least_s, (
        f"the rollout took {world.now_s - began_s:.0f} s, less than {least_s:.0f} s"
    )


# From the beginning of the first step.
BLIND_AT_ONCE: tuple[AnyFault, ...] = tuple(msgspec.structs.replace(fault, at_s=6.0) for fault in BLIND)


@scenario(Menu(processes=MANAGERS, kinds=("/pods",)), scripted=BLIND_AT_ONCE, checkers=judged)
async def policy_rollout_that_sees_nothing(world: World) -> None:
    """A policy rollout is blind from its first second on, for a minute: when it sees again, its first step
    begins to count."""
    await _start_rollout(world, hold_s=HOLD_S, signals_max_age="4s")
    sees_s = 6.0 + BLIND_S
    await world.until(
        lambda: int(_status(world.get(ROLLOUTS.name, Key("", "canary"))).get("step") or 0) > 0,
        within_s=300,
        what="the first step ends",
    )
    least_s = sees_s + HOLD_S - 8.0
    assert world.now_s >= least_s, f"the first step ended after {world.now_s:.0f} s, before {least_s:.0f} s"
    await world.until(lambda: _phase(world) == "Complete", within_s=300, what="the rollout completes")


LEASED = "scheduler-leased"
LEASE = "fathom-system/scheduler"


class ObservedInThisTerm(Checker):
    """At rest: what a scheduler has observed of a rollout is of its present term."""

    name = "a rollout is observed in the present term"
    patience_s = 60.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        epochs = {f"fathom-system/{metadata(each)['name']}": each["epoch"] for each in world.list(FENCES)}
        for rollout in world.list(ROLLOUTS.name):
            for entry in _status(rollout).get("observedBy") or ():
                lease = str(entry.get("lease") or "")
                if lease and entry.get("epoch") != epochs.get(lease):
                    yield f"{entry['controller']} observed it in epoch {entry['epoch']}, now is {epochs}"


@scenario(
    Menu(processes=(LEASED,), seconds=20, most=2, without=all_but("slow-reply", "slow-request")),
    checkers=lambda: [*checkers(), ObservedInThisTerm()],
    timed=True,
)
async def policy_rollout_observed_anew(world: World) -> None:
    """The scheduler that has observed a policy rollout loses its lease and gets it again: it says anew what
    it has observed, in its new term."""
    await world.apply(NODES, node("node-1"))
    for name in ("v4", "v5"):
        await world.apply(POLICIES, own("SchedulingPolicy", name, {}))
    run_scheduler(world, LEASED, lease=LEASE, timing=TIMING)
    run_controllers(world, MANAGERS[0], PolicyRollouts, lease="fathom-system/rollouts", timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    steps = [{"percent": 50, "hold": "10s"}]
    await world.apply(ROLLOUTS, own("PolicyRollout", "canary", {"from": "v4", "to": "v5", "steps": steps}))
    for _ in range(3):
        await world.sleep(12)
        namespace, name = LEASE.split("/")
        await world.api.patch(LEASES, namespace, name, {"spec": {"holderIdentity": None}})
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _start_rollout(world: World, *, hold_s: float, signals_max_age: str = "") -> None:
    for name in ("node-1", "node-2"):
        await world.apply(NODES, node(name))
    for name in ("v4", "v5"):
        await world.apply(POLICIES, own("SchedulingPolicy", name, {}))
    for number, name in enumerate(SHARDS):
        run_scheduler(world, name, shard=number, shards=len(SHARDS))
    for name in MANAGERS:
        run_controllers(world, name, PolicyRollouts, lease="fathom-system/rollouts", timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    await world.sleep(5)
    steps = [{"percent": percent, "hold": f"{hold_s:.0f}s"} for percent in (50, 100)]
    gates = {"gates": {"signalsMaxAge": signals_max_age}} if signals_max_age else {}
    spec = {"from": "v4", "to": "v5", "steps": steps, **gates}
    await world.apply(ROLLOUTS, own("PolicyRollout", "canary", spec))
    for number in range(4):
        await world.apply(PODS, pod(f"p-{number}"))


PERCENTS = range(10, 100, 20)
SPECS: tuple[Obj, ...] = (
    {},
    {"weights": {"MostAllocated": 5, "LeastAllocated": 0}},
    {"preemption": False},
    {"disabledFilters": ["InterPodAffinity"]},
    {"maxZoneSkew": 1},
)


@scenario(
    Menu(
        processes=(*MANAGERS, *SHARDS), kinds=("/pods", "/policyrollouts", "/schedulingpolicies"), seconds=30
    ),
    checkers=checkers,
    scale=30,
)
async def policies_change_while_pods_come(world: World) -> None:
    """A policy is rolled out in many small steps while pods come and go, and people edit the steps, and begin
    and end rollouts for single workloads, whose policy comes and goes: each pod is placed by the policy that
    is its own then."""
    for number in (1, 2, 3):
        await world.apply(NODES, node(f"node-{number}", zone=f"zone-{number % 2}"))
    for name in ("v4", "v5"):
        await world.apply(POLICIES, own("SchedulingPolicy", name, world.rng.choice(SPECS)))
    for number, name in enumerate(SHARDS):
        run_scheduler(world, name, shard=number, shards=len(SHARDS))
    run_controllers(world, AGENT, SimulatedNodes)
    await world.apply(ROLLOUTS, _in_steps(world, "canary", "v5"))
    for index in range(3):  # Nobody has begun the rollout yet.
        await world.apply(PODS, pod(f"early-{index}", cpu="200m"))
        await world.sleep(world.rng.random())
    for name in MANAGERS:
        run_controllers(world, name, PolicyRollouts, lease="fathom-system/rollouts", timing=TIMING)
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        await _pods_or_policies(world, number)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


def _in_steps(world: World, name: str, to: str, **more: object) -> Obj:
    percents = sorted(world.rng.sample(PERCENTS, 3))
    steps = [{"percent": percent, "hold": f"{world.rng.choice((2, 4, 8))}s"} for percent in percents]
    return own("PolicyRollout", name, {"from": "v4", "to": to, "steps": steps, **more})


async def _pods_or_policies(world: World, number: int) -> None:
    action = world.rng.choice(("pods",) * 6 + ("delete", "policy", "steps", "single", "ended"))
    if action == "pods":
        for name in (f"p-{number}-0", f"p-{number}-1", _at_the_border(world, f"p-{number}-x")):
            await world.apply(PODS, pod(name, cpu="200m"))
    elif action == "delete":
        await delete_some(world)
    elif action == "policy":
        await _come_or_go(world, "v6")
    elif action == "steps":
        await world.apply(ROLLOUTS, _in_steps(world, "canary", "v5"))
    elif action == "single":
        names = [f"p-{later}-0" for later in range(number, number + 10)]
        await world.apply(ROLLOUTS, _in_steps(world, f"of-{number}", "v6", scope={"workloads": names}))
    else:
        singles = [str(metadata(each)["name"]) for each in world.list(ROLLOUTS.name)]
        for name in [name for name in singles if name != "canary"][:1]:
            await world.delete(ROLLOUTS, name)


def _at_the_border(world: World, name: str) -> str:
    """A pod that is the first, or the last, of those that a step changes nothing for."""
    share = world.rng.choice(PERCENTS) - world.rng.randrange(2)
    names = (f"{name}{number}" for number in count())
    return next(each for each in names if crc32(f"default/{each}".encode()) % 100 == share)


async def _come_or_go(world: World, name: str) -> None:
    """A policy does not change: it is made anew."""
    if world.get(POLICIES.name, Key("", name)) is None:
        await world.apply(POLICIES, own("SchedulingPolicy", name, world.rng.choice(SPECS)))
    else:
        await world.delete(POLICIES, name)


def _phase(world: World) -> str:
    return str(_status(world.get(ROLLOUTS.name, Key("", "canary"))).get("phase"))


SCENARIOS: tuple[Scenario, ...] = (
    policy_rollout_by_two_schedulers,
    policy_rollout_with_stale_signals,
    policy_rollout_that_sees_nothing,
    policy_rollout_observed_anew,
    policies_change_while_pods_come,
)
