"""Conditions and generations of objects of any kind.

When a condition's `lastTransitionTime` moves and what it says, which generation a status names, and that a
changed spec gets a new generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fathom.controllers.refusals import REPLICA_FAILURE
from fathom.model.body import decode_json
from fathom.model.conditions import PODS_REFUSED
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.invariants import ABOUT_ANOTHER, Checker, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

# From a look at the clock to the request: one pass over many objects. Times are of whole seconds. Where
# faults have met something, a request of that pass may have waited for an answer in vain, or was sent again.
PASS_S, LATE_S = 5.0, 40.0


class TimesMoveWithTheirStatus(Checker):
    """`lastTransitionTime` moves only with the status: controllers that wait for a condition to last count
    from it, so writing the same status again with another message must not move it."""

    name = "a condition's time moves only with its status"

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if not before or not after or before is after or before == after:
            return None
        by_type = {condition.get("type"): condition for condition in before}
        for condition in after:
            previous = by_type.get(condition.get("type"))
            if previous is None or previous.get("status") != condition.get("status"):
                continue
            since, now = previous.get("lastTransitionTime"), condition.get("lastTransitionTime")
            if since and now != since:
                state = f"{condition.get('type')}, which is still {condition['status']}"
                return f"{change.by} moved the time of {state}, from {since} to {now}"
        return None


class TimesAreOfTheChange(Checker):
    """A status that a condition did not have before comes with the time at which its writer decided so: by
    the writer's clock, which may be wrong, and at most a moment before the request was sent, which may be
    late. People may write what they like."""

    name = "a condition's time is when its status changed"

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if not after or before is after or before == after or change.by == DRIVER:
            return None
        was = {condition.get("type"): condition.get("status") for condition in before}
        for condition in after:
            kind, status = condition.get("type"), condition.get("status")
            if was.get(kind) != status and (problem := self._misdated(change, condition)) is not None:
                return f"{_actor(change)} set {kind} of {change.path} to {status}, {problem}"
        return None

    def _misdated(self, change: Seen, condition: Obj) -> str | None:
        told = condition.get("lastTransitionTime")
        told_ns = moment_ns(told)
        if told_ns is None:
            return "and does not say since when"
        engine = self._engine
        # By the right clock, since the scenario began.
        told_s = (told_ns - engine.epoch_ns - engine.began_ns) / SECOND_NS
        errors_s = [error_ns / SECOND_NS for error_ns in engine.clock_errors_ns]
        sent_s = change.at_s if change.sent_s is None else change.sent_s
        allowed_s = LATE_S if engine.faults.fired else PASS_S
        if sent_s - allowed_s + min(errors_s) <= told_s <= change.at_s + max(errors_s):
            return None
        return f"since {told}, {sent_s - told_s:.0f} s before that request was sent"


def _conditions(obj: Obj | None) -> list[Obj]:
    conditions = (obj.get("status") or {}).get("conditions") if obj is not None else None
    return (
        [condition for condition in conditions if isinstance(condition, dict)]
        if isinstance(conditions, list)
        else []
    )


class GenerationsAreCounted(Checker):
    """Where the server counts generations, each spec has its own; and `observedGeneration` never goes
    back."""

    name = "a new spec is a new generation"

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if old is None or new is None or uid_of(old) != uid_of(new):
            return None
        was, now = metadata(old).get("generation"), metadata(new).get("generation")
        # A binding sets a pod's node in its spec: the generation stays.
        if was and was == now and change.resource != "pods" and old.get("spec") != new.get("spec"):
            return f"{change.path} has a new spec, but is still generation {now}"
        if change.resource in ABOUT_ANOTHER:
            return None
        seen, sees = lookup(old, "status", "observedGeneration"), lookup(new, "status", "observedGeneration")
        if isinstance(seen, int) and isinstance(sees, int) and sees < seen:
            return f"{change.path}: observedGeneration went back from {seen} to {sees}"
        return None


class ConditionsFollowGenerations(Checker):
    """A condition that says which generation it is about does not give way to one about an older generation,
    or about none: its writer has not seen what the other saw. People may write what they like."""

    name = "a condition is not replaced by one about an older generation"

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if not before or not after or before is after or before == after or change.by == DRIVER:
            return None
        was = {condition.get("type"): int(condition.get("observedGeneration") or 0) for condition in before}
        for condition in after:
            kind, about = condition.get("type"), int(condition.get("observedGeneration") or 0)
            if about < was.get(kind, 0):
                return f"{_actor(change)} set {kind}, about generation {was[kind]}, to one about {about}"
        return None


class ConditionsStayAsTheyAre(Checker):
    """Several controllers write their own conditions into one list of an object. A controller that writes
    back the whole list as it read it undoes another's write since then: a condition is again exactly, times
    included, what it was before the other changed it; or it is gone, though the other had added it. A write
    that names the `resourceVersion` it read cannot have missed that, and is allowed."""

    name = "no process undoes another's condition"

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], str] = {}  # UID and type -> the process that last changed it.
        self._earlier: dict[tuple[str, str], list[Obj]] = {}  # Its earlier states.

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if change.new is None or before is after or before == after:
            return None
        uid, new = uid_of(change.new), {str(condition.get("type")): condition for condition in after}
        old = {str(condition.get("type")): condition for condition in before}
        for kind in (*old, *(kind for kind in new if kind not in old)):
            if old.get(kind) != new.get(kind):
                problem = self._changed(change.by, (uid, kind), old.get(kind), new.get(kind))
                if problem is not None and _is_blind(change):
                    return problem
        return None

    def _changed(self, by: str, which: tuple[str, str], old: Obj | None, new: Obj | None) -> str | None:
        writer = self._writers.get(which, by)
        self._writers[which] = by
        earlier = self._earlier.setdefault(which, [])
        if old is not None and new is not None and old.get("status") == new.get("status"):
            return None
        if _role(writer) != _role(by) and (new is None or new in earlier):
            claim = f"{writer} had set {which[1]} to {(old or {}).get('status')}"
            return f"{by} undid a condition of another process: {claim}"
        if old is not None:
            earlier.append(old)
        return None


def _is_blind(change: Seen) -> bool:
    """The request wrote the whole list without naming a `resourceVersion`."""
    body = change.ask.body if change.ask is not None else None
    decoded = decode_json(body) if isinstance(body, bytes) and body else body
    whole = isinstance(lookup(decoded, "status", "conditions"), list) if isinstance(decoded, dict) else False
    return whole and not lookup(decoded, "metadata", "resourceVersion")


def _role(process: str) -> str:
    """The common name of replicas that take turns: 'manager' for 'manager-1' and 'manager-2'."""
    return process.rpartition("-")[0] or process


REFUSALS = frozenset({PODS_REFUSED, REPLICA_FAILURE})


class ConditionsDoNotVanish(Checker):
    """A condition is removed only by an actor that has written it, or by a person. (A binding replaces what
    was said about a pod without a node; who counts a workload's pods removes the refusal of the last one.)"""

    name = "no actor removes another's condition"

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], set[str]] = {}  # UID and type -> who has written it.

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if change.new is None or before is after or before == after:
            return None
        actor, uid = _actor(change), uid_of(change.new)
        old = {str(condition.get("type")): condition for condition in before}
        new = {str(condition.get("type")): condition for condition in after}
        lost = [kind for kind in old if kind not in new and self._is_anothers(actor, uid, kind)]
        for kind, condition in new.items():
            if old.get(kind) != condition:
                self._writers.setdefault((uid, kind), set()).add(actor)
        if not lost or change.by == DRIVER or _is_binding(change):
            return None
        writers = ", ".join(sorted(self._writers[uid, lost[0]]))
        return f"{actor} removed the condition {lost[0]} of {change.path}, which {writers} had written"

    def _is_anothers(self, actor: str, uid: str, kind: str) -> bool:
        writers = self._writers.get((uid, kind), {actor})
        return kind not in REFUSALS and actor not in writers


def _actor(change: Seen) -> str:
    return dict(change.headers).get(ACTOR_HEADER, "") or _role(change.by)


def _is_binding(change: Seen) -> bool:
    return change.ask is not None and "/binding" in change.ask.target


class WholeListsAreGuarded(Checker):
    """Who writes a list of conditions as a whole names the revision that it has read: else it would undo what
    another wrote meanwhile. Of fathom's own processes, which all say who they are."""

    name = "a list of conditions is written only as it was read"

    def commit(self, change: Seen) -> Found:
        ask, actor = change.ask, dict(change.headers).get(ACTOR_HEADER, "")
        if ask is None or ask.method != "PATCH" or not actor or "/status" not in ask.target:
            return None
        if dict(ask.headers).get("content-type", MERGE_PATCH) != MERGE_PATCH or not _is_blind(change):
            return None
        return f"{actor} wrote all conditions of {change.path}, whatever they had become since it read them"
