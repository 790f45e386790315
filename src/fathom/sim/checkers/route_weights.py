"""The weights of a route while an override has its own on it: what a person writes meanwhile stays, and else
the earlier weights return."""

from __future__ import annotations

from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.checkers.override_effects import MADE_BY, ROUTES
from fathom.sim.world.invariants import Checker, Found, Seen


class PeoplesWeightsStay(Checker):
    """A controller changes the weights of a route that an override has marked, or deletes it, only as long as
    they are those that controllers wrote themselves. When it takes the mark away, such weights are those from
    before the mark. Someone who removes the mark by hand has taken the route over."""

    name = "an override takes back its own weights only"
    resources = frozenset({ROUTES})

    def __init__(self) -> None:
        self._written: dict[str, object] = {}  # Route's UID -> the weights that controllers last wrote.
        self._earlier: dict[str, object] = {}  # UID -> those from before the mark; None: no route.

    def commit(self, change: Seen) -> Found:
        actor = dict(change.headers).get(ACTOR_HEADER, "")
        uid = uid_of(change.new or change.old or {})
        before, after = _weights(change.old), _weights(change.new)
        was, is_marked = _mark(change.old), _mark(change.new)
        if not actor:
            if not is_marked:
                self._forget(uid)
            return None
        problem = None
        if was and uid in self._written:
            problem = self._misplaced(uid, before, after, ends=not is_marked)
        if is_marked and not was:
            self._earlier[uid] = before
        if is_marked and (before != after or not was):
            self._written[uid] = after
        elif not is_marked:
            self._forget(uid)
        return f"{actor} changed {change.path}: {problem}" if problem else None

    def _misplaced(self, uid: str, before: object, after: object, *, ends: bool) -> str:
        if before != self._written[uid]:
            return f"it has {after}, but somebody has written {before} since" if before != after else ""
        if ends and after != self._earlier.get(uid):
            return f"it has {after}, and had {self._earlier.get(uid)} before the override"
        return ""

    def _forget(self, uid: str) -> None:
        self._written.pop(uid, None)
        self._earlier.pop(uid, None)


def _weights(route: Obj | None) -> object:
    return lookup(route, "spec", "routes") if route is not None else None


def _mark(route: Obj | None) -> str:
    return str((metadata(route or {}).get("annotations") or {}).get(MADE_BY) or "")
