"""The cluster as the scheduler sees it, kept between questions and brought up to date by what has changed.

Making it anew takes some 50 µs for each pod and node: half a second for 10,000 pods. Looking for changes
takes a hundredth of that. Its answers are exactly those of a new one (`cluster_of`). Where small changes
cannot promise that, it is made anew: when nodes get another order, when a namespace gets another tenant, or
when several pods or Reservations claim room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from fathom.ask.objects import CachedObjects
from fathom.explain.why.case import VIEWED, as_decided_by, cluster_of, resource_name
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

Entries = Mapping[str, Entry]


class KeptCluster:
    """One view, for one answer at a time."""

    def __init__(self, find_rules: Callable[[], Rules], *, attached: bool = False) -> None:
        """`attached`: the objects are those of a Kubernetes that is not fathom's."""
        self._find_rules = find_rules
        self._attached = attached
        self._lock = threading.Lock()
        self._held: dict[str, Entries] = {}  # By kind, what the view was made from; empty: there is no view.
        self._view = ClusterView()

    @cached_property
    def rules(self) -> Rules:
        """Found with the first question: a rule that cannot be loaded must not stop a server's start."""
        return self._find_rules()

    @contextmanager
    def view_of(self, objects: CachedObjects, *, now_ns: int) -> Iterator[ClusterView]:
        """The view of these objects. Answers wait for each other here: each takes some milliseconds, and
        trials within an answer change the view for a moment."""
        with self._lock:
            try:
                yield self._updated(objects, now_ns)
            except BaseException:
                self._held = {}  # A trial may have ended half way.
                raise

    def _updated(self, objects: CachedObjects, now_ns: int) -> ClusterView:
        entries = {kind: objects.entries(resource) for kind, resource in RESOURCES.items()}
        if not self._held or not self._brought_up_to_date(entries):
            self._view = cluster_of(objects, self.rules, attached=self._attached)
        self._held = entries
        self._view.passing(now_ns=now_ns)
        return self._view

    def _brought_up_to_date(self, entries: Mapping[str, Entries]) -> bool:
        """False: the view must be made anew."""
        table, claims = self._view.table, dict(self._view.table.claims)
        for kind, after in entries.items():
            for old, new in changes(self._held[kind], after):
                if kind == NAMESPACE and self._view.tenant_changed(old, new):
                    return False  # All pods of the namespace count for another tenant.
                self._change(kind, old, new)
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


def changes(before: Entries, after: Entries) -> Iterator[tuple[Obj | None, Obj | None]]:
    """Objects that are not the same, as they were and as they are, by key. An entry is never changed in
    place, so another one means another revision."""
    keys = [key for key, entry in after.items() if before.get(key) is not entry]
    if len(before) + sum(key not in before for key in keys) != len(after):
        keys += [key for key in before if key not in after]
    for key in sorted(keys):
        yield _object(before.get(key)), _object(after.get(key))


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
