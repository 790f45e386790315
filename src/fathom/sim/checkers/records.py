"""What decisions and outcomes on record say is so: revisions, objects considered, causes, written objects.

    seen.revision <= applied <= newest commit       nothing was seen before it was there
    subject, policies, overrides, quotas            each as it was in the view that `seen` describes
    cause                                           the object changed at that revision
    outcome                                         of a recorded decision; the store had the object like that

The view of a kind is a state between two revisions: it has every change up to `revision`, and some up to
`applied`. So an object in it is as it was at `revision`, or as a later change up to `applied` left it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from fathom.model.decision import Considered, Decision, Outcome, SeenVersions, Subject
from fathom.model.objects import Key, Obj, is_deleting, metadata, uid_of
from fathom.model.well_known import DECISION_HEADER
from fathom.sim.world.invariants import NOBODY_KNOWS, Checker, Found, Seen, place_of
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

WRITTEN = frozenset({"committed", "settled"})
BUILT_IN = "builtin"  # The policy that needs no object.


class ObjectState(NamedTuple):
    """An object as one commit left it."""

    revision: int
    uid: str
    generation: int
    exists: bool


class RecordsAreTrue(Checker):
    name = "a decision's records are true"

    def __init__(self) -> None:
        self._states: dict[tuple[str, Key], list[ObjectState]] = {}  # By resource and key, in order.
        self._decisions: dict[str, str] = {}  # Id -> the controller that decided.
        self._makers: dict[str, str] = {}  # UID of an object -> the decision by which it was created.
        self.newest = 0  # What the store has reached.
        self.complete = True  # Every decision is on record: one that is not here was somebody else's.
        # Decision, resource and key of each commit that created or removed something: other writes of one
        # decision about one object cannot be told apart.
        self._carried_out: set[tuple[str, str, str, Key]] = set()

    def begin(self, world: World) -> None:
        self._engine: Engine = world.engine
        for entry in world.engine.store.entries():
            self._states[place_of(entry.key)] = [_state(entry.revision, entry.body.obj)]
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        self.newest = max(self.newest, change.revision)
        obj = change.new if change.new is not None else change.old or {}
        state = _state(change.revision, obj, exists=change.new is not None)
        self._states.setdefault((change.resource, change.key), []).append(state)
        named = dict(change.headers).get(DECISION_HEADER, "")
        if named and (verb := _verb(change)):
            self._carried_out.add((verb, named, change.resource, change.key))
        if change.old is None and change.by != NOBODY_KNOWS:
            self._makers[uid_of(obj)] = named
        return None

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        self.newest = self._engine.store.newest
        for wrong in self.wrong_decision(decision):
            self._broken(process, wrong)

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        if wrong := self.wrong_conclusion(outcome):
            self._broken(process, wrong)

    # What is wrong with a record; all commits that it names were seen before.

    def wrong_decision(self, decision: Decision) -> Iterator[str]:
        self._decisions[decision.id] = decision.controller
        for wrong in self._wrong_in(decision):
            yield f"{decision.controller} about {_path(decision.subject)}: {wrong}"

    def wrong_conclusion(self, outcome: Outcome) -> str:
        if outcome.id not in self._decisions:
            return f"the outcome {outcome.result} is of no recorded decision: {outcome.id}"
        if outcome.result in WRITTEN and (wrong := self._wrong_outcome(outcome)):
            return f"the decision {outcome.id} was {outcome.result}, but {wrong}"
        if outcome.result == "rejected" and self._was_carried_out(outcome):
            return f"the decision {outcome.id} was rejected, but it was carried out"
        return ""

    def _was_carried_out(self, outcome: Outcome) -> bool:
        written = outcome.object
        if written is None:
            return False
        key = Key(written.namespace, written.name)
        return (outcome.verb, outcome.id, written.resource, key) in self._carried_out

    # What is wrong with a decision.

    def _wrong_in(self, decision: Decision) -> Iterator[str]:
        for kind, versions in decision.seen.items():
            newest = max(versions.revision, versions.applied)
            if versions.applied and versions.applied <= versions.revision:
                yield f"{kind} is complete up to {versions.revision}, but applied only to {versions.applied}"
            if newest > self.newest:
                yield f"it saw {kind} at {newest}, but the store is at {self.newest}"
        yield from self._wrong_subject(decision)
        for considered in (*decision.policies, *decision.overrides, *decision.quotas):
            if considered.resource or considered.name != BUILT_IN:
                yield from self._wrong_considered(considered, decision)
        yield from self._wrong_cause(decision)

    def _wrong_subject(self, decision: Decision) -> Iterator[str]:
        subject, seen = decision.subject, _seen(decision, decision.subject.resource)
        if not subject.uid or seen is None:
            return
        states = self._in_view(subject.resource, Key(subject.namespace, subject.name), seen)
        if not any((state.uid, state.generation) == (subject.uid, subject.generation) for state in states):
            yield f"the view did not have it as uid {subject.uid}, generation {subject.generation}"

    def _wrong_considered(self, considered: Considered, decision: Decision) -> Iterator[str]:
        key = Key(considered.namespace, considered.name)
        recorded = ObjectState(considered.revision, considered.uid, considered.generation, exists=True)
        claim = f"{considered.resource}/{considered.name} at revision {considered.revision}"
        if recorded not in self._states.get((considered.resource, key), []):
            yield f"it considered {claim}, which the store never had"
            return
        seen = _seen(decision, considered.resource)
        if seen is not None and recorded not in self._in_view(considered.resource, key, seen):
            yield f"it considered {claim}, which was not in its view: {seen}"

    def _wrong_cause(self, decision: Decision) -> Iterator[str]:
        cause = decision.cause
        if not cause.resource or not cause.revision:
            return
        states = self._states.get((cause.resource, Key(cause.namespace, cause.name)), [])
        if all(state.revision != cause.revision for state in states):
            yield f"its cause names a change that never happened: {cause.text}"

    def _wrong_outcome(self, outcome: Outcome) -> str:
        written = outcome.object
        if written is None:
            return "it names no object"
        if not outcome.revision:
            return "it names no revision" if outcome.result == "committed" else ""
        states = self._states.get((written.resource, Key(written.namespace, written.name)), [])
        if not states and not written.uid:
            return ""  # A collection: its objects were deleted together.
        if any((state.revision, state.uid) == (outcome.revision, written.uid) for state in states):
            return self._wrong_maker(outcome, written)
        return f"the store never had {_path(written)} with uid {written.uid} at {outcome.revision}"

    def _wrong_maker(self, outcome: Outcome, written: Subject) -> str:
        """A create that is on record as done was done by the same controller, if not by this decision."""
        if outcome.verb != "create" or written.uid not in self._makers:
            return ""
        made_by = self._decisions.get(self._makers[written.uid], "somebody else")
        if not self.complete and self._makers[written.uid] not in self._decisions:
            return ""
        return "" if made_by == self._decisions[outcome.id] else f"{made_by} made {_path(written)}"

    # States.

    def _in_view(self, resource: str, key: Key, seen: SeenVersions) -> list[ObjectState]:
        """The states that the object may have had in the view."""
        states = self._states.get((resource, key), [])
        newest = max(seen.revision, seen.applied)
        before = [state for state in states if state.revision <= seen.revision]
        return [*before[-1:], *(state for state in states if seen.revision < state.revision <= newest)]

    def _broken(self, process: SimProcess, message: str) -> None:
        self._engine.broken(Violation(self.name, f"{process.name}: {message}", self._engine.since_s))


class OwnDeletesAreKnown(Checker):
    """Who has deleted an object knows it when it decides next about the same subject: it does not delete it
    again. A process that has started anew may, and one that was not told."""

    name = "no decision deletes again what its maker has deleted"

    def __init__(self) -> None:
        self._decisions: dict[str, Decision] = {}
        self._begun: dict[str, str] = {}  # UID -> the decision by which its deletion began.
        self._deleted: set[tuple[object, ...]] = set()  # By whom, about what, and which.

    def begin(self, world: World) -> None:
        self._engine: Engine = world.engine
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        if change.old is not None and _verb(change) == "delete":
            self._begun.setdefault(uid_of(change.old), dict(change.headers).get(DECISION_HEADER, ""))
        return None

    def decided(self, process: SimProcess, decision: Decision) -> None:
        self._decisions[decision.id] = decision

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        decision, deleted = self._decisions.get(outcome.id), outcome.object
        if decision is None or deleted is None or not deleted.uid or outcome.verb != "delete":
            return
        about = _path(decision.subject), decision.controller
        which = process.name, process.incarnation, *about, deleted.resource, deleted.uid
        if outcome.result != "committed":
            return
        if self._begun.get(deleted.uid) == outcome.id:
            self._deleted.add(which)
        elif which in self._deleted:
            told = f"{decision.controller} deleted {_path(deleted)} again, for {about[0]}"
            self._engine.broken(Violation(self.name, f"{process.name}: {told}", self._engine.since_s))


def _state(revision: int, obj: Obj, *, exists: bool = True) -> ObjectState:
    return ObjectState(revision, uid_of(obj), int(metadata(obj).get("generation") or 0), exists)


def _verb(change: Seen) -> str:
    if change.old is None:
        return "create"
    goes = change.new is None or (is_deleting(change.new) and not is_deleting(change.old))
    return "delete" if goes else ""


def _path(subject: Subject) -> str:
    return "/".join(part for part in (subject.resource, subject.namespace, subject.name) if part)


def _seen(decision: Decision, resource: str) -> SeenVersions | None:
    """The view of a resource: `seen` has it by kind, 'SchedulingPolicy' for schedulingpolicies.fathom.dev."""
    plural = resource.partition(".")[0]
    for kind, versions in decision.seen.items():
        name = kind.lower()
        if plural in {name, f"{name}s", f"{name}es", f"{name[:-1]}ies"}:
            return versions
    return None
