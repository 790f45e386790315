"""What an object says about its own reconciling is so: it is in trouble with who reconciles it now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.control.loop import REPORT_FROM_ATTEMPT, Loop
from fathom.control.process import Controllers
from fathom.control.progress import OURS, RECONCILING, STALLED
from fathom.model.conditions import conditions_of, is_true
from fathom.model.objects import Key, Obj, key_of
from fathom.sim.checkers.quiet_processes import may_act
from fathom.sim.world.invariants import Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World


class TroubleIsPresent(Checker):
    """At rest: an object says that it is being retried, or was given up, only if the controllers that
    reconcile it now have trouble with it; and one that they have given up says so. An earlier leader, or an
    earlier life of the process, may have written something else, and what it wrote last may be lost."""

    name = "an object that is reconciled does not say that it is not"
    patience_s = 90.0  # As with statuses.

    def settled(self, world: World) -> Iterable[str | Finding]:
        for resource, loops in _loops(world).items():
            for obj in world.list(resource):
                if (wrong := _wrong(obj, loops)) is not None:
                    path = "/".join(part for part in (resource, *key_of(obj)) if part)
                    yield Finding(f"{path} {wrong}", (path,))


def _loops(world: World) -> dict[str, list[Loop]]:
    """Of the processes that may act, by the resource whose conditions they write."""
    loops: dict[str, list[Loop]] = {}
    for process in world.engine.processes.values():
        state = process.state
        if not process.alive or not isinstance(state, Controllers) or not may_act(state):
            continue
        for loop in state.loops:
            if loop._primary.conditions:
                loops.setdefault(loop._primary.kind.resource.name, []).append(loop)
    return loops


def _wrong(obj: Obj, loops: list[Loop]) -> str | None:
    key = key_of(obj)
    told = [type_ for type_ in OURS if is_true(obj, type_)]
    if told and not any(_has_trouble(loop, key) for loop in loops):
        reasons = {str(each.get("type")): each.get("reason") for each in conditions_of(obj)}
        return f"says {told[0]}={reasons[told[0]]}, and nobody has trouble with it"
    for loop in loops:
        trouble = loop.queue.trouble(key)
        if trouble is not None and trouble.given_up and not is_true(obj, STALLED):
            return f"was given up by {loop.name}, and does not say so"
        if trouble is not None and trouble.attempts >= REPORT_FROM_ATTEMPT and not told:
            return f"is retried by {loop.name}, and does not say {RECONCILING}"
    return None


def _has_trouble(loop: Loop, key: Key) -> bool:
    return loop.queue.trouble(key) is not None or key in loop._held
