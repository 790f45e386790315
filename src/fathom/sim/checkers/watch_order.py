"""One watch as its server sends it: each matching change once and in order; bookmarks only after them."""

from __future__ import annotations

from fathom.client.events import ADDED, BOOKMARK, DELETED, ERROR, MODIFIED, revision_of
from fathom.model.objects import Obj, key_of
from fathom.sim.checkers.store_history import AskedWrite, StoreHistory, StoreStep


def path_of(obj: Obj) -> str:
    return "/".join(part for part in key_of(obj) if part)


class WatchOrder:
    def __init__(self, past: StoreHistory, request: AskedWrite, floor: int) -> None:
        self._past = past
        self._request = request
        self._floor = floor
        self._initial: dict[str, int] | None = {}  # Initial objects, until the bookmark that ends them.
        self._upto = 0  # All changes up to this revision have been sent.
        self._next = 0  # Index of the next one of the resource's steps.
        self._over = False
        version, initial = request.query.get("resourceVersion", ""), request.query.get("sendInitialEvents")
        if version not in {"", "0"} and initial != "true":
            self._begin(int(version))

    def take(self, kind: str, obj: Obj) -> str | None:
        """Check one event; return what is wrong with it."""
        if self._over or kind == ERROR or obj.get("kind") == "Table":
            self._over = True
            return None
        revision = revision_of(obj)
        if self._initial is not None:
            return self._take_initial(self._initial, kind, obj, revision)
        return (
            self._take_bookmark(revision)
            if kind == BOOKMARK
            else self._take_change(kind, path_of(obj), revision)
        )

    def _begin(self, revision: int) -> None:
        self._initial = None
        self._began = self._upto = revision
        steps = self._past.steps(self._request.resource)
        self._next = sum(step.revision <= revision for step in steps)

    def _take_initial(self, initial: dict[str, int], kind: str, obj: Obj, revision: int) -> str | None:
        if kind == DELETED:
            initial.pop(path_of(obj), None)
        elif kind != BOOKMARK:
            initial[path_of(obj)] = revision
        else:
            self._begin(revision)
            wanted = self._past.at(self._request.resource, revision, self._request.wants)
            if initial != wanted:
                diff = sorted(initial.items() ^ wanted.items())
                return (
                    f"the initial events of revision {revision} differ from the store's objects: {diff[:3]}"
                )
            if revision < self._floor:
                return (
                    f"the initial events are of revision {revision}, but {self._floor} had been sent before"
                )
        return None

    def _take_bookmark(self, revision: int) -> str | None:
        if revision < self._upto:
            return f"sent a bookmark of revision {revision} after events up to {self._upto}"
        missed = self._upcoming()
        if missed is not None and missed.revision <= revision:
            return f"sent a bookmark of revision {revision}, but not {missed.path} at {missed.revision}"
        self._upto = revision
        return None

    def _take_change(self, kind: str, path: str, revision: int) -> str | None:
        if revision == self._began:
            return None  # A commit of several objects may be sent again as a whole.
        step = self._upcoming()
        if step is None or (step.path, step.revision) != (path, revision):
            expected = f"{step.path} at {step.revision}" if step is not None else "nothing"
            return f"sent {path} at {revision}, but the next event was {expected}"
        self._next += 1
        self._upto = revision
        wanted = self._kind_of(step)
        return None if kind == wanted else f"sent {path} at {revision} as {kind}, but it is {wanted}"

    def _upcoming(self) -> StoreStep | None:
        """The next step that this watch must send."""
        steps = self._past.steps(self._request.resource)
        while self._next < len(steps):
            if self._kind_of(steps[self._next]):
                return steps[self._next]
            self._next += 1
        return None

    def _kind_of(self, step: StoreStep) -> str:
        """The event type for this watch, whose selector an object may begin or cease to match. '': no
        event."""
        was = step.old is not None and self._request.wants(step.path, step.old[1])
        if step.new is not None and self._request.wants(step.path, step.new):
            return MODIFIED if was else ADDED
        return DELETED if was else ""
