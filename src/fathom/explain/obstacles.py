"""What keeps a pod from every node, and the smallest change that would let it in.

A pass names each node with the *first* rule that rejects it. Here every rule is asked about every node, so
that a node which only one rule keeps out is known as such: changing what that rule objects to admits the pod.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fathom.schedule.context import Context
from fathom.schedule.filters.quota import quota_reason, used
from fathom.schedule.pods import PodView
from fathom.schedule.rows import Reasons, Rows
from fathom.schedule.rules import RULES, Filter
from fathom.schedule.shape import CPU, Shape
from fathom.schedule.table import NodeTable
from fathom.schedule.verdicts import Codes, joined

# Who can make a change, the nearest first: of several that would do, the first is told.
AUTHOR, TENANT, OPERATOR = "the pod's author", "who grants the tenant's quota", "an operator of the cluster"
EASE = (
    "Override", "TenantQuota", "MaxZoneSkew", "Freshness", "NodeUnschedulable", "NodeName", "TaintToleration",
    "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "NodePorts", "NodeResourcesFit", "CapacityClass",
    "NodeTrust", "VolumeBinding",
)  # fmt: skip


class Obstacle(msgspec.Struct, frozen=True):
    """One rule, and the nodes that it alone keeps the pod from."""

    rule: str
    reasons: tuple[str, ...]
    nodes: int  # It rejects so many …
    alone: tuple[str, ...]  # … and is the only one that rejects these.


class Change(msgspec.Struct, frozen=True):
    what: str
    who: str
    rule: str
    admits_to: tuple[str, ...] = ()  # Nodes that the pod would fit then.


def obstacles(pod: PodView, table: NodeTable, world: Context) -> list[Obstacle]:
    rows, alive = Rows(table), table.alive[: table.height]
    judged: list[tuple[str, Codes, Reasons]] = []
    for rule in RULES.on(world.policy):
        reasons = Reasons()
        if isinstance(rule, Filter):
            codes = rule.judge(pod.shape, rows, world, reasons)
        else:
            layers = rule.layers(pod.shape, rows, world, reasons)
            codes = joined(rows.codes(), [(layer.domains, layer.codes) for layer in layers])
        judged.append((rule.name, codes, reasons))
    failing = np.array([codes != 0 for _, codes, _ in judged]).reshape(len(judged), table.height) & alive
    single = failing.sum(axis=0) == 1
    found = []
    for (name, codes, reasons), fails in zip(judged, failing, strict=True):
        if fails.any():
            texts = [reasons.listed[code].texts for code in np.unique(codes[fails]).tolist()]
            alone = tuple(table.names[row] for row in np.flatnonzero(fails & single).tolist())
            told = tuple(dict.fromkeys(text for each in texts for text in each))
            found.append(Obstacle(name, told, int(fails.sum()), alone))
    return found


def smallest_change(pod: PodView, table: NodeTable, world: Context) -> Change | None:
    """None: no single change of one rule's object is enough, or nothing is in the way."""
    if pod.shape.gates:
        return Change(f"remove the scheduling gates {', '.join(pod.shape.gates)}", AUTHOR, "SchedulingGates")
    found = obstacles(pod, table, world)
    alone = [one for one in found if one.alone]
    if not alone:
        return None
    best = min(alone, key=lambda one: (EASE.index(one.rule) if one.rule in EASE else 99, one.rule))
    what, who = _words(best, pod, table, world)
    return Change(what, who, best.rule, best.alone[:10])


def _words(one: Obstacle, pod: PodView, table: NodeTable, world: Context) -> tuple[str, str]:
    node, reason = one.alone[0], one.reasons[0]
    match one.rule:
        case "NodeResourcesFit":
            lacking = shortfall(pod.shape, table, one.alone)
            return f"free {lacking[1]} on {lacking[0]}, or ask for that much less", f"{OPERATOR}, or {AUTHOR}"
        case "TenantQuota":
            return _quota_words(pod, table, world), TENANT
        case "TaintToleration":
            taint = reason.partition("taint ")[2] or reason
            return f"tolerate {taint}, or take it from {node}", f"{AUTHOR}, or {OPERATOR}"
        case "NodeAffinity":
            return (
                f"give {node} the labels that the pod asks for, or ask for less",
                f"{OPERATOR}, or {AUTHOR}",
            )
        case "NodeUnschedulable":
            return f"uncordon {node}", OPERATOR
        case "NodePorts":
            listed = ", ".join(f"{port.port}/{port.protocol}" for port in pod.shape.ports)
            return f"free host port {listed} on {node}, or use another", f"{OPERATOR}, or {AUTHOR}"
        case "Override":
            return f"end the {reason.partition(':')[0]}", "its author"
        case "MaxZoneSkew":
            allowed = world.policy.max_zone_skew
            return f"raise maxZoneSkew of policy {world.policy.name} (now {allowed})", OPERATOR
        case "PodTopologySpread":
            return f"raise maxSkew of the pod's spread, or make room elsewhere ({reason})", AUTHOR
        case "InterPodAffinity":
            return f"change the pod's affinity, or which pods are on {node}", AUTHOR
        case "CapacityClass":
            return f"let tenant {pod.tenant} use it: {reason}", OPERATOR
        case "Freshness":
            return "wait until the scheduler hears from the server again", OPERATOR
    return f"change what {one.rule} objects to: {reason}", OPERATOR


def shortfall(shape: Shape, table: NodeTable, names: tuple[str, ...]) -> tuple[str, str]:
    """The node that lacks least, by share of what it has, and what it lacks."""
    best: tuple[float, str, str] | None = None
    for name in names:
        row = table.row_of[name]
        lacks = []
        share = 0.0
        for resource, amount in shape.requests:
            column = table.resources.get(resource)
            have = 0 if column is None else int(table.allocatable[row, column])
            taken = 0 if column is None else int(table.tally.requested[row, column])
            if amount > have - taken:
                lacks.append(shown(resource, amount - (have - taken)))
                share += (amount - (have - taken)) / max(1, have)
        if lacks and (best is None or share < best[0]):
            best = (share, name, " and ".join(lacks))
    return (best[1], best[2]) if best is not None else (names[0], "what is reserved there")


def _quota_words(pod: PodView, table: NodeTable, world: Context) -> str:
    asked = dict(pod.shape.requests)
    for limit in world.quota.limits if world.quota is not None else ():
        for name, most in limit.needs:
            over = used(table, limit, pod.tenant, name) + asked.get(name, 0) - most
            if name in asked and over > 0:
                where = quota_reason(pod.tenant, limit)
                return (
                    f"raise {where} by {shown(name, over)} (limit {shown(name, most)}), or free as much of it"
                )
    return f"raise the quota of tenant {pod.tenant}"


def shown(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount}m cpu" if amount % 1000 else f"{amount // 1000} cpu"
    if resource == "memory" and amount >= 1 << 20:
        return f"{-(-amount // (1 << 20))}Mi memory"
    return f"{amount} {resource}"
