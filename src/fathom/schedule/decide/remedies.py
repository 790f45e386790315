"""For each rule, the smallest change after which it would accept the pod, and who can make it, all tried.

Rules about nodes and fathom's own are here; room is in `remedies_room.py`, topology in
`remedies_topology.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from fathom.model.well_known import QUARANTINE_TAINT
from fathom.schedule.decide.context import Allowed, QuotaLimit
from fathom.schedule.decide.filters.nodes import BLOCKING
from fathom.schedule.decide.filters.quota import QuotaLayer, quota_reason
from fathom.schedule.decide.node_columns import UNSCHEDULABLE
from fathom.schedule.decide.remedies_room import ports, resources, volumes
from fathom.schedule.decide.remedies_topology import neighbours, spread, zone_skew
from fathom.schedule.decide.remedy_text import (
    NAMED_MAX,
    OPERATOR,
    OWNER,
    TENANT_ADMIN,
    TRIED_MAX,
    alive,
    if_any,
    lifted,
    nodes_text,
    one_of,
    shown,
)
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PODS, NodeTerm, Taint, Toleration
from fathom.schedule.decide.trial import ELSEWHERE, GRANT, WAIT, WISH, Effect, Remedy, Trial

__all__ = ["NAMED_MAX", "OPERATOR", "OWNER", "REMEDIES", "TENANT_ADMIN", "lifted", "shown"]

CORDON, TAINTS, AFFINITY = "NodeUnschedulable", "TaintToleration", "NodeAffinity"
SYSTEM = ("node.kubernetes.io/", "fathom.dev/", "node.cloudprovider.kubernetes.io/")


# Nodes.


def freshness(trial: Trial) -> Iterator[Remedy]:
    effect = Effect(world={"view_age_ms": 0})
    text = f"wait until the scheduler's view is fresh again (it is {trial.world.view_age_ms} ms old)"
    yield from if_any("Freshness", trial.opened_by(effect), text, "time", effort=WAIT, effect=effect, count=0)


def cordon(trial: Trial) -> Iterator[Remedy]:
    """Uncordon. A cordon also taints the node; uncordoning removes both."""
    effect = _tolerating(trial, UNSCHEDULABLE)
    rows = trial.opened_by(effect)
    offered = if_any(CORDON, rows, f"uncordon {one_of(rows)}", OPERATOR, effort=GRANT, effect=effect)
    for remedy in offered:  # It opens the one node that is uncordoned.
        yield msgspec.structs.replace(remedy, nodes=1, ways=len(rows))


def _tolerating(trial: Trial, *taints: Taint) -> Effect:
    tolerations = [Toleration(taint.key, not taint.value, taint.value, taint.effect) for taint in taints]
    return Effect({"tolerations": (*trial.shape.tolerations, *tolerations)})


def taints(trial: Trial) -> Iterator[Remedy]:
    """Tolerate one taint, or remove it; where no single one is enough, all that one node has."""
    offered = [remedy for taint in _untolerated(trial) for remedy in _taint(trial, taint)]
    yield from offered or _all_taints(trial)


def _taint(trial: Trial, taint: Taint) -> Iterator[Remedy]:
    effect = _tolerating(trial, taint)
    rows = trial.opened_by(effect)
    shown_taint = (
        f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
    )
    about = (taint.key, taint.value, taint.effect)
    if taint.key == QUARANTINE_TAINT:
        text, by, effort = f"repair {one_of(rows)} and lift the quarantine", OPERATOR, GRANT
    elif taint.key.startswith(SYSTEM):
        text, by, effort = f"repair {one_of(rows)}, which has the taint {shown_taint}", OPERATOR, GRANT
    else:
        text = f"tolerate the taint {shown_taint} of {nodes_text(len(rows))}, or remove it"
        by, effort = OWNER, WISH
    yield from if_any(TAINTS, rows, text, by, effort=effort, effect=effect, about=about)


def _all_taints(trial: Trial) -> Iterator[Remedy]:
    """All taints of the node that has the fewest, of those that would take the pod then."""
    tried: dict[tuple[Taint, ...], None] = {}
    for row in alive(trial):
        tried[tuple(_blocking(trial, row))] = None
    for blocking in sorted(tried, key=len)[:TRIED_MAX]:
        effect = _tolerating(trial, *blocking)
        rows = trial.opened_by(effect) if len(blocking) > 1 else None
        if rows is None or not len(rows):
            continue
        parts = [_part(trial, taint, blocking, rows) for taint in blocking]
        text = "; and ".join(part.change for part in parts)
        by = " and ".join(dict.fromkeys(part.by for part in parts))
        yield Remedy(
            TAINTS, text, by, len(rows), WISH, node=rows.names[0],
            parts=tuple(parts), count=len(parts), effect=effect,
        )  # fmt: skip
        return


def _part(trial: Trial, taint: Taint, blocking: tuple[Taint, ...], rows: Rows) -> Remedy:
    others = _tolerating(trial, *(other for other in blocking if other != taint))
    return next(_taint(trial.on(int(rows.numbers()[0])).after(others), taint))


def _blocking(trial: Trial, row: int) -> list[Taint]:
    table = trial.table
    return [
        taint
        for taint in table.taints[int(table.taint_sets[row])]
        if taint.effect in BLOCKING and taint != UNSCHEDULABLE and not trial.shape.tolerates(taint)
    ]


def _untolerated(trial: Trial) -> list[Taint]:
    """Taints that the pod does not tolerate, those of most nodes first."""
    nodes: Counter[Taint] = Counter(taint for row in alive(trial) for taint in _blocking(trial, row))
    return sorted(nodes, key=lambda taint: (-nodes[taint], taint.key, taint.value, taint.effect))[:TRIED_MAX]


def affinity(trial: Trial) -> Iterator[Remedy]:
    """Drop one requirement; where that is not enough, the nodeSelector, the node affinity, or both."""
    offered = [*_fewer_selectors(trial), *_fewer_requirements(trial)]
    if not offered and len(trial.shape.node_selector) > 1:
        offered = [*_relaxed_affinity(trial, {"node_selector": ()}, ("nodeSelector",))]
    if not offered and trial.shape.node_terms is not None:
        offered = [*_relaxed_affinity(trial, {"node_terms": None}, ("nodeAffinity",))]
    if not offered:
        both: dict[str, object] = {"node_selector": (), "node_terms": None}
        offered = [*_relaxed_affinity(trial, both, ())]
    yield from offered


def _fewer_selectors(trial: Trial) -> Iterator[Remedy]:
    for key, value in trial.shape.node_selector[:TRIED_MAX]:
        fewer = tuple(pair for pair in trial.shape.node_selector if pair != (key, value))
        effect = Effect({"node_selector": fewer})
        rows = trial.opened_by(effect)
        text = f"drop {key}={value} from the nodeSelector, or label {one_of(rows)} with it"
        yield from if_any(AFFINITY, rows, text, OWNER, effort=ELSEWHERE, effect=effect, about=(key, value))


def _fewer_requirements(trial: Trial) -> Iterator[Remedy]:
    """Drop one expression of a required term that has several: a term without any matches no node."""
    terms = trial.shape.node_terms or ()
    for at, term in enumerate(terms[:TRIED_MAX]):
        for index, requirement in enumerate(term.labels[:TRIED_MAX]):
            if len(term.labels) + len(term.fields) == 1:
                continue
            fewer = NodeTerm((*term.labels[:index], *term.labels[index + 1 :]), term.fields)
            effect = Effect({"node_terms": (*terms[:at], fewer, *terms[at + 1 :])})
            rows = trial.opened_by(effect)
            text = f"drop {requirement.key} from the pod's node affinity so that {one_of(rows)} matches"
            about = ("nodeAffinity", str(at), str(index), requirement.key)
            yield from if_any(AFFINITY, rows, text, OWNER, effort=ELSEWHERE, effect=effect, about=about)


def _relaxed_affinity(trial: Trial, spec: dict[str, object], about: tuple[str, ...]) -> Iterator[Remedy]:
    effect = Effect(spec)
    rows = trial.opened_by(effect)
    text = f"change the pod's node affinity so that {one_of(rows)} matches"
    yield from if_any(
        AFFINITY, rows, text, OWNER, effort=ELSEWHERE, effect=effect, amount=1, about=about,
        count=2 if len(spec) > 1 and trial.shape.node_selector and trial.shape.node_terms else 1,
    )  # fmt: skip


# fathom's own rules.


def override(trial: Trial) -> Iterator[Remedy]:
    """End one override: enough where it alone keeps the pod from some node. Else all of them."""
    names = tuple(dict.fromkeys(avoidance.override for avoidance in trial.world.avoided))
    offered = [remedy for name in names for remedy in _without_overrides(trial, (name,))]
    yield from offered or _without_overrides(trial, _overrides_at(trial) or names)


def _overrides_at(trial: Trial) -> tuple[str, ...]:
    """On one node: the overrides that keep the pod from it, each of which must end."""
    if trial.only is None:
        return ()
    names = dict.fromkeys(avoidance.override for avoidance in trial.world.avoided)
    decisive = []
    for name in names:
        kept = tuple(avoidance for avoidance in trial.world.avoided if avoidance.override == name)
        if not len(trial.by("Override").opened(world={"avoided": kept})):
            decisive.append(name)
    return tuple(decisive)


def _without_overrides(trial: Trial, names: tuple[str, ...]) -> Iterator[Remedy]:
    remaining = tuple(avoidance for avoidance in trial.world.avoided if avoidance.override not in names)
    effect = Effect(world={"avoided": remaining})
    yield from if_any(
        "Override", trial.opened_by(effect), _ended(names), OPERATOR,
        effort=GRANT, effect=effect, about=names, count=len(names),
    )  # fmt: skip


def _ended(names: Iterable[str]) -> str:
    return f"end override {' and '.join(names)}, or let it expire"


def trust(trial: Trial) -> Iterator[Remedy]:
    effect = Effect(world={"refused_nodes": ()})
    rows = trial.opened_by(effect)
    text = f"wait until the scheduler's view of {one_of(rows)} is as new as the server's"
    yield from if_any("NodeTrust", rows, text, "time", effort=WAIT, effect=effect, count=0)


def capacity_class(trial: Trial) -> Iterator[Remedy]:
    wanted = trial.shape.capacity_class
    for name in (wanted,) if wanted else _classes(trial, whole_nodes=True):
        yield from _opened_class(trial, name)
    if wanted:
        effect = Effect({"capacity_class": ""})
        text, rows = f"drop capacity class {wanted} from the pod", trial.opened_by(effect)
        yield from if_any("CapacityClass", rows, text, OWNER, effort=WISH, effect=effect)
        if not len(rows):
            yield from _another_class(trial, text)


def _opened_class(trial: Trial, name: str) -> Iterator[Remedy]:
    """An override lets the workload in, or the class admits the tenant: the rule accepts the same nodes for
    both. For pods that ask for the class its list of tenants comes first, for others an override, which ends.
    (Room that a class keeps on nodes is in `remedies_room.py`: there, a pod that does not ask for it needs an
    override.)"""
    asks, tenant = bool(trial.shape.capacity_class), trial.shape.tenant
    effect = Effect(world={"allowed": (*trial.world.allowed, Allowed("", name))})
    rows = trial.opened_by(effect)
    opens = f"(opens {nodes_text(len(rows))})"
    texts = {
        (name,): f"allow capacity class {name} by an override {opens}",
        (name, tenant): f"admit tenant {tenant} to capacity class {name} {opens}",
    }
    for about, text in texts.items():
        second = asks == (len(about) == 1)
        yield from if_any(
            "CapacityClass", rows, text, OPERATOR,
            effort=GRANT, effect=effect, amount=int(second), about=about,
        )  # fmt: skip


def _another_class(trial: Trial, dropped: str) -> Iterator[Remedy]:
    """Two changes of one rule: the pod asks for a class that does not have the node, and the node is reserved
    for another."""
    for name in _classes(trial):
        if name == trial.shape.capacity_class:
            continue  # To allow it is enough, without dropping it.
        effect = Effect({"capacity_class": ""}, world={"allowed": (*trial.world.allowed, Allowed("", name))})
        rows, allowed = trial.opened_by(effect), f"allow capacity class {name} by an override"
        if len(rows):
            drop = Remedy("CapacityClass", dropped, OWNER, len(rows), WISH)
            allow = Remedy("CapacityClass", allowed, OPERATOR, len(rows), GRANT, about=(name,))
            yield Remedy(
                "CapacityClass",
                f"{dropped}; and {allowed}",
                f"{OWNER} and {OPERATOR}",
                len(rows),
                GRANT,
                node=rows.names[0],
                parts=(drop, allow),
                count=2,
                effect=effect,
            )


def _classes(trial: Trial, *, whole_nodes: bool = False) -> list[str]:
    """`whole_nodes`: only those that keep other pods off their nodes."""
    classes = [each.name for each in trial.table.reserved if not (whole_nodes and each.kept)]
    return classes[:TRIED_MAX]


def quota(trial: Trial) -> Iterator[Remedy]:
    """Raise the quota for one domain: a zone and the class that the pod would draw on there. All limits that
    it exceeds there must be raised; domains that lack the same are opened by one change."""
    tenant_quota, effect = trial.world.quota, Effect(lifts=("TenantQuota",))
    rows = trial.opened_by(effect)
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
        yield Remedy(
            "TenantQuota", text, TENANT_ADMIN, count, GRANT,
            about=limits, short=raised, count=len(short), effect=effect,
        )  # fmt: skip


def _granted(limit: QuotaLimit, resource: str) -> int:
    return next((amount for name, amount in limit.needs if name == resource), 0)


def _quota_short(tenant: str, limit: QuotaLimit, name: str, over: int) -> str:
    unit = "pod" if name == PODS and over == 1 else name
    return f"{quota_reason(tenant, limit)} is short by {shown(name, over)} {unit}"


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
