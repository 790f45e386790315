"""The smallest change that would admit a pod: what it lacks on the nodes nearest to taking it.

Each rule that rejected nodes offers its remedies (`remedies.py`), each tried by the decider itself. The least
effort comes first; of equal efforts, the remedy of the last rule in order: its nodes passed all the others.
Where no single change is enough, the node that the fewest rules reject is named with all that it needs.
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
from fathom.schedule.decide.trial import BUILD, Remedy, Trial, without_rules
from fathom.schedule.decide.verdicts import FITS

__all__ = ["OWNER", "Remedy", "remedies"]

NO_NODES = Remedy("NodeName", "add a node: the cluster has none", "a cluster operator", 0, BUILD)
# Nodes on which each rule is tried alone, when no single change helps.
ROWS_MAX = 1000


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
    # A cordon may be rejected by its own rule or, as a taint, by the taint rule.
    wanted = dict.fromkeys(
        rule for name in names for rule in ((CORDON, TAINTS) if name == TAINTS else (name,))
    )
    return [remedy for name in wanted for remedy in REMEDIES.get(name, lifted(name))(trial)]


def _sorted(offered: list[Remedy], rules: Rules) -> list[Remedy]:
    order = {rule.name: at for at, rule in enumerate(rules.filters)}
    return sorted(
        offered,
        key=lambda remedy: (
            remedy.effort,
            -order.get(remedy.rule, 0),
            remedy.amount,
            -remedy.nodes,
            remedy.change,
        ),
    )


def _several(trial: Trial) -> list[Remedy]:
    """All the changes that one node needs, for the node that the fewest rules reject."""
    objecting = _objecting(trial)
    if not objecting:
        return []
    row = min(objecting, key=lambda row: (len(objecting[row]), row))
    parts: list[Remedy] = []
    for name in objecting[row]:
        others = [rule for rule in objecting[row] if rule != name]
        parts += _sorted(_offered((name,), trial.on(row, without=others)), trial.rules)[:1]
    # A cordon is one change, though two rules reject it.
    text = "; and ".join(dict.fromkeys(part.change for part in parts))
    who = " and ".join(dict.fromkeys(part.by for part in parts))
    node = trial.table.names[row]
    return [Remedy(parts[-1].rule, text, who, 1, BUILD, node=node, parts=tuple(parts))] if parts else []


def _objecting(trial: Trial) -> dict[int, list[str]]:
    """Row -> the rules that reject it, each tried alone."""
    rows = np.flatnonzero(trial.table.alive[: trial.table.height])[:ROWS_MAX].tolist()
    rejecting: dict[int, list[str]] = {row: [] for row in rows}
    names = [rule.name for rule in trial.rules.filters]
    for name in names:
        alone = without_rules(trial.rules, (other for other in names if other != name))
        codes = ShapeScan(trial.shape, trial.table, trial.world, alone).codes()
        for row in rows:
            if codes[row] != FITS:
                rejecting[row].append(name)
    return rejecting
