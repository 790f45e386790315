"""Writes whose outcome was unknown at first: what is on record in the end, as done or as not done, is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, is_deleting, uid_of
from fathom.model.well_known import DECISION_HEADER
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

DONE = frozenset({"committed", "settled"})
NOT_DONE = frozenset({"conflict", "rejected"})
# Longer than a request waits for its answer: a read that did not find what was created before must have been
# answered later than that. What is created after the read may be on record as not done.
ANSWERED_S = 10.0


class OutcomesAreSo(Checker):
    """An object that is on record as deleted is gone, or going; and a create that is on record as not done
    was not carried out, or only while somebody looked."""

    name = "what is on record as done is done, and what as not done is not"

    def __init__(self) -> None:
        self._going: set[str] = set()  # UIDs of objects that are in deletion, or gone.
        self._created: dict[tuple[str, str, Key], float] = {}  # By which decision -> when.

    def begin(self, world: World) -> None:
        self._engine: Engine = world.engine
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if old is not None and (new is None or is_deleting(new) or uid_of(new) != uid_of(old)):
            self._going.add(uid_of(old))
        decision = dict(change.headers).get(DECISION_HEADER, "")
        if old is None and new is not None and decision:
            self._created[decision, change.resource, change.key] = change.at_s
        return None

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        pass

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        written = outcome.object
        if written is None:
            return
        name = "/".join(part for part in (written.resource, written.namespace, written.name) if part)
        if outcome.verb == "delete" and outcome.result in DONE and written.uid:
            if written.uid not in self._going:
                self._broken(process, f"{name} is on record as deleted, and is still there")
        elif outcome.verb == "create" and outcome.result in NOT_DONE:
            key = Key(written.namespace, written.name)
            created_s = self._created.get((outcome.id, written.resource, key))
            if created_s is not None and self._engine.since_s - created_s > ANSWERED_S:
                self._broken(process, f"the create of {name} is on record as not done, and it was done")

    def _broken(self, process: SimProcess, message: str) -> None:
        self._engine.broken(Violation(self.name, f"{process.name}: {message}", self._engine.since_s))
