"""Choose nodes for pods. Same inputs, same Placements. Next: `schedule/loop/committing.py` sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import msgspec

from fathom.model.decision import Rejection
from fathom.model.invariant import InvariantBroken
from fathom.model.reasons import GATE, remedy_for
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.steering import class_on, overrides_used
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.rules import NO_NODES as NO_NODE_REJECTED
from fathom.schedule.decide.rules import POD_CHANGED, RULES, Rules
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.shape_scan import NodeChoice, ShapeScan
from fathom.schedule.decide.verdicts import FITS, NodeVerdicts, Reason

GATES = "SchedulingGates"  # The name of the gates as a rule.
GATED = "Scheduling is blocked due to non-empty scheduling gates"
NO_NODES = "no nodes available to schedule pods"

# Scans that are kept between batches, and rows of all of them together (some 40 bytes each).
SCANS_MAX, SCAN_ROWS_MAX = 256, 8 << 20


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    node: str | None  # None means unschedulable: an answer, not an exception.
    rejected: Mapping[str, int] = {}  # Reason -> nodes it removed, for the message and `fathom why`.
    rejecting: tuple[tuple[Reason, int], ...] = ()  # The same as data.
    rejections: tuple[Rejection, ...] = ()  # Of an unschedulable pod: by rule, the decisive rule first.
    message: str = ""  # Of an unschedulable pod, as kube-scheduler words it.
    helped_by: tuple[str, ...] = ()  # Events that could help an unschedulable pod (see rules.py).
    verdicts: NodeVerdicts | None = None  # Every node's own reason. None before the filters (gated).
    scores: Mapping[str, int] = {}  # The chosen node first, then up to two nodes of equal score.
    tied: int = 0  # How many nodes have the chosen node's score, itself included.
    nodes: int = 0  # How many nodes were looked at.
    capacity_class: str = ""  # The reserved pool that the placement draws on; goes into the binding.
    overrides: tuple[str, ...] = ()  # Overrides without which the pod could not be on this node.
    policy: str = ""
    node_uid: str = ""  # Of the chosen node, as the decision saw it.
    node_revision: int = 0  # The same.
    seen: Mapping[str, int] = {}
    policy_decides: bool = False  # Unschedulable, and a rollout's other policy would let it on a node.


def place(pod: PodView, table: NodeTable, world: PlacementContext, rules: Rules = RULES) -> Placement:
    """The best node for one pod. Changes nothing."""
    return Decider(table, rules).place(pod, world)


def place_batch(
    pods: Sequence[PodView], table: NodeTable, world: PlacementContext, rules: Rules = RULES
) -> list[Placement]:
    """Nodes for pods of one shape, in order, as `place` and `table.assume` in turn would choose them: each
    placed pod *is assumed* in the table, and a caller that fails to commit one calls `table.forget(uid)`. The
    table is scanned once; after that only the rows that a placement changed are looked at again."""
    return Decider(table, rules).place_batch(pods, world)


def verdict_on(
    pod: PodView, node: str, table: NodeTable, world: PlacementContext, rules: Rules = RULES
) -> Reason | None:
    """Why the pod cannot go to one node; None if it can. Raises KeyError for an unknown node."""
    return Decider(table, rules).verdict_on(pod, node, world)


class Decider:
    """Places pods on one table, keeping scans from batch to batch. Its answers do not depend on what it
    keeps: a kept scan is brought up to date first."""

    def __init__(self, table: NodeTable, rules: Rules = RULES) -> None:
        self.table, self.rules = table, rules
        self._scans: dict[PodShape, ShapeScan] = {}  # Least recently used first.

    def place(self, pod: PodView, world: PlacementContext) -> Placement:
        if pod.shape.gates:
            return _gated(self.table, world)
        scan = self.scan_for(pod, world)
        return _placement(scan, scan.choose(_seed(pod, world)))

    def place_batch(self, pods: Sequence[PodView], world: PlacementContext) -> list[Placement]:
        placements = []
        for pod in pods:
            if pod.shape is not pods[0].shape and pod.shape != pods[0].shape:
                raise InvariantBroken(f"{pod.key} is not of the batch's shape")
            placement = self._place_next(pod, world)
            placements.append(placement)
            world = _used_up(world, placement)
        return placements

    def verdict_on(self, pod: PodView, node: str, world: PlacementContext) -> Reason | None:
        scan = self.scan_for(pod, world)
        code = int(scan.codes()[self.table.row_of[node]])
        return None if code == FITS else scan.reasons.listed[code]

    def scan_for(self, pod: PodView, world: PlacementContext) -> ShapeScan:
        """A scan of the table as it is now."""
        if pod.uid in self.table.claims:  # Its own claim must not block it: a scan for it alone.
            return ShapeScan(
                pod.shape, self.table, msgspec.structs.replace(world, holder=pod.uid), self.rules
            )
        kept = self._scans.pop(pod.shape, None)
        if kept is None:
            kept = ShapeScan(pod.shape, self.table, world, self.rules)
            self._make_room()
        elif kept.version != self.table.version or kept.world is not world:
            kept.refresh(world)
        self._scans[pod.shape] = kept
        return kept

    def _place_next(self, pod: PodView, world: PlacementContext) -> Placement:
        if pod.shape.gates:
            return _gated(self.table, world)
        scan = self.scan_for(pod, world)
        choice = scan.choose(_seed(pod, world))
        placement = _placement(scan, choice)
        if choice is not None and placement.node is not None:
            self.table.assume(pod, placement.node, capacity_class=placement.capacity_class)
            if not scan.world.holder:
                scan.placed(choice.row)
        return placement

    def _make_room(self) -> None:
        rows = max(self.table.height, 1)
        most = max(1, min(SCANS_MAX, SCAN_ROWS_MAX // rows))
        while len(self._scans) >= most:
            del self._scans[next(iter(self._scans))]


def _seed(pod: PodView, world: PlacementContext) -> int:
    return world.tie_seed + crc32(pod.uid.encode())


def _gated(table: NodeTable, world: PlacementContext) -> Placement:
    return Placement(
        node=None,
        message=GATED,
        rejections=(Rejection(GATES, GATE, 0, remedy_for(GATE), GATE),),
        helped_by=(POD_CHANGED,),
        policy=world.policy.name,
        seen=world.seen,
    )


def _placement(scan: ShapeScan, choice: NodeChoice | None) -> Placement:
    table, world = scan.table, scan.world
    if choice is None:
        return _unschedulable(scan)
    row = choice.row
    names, total = table.names, choice.total
    scores = {names[row]: total}
    if len(choice.best) > 1:
        for other in choice.best[:3]:
            if other != row and len(scores) < 3:
                scores[names[other]] = total
    drawn = class_on(scan.shape, table, row, world) if table.reserved or scan.shape.capacity_class else ""
    return Placement(
        node=names[row],
        rejected=scan.rejections.by_text(),
        rejecting=scan.rejections.by_reason(),
        verdicts=scan.verdicts(),
        scores=scores,
        tied=len(choice.best),
        nodes=len(table),
        capacity_class=drawn,
        overrides=overrides_used(scan.shape, table, row, world) if drawn else (),
        policy=world.policy.name,
        node_uid=table.uids[row],
        node_revision=table.revisions[row],
        seen=world.seen,
    )


def _unschedulable(scan: ShapeScan) -> Placement:
    rejected, rejecting = scan.rejections.by_text(), scan.rejections.by_reason()
    return Placement(
        node=None,
        rejected=rejected,
        rejecting=rejecting,
        rejections=scan.rules.rejections(rejecting) or NO_NODE_REJECTED,
        message=explained(len(scan.table), rejected),
        helped_by=scan.rules.helped_by(scan.rejecting_rules() or [rule.name for rule in scan.rules.filters]),
        verdicts=scan.verdicts(),
        nodes=len(scan.table),
        policy=scan.world.policy.name,
        seen=scan.world.seen,
    )


def explained(nodes: int, rejected: Mapping[str, int]) -> str:
    """The message, as kube-scheduler words it."""
    if not nodes:
        return NO_NODES
    reasons = ", ".join(sorted(f"{count} {text}" for text, count in rejected.items()))
    return f"0/{nodes} nodes are available: {reasons}."


def _used_up(world: PlacementContext, placement: Placement) -> PlacementContext:
    """The context after a placement: an override that opens a class for so many pods has one less left."""
    if not placement.overrides:
        return world
    left = tuple(
        msgspec.structs.replace(allowed, left=allowed.left - 1)
        if allowed.override in placement.overrides and allowed.left is not None
        else allowed
        for allowed in world.allowed
    )
    return msgspec.structs.replace(world, allowed=left) if left != world.allowed else world
