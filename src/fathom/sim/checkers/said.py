"""What is said about an object, of whatever kind: when a condition's time moves, which generation is named,
and that a spec that changes becomes a new one."""

from __future__ import annotations

from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.sim.invariants import ABOUT_ANOTHER, Checker, Found, Seen


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
