"""The smallest change that would admit a pod, from the verdicts on it: what is missing where it is nearest.

Each rule that rejected nodes offers its cheapest remedy, with the nodes that it would open and who can bring
it about. Remedies are tried, not guessed: one counts only if the pod then fits by all the other rules
too. The smallest comes first: a change of one thing before a change of many, nodes that nearly fit before
nodes that do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from fathom.model.quantity import BINARY, of_milli, of_value
from fathom.schedule.context import Context
from fathom.schedule.filters.nodes import untolerated
from fathom.schedule.filters.quota import quota_reason, used
from fathom.schedule.passes import Pass
from fathom.schedule.rows import Rows
from fathom.schedule.rules import RULES, Filter, Rules, TopologyFilter
from fathom.schedule.shape import CPU, MEMORY, Shape, Taint, Toleration
from fathom.schedule.table import NodeTable
from fathom.schedule.verdicts import FITS

OWNER, OPERATOR, TENANT_ADMIN = "the pod's owner", "a cluster operator", "who grants the tenant's quota"

# How hard a remedy is, for ordering: time heals, then the pod's own wishes, then the cluster, then policy.
WAIT, ASK_LESS, ASK_OTHERWISE, GRANT, BUILD = range(5)


class Remedy(msgspec.Struct, frozen=True):
    """A change after which the pod would fit."""

    rule: str
    change: str  # 'node-7 lacks 200m cpu (has 300m free of 4, 500m are asked for)'
    by: str  # Who can make it.
    nodes: int  # How many nodes it would open.
    effort: int  # Among remedies, the least effort comes first.
    amount: int = 0  # How much of it, to compare two of a kind.


def remedies(shape: Shape, table: NodeTable, world: Context, rules: Rules = RULES) -> list[Remedy]:
    """Single changes, the smallest first. Empty: the pod fits already, or no single change helps."""
    made = Pass(shape, table, world, rules)
    if (made.codes() == FITS).any():
        return []
    found: list[Remedy] = []
    for rule in made.rejecting_rules():
        others = _without(rules, rule)
        open_rows = np.flatnonzero(Pass(shape, table, world, others).codes() == FITS)
        if open_rows.size:
            found += _REMEDIES.get(rule, _lift)(rule, shape, Rows(table, open_rows), world)
    return sorted(found, key=lambda one: (one.effort, one.amount, -one.nodes, one.change))


def smallest_change(shape: Shape, table: NodeTable, world: Context, rules: Rules = RULES) -> str:
    """One line for `why`."""
    if not len(table):
        return "add a node: there is none"
    found = remedies(shape, table, world, rules)
    if found:
        return f"{found[0].change} (by {found[0].by})"
    made = Pass(shape, table, world, rules)
    return "" if (made.codes() == FITS).any() else _two_at_once(made)


def _two_at_once(made: Pass) -> str:
    """No single rule is in the way everywhere: name those that are in most places."""
    codes, listed = made.codes(), made.reasons.listed
    counts: dict[str, int] = {}
    for code, count in enumerate(np.bincount(codes, minlength=len(listed))[: len(listed)].tolist()):
        counts[listed[code].rule] = counts.get(listed[code].rule, 0) + (count if code != FITS else 0)
    names = sorted((name for name in counts if counts[name]), key=lambda name: (-counts[name], name))
    return f"no single change admits it: {' and '.join(names[:2])} are in the way on the same nodes"


def _without(rules: Rules, name: str) -> Rules:
    kept: tuple[Filter | TopologyFilter, ...] = tuple(one for one in rules.filters if one.name != name)
    return msgspec.structs.replace(rules, filters=kept)


def _lacking(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    """The node that is short of the fewest things, and of the least of them."""
    nearest: tuple[tuple[int, int], int, list[tuple[str, int, int]]] | None = None
    for row in rows.numbers():
        short = _short(shape, rows.table, row)
        parts = sum(1000 * (asked - free) // max(asked, 1) for _, asked, free in short)
        if short and (nearest is None or (len(short), parts) < nearest[0]):
            nearest = ((len(short), parts), row, short)
    if nearest is None:
        text = (
            f"wait: room on {rows.names[0]} is promised to a nominated pod, a Reservation or a capacity class"
        )
        yield Remedy(rule, text, "time", rows.size, WAIT)
        return
    rank, row, short = nearest
    name = rows.table.names[row]
    words = " and ".join(_lack(one, asked - free) for one, asked, free in short)
    asks = ", ".join(
        f"{shown(one, asked)} {one} asked for, {shown(one, free)} free" for one, asked, free in short
    )
    yield Remedy(
        rule, f"node {name} lacks {words} ({asks})", OPERATOR, rows.size, ASK_LESS, rank[0] * 10**6 + rank[1]
    )


def _short(shape: Shape, table: NodeTable, row: int) -> list[tuple[str, int, int]]:
    """(resource, asked for, free)"""
    found = []
    for name, asked in shape.requests:
        column = table.resources[name]
        free = int(table.allocatable[row, column] - table.tally.requested[row, column])
        if asked > free:
            found.append((name, asked, max(free, 0)))
    return found


def _lack(resource: str, missing: int) -> str:
    return "a place for one more pod" if resource == "pods" else f"{shown(resource, missing)} {resource}"


def shown(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(of_milli(amount))
    return str(of_value(amount, BINARY if resource == MEMORY else "DecimalSI"))


def _taints(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    """Tolerating one taint, the one that would open most nodes."""
    opened: dict[Taint, int] = {}
    table = rows.table
    for row in rows.numbers():
        listed = table.taints[int(table.taint_sets[row])]
        taint = untolerated(shape, listed)
        if taint is None:
            continue
        more = msgspec.structs.replace(shape, tolerations=(*shape.tolerations, _tolerating(taint)))
        if untolerated(more, listed) is None:
            opened[taint] = opened.get(taint, 0) + 1
    for taint, count in opened.items():
        text = f"tolerate the taint {taint.key}={taint.value}:{taint.effect} of {_nodes(count)}, or remove it"
        yield Remedy(rule, text, OWNER, count, ASK_OTHERWISE)


def _tolerating(taint: Taint) -> Toleration:
    return Toleration(taint.key, False, taint.value, taint.effect)


def _selector(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    for key, value in shape.node_selector:
        fewer = tuple(one for one in shape.node_selector if one != (key, value))
        if shape.node_terms is None or rows.matching(shape.node_terms).any():
            count = int(rows.having(fewer).sum())
            if count:
                text = f"drop {key}={value} from the nodeSelector, or label one of {_nodes(count)} with it"
                yield Remedy(rule, text, OWNER, count, ASK_OTHERWISE)
                return
    name = rows.names[0]
    text = f"change the pod's node affinity so that one of {_nodes(rows.size)} (such as {name}) matches"
    yield Remedy(rule, text, OWNER, rows.size, ASK_OTHERWISE)


def _quota(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    quota = world.quota
    for limit in quota.limits if quota is not None else ():
        for name, most in limit.needs:
            over = used(rows.table, limit, quota.tenant if quota else "", name) + shape.amount(name) - most
            if shape.amount(name) and over > 0:
                tenant = quota.tenant if quota else ""
                text = f"{quota_reason(tenant, limit)} is short by {shown(name, over)} {name}"
                here = (
                    rows.having((("topology.kubernetes.io/zone", limit.zone),)) if limit.zone else rows.yes()
                )
                yield Remedy(rule, text, TENANT_ADMIN, int(here.sum()), GRANT)


def _cordon(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    yield Remedy(rule, f"uncordon {rows.names[0]}{_more(rows)}", OPERATOR, rows.size, ASK_OTHERWISE)


def _ports(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    wanted = ", ".join(f"{one.port}/{one.protocol}" for one in shape.ports)
    text = f"free host port {wanted} on one of {_nodes(rows.size)} (such as {rows.names[0]})"
    yield Remedy(rule, text, OPERATOR, rows.size, ASK_LESS)


def _spread(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    keys = ", ".join(dict.fromkeys(one.topology_key for one in shape.spreads if one.hard))
    text = f"raise maxSkew over {keys} by 1, or make room in the domain that has fewest pods"
    yield Remedy(rule, text, OWNER, rows.size, ASK_OTHERWISE)


def _skew(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    most, name = world.policy.max_zone_skew, world.policy.name
    text = f"make room in the zone that has fewest pods, or raise maxZoneSkew={most} of {name}"
    yield Remedy(rule, text, OPERATOR, rows.size, GRANT)


def _affinity(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    if shape.affinity:
        text = f"place a pod that its affinity asks for near one of {_nodes(rows.size)}"
    else:
        text = f"add a node, or let a pod that it must not be near leave one of {_nodes(rows.size)}"
    yield Remedy(rule, text, OWNER, rows.size, BUILD)


def _override(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    names = ", ".join(dict.fromkeys(one.override for one in world.avoided))
    yield Remedy(rule, f"end override {names}, or let it expire", OPERATOR, rows.size, GRANT)


def _class(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    wanted = shape.capacity_class
    if wanted:
        text = f"do without capacity class {wanted}, or admit tenant {shape.tenant} to it"
    else:
        table = rows.table
        numbers = sorted({int(one) for one in table.exclusive[rows.index].tolist() if one})
        names = ", ".join(table.reserved[one - 1].name for one in numbers)
        text = f"an override that allows capacity class {names} would open {_nodes(rows.size)}"
    yield Remedy(rule, text, OPERATOR, rows.size, GRANT)


def _trust(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    text = f"repair {rows.names[0]}{_more(rows)} and lift the quarantine"
    yield Remedy(rule, text, OPERATOR, rows.size, GRANT)


def _fresh(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    text = f"wait until the scheduler's view is fresh again (it is {world.view_age_ms} ms old)"
    yield Remedy(rule, text, "time", rows.size, WAIT)


def _volume(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    claims = ", ".join(shape.claims)
    yield Remedy(rule, f"bind claim {claims} to a volume within reach", OPERATOR, rows.size, BUILD)


def _lift(rule: str, shape: Shape, rows: Rows, world: Context) -> Iterator[Remedy]:
    """A rule that has no advice of its own: at least where it alone is in the way."""
    text = f"rule {rule} alone keeps it from {_nodes(rows.size)} (such as {rows.names[0]})"
    yield Remedy(rule, text, OPERATOR, rows.size, BUILD)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _more(rows: Rows) -> str:
    return f" (or one of {rows.size - 1} more)" if rows.size > 1 else ""


_REMEDIES = {
    "Freshness": _fresh,
    "NodeUnschedulable": _cordon,
    "TaintToleration": _taints,
    "NodeAffinity": _selector,
    "Override": _override,
    "NodeTrust": _trust,
    "CapacityClass": _class,
    "VolumeBinding": _volume,
    "NodePorts": _ports,
    "NodeResourcesFit": _lacking,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _affinity,
    "MaxZoneSkew": _skew,
    "TenantQuota": _quota,
}
