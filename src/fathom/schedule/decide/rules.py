"""The rules, in order. A rule is one function and one line here, with the events that may change its answer.

    filter(shape, rows, world, reasons) -> codes      one per row: 0, or a reason's
    layers(shape, rows, world, reasons) -> layers     rules about zones, hosts and the like
    score(shape, rows, world)           -> points     one per row, whole numbers
    soft(shape, rows, world)            -> softs      preferences about domains

Order is part of the contract: a node's reason is the first rule that rejects it. Rules about single nodes
come first, cheapest first; topology after them; the tenant's quota last, for nodes that would take the pod.
Gangs and claims to devices would be lines of their own. Users' rules come from the entry point group
`fathom.rules` (see `schedule/loop/user_rules.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from fathom.model.decision import Rejection
from fathom.model.reasons import CAPACITY, NODES, QUOTA, SCHEDULER, TOPOLOGY, boundary_of, remedy_for
from fathom.schedule.decide.context import WEIGHTS, PlacementContext, Policy
from fathom.schedule.decide.filters import (
    nodes,
    podaffinity,
    ports,
    quota,
    resources,
    spread,
    steering,
    volumes,
)
from fathom.schedule.decide.filters.layer import Layer
from fathom.schedule.decide.node_columns import Ints
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.scores import nodes as node_scores
from fathom.schedule.decide.scores import resources as resource_scores
from fathom.schedule.decide.scores import soft
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.verdicts import Codes, Reason

# Events, as the queue names them. A rule lists those that could change its answer.
NODE_ADDED: Final = "NodeAdded"
NODE_CHANGED: Final = "NodeChanged"  # Labels, taints, allocatable, unschedulable, conditions.
POD_GONE: Final = "PodGone"  # From a node: deleted, finished, forgotten.
POD_PLACED: Final = "PodPlaced"  # On a node: another pod's affinity may be met now.
NEIGHBOUR_CHANGED: Final = "NeighbourChanged"  # A placed pod has other labels, or is being deleted.
POD_CHANGED: Final = "PodChanged"  # The waiting pod itself.
QUOTA_CHANGED: Final = "QuotaChanged"
POLICY_CHANGED: Final = "PolicyChanged"
OVERRIDE_CHANGED: Final = "OverrideChanged"
CLASS_CHANGED: Final = "CapacityClassChanged"
VOLUME_CHANGED: Final = "VolumeChanged"
NAMESPACE_CHANGED: Final = "NamespaceChanged"
TRUST_CHANGED: Final = "TrustChanged"
VIEW_FRESH: Final = "ViewFresh"

Judge = Callable[[PodShape, Rows, PlacementContext, Reasons], Codes]
JudgeOne = Callable[[PodShape, NodeTable, int, PlacementContext, Reasons], int]
MakeLayers = Callable[[PodShape, Rows, PlacementContext, Reasons], Sequence[Layer]]
ScoreRows = Callable[[PodShape, Rows, PlacementContext], Ints]
ScoreOne = Callable[[PodShape, NodeTable, int, PlacementContext], int]
MakeSofts = Callable[[PodShape, Rows, PlacementContext], Sequence[soft.Soft]]
Reads = Literal["node", "pods"]  # What a rule reads: only the Node, or its pods too.


class FilterRule(msgspec.Struct, frozen=True):
    name: str
    judge: Judge
    helped_by: tuple[str, ...]
    reads: Reads = "node"
    judge_one: JudgeOne | None = None  # The same for one row, if needed after every placement.
    optional: bool = True  # A policy may disable it. Rules that the ledger enforces are not optional.
    boundary: str = SCHEDULER  # Who must act when it rejects: see `model/reasons.py`.
    remedy: str = ""  # In one word; '': the boundary's.


class TopologyFilter(msgspec.Struct, frozen=True):
    name: str
    layers: MakeLayers
    helped_by: tuple[str, ...]
    optional: bool = True
    boundary: str = TOPOLOGY
    remedy: str = ""


class Score(msgspec.Struct, frozen=True):
    name: str
    weight: int
    score: ScoreRows
    reads: Reads = "node"
    score_one: ScoreOne | None = None
    # Raw points are scaled to 0..100 of the largest among the feasible nodes; 'down': more is worse.
    scaled: Literal["", "up", "down"] = ""


class SoftScore(msgspec.Struct, frozen=True):
    name: str
    weight: int
    softs: MakeSofts


Rule = FilterRule | TopologyFilter | Score | SoftScore

FILTERS: tuple[FilterRule | TopologyFilter, ...] = (
    FilterRule("Freshness", steering.freshness, (VIEW_FRESH, POLICY_CHANGED), optional=False),
    FilterRule("NodeName", nodes.node_name, (NODE_ADDED,), optional=False, boundary=NODES),
    FilterRule(
        "NodeUnschedulable",
        nodes.unschedulable,
        (NODE_ADDED, NODE_CHANGED),
        optional=False,
        boundary=NODES,
    ),
    FilterRule(
        "TaintToleration",
        nodes.taints,
        (NODE_ADDED, NODE_CHANGED, POD_CHANGED),
        optional=False,
        boundary=NODES,
    ),
    FilterRule(
        "NodeAffinity",
        nodes.affinity,
        (NODE_ADDED, NODE_CHANGED, POD_CHANGED),
        optional=False,
        boundary=TOPOLOGY,
    ),
    FilterRule(
        "Override",
        steering.avoided,
        (NODE_ADDED, NODE_CHANGED, OVERRIDE_CHANGED),
        optional=False,
        boundary=NODES,
    ),
    FilterRule("NodeTrust", steering.refused_nodes, (NODE_ADDED, TRUST_CHANGED)),
    FilterRule(
        "CapacityClass",
        steering.reserved,
        (NODE_ADDED, NODE_CHANGED, CLASS_CHANGED, OVERRIDE_CHANGED),
        optional=False,
        boundary=CAPACITY,
    ),
    FilterRule(
        "VolumeBinding",
        volumes.volumes,
        (NODE_ADDED, NODE_CHANGED, VOLUME_CHANGED),
        optional=False,
        boundary=TOPOLOGY,
    ),
    FilterRule(
        "NodePorts", ports.ports, (NODE_ADDED, POD_GONE), reads="pods", optional=False, boundary=CAPACITY
    ),
    FilterRule(
        "NodeResourcesFit",
        resources.fit,
        (NODE_ADDED, NODE_CHANGED, POD_GONE, CLASS_CHANGED, OVERRIDE_CHANGED, POD_CHANGED),
        reads="pods",
        judge_one=resources.fit_one,
        optional=False,
        boundary=CAPACITY,
    ),
    TopologyFilter(
        "PodTopologySpread",
        spread.spreads,
        (NODE_ADDED, NODE_CHANGED, POD_GONE, POD_PLACED, NEIGHBOUR_CHANGED, POD_CHANGED),
    ),
    TopologyFilter(
        "InterPodAffinity",
        podaffinity.layers,
        (NODE_ADDED, NODE_CHANGED, POD_GONE, POD_PLACED, NEIGHBOUR_CHANGED, POD_CHANGED, NAMESPACE_CHANGED),
    ),
    TopologyFilter(
        "MaxZoneSkew",
        spread.zone_skew,
        (NODE_ADDED, NODE_CHANGED, POD_GONE, POD_PLACED, NEIGHBOUR_CHANGED, POLICY_CHANGED),
    ),
    TopologyFilter(
        "TenantQuota",
        quota.quotas,
        (NODE_ADDED, NODE_CHANGED, POD_GONE, QUOTA_CHANGED, CLASS_CHANGED, OVERRIDE_CHANGED),
        optional=False,
        boundary=QUOTA,
    ),
)

SCORES: tuple[Score | SoftScore, ...] = (
    Score("TaintToleration", WEIGHTS["TaintToleration"], node_scores.disliked_taints, scaled="down"),
    Score("NodeAffinity", WEIGHTS["NodeAffinity"], node_scores.liked_nodes, scaled="up"),
    SoftScore("PodTopologySpread", WEIGHTS["PodTopologySpread"], soft.spreads),
    SoftScore("InterPodAffinity", WEIGHTS["InterPodAffinity"], soft.neighbours),
    Score(
        "LeastAllocated",
        WEIGHTS["LeastAllocated"],
        resource_scores.least_allocated,
        reads="pods",
        score_one=resource_scores.least_allocated_one,
    ),
    Score(
        "MostAllocated",
        WEIGHTS["MostAllocated"],
        resource_scores.most_allocated,
        reads="pods",
        score_one=resource_scores.most_allocated_one,
    ),
    Score(
        "BalancedAllocation",
        WEIGHTS["BalancedAllocation"],
        resource_scores.balanced,
        reads="pods",
        score_one=resource_scores.balanced_one,
    ),
    Score("ImageLocality", WEIGHTS["ImageLocality"], node_scores.images),
    Score("NodeTrust", WEIGHTS["NodeTrust"], node_scores.trust),
)


class Rules(msgspec.Struct, frozen=True):
    """The rules in force, in order."""

    filters: tuple[FilterRule | TopologyFilter, ...] = FILTERS
    scores: tuple[Score | SoftScore, ...] = SCORES

    def on(self, policy: Policy) -> tuple[FilterRule | TopologyFilter, ...]:
        """The filters that the policy leaves enabled."""
        listed, off = policy.filters, policy.disabled_filters
        return tuple(
            rule
            for rule in self.filters
            if not rule.optional or (rule.name not in off and (not listed or rule.name in listed))
        )

    def helped_by(self, names: Sequence[str]) -> tuple[str, ...]:
        """Events that could help a pod that these rules rejected. For optional rules, a change of policy is
        among them."""
        rejecting = [rule for rule in self.filters if rule.name in names]
        events = {event for rule in rejecting for event in rule.helped_by}
        if any(rule.optional for rule in rejecting):
            events.add(POLICY_CHANGED)
        return tuple(sorted(events))

    def rejections(self, counts: Sequence[tuple[Reason, int]]) -> tuple[Rejection, ...]:
        """The rejections by rule, the decisive one first: of the rules whose nodes are nearest to taking the
        pod, the one that rejects most nodes."""
        by_rule: dict[str, list[tuple[Reason, int]]] = {}
        for reason, count in counts:
            by_rule.setdefault(reason.rule, []).append((reason, count))
        filters = {rule.name: rule for rule in self.filters}
        ranked = [
            (_distance(filters.get(rule)), _rejection(rule, filters.get(rule), counted))
            for rule, counted in by_rule.items()
        ]
        ranked.sort(key=lambda each: (each[0], -each[1].nodes, each[1].rule))
        return tuple([rejection for _, rejection in ranked])


def _distance(rule: FilterRule | TopologyFilter | None) -> int:
    """How far a rejected node is from taking the pod. A node rejected by quota has passed all other rules: a
    grant is enough. A node that is full, or has the wrong pods, suits the pod. A node rejected by its labels
    or taints does not matter while there are nodes that suit the pod."""
    if rule is not None and rule.boundary == QUOTA:
        return 0
    return 1 if isinstance(rule, TopologyFilter) or (rule is not None and rule.reads == "pods") else 2


def _rejection(
    rule: str, filter_rule: FilterRule | TopologyFilter | None, reasons: Sequence[tuple[Reason, int]]
) -> Rejection:
    """`filter_rule` is None if a user's filter gives its reasons a rule name other than its own."""
    boundary = filter_rule.boundary if filter_rule is not None else SCHEDULER
    most, _ = max(reasons, key=lambda each: each[1])
    reason = most.pending if boundary_of(most.pending) == boundary else boundary
    remedy = (filter_rule.remedy if filter_rule is not None else "") or remedy_for(reason)
    return Rejection(rule, boundary, sum(count for _, count in reasons), remedy, reason)


NO_NODES = (Rejection("", NODES, 0, remedy_for(NODES), NODES),)


RULES = Rules()
