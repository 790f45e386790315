"""Controllers look at an object when something wakes them. At rest, looking at everything once more finds
nothing to do: else somebody should have been woken, and would have slept until the next resync."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fathom.control.process import Controllers
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key
from fathom.model.well_known import DECISION_HEADER
from fathom.sim.checkers.quiet_processes import may_act
from fathom.sim.world.invariants import Checker, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

LOOK = WakeCause("resync", "the world is at rest")
LOOKS_S = 0.5


class NothingIsLeftToDo(Checker):
    """When the world has come to rest, all controllers that lead look at all their objects again, and write
    nothing, but for those that they are about to try again anyway. (A clock that was wrong and is right again
    may change what is due.) A RecordReader."""

    name = "a look at everything finds nothing to do at rest"

    def __init__(self) -> None:
        self._decisions: dict[str, Decision] = {}  # Those that came of such a look.
        self._tried_again: set[tuple[str, Key]] = set()  # By process.

    def begin(self, world: World) -> None:
        world.engine.record_readers.append(self)

    async def rested(self, world: World) -> None:
        if len(world.engine.clock_errors_ns) > 1:
            return
        for process in world.engine.processes.values():
            if process.alive and isinstance(process.state, Controllers) and may_act(process.state):
                for loop in process.state.loops:
                    self._tried_again |= {(process.name, key) for key in loop.queue.troubles}
                    loop._waker.look_at_all(LOOK)
        await asyncio.sleep(LOOKS_S)

    def commit(self, change: Seen) -> Found:
        decision = self._decisions.get(dict(change.headers).get(DECISION_HEADER, ""))
        if decision is None:
            return None
        return f"{change.by} had yet to write {change.path}: {'; '.join(decision.actions)}"

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        about = Key(decision.subject.namespace, decision.subject.name)
        if decision.cause == LOOK and (process.name, about) not in self._tried_again:
            self._decisions[decision.id] = decision

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        """How it ends does not matter here."""
