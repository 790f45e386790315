"""Rollouts of policies: a step is over only when every scheduler has seen it, and not the step before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fathom.model.objects import Obj, lookup, uid_of
from fathom.model.times import SECOND_NS, duration_ns
from fathom.schedule.loop.process import SchedulerProcess
from fathom.schedule.policy_rollout.plan import DEFAULT_STEPS
from fathom.sim.world.invariants import Checker, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

DEFAULT_NAMES = ("scheduler",)
KINDS = ("Pod", "Node", "PolicyRollout", "SchedulingPolicy")  # Which a step changes the use of.
CLOCK_S = 1.0  # Times of statuses are of whole seconds.
Part = tuple[object, ...]  # Generation, phase and step: another one is another activation.


class RolloutStepsAreSeen(Checker):
    """Each step has an activation of its own: the write that begins it, or a later one. A step is over only
    when all whom the gate names have seen the store at that write, by what they have reported."""

    name = "a step of a policy rollout is over only when all schedulers have seen it"
    resources = frozenset({"policyrollouts.fathom.dev"})

    def __init__(self) -> None:
        self._began: dict[
            str, tuple[Part, int]
        ] = {}  # UID -> its present part, and the revision it began at.

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        if wrong := self._claimed(change):
            return wrong
        uid, part = uid_of(change.new), _part(change.new)
        before = self._began.get(uid, ((), 0))
        if part != before[0]:
            self._began[uid] = (part, change.revision)
        began = self._began[uid][1]
        stated = int(lookup(change.new, "status", "activationRevision") or 0)
        if stated and stated < began:
            return f"{change.key.name} names {stated} as the activation of a step that began at {began}"
        if part == before[0] or change.old is None or not _goes_on(change.old, change.new):
            return None
        return self._passed(change.old, before[1])

    def _claimed(self, change: Seen) -> str | None:
        """A scheduler reports no revision that its caches have not reached."""
        process = self._processes.get(change.by)
        state = None if process is None or process.incarnation != change.incarnation else process.state
        if not isinstance(state, SchedulerProcess):
            return None
        for each in lookup(change.new, "status", "observedBy") or ():
            revision = int(each.get("revision") or 0)
            if each.get("controller") != change.by or each in (
                lookup(change.old, "status", "observedBy") or ()
            ):
                continue
            for kind in KINDS:
                if (has := state.caches.revision(kind)) < revision:
                    return (
                        f"{change.by} reports revision {revision}, and its cache of {kind} has reached {has}"
                    )
        return None

    def _passed(self, rollout: Obj, began: int) -> str | None:
        reported = {
            str(each.get("controller")): int(each.get("revision") or 0)
            for each in lookup(rollout, "status", "observedBy") or ()
        }
        names = lookup(rollout, "spec", "gates", "observedBy")
        for name in DEFAULT_NAMES if names is None else names:
            seen = {who: revision for who, revision in reported.items() if _is(who, name)}
            late = [who for who, revision in seen.items() if revision < began]
            if late or not seen:
                who = late[0] if late else name
                step = lookup(rollout, "status", "step") or 0
                return f"step {step}, which began at {began}, ended before {who} had seen it: {reported}"
        return None


class RolloutStepsLast(Checker):
    """A step that has begun, in whatever generation, is judged for its whole `hold` before the next one: time
    before it began does not count, and no status claims so."""

    name = "a step of a policy rollout lasts as long as it says"
    resources = frozenset({"policyrollouts.fathom.dev"})

    def __init__(self) -> None:
        self._began: dict[str, tuple[Part, float]] = {}  # UID -> its present part, and when it began.

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        uid, part = uid_of(change.new), _part(change.new)
        before, began_s = self._began.get(uid, (part, change.at_s))
        lasted_s = change.at_s - began_s
        if part != before:
            began_s = change.at_s
        self._began[uid] = (part, began_s)
        baked_s = int(lookup(change.new, "status", "bakedSeconds") or 0)
        if baked_s > change.at_s - began_s + CLOCK_S:
            since_s = change.at_s - began_s
            return f"{change.key.name} counts {baked_s} s for a step that began {since_s:.0f} s ago"
        if change.old is None or not _goes_on(change.old, change.new):
            return None
        hold_s = _hold_s(change.old)
        step = lookup(change.old, "status", "step") or 0
        return (
            f"step {step} ended after {lasted_s:.1f} of {hold_s:.0f} s"
            if lasted_s < hold_s - CLOCK_S
            else None
        )


def _hold_s(rollout: Obj) -> float:
    """Of the present step."""
    steps = lookup(rollout, "spec", "steps") or msgspec.to_builtins(DEFAULT_STEPS)
    hold = steps[int(lookup(rollout, "status", "step") or 0)].get("hold")
    return (duration_ns(hold or "") or 0) / SECOND_NS


def _part(rollout: Obj) -> Part:
    status = rollout.get("status") or {}
    return status.get("observedGeneration"), status.get("phase"), status.get("step") or 0


def _goes_on(before: Obj, after: Obj) -> bool:
    """From one step to the next, or to the end, of the same spec."""
    (generation, phase, step), (next_generation, next_phase, next_step) = _part(before), _part(after)
    same = generation == next_generation and phase == "Canary"
    return same and next_phase != "RolledBack" and next_step != step


def _is(controller: str, name: str) -> bool:
    return controller == name or controller.startswith((f"{name}/", f"{name}-"))
