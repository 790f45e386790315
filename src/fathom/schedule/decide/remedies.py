"""For each rule, the smallest change after which it would accept the pod, and who can make it, all tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from fathom.model.quantity import BINARY, of_milli, of_value
from fathom.model.well_known import QUARANTINE_TAINT
from fathom.schedule.decide.context import Allowed, QuotaLimit
from fathom.schedule.decide.filters.nodes import BLOCKING
from fathom.schedule.decide.filters.podaffinity import together
from fathom.schedule.decide.filters.quota import QuotaLayer, quota_reason
from fathom.schedule.decide.filters.resources import promised_to_others
from fathom.schedule.decide.filters.spread import ZoneSkew, skew_of, zone_spread, zones_concerned
from fathom.schedule.decide.node_columns import MISSING, UNSCHEDULABLE
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pod_groups import matches
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import CPU, MEMORY, PODS, PodShape, Spread, Taint, Toleration
from fathom.schedule.decide.trial import ELSEWHERE, GRANT, ROOM, WAIT, WISH, Remedy, Trial
from fathom.schedule.decide.verdicts import FITS

OWNER, OPERATOR, TENANT_ADMIN = "the pod's owner", "a cluster operator", "whoever grants the tenant's quota"

CORDON, TAINTS, AFFINITY = "NodeUnschedulable", "TaintToleration", "NodeAffinity"
# At most so many different taints, selectors or pods are tried, or named, one by one.
TRIED_MAX, NAMED_MAX = 16, 3
SYSTEM = ("node.kubernetes.io/", "fathom.dev/", "node.cloudprovider.kubernetes.io/")


# Nodes.


def freshness(trial: Trial) -> Iterator[Remedy]:
    rows = trial.opened(world={"view_age_ms": 0})
    text = f"wait until the scheduler's view is fresh again (it is {trial.world.view_age_ms} ms old)"
    yield from _if_any("Freshness", rows, text, "time", effort=WAIT)


def cordon(trial: Trial) -> Iterator[Remedy]:
    """Uncordon. A cordon also taints the node; uncordoning removes both."""
    tolerating = Toleration(UNSCHEDULABLE.key, True, "", UNSCHEDULABLE.effect)
    rows = trial.opened(tolerations=(*trial.shape.tolerations, tolerating))
    yield from _if_any(CORDON, rows, f"uncordon {_one_of(rows)}", OPERATOR, effort=GRANT)


def taints(trial: Trial) -> Iterator[Remedy]:
    """Tolerate one taint, or remove it."""
    for taint in _untolerated(trial):
        tolerating = Toleration(taint.key, False, taint.value, taint.effect)
        rows = trial.opened(tolerations=(*trial.shape.tolerations, tolerating))
        shown = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        if taint.key == QUARANTINE_TAINT:
            text = f"repair {_one_of(rows)} and lift the quarantine"
            yield from _if_any(TAINTS, rows, text, OPERATOR, effort=GRANT, about=_taint_words(taint))
        elif taint.key.startswith(SYSTEM):
            text = f"repair {_one_of(rows)}, which has the taint {shown}"
            yield from _if_any(TAINTS, rows, text, OPERATOR, effort=GRANT, about=_taint_words(taint))
        else:
            text = f"tolerate the taint {shown} of {_nodes(len(rows))}, or remove it"
            yield from _if_any(TAINTS, rows, text, OWNER, effort=WISH, about=_taint_words(taint))


def _taint_words(taint: Taint) -> tuple[str, ...]:
    return (taint.key, taint.value, taint.effect)


def _untolerated(trial: Trial) -> list[Taint]:
    """Taints that the pod does not tolerate, those of most nodes first."""
    nodes: dict[Taint, int] = {}  # How many have it.
    table = trial.table
    for row in _alive(trial):
        for taint in table.taints[int(table.taint_sets[row])]:
            if taint.effect in BLOCKING and taint != UNSCHEDULABLE and not trial.shape.tolerates(taint):
                nodes[taint] = nodes.get(taint, 0) + 1
    return sorted(nodes, key=lambda taint: (-nodes[taint], taint.key, taint.value, taint.effect))[:TRIED_MAX]


def affinity(trial: Trial) -> Iterator[Remedy]:
    for key, value in trial.shape.node_selector[:TRIED_MAX]:
        fewer = tuple(pair for pair in trial.shape.node_selector if pair != (key, value))
        rows = trial.opened(node_selector=fewer)
        if len(rows):
            text = f"drop {key}={value} from the nodeSelector, or label {_one_of(rows)} with it"
            yield Remedy(AFFINITY, text, OWNER, len(rows), ELSEWHERE, node=rows.names[0], about=(key, value))
            return
    rows = trial.opened(node_selector=(), node_terms=None)
    text = f"change the pod's node affinity so that {_one_of(rows)} matches"
    yield from _if_any(AFFINITY, rows, text, OWNER, effort=ELSEWHERE)


# fathom's own rules.


def override(trial: Trial) -> Iterator[Remedy]:
    """End one override: enough where it alone keeps the pod from some node."""
    names = tuple(dict.fromkeys(avoidance.override for avoidance in trial.world.avoided))
    for name in names:
        remaining = tuple(avoidance for avoidance in trial.world.avoided if avoidance.override != name)
        rows = trial.opened(world={"avoided": remaining})
        if len(rows):
            yield Remedy(
                "Override", _ended((name,)), OPERATOR, len(rows), GRANT, node=rows.names[0], about=(name,)
            )
            return
    rows = trial.opened(world={"avoided": ()})
    yield from _if_any("Override", rows, _ended(names), OPERATOR, effort=GRANT, about=names)


def _ended(names: Iterable[str]) -> str:
    return f"end override {' and '.join(names)}, or let it expire"


def trust(trial: Trial) -> Iterator[Remedy]:
    rows = trial.opened(world={"doubted": ()})
    text = f"wait until the scheduler's view of {_one_of(rows)} is as new as the server's"
    yield from _if_any("NodeTrust", rows, text, "time", effort=WAIT)


def capacity_class(trial: Trial) -> Iterator[Remedy]:
    wanted = trial.shape.capacity_class
    for name in (wanted,) if wanted else _classes(trial):
        rows = trial.opened(world={"allowed": (*trial.world.allowed, Allowed("", name))})
        text = f"allow capacity class {name} by an override (opens {_nodes(len(rows))})"
        admitted = f", or admit tenant {trial.shape.tenant} to the class"
        yield from _if_any("CapacityClass", rows, text + admitted, OPERATOR, effort=GRANT, about=(name,))
    if wanted:
        rows = trial.opened(capacity_class="")
        yield from _if_any(
            "CapacityClass", rows, f"drop capacity class {wanted} from the pod", OWNER, effort=WISH
        )


def _classes(trial: Trial) -> list[str]:
    return [reserved_class.name for reserved_class in trial.table.reserved[:TRIED_MAX]]


def quota(trial: Trial) -> Iterator[Remedy]:
    """Raise the quota for one domain: a zone and the class that the pod would draw on there. All limits that
    it exceeds there must be raised; domains that lack the same are opened by one change."""
    tenant_quota = trial.world.quota
    rows = trial.opened(without=("TenantQuota",))
    if tenant_quota is None or not len(rows):
        return
    layer = QuotaLayer(trial.shape, Rows(trial.table), trial.world, tenant_quota, Reasons())
    places = Counter(int(layer.domains[row]) for row in rows.numbers())
    opened: Counter[tuple[tuple[QuotaLimit, str, int], ...]] = Counter()
    for domain, count in places.items():
        opened[tuple(layer.short_at(domain))] += count
    for short, count in opened.items():
        text = " and ".join(_quota_short(tenant_quota.tenant, *shortage) for shortage in short)
        raised = tuple(
            (name, _granted(limit, name), _granted(limit, name) + over) for limit, name, over in short
        )
        limits = tuple(quota_reason(tenant_quota.tenant, limit) for limit, _, _ in short)
        yield Remedy("TenantQuota", text, TENANT_ADMIN, count, GRANT, len(short), about=limits, short=raised)


def _granted(limit: QuotaLimit, resource: str) -> int:
    return next((amount for name, amount in limit.needs if name == resource), 0)


def _quota_short(tenant: str, limit: QuotaLimit, name: str, over: int) -> str:
    unit = "pod" if name == PODS and over == 1 else name
    return f"{quota_reason(tenant, limit)} is short by {shown(name, over)} {unit}"


# Room.


def ports(trial: Trial) -> Iterator[Remedy]:
    rows = trial.opened(without=("NodePorts",))
    wanted = ", ".join(f"{port.port}/{port.protocol}" for port in trial.shape.ports)
    text = f"free host port {wanted} on {_one_of(rows)}"
    yield from _if_any("NodePorts", rows, text, OPERATOR, effort=GRANT)


def resources(trial: Trial) -> Iterator[Remedy]:
    """Name what the node lacks that is short of the fewest resources, by the least; or the holder of room
    that is promised to another pod."""
    yield from _without_promises(trial)
    rows = trial.opened(without=("NodeResourcesFit",))
    ranked = [(_rank(short), row, short) for row, short in _shortages(trial, rows) if short]
    if not ranked:
        return
    rank, row, short = min(ranked)
    lacking = " and ".join(_lack(resource, requested - free) for resource, requested, free in short)
    asks = ", ".join(
        f"{shown(resource, requested)} {resource} requested, {shown(resource, free)} free"
        for resource, requested, free in short
    )
    text = f"node {trial.table.names[row]} lacks {lacking} ({asks})"
    yield Remedy(
        "NodeResourcesFit", text, OPERATOR, 1, ROOM, rank[0] * 10**6 + rank[1],
        node=trial.table.names[row], short=tuple(short),
    )  # fmt: skip


Short = list[tuple[str, int, int]]  # (resource, requested, free)


def _rank(short: Short) -> tuple[int, int]:
    return len(short), sum(1000 * (requested - free) // max(requested, 1) for _, requested, free in short)


def _shortages(trial: Trial, rows: Rows) -> Iterator[tuple[int, Short]]:
    table, promised = trial.table, promised_to_others(trial.shape, rows, trial.world)
    for at, row in enumerate(rows.numbers()):
        short = []
        for name, requested in trial.shape.requests:
            column = table.resources[name]
            free = int(table.allocatable[row, column] - table.tally.requested[row, column])
            free -= 0 if promised is None else int(promised[at, column])
            if requested > free:
                short.append((name, requested, max(free, 0)))
        yield row, short


def _without_promises(trial: Trial) -> Iterator[Remedy]:
    """Unused room that is not for this pod: kept by a class, or held for another pod."""
    for reserved_class in trial.table.reserved[:TRIED_MAX]:
        if reserved_class.kept and not trial.shape.capacity_class:
            rows = trial.opened(world={"allowed": (*trial.world.allowed, Allowed("", reserved_class.name))})
            text = (
                f"allow capacity class {reserved_class.name} by an override"
                f" (opens {_nodes(len(rows))} with room kept for the class)"
            )
            yield from _if_any(
                "NodeResourcesFit", rows, text, OPERATOR, effort=GRANT, about=(reserved_class.name,)
            )
    if trial.table.claims_on:
        highest = trial.opened(priority=2**31)  # Above every claim.
        text = (
            f"room on {_one_of(highest)} is held for a nominated pod or by a Reservation: wait until it ends"
        )
        yield from _if_any("NodeResourcesFit", highest, text, OPERATOR, effort=ROOM, amount=10**9)


def _lack(resource: str, missing: int) -> str:
    return "a place for one more pod" if resource == PODS else f"{shown(resource, missing)} {resource}"


def shown(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(of_milli(amount))
    return str(of_value(amount, BINARY if resource == MEMORY else "DecimalSI"))


def volumes(trial: Trial) -> Iterator[Remedy]:
    rows = trial.opened(without=("VolumeBinding",))
    claims = ", ".join(trial.shape.claims)
    text = f"bind claim {claims} to a volume that {_one_of(rows)} reaches"
    yield from _if_any("VolumeBinding", rows, text, OPERATOR, effort=ROOM, about=trial.shape.claims)


# Topology.


def spread(trial: Trial) -> Iterator[Remedy]:
    rule, hard = "PodTopologySpread", [constraint for constraint in trial.shape.spreads if constraint.hard]
    for constraint in hard:
        others = tuple(other for other in trial.shape.spreads if other != constraint)
        rows = trial.opened(spreads=others)
        if len(rows):
            skew = skew_of(constraint, trial.shape, Rows(trial.table))
            most = _skew_needed(constraint, skew, rows)
            if most:
                rows = trial.opened(spreads=(*others, msgspec.structs.replace(constraint, max_skew=most)))
            text = _relaxed(constraint, skew, most, rows, f"maxSkew over {constraint.topology_key}")
            about = (constraint.topology_key, str(constraint.max_skew), str(most))
            yield Remedy(
                rule, text, OWNER, len(rows), WISH, most, node=rows.names[0] if len(rows) else "", about=about
            )
    if len(hard) > 1:
        rows = trial.opened(spreads=())
        keys = " and ".join(dict.fromkeys(constraint.topology_key for constraint in hard))
        yield from _if_any(rule, rows, f"relax the spread over {keys}", OWNER, effort=WISH, amount=10**6)


def zone_skew(trial: Trial) -> Iterator[Remedy]:
    rows = trial.opened(without=("MaxZoneSkew",))
    constraint, policy = zone_spread(trial.shape, trial.world), trial.world.policy
    if constraint is None or not len(rows):
        return
    everywhere = Rows(trial.table)
    skew = skew_of(constraint, trial.shape, everywhere, only=zones_concerned(everywhere, trial.world))
    most = _skew_needed(constraint, skew, rows)
    rows = trial.opened(world={"policy": msgspec.structs.replace(policy, max_zone_skew=most)})
    text = _relaxed(constraint, skew, most, rows, f"maxZoneSkew of policy {policy.name}")
    about = (policy.name, str(policy.max_zone_skew), str(most))
    yield Remedy("MaxZoneSkew", text, OPERATOR, len(rows), ROOM, most, about=about)


def _skew_needed(constraint: Spread, skew: ZoneSkew, rows: Rows) -> int:
    """The skew that the constraint would have to allow for the nearest row. 0: the rows lack its label."""
    values = [value for value in rows.labels(constraint.topology_key) if value is not None]
    return min((skew.counts.get(value, 0) + skew.own - skew.least for value in values), default=0)


def _relaxed(constraint: Spread, skew: ZoneSkew, most: int, rows: Rows, limit: str) -> str:
    """The change as text. `limit` names what would have to be raised."""
    if not most:
        return f"label {_one_of(rows)} with {constraint.topology_key}"
    if len(skew.counts) < constraint.min_domains:
        lacking = constraint.min_domains - len(skew.counts)
        alternative = f"add nodes in {lacking} more domains (there are {len(skew.counts)})"
    else:
        fewest = sorted(value for value, count in skew.counts.items() if count == skew.least)
        alternative = f"open a node in {' or '.join(fewest[:NAMED_MAX])}, which has the fewest such pods"
    return f"raise {limit} from {constraint.max_skew} to {most}, or {alternative}"


def neighbours(trial: Trial) -> Iterator[Remedy]:
    rule = "InterPodAffinity"
    rows = trial.opened(affinity=())
    text = f"place a pod that its pod affinity selects near {_one_of(rows)}"
    yield from _if_any(rule, rows, text, OWNER, effort=WISH)
    near = _with_company(trial, trial.opened(without=(rule,)))
    if not near:
        return
    row, blockers = _fewest(trial, near)
    named = ", ".join(blockers[:NAMED_MAX])
    more = f" and {len(blockers) - NAMED_MAX} more" if len(blockers) > NAMED_MAX else ""
    text = f"move {named}{more} out of the topology domain of {trial.table.names[row]}"
    name = trial.table.names[row]
    yield Remedy(rule, text, OPERATOR, 1, WISH, len(blockers), node=name, about=tuple(blockers))


def _with_company(trial: Trial, rows: Rows) -> list[int]:
    """The rows where the pod's own affinity is met."""
    layers = together(trial.shape, Rows(trial.table), Reasons())
    return [
        row for row in rows.numbers() if all(layer.codes[int(layer.domains[row])] == FITS for layer in layers)
    ]


def _fewest(trial: Trial, rows: list[int]) -> tuple[int, list[str]]:
    """The row with the fewest pods in its domains that conflict, by anti-affinity of either side."""
    table = trial.table
    near: dict[tuple[str, int], dict[str, None]] = {}  # By label and domain.
    for placed in table.placed.values():
        for key in _repelling(trial.shape, placed.view, table) if placed.row >= 0 else ():
            domain = int(table.label_column(key).ids[placed.row])
            near.setdefault((key, domain), {})["/".join(placed.view.key)] = None
    keys = sorted({key for key, _ in near})
    ranked = []
    for row in rows:
        at = [(key, int(table.label_column(key).ids[row])) for key in keys]
        names = sorted({name for place in at if place[1] != MISSING for name in near.get(place, ())})
        if names:
            ranked.append((len(names), row, names))
    _, row, names = min(ranked, default=(0, rows[0], []))
    return row, names


def _repelling(shape: PodShape, pod: PodView, table: NodeTable) -> Iterator[str]:
    """The topology labels over which anti-affinity keeps the two pods apart."""
    ours = (shape.namespace, dict(shape.labels))
    theirs = (pod.shape.namespace, dict(pod.shape.labels))
    for term in shape.anti_affinity:
        if matches(term, *theirs, table.namespaces):
            yield term.topology_key
    for term in pod.shape.anti_affinity:
        if matches(term, *ours, table.namespaces):
            yield term.topology_key


# Text.


def lifted(rule: str) -> Callable[[Trial], Iterator[Remedy]]:
    """The remedy for a rule that offers none itself: names the nodes that it alone rejects."""

    def remedy(trial: Trial) -> Iterator[Remedy]:
        rows = trial.opened(without=(rule,))
        text = f"rule {rule} alone rejects {_one_of(rows)}"
        yield from _if_any(rule, rows, text, OPERATOR, effort=WISH)

    return remedy


def _if_any(
    rule: str,
    rows: Rows,
    text: str,
    by: str,
    *,
    effort: int,
    amount: int = 0,
    about: tuple[str, ...] = (),
) -> Iterator[Remedy]:
    if len(rows):
        yield Remedy(rule, text, by, len(rows), effort, amount, rows.names[0], about)


def _alive(trial: Trial) -> Iterable[int]:
    return [trial.only] if trial.only is not None else trial.table.row_of.values()


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _one_of(rows: Rows) -> str:
    """'node-1', or 'one of 3 nodes (such as node-1)'."""
    if not len(rows):
        return "no node"
    return rows.names[0] if len(rows) == 1 else f"one of {len(rows)} nodes (such as {rows.names[0]})"


REMEDIES: Mapping[str, Callable[[Trial], Iterator[Remedy]]] = {
    "Freshness": freshness,
    CORDON: cordon,
    TAINTS: taints,
    AFFINITY: affinity,
    "Override": override,
    "NodeTrust": trust,
    "CapacityClass": capacity_class,
    "VolumeBinding": volumes,
    "NodePorts": ports,
    "NodeResourcesFit": resources,
    "PodTopologySpread": spread,
    "InterPodAffinity": neighbours,
    "MaxZoneSkew": zone_skew,
    "TenantQuota": quota,
}
