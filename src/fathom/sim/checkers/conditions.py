"""What is said about an object, of whatever kind: when a condition's time moves, which generation is named,
and that a spec that changes becomes a new one."""

from __future__ import annotations

from fathom.model.body import decode_json
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.sim.world.invariants import ABOUT_ANOTHER, Checker, Found, Seen


class TimesMoveWithTheirStatus(Checker):
    """Since when a condition is as it is: who waits for it to have lasted counts from there, so saying the
    same once more, in other words, does not move it."""

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
    """Where the server counts generations, each spec has its own; and nobody says that they have seen an
    older one than they said before."""

    name = "a new spec is a new generation"

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if old is None or new is None or uid_of(old) != uid_of(new):
            return None
        was, now = metadata(old).get("generation"), metadata(new).get("generation")
        # A binding fills in where a pod runs: what is wanted of it stays the same.
        if was and was == now and change.resource != "pods" and old.get("spec") != new.get("spec"):
            return f"{change.path} has another spec, and is still generation {now}"
        if change.resource in ABOUT_ANOTHER:
            return None
        seen, sees = lookup(old, "status", "observedGeneration"), lookup(new, "status", "observedGeneration")
        if isinstance(seen, int) and isinstance(sees, int) and sees < seen:
            return f"{change.path} had seen generation {seen}, and now says {sees}"
        return None


class ConditionsStayAsTheyAre(Checker):
    """Several report on one object, each its own conditions, in one list. Who writes the list back as it was
    read, when another has written since, undoes that: a condition is again, word for word and since then,
    what it was before somebody else changed it; or it is gone, though somebody else had put it there. Who
    names the revision that was read has seen that, and may."""

    name = "a condition is not turned back by another"

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], str] = {}  # UID and type -> who last changed it.
        self._were: dict[tuple[str, str], list[Obj]] = {}  # What it was before that, and before that.

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
    """The whole list was written, whatever it was by then."""
    body = change.ask.body if change.ask is not None else None
    said = decode_json(body) if isinstance(body, bytes) and body else body
    whole = isinstance(lookup(said, "status", "conditions"), list) if isinstance(said, dict) else False
    return whole and not lookup(said, "metadata", "resourceVersion")


def _role(process: str) -> str:
    """Those who take turns at one thing: 'manager-1' and 'manager-2'."""
    return process.rpartition("-")[0] or process
