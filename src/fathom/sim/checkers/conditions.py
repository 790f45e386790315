"""Conditions and generations of objects of any kind.

When a condition's `lastTransitionTime` moves, which generation a status names, and that a changed spec gets a
new generation.
"""

from __future__ import annotations

from fathom.model.body import decode_json
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.sim.world.invariants import ABOUT_ANOTHER, Checker, Found, Seen


class TimesMoveWithTheirStatus(Checker):
    """`lastTransitionTime` moves only with the status: controllers that wait for a condition to last count
    from it, so writing the same status again with another message must not move it."""

    name = "a condition's time moves only with its status"

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if not before or not after or before is after or before == after:
            return None
        known = {one.get("type"): one for one in before}
        for one in after:
            was = known.get(one.get("type"))
            if was is None or was.get("status") != one.get("status"):
                continue
            since, now = was.get("lastTransitionTime"), one.get("lastTransitionTime")
            if since and now != since:
                said = f"{one.get('type')} is {one['status']} as before"
                return f"{change.by}: {said}, since {since} and now since {now}"
        return None


def _conditions(obj: Obj | None) -> list[Obj]:
    found = (obj.get("status") or {}).get("conditions") if obj is not None else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


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
            return f"{change.path} has another spec, and is still generation {now}"
        if change.resource in ABOUT_ANOTHER:
            return None
        seen, sees = lookup(old, "status", "observedGeneration"), lookup(new, "status", "observedGeneration")
        if isinstance(seen, int) and isinstance(sees, int) and sees < seen:
            return f"{change.path} had seen generation {seen}, and now says {sees}"
        return None


class ConditionsStayAsTheyAre(Checker):
    """Several controllers write their own conditions into one list of an object. A controller that writes
    back the whole list as it read it undoes another's write since then: a condition is again exactly, times
    included, what it was before the other changed it; or it is gone, though the other had added it. A write
    that names the `resourceVersion` it read cannot have missed that, and is allowed."""

    name = "a condition is not turned back by another"

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], str] = {}  # UID and type -> the process that last changed it.
        self._were: dict[tuple[str, str], list[Obj]] = {}  # Its earlier states.

    def commit(self, change: Seen) -> Found:
        before, after = _conditions(change.old), _conditions(change.new)
        if change.new is None or before is after or before == after:
            return None
        uid, now = uid_of(change.new), {str(one.get("type")): one for one in after}
        known = {str(one.get("type")): one for one in before}
        for kind in (*known, *(kind for kind in now if kind not in known)):
            if known.get(kind) != now.get(kind):
                found = self._changed(change.by, (uid, kind), known.get(kind), now.get(kind))
                if found is not None and _is_blind(change):
                    return found
        return None

    def _changed(self, by: str, which: tuple[str, str], old: Obj | None, new: Obj | None) -> str | None:
        writer = self._writers.get(which, by)
        self._writers[which] = by
        were = self._were.setdefault(which, [])
        if old is not None and new is not None and old.get("status") == new.get("status"):
            return None
        if _role(writer) != _role(by) and (new is None or new in were):
            said = f"{writer} had said that {which[1]} is {(old or {}).get('status')}"
            return f"{by} took it back: {said}"
        if old is not None:
            were.append(old)
        return None


def _is_blind(change: Seen) -> bool:
    """The request wrote the whole list without naming a `resourceVersion`."""
    body = change.ask.body if change.ask is not None else None
    said = decode_json(body) if isinstance(body, bytes) and body else body
    whole = isinstance(lookup(said, "status", "conditions"), list) if isinstance(said, dict) else False
    return whole and not lookup(said, "metadata", "resourceVersion")


def _role(process: str) -> str:
    """The common name of replicas that take turns: 'manager' for 'manager-1' and 'manager-2'."""
    return process.rpartition("-")[0] or process
