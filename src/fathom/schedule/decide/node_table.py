"""The node table: nodes as columns, and the pods that are counted on them.

Everything here is kept up to date by small changes: a put touches one row, a pod the few counters it belongs
to. Columns have room to grow, and double when it is used up. Rules read columns through `rows()`; only this
file writes them. The sums over pods are in `tally.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from fathom.model.objects import Obj, metadata, uid_of
from fathom.model.well_known import ZONE_LABEL
from fathom.schedule.decide.context import Reserved
from fathom.schedule.decide.node_columns import (
    Bools,
    Ids,
    Ints,
    LabelColumn,
    ParsedNode,
    grown,
    node_facts,
    node_revision,
)
from fathom.schedule.decide.pod_groups import Counter, WantedCount
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.shape import CPU, EPHEMERAL, MEMORY, PODS, Needs, Taint
from fathom.schedule.decide.tally import Charged, NodeTally

# Pod changes that are remembered row by row. A reader that is further behind looks at all rows.
CHANGES_MAX = 1 << 17

_NO_FACTS = ParsedNode((), (), ())


class CountedPod(msgspec.Struct, gc=False):
    """A pod that counts on a node."""

    view: PodView
    node: str
    row: int  # -1: the node is not known (yet).
    capacity_class: str
    assumed: bool


class RoomClaim(msgspec.Struct, frozen=True):
    holder: str
    node: str
    needs: Needs
    priority: int
    tenant: str
    capacity_class: str
    order: int  # Of two claims with the same priority, the earlier one gets the room.


class NodeTable:
    """Nodes and the pods on them. Rows are stable; a later node reuses the row of a removed one."""

    def __init__(self) -> None:
        self.version = 0  # Grows with every change that a rule could see.
        self.nodes_version = 0  # The version at which nodes, namespaces or reserved classes last changed.
        self.names: list[str] = []  # By row; '' where there is no node.
        self.facts: list[ParsedNode] = []
        self.uids: list[str] = []
        self.revisions: list[int] = []
        self.zones: list[str] = []
        self.row_of: dict[str, int] = {}
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, PODS: 2, EPHEMERAL: 3}  # Name -> column.
        self.allocatable: Ints = np.zeros((8, 4), dtype=np.int64)  # (capacity, resources)
        self.alive: Bools = np.zeros(8, dtype=np.bool_)
        self.unschedulable: Bools = np.zeros(8, dtype=np.bool_)
        self.taint_sets: Ids = np.zeros(8, dtype=np.int32)  # An index into `taints`.
        self.taints: list[tuple[Taint, ...]] = [()]
        self.images: dict[str, dict[int, int]] = {}  # Name -> row -> bytes.
        self.reserved: tuple[Reserved, ...] = ()  # Sorted by name.
        self.exclusive: Ids = np.zeros(8, dtype=np.int32)  # 1 + index in `reserved` of the row's class.
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.placed: dict[str, CountedPod] = {}  # By uid.
        self.pods_on: list[dict[str, CountedPod]] = []  # By row, by uid.
        self.claims: dict[str, RoomClaim] = {}  # By holder.
        self.claims_on: dict[int, dict[str, RoomClaim]] = {}  # By row; never an empty one.
        self._claims_made = 0
        self.tally = NodeTally(self.resources, 8)
        self._labels: dict[str, LabelColumn] = {}
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._free: list[int] = []  # A heap: the lowest free row is used first.
        self._homeless: dict[str, dict[str, CountedPod]] = {}  # Node that is not known -> uid -> its pods.
        self._changes: list[int] = []  # The row of each version after `_changes_from`.
        self._changes_from = 0
        self.label_column(ZONE_LABEL)

    # Reading.

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def height(self) -> int:
        """Number of rows in use, gaps included: columns are valid up to here."""
        return len(self.names)

    def label_column(self, key: str) -> LabelColumn:
        """Made at the first call, kept up to date from then on."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(key, self.alive.shape[0])
            for row, facts in enumerate(self.facts):
                column.put(row, dict(facts.labels))
        return column

    def resource(self, name: str) -> int:
        """The column of a resource; added at the first call."""
        column = self.resources.get(name)
        if column is None:
            column = self.resources[name] = len(self.resources)
            if column >= self.allocatable.shape[1]:
                self.allocatable = _widened(self.allocatable)
                self.tally.widen()
        return column

    def counter(self, wanted: WantedCount) -> Counter:
        """How many such pods each node has, kept up to date while `nodes_version` stays the same."""
        if self.tally.crowded:
            self.tally.forget_counters()
            self._nodes_changed()
        return self.tally.counter(wanted)

    def assumed(self, uid: str) -> str | None:
        """The node that a pod is assumed on, if any."""
        placed = self.placed.get(uid)
        return placed.node if placed is not None and placed.assumed else None

    def changed_rows(self, version: int) -> list[int] | None:
        """Rows whose pods changed since (-1: pods on no known node). None: too long ago, or nodes changed
        too; then look at all rows."""
        if version < self.nodes_version or version < self._changes_from:
            return None
        return sorted(set(self._changes[version - self._changes_from :]))

    # Nodes.

    def put_node(self, obj: Obj) -> bool:
        """Add or change a node; False if nothing that any rule reads is different."""
        name, facts = str(metadata(obj).get("name") or ""), node_facts(obj)
        row = self.row_of.get(name)
        if row is not None:
            self.uids[row], self.revisions[row] = uid_of(obj), node_revision(obj)
            if self.facts[row] == facts:
                return False
        else:
            row = self._new_row(name)
            self.uids[row], self.revisions[row] = uid_of(obj), node_revision(obj)
        self._write_facts(row, facts)
        for placed in list(self._homeless.get(name, {}).values()):
            self._unseat(placed)
            self._seat(placed, row)
        self._nodes_changed()
        return True

    def remove_node(self, name: str) -> bool:
        """Remove a node. Its pods stay counted for their tenants, and on the node again if it comes back."""
        row = self.row_of.pop(name, None)
        if row is None:
            return False
        pods = list(self.pods_on[row].values())
        for placed in pods:
            self._unseat(placed)
        self._drop_claims_on(row)
        self._write_facts(row, _NO_FACTS)
        for placed in pods:
            self._seat(placed, -1)
        self.names[row], self.uids[row], self.revisions[row], self.alive[row] = "", "", 0, False
        heapq.heappush(self._free, row)
        self._nodes_changed()
        return True

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.namespaces.get(name) == labels:
            return False
        self.namespaces[name] = dict(labels)
        return self._namespaces_changed()

    def remove_namespace(self, name: str) -> bool:
        return self.namespaces.pop(name, None) is not None and self._namespaces_changed()

    def set_reserved(self, classes: Iterable[Reserved]) -> bool:
        """Set the CapacityClasses of the cluster."""
        ordered = tuple(sorted(classes, key=lambda reserved_class: reserved_class.name))
        if ordered == self.reserved:
            return False
        self.reserved = ordered
        for row, facts in enumerate(self.facts):
            self.exclusive[row] = self._exclusive_class(dict(facts.labels))
        self._nodes_changed()
        return True

    # Pods.

    def put_pod(self, view: PodView) -> bool:
        """Put a pod as the cache has it. A bound, unfinished pod counts on its node (also if the node is not
        known yet); any other counts nowhere. This confirms or corrects an assumption about the pod. A view
        without a node does not undo one, since the cache may not have caught up: `forget` does."""
        old = self.placed.get(view.uid)
        if view.finished or not view.node:
            if old is None or (old.assumed and not view.finished):
                return False
            return self.remove_pod(view.uid)
        drawn = view.shape.capacity_class
        if old is not None:
            charged = view.charged or (view.shape.tenant, self._zone(old.row), drawn)
            if _counts_alike(old, view, drawn) and charged == self._charged(old):
                old.view, old.assumed = view, False
                return False
            self.remove_pod(view.uid)
        self._put(CountedPod(view, view.node, -1, drawn, False))
        return True

    def remove_pod(self, uid: str) -> bool:
        placed = self.placed.pop(uid, None)
        if placed is None:
            return False
        row = placed.row
        self._unseat(placed)
        self._pods_changed(row)
        return True

    def assume(self, view: PodView, node: str, *, capacity_class: str = "") -> None:
        """Count a pod on a node ahead of the cache."""
        if view.uid in self.placed:
            self.remove_pod(view.uid)
        self._put(CountedPod(view, node, -1, capacity_class or view.shape.capacity_class, True))

    def forget(self, uid: str) -> bool:
        """Stop counting an assumed pod: its binding failed. A pod that the cache shows as bound stays."""
        placed = self.placed.get(uid)
        return placed is not None and placed.assumed and self.remove_pod(uid)

    def claim(
        self,
        holder: str,
        node: str,
        needs: Needs,
        *,
        priority: int,
        tenant: str = "",
        capacity_class: str = "",
    ) -> None:
        """Keep room for a nominated pod (pods of lower priority do not get it) or for a Reservation (pass the
        highest int, and its tenant: a Reservation counts against the quota). It does not block the pod whose
        uid is the holder."""
        old = self.claims.get(holder)
        claim = RoomClaim(holder, node, needs, priority, tenant, capacity_class, self._claims_made)
        if old is not None:
            if old == msgspec.structs.replace(claim, order=old.order):
                return
            self.unclaim(holder)
        self._claims_made += 1
        self.claims[holder] = claim
        row = self.row_of.get(node, -1)
        for name, _ in needs:
            self.resource(name)
        if row >= 0:
            self.claims_on.setdefault(row, {})[holder] = claim
        if tenant:
            self.tally.charge((tenant, self._zone(row), capacity_class), needs, 1)
        self._pods_changed(row)

    def unclaim(self, holder: str) -> bool:
        claim = self.claims.pop(holder, None)
        if claim is None:
            return False
        row = self.row_of.get(claim.node, -1)
        if row in self.claims_on:
            self.claims_on[row].pop(holder, None)
            if not self.claims_on[row]:
                del self.claims_on[row]
        if claim.tenant:
            self.tally.charge((claim.tenant, self._zone(row), claim.capacity_class), claim.needs, -1)
        self._pods_changed(row)
        return True

    def lift(self, uid: str) -> CountedPod:
        """Stop counting a pod for a moment, to try what its removal would change. The caller puts it back
        before any other code reads the table, so this is no change of the version."""
        placed = self.placed[uid]
        self._unseat(placed)
        return placed

    def put_back(self, placed: CountedPod) -> None:
        self._seat(placed, placed.row)

    # Internals.

    def _put(self, placed: CountedPod) -> None:
        for name, _ in placed.view.shape.requests:
            self.resource(name)
        self.placed[placed.view.uid] = placed
        row = self.row_of.get(placed.node, -1)
        self._seat(placed, row)
        self._pods_changed(row)

    def _seat(self, placed: CountedPod, row: int) -> None:
        placed.row = row
        if row >= 0:
            self.pods_on[row][placed.view.uid] = placed
        else:
            self._homeless.setdefault(placed.node, {})[placed.view.uid] = placed
        self.tally.add(placed.view, row, self._charged(placed), placed.capacity_class, 1)

    def _unseat(self, placed: CountedPod) -> None:
        self.tally.add(placed.view, placed.row, self._charged(placed), placed.capacity_class, -1)
        if placed.row >= 0:
            del self.pods_on[placed.row][placed.view.uid]
        elif (homeless := self._homeless.get(placed.node)) is not None:
            homeless.pop(placed.view.uid, None)
            if not homeless:
                del self._homeless[placed.node]

    def _charged(self, placed: CountedPod) -> Charged:
        """The account as the ledger has it; else as it will be, by the node's zone."""
        view = placed.view
        return view.charged or (view.shape.tenant, self._zone(placed.row), placed.capacity_class)

    def _zone(self, row: int) -> str:
        return self.zones[row] if row >= 0 else ""

    def _new_row(self, name: str) -> int:
        if self._free:
            row = heapq.heappop(self._free)
        else:
            row = len(self.names)
            self.names.append("")
            self.facts.append(_NO_FACTS)
            self.uids.append("")
            self.revisions.append(0)
            self.zones.append("")
            self.pods_on.append({})
            if row >= self.alive.shape[0]:
                self._grow(2 * row)
        self.names[row], self.row_of[name], self.alive[row] = name, row, True
        for claim in [claim for claim in self.claims.values() if claim.node == name]:
            self.claims_on.setdefault(row, {})[claim.holder] = claim
        return row

    def _grow(self, capacity: int) -> None:
        self.allocatable = grown(self.allocatable, capacity)
        self.alive = grown(self.alive, capacity)
        self.unschedulable = grown(self.unschedulable, capacity)
        self.taint_sets = grown(self.taint_sets, capacity)
        self.exclusive = grown(self.exclusive, capacity)
        for column in self._labels.values():
            column.grow(capacity)
        self.tally.grow(capacity)

    def _write_facts(self, row: int, facts: ParsedNode) -> None:
        labels = dict(facts.labels)
        self._move_zone(row, labels.get(ZONE_LABEL, ""))
        for name, _ in self.facts[row].images:
            del self.images[name][row]
        for name, size in facts.images:
            self.images.setdefault(name, {})[row] = size
        self.allocatable[row] = 0
        for name, amount in facts.allocatable:
            column = self.resource(name)
            self.allocatable[row, column] = amount
        self.unschedulable[row] = facts.unschedulable
        self.taint_sets[row] = self._taint_set(facts.taints)
        self.exclusive[row] = self._exclusive_class(labels)
        for label_column in self._labels.values():
            label_column.put(row, labels)
        self.facts[row] = facts

    def _move_zone(self, row: int, zone: str) -> None:
        """A node changed its zone: its pods' use moves along, except where the ledger has charged it."""
        old = self.zones[row]
        if old == zone:
            return
        for placed in self.pods_on[row].values():
            if placed.view.charged is None:
                charged = self._charged(placed)
                self.tally.charge(charged, placed.view.shape.requests, -1)
                self.tally.charge((charged[0], zone, charged[2]), placed.view.shape.requests, 1)
        for claim in self.claims_on.get(row, {}).values():
            if claim.tenant:
                self.tally.charge((claim.tenant, old, claim.capacity_class), claim.needs, -1)
                self.tally.charge((claim.tenant, zone, claim.capacity_class), claim.needs, 1)
        self.zones[row] = zone

    def _drop_claims_on(self, row: int) -> None:
        """The node is gone: its claims stay, counted in no zone, until it comes back."""
        for claim in self.claims_on.get(row, {}).values():
            if claim.tenant:
                self.tally.charge((claim.tenant, self.zones[row], claim.capacity_class), claim.needs, -1)
                self.tally.charge((claim.tenant, "", claim.capacity_class), claim.needs, 1)
        self.claims_on.pop(row, None)

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        set_id = self._taint_ids.get(taints)
        if set_id is None:
            set_id = self._taint_ids[taints] = len(self.taints)
            self.taints.append(taints)
        return set_id

    def _exclusive_class(self, labels: Mapping[str, str]) -> int:
        for index, reserved_class in enumerate(self.reserved):
            if (
                not reserved_class.kept
                and reserved_class.node_selector
                and all(labels.get(k) == v for k, v in reserved_class.node_selector)
            ):
                return index + 1
        return 0

    def _pods_changed(self, row: int) -> None:
        self.version += 1
        self._changes.append(row)
        if len(self._changes) > CHANGES_MAX:
            del self._changes[: CHANGES_MAX // 2]
            self._changes_from += CHANGES_MAX // 2

    def _nodes_changed(self) -> None:
        self.version += 1
        self.nodes_version = self.version
        self._changes.clear()
        self._changes_from = self.version

    def _namespaces_changed(self) -> bool:
        """Affinity terms that select namespaces may match other pods now."""
        self.tally.recount(self.namespaces)
        self._nodes_changed()
        return True


def _counts_alike(old: CountedPod, view: PodView, drawn: str) -> bool:
    same = old.view.shape is view.shape or old.view.shape == view.shape
    return (
        same and old.node == view.node and old.view.deleting == view.deleting and old.capacity_class == drawn
    )


def _widened(columns: Ints) -> Ints:
    wider = np.zeros((columns.shape[0], 2 * columns.shape[1]), dtype=np.int64)
    wider[:, : columns.shape[1]] = columns
    return wider
