"""The smallest change that would admit a pod: what it lacks on the nodes nearest to taking it.

Each rule that rejected nodes offers its remedies (`remedies.py`), each tried by the decider itself. The
fewest changes come first; then the least effort; of equal efforts, the remedy of the last rule in order: its
nodes passed all the others. Where no rule's change is enough, a node is named with all that it needs, of the
nodes that the fewest rules reject the one that needs the fewest changes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.remedies import CORDON, OWNER, REMEDIES, TAINTS, lifted
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.shape_scan import ShapeScan
from fathom.schedule.decide.trial import BUILD, Remedy, Trial
from fathom.schedule.decide.verdicts import FITS

__all__ = ["OWNER", "Remedy", "remedies"]

NO_NODES = Remedy("NodeName", "add a node: the cluster has none", "a cluster operator", 0, BUILD)
# Nodes on which each rule is tried alone, when no single change helps.
ROWS_MAX = 1000
# Of them, the nearest ones for which all changes are worked out.
TRIED_MAX = 8
# Rules that are asked besides the one that rejects. A cordon may be rejected by its own rule or, as a taint,
# by the taint rule; a pod that requests less stays within its quota.
ALSO = {TAINTS: (CORDON, TAINTS), "TenantQuota": ("TenantQuota", "NodeResourcesFit")}


def remedies(
    shape: PodShape, table: NodeTable, world: PlacementContext, rules: Rules = RULES
) -> list[Remedy]:
    """The changes that would admit the pod, the smallest first. Empty: it fits already."""
    if not len(table):
        return [NO_NODES]
    scan = ShapeScan(shape, table, world, rules)
    if (scan.codes() == FITS).any():
        return []
    trial = Trial(shape, table, world, rules)
    offered = _sorted(_offered(scan.rejecting_rules(), trial), rules)
    return offered or _several(trial)


def _offered(names: Iterable[str], trial: Trial) -> list[Remedy]:
    wanted = dict.fromkeys(rule for name in names for rule in ALSO.get(name, (name,)))
    return [remedy for name in wanted for remedy in REMEDIES.get(name, lifted(name))(trial)]


def _sorted(offered: list[Remedy], rules: Rules) -> list[Remedy]:
    order = {rule.name: at for at, rule in enumerate(rules.filters)}
    return sorted(
        offered,
        key=lambda remedy: (
            remedy.count,
            remedy.effort,
            -order.get(remedy.rule, 0),
            remedy.amount,
            -remedy.nodes,
            remedy.change,
        ),
    )


def _several(trial: Trial) -> list[Remedy]:
    """All the changes that one node needs, for the node that needs the fewest."""
    objecting = _objecting(trial)
    nearest = sorted(objecting, key=lambda row: (len(objecting[row]), row))[:TRIED_MAX]
    ranked = []
    for row in nearest:
        parts = _parts(trial.on(row), objecting[row])
        if parts:
            efforts = sorted((part.effort for part in parts), reverse=True)
            ranked.append((sum(part.count for part in parts), efforts, row, parts))
    return [_joined(trial, row, parts) for _, _, row, parts in sorted(ranked, key=lambda rank: rank[:3])[:1]]


def _parts(trial: Trial, names: Iterable[str]) -> list[Remedy]:
    """A change for each rule that rejects the node, each after the ones before it: a pod that requests less
    needs less quota. Empty: they would not be enough."""
    parts: list[Remedy] = []
    for name in names:
        alone = trial.by(name)
        if len(alone.opened()):  # A change before it is enough: to uncordon is one, though two rules reject.
            continue
        offered = _sorted(_offered((name,), alone), trial.rules)
        if not offered:
            return []
        parts.append(offered[0])
        trial = trial.after(offered[0].effect)
    return parts if len(trial.opened()) else []


def _joined(trial: Trial, row: int, parts: list[Remedy]) -> Remedy:
    text = "; and ".join(dict.fromkeys(part.change for part in parts))
    who = " and ".join(dict.fromkeys(part.by for part in parts))
    return Remedy(
        parts[-1].rule, text, who, 1, BUILD, node=trial.table.names[row],
        parts=tuple(parts), count=sum(part.count for part in parts),
    )  # fmt: skip


def _objecting(trial: Trial) -> dict[int, list[str]]:
    """Row -> the rules that reject it, each tried alone."""
    rows = np.flatnonzero(trial.table.alive[: trial.table.height])[:ROWS_MAX].tolist()
    rejecting: dict[int, list[str]] = {row: [] for row in rows}
    for name in [rule.name for rule in trial.rules.filters]:
        alone = trial.by(name)
        codes = ShapeScan(alone.shape, alone.table, alone.world, alone.rules).codes()
        for row in rows:
            if codes[row] != FITS:
                rejecting[row].append(name)
    return rejecting
