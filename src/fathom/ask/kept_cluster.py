"""The cluster as the scheduler sees it, kept between questions and brought up to date by what has changed.

Making it anew takes some 50 µs for each pod and node: half a second for 10,000 pods. Looking for changes
takes a hundredth of that. Its answers are exactly those of a new one (`cluster_of`). Where small changes
cannot promise that, it is made anew: when nodes get another order, when a namespace gets another tenant, or
when several pods or Reservations claim room. `prepare` does it before anybody asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from fathom.ask.objects import CachedObjects
from fathom.explain.why.case import VIEWED, as_decided_by, cluster_of, put_new, resource_name
from fathom.model.objects import Obj, lookup, uid_of
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rules import Rules
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.store.protocol import Entry

POD, NAMESPACE, RESERVATION = "Pod", "Namespace", "Reservation"
# In the order of `cluster_of`: pods last.
RESOURCES = {
    kind.name: resource_name(kind.resource.group, kind.resource.plural)
    for kind in sorted(VIEWED, key=lambda kind: kind.name == POD)
}

STEP_OBJECTS = 100  # Of a preparation: some 4 ms.

Entries = Mapping[str, Entry]
ObjectEntries = Mapping[str, Entries]  # By kind.


class Changed(NamedTuple):
    kind: str
    key: str
    before: Entry | None
    after: Entry | None

    @property
    def old(self) -> Obj | None:
        return _object(self.before)

    @property
    def new(self) -> Obj | None:
        return _object(self.after)


class KeptCluster:
    """One view, for one answer at a time."""

    def __init__(
        self, find_rules: Callable[[], Rules], *, attached: bool = False, step_objects: int = STEP_OBJECTS
    ) -> None:
        """`attached`: the objects are those of a Kubernetes that is not fathom's. `step_objects`: of a
        preparation."""
        self._find_rules = find_rules
        self._attached = attached
        self._step_objects = step_objects
        self._lock = threading.Lock()
        self._held: ObjectEntries = {}  # What the view was made from; empty: there is no view.
        self._view = ClusterView()
        self.made_anew = 0  # How often a preparation did not catch up, but had to begin from nothing.

    @cached_property
    def rules(self) -> Rules:
        """Found with the first question: a rule that cannot be loaded must not stop a server's start."""
        return self._find_rules()

    @contextmanager
    def view_of(self, objects: CachedObjects) -> Iterator[ClusterView]:
        """The view of these objects. Answers wait for each other here: each takes some milliseconds, and
        trials within an answer change the view for a moment."""
        with self._locked():
            yield self._updated(objects)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except BaseException:
                self._held = {}  # A trial, or an update, may have ended half way.
                raise

    def _updated(self, objects: CachedObjects) -> ClusterView:
        entries = _entries(objects)
        if not self._held or not self._brought_up_to_date(_changes(self._held, entries)):
            self._view = cluster_of(objects, self.rules, attached=self._attached)
        self._held = entries
        return self._view

    # Before anybody asks.

    @property
    def size(self) -> int:
        """How many objects the view was made from."""
        return sum(len(of_kind) for of_kind in self._held.values())

    def behind(self, objects: CachedObjects) -> int:
        """How many objects are not the ones that the view was made from."""
        return sum(1 for _ in _changes(self._held, _entries(objects)))

    def prepare(self, objects: CachedObjects) -> Iterator[None]:
        """Bring the view up to date in steps, between which the caller may pause. A question does not wait
        for the rest: it brings the view up to date by itself, and then the preparation ends."""
        entries = _entries(objects)
        yield from self._catch_up(entries)
        if not self._held:
            yield from self._make(entries)

    def _catch_up(self, entries: ObjectEntries) -> Iterator[None]:
        with self._lock:
            held = {kind: dict(of_kind) for kind, of_kind in self._held.items()}
            self._held = held
        for step in self._steps(_changes(held, entries) if held else ()):
            with self._locked():
                if self._held is not held:
                    return
                if not self._brought_up_to_date(step):
                    self._held = {}
                    return
                for change in step:
                    _keep(held[change.kind], change.key, change.after)
            yield

    def _make(self, entries: ObjectEntries) -> Iterator[None]:
        """Objects are decoded one by one: all at once take ten times the memory of the view."""
        self.made_anew += 1
        before, view = self._held, ClusterView(rules=self.rules)
        for step in self._steps(_changes({}, entries)):
            for change in step:
                put_new(view, change.kind, change.new or {}, attached=self._attached)
            yield
        with self._lock:
            if self._held is before:
                self._view, self._held = view, entries

    def _steps(self, changes: Iterable[Changed]) -> Iterator[tuple[Changed, ...]]:
        remaining = iter(tuple(changes))  # Found before the first step changes what they were compared with.
        while step := tuple(islice(remaining, self._step_objects)):
            yield step

    # Changes.

    def _brought_up_to_date(self, changes: Iterable[Changed]) -> bool:
        """False: the view must be made anew."""
        table, claims = self._view.table, dict(self._view.table.claims)
        for change in changes:
            old, new = change.old, change.new
            if change.kind == NAMESPACE and self._view.tenant_changed(old, new):
                return False  # All pods of the namespace count for another tenant.
            self._change(change.kind, old, new)
        return _has_nodes_in_order(table) and _has_claims_in_order(table, claims)

    def _change(self, kind: str, old: Obj | None, new: Obj | None) -> None:
        new = as_decided_by(kind, new, attached=self._attached)
        if kind == POD:
            self._change_pod(old, new)
        elif kind == RESERVATION or new is None:
            self._view.put(kind, old, new)
        else:
            self._view.put(kind, None, new)  # As a new view gets it: with all of its status.

    def _change_pod(self, old: Obj | None, new: Obj | None) -> None:
        """A pod that does not wait any more claims no room on the node that it was nominated to."""
        uid = "" if old is None else uid_of(old)
        is_gone = new is None or uid_of(new) != uid
        if old is not None and (is_gone or not _waits(new)):
            self._view.unnominate(uid)
        if old is not None:
            self._view.gone(uid)  # Its use of overrides is noted again, if it still uses them.
        if old is not None and is_gone:
            self._view.table.remove_pod(uid)
        if new is not None:
            self._view.put_pod(new)


def _entries(objects: CachedObjects) -> ObjectEntries:
    return {kind: objects.entries(resource) for kind, resource in RESOURCES.items()}


def _changes(held: ObjectEntries, entries: ObjectEntries) -> Iterator[Changed]:
    """Objects that are not the same, in the order of `cluster_of`."""
    for kind, after in entries.items():
        before = held.get(kind, {})
        for key in sorted(_changed_keys(before, after)):
            yield Changed(kind, key, before.get(key), after.get(key))


def _changed_keys(before: Entries, after: Entries) -> list[str]:
    """An entry is never changed in place, so another one means another revision."""
    keys = [key for key, entry in after.items() if before.get(key) is not entry]
    if len(before) + sum(key not in before for key in keys) != len(after):
        keys += [key for key in before if key not in after]
    return keys


def _keep(entries: dict[str, Entry], key: str, entry: Entry | None) -> None:
    if entry is None:
        entries.pop(key, None)
    else:
        entries[key] = entry


def _object(entry: Entry | None) -> Obj | None:
    return None if entry is None else entry.body.obj_at(entry.revision)


def _waits(pod: Obj | None) -> bool:
    finished = lookup(pod or {}, "status", "phase") in {"Succeeded", "Failed"}
    return pod is not None and not finished and not lookup(pod, "spec", "nodeName")


def _has_nodes_in_order(table: NodeTable) -> bool:
    """Of equal nodes the order of the rows decides, and a new view has them by name."""
    names = [name for name in table.names if name]
    return names == sorted(names)


def _has_claims_in_order(table: NodeTable, before: Mapping[str, object]) -> bool:
    """Of claims with equal priority the earlier one gets the room; in a new view, the first by name."""
    return len(table.claims) < 2 or all(before.get(holder) == claim for holder, claim in table.claims.items())
