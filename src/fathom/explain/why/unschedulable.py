"""Unschedulable: no node takes the pod. Which rule decides, on which nodes, and the smallest change.

The question is put to the scheduler's own decider, for the cluster as it is; the last recorded answer is
compared with that.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fathom.explain.cordons import cordoned_by
from fathom.explain.evidence import ObjectRef
from fathom.explain.why import queued
from fathom.explain.why.answer import NOBODY, Change, DetailGroup, Explanation, NodeRow, Now, summary_of
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PODS, PodCase, override_refs
from fathom.explain.why.changes import worded
from fathom.explain.why.control_plane import OwnTrouble, scheduler_trouble, view_age_ms
from fathom.explain.why.limit_ranges import limit_range_defaults
from fathom.explain.why.other_scheduler import context_of, waiting_details
from fathom.explain.why.records import groups_of, queue_place
from fathom.explain.why.retries import retry_text
from fathom.model.decision import Decision
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.remedies import CORDON
from fathom.schedule.decide.remedy import remedies
from fathom.schedule.decide.shape import PODS as POD_COUNT
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.shape_scan import ShapeScan
from fathom.schedule.decide.trial import ROOM, Remedy
from fathom.schedule.decide.verdicts import FITS, Reason

STAGE, VERDICT = "unschedulable", "is not scheduled"
FIT = "NodeResourcesFit"
OTHERS_MAX = 5  # Other changes that are listed.
CORDONS_SHOWN = 3


def explain(case: PodCase) -> Explanation:
    """The answer for a pod without a node and without gates."""
    explanation, placement = _explained(case)
    details = waiting_details(case, placement)
    if not details:
        return explanation
    return msgspec.structs.replace(explanation, details=(*details, *explanation.details))


def _explained(case: PodCase) -> tuple[Explanation, Placement]:
    context = context_of(case, case.view, view_age_ms=view_age_ms(case))
    placement = case.cluster.decider.place(case.view, context)
    trouble = scheduler_trouble(case)
    if trouble is not None:
        return _not_decided(case, placement, context, trouble), placement
    if placement.node is not None:
        return _ranked(queued.explain(case, placement), case, context), placement
    explanation = (
        _making_room(case, placement)
        or _may_preempt(case, placement, context)
        or _unschedulable(case, placement, context)
    )
    return explanation, placement


def _ranked(explanation: Explanation, case: PodCase, context: PlacementContext) -> Explanation:
    """With every node's points, where the question is about this pod: among many it would be a scan each."""
    if case.evidence.subject.resource != PODS or case.evidence.subject.key != case.key:
        return explanation
    scan = ShapeScan(case.view.shape, case.cluster.table, context, case.cluster.decider.rules)
    return msgspec.structs.replace(explanation, nodes=ranked_rows(scan))


def ranked_rows(scan: ShapeScan) -> tuple[NodeRow, ...]:
    """All nodes, the best first, then those that do not fit."""
    table, codes, totals = scan.table, scan.codes(), scan.totals()
    rows = []
    for row in np.flatnonzero(table.alive[: table.height]).tolist():
        fits = codes[row] == FITS
        reason = "" if fits else reason_text(scan.reasons.listed[int(codes[row])])
        rows.append(NodeRow(table.names[row], bool(fits), reason, int(totals[row]) if fits else None))
    return tuple(sorted(rows, key=lambda row: (not row.fits, -(row.score or 0), row.node)))


def _not_decided(
    case: PodCase, placement: Placement, context: PlacementContext, trouble: OwnTrouble
) -> Explanation:
    """No scheduler decides: that comes first. That no node would take the pod either comes after."""
    if placement.node is not None:
        now = Now(False, f"it fits {placement.node}", placement.node)
        return answer(
            case, "control-plane", queued.WAITS, trouble.cause, change=trouble.change, now=now,
            next_trigger=trouble.next_trigger, queue=queue_place(case),
        )  # fmt: skip
    then = _unschedulable(case, placement, context)
    once = DetailGroup("once a scheduler decides", (f"no node would take it: {then.cause}",))
    return msgspec.structs.replace(
        then,
        stage="control-plane",
        cause=trouble.cause,
        change=trouble.change,
        changes=tuple(change for change in (then.change, *then.changes) if change is not None),
        summary=summary_of(case.name, VERDICT, trouble.cause, trouble.change),
        details=(once, *then.details),
        next_trigger=trouble.next_trigger,
    )


# Preemption under way.


def _making_room(case: PodCase, placement: Placement) -> Explanation | None:
    """Pods of lower priority are being evicted for it."""
    leaving = leaving_pods(case)
    if not leaving:
        return None
    node, evicted = case.view.nominated, f"{', '.join(leaving)} {'is' if len(leaving) == 1 else 'are'}"
    return answer(
        case,
        "preempting",
        VERDICT,
        f"{evicted} being evicted from {node} for it",
        change=Change("wait for the eviction to end", who=NOBODY, nodes=1),
        now=_now(case, placement),
        groups=groups_of(reasons_of(case, placement)),
        nodes=rows_of(case, placement),
        next_trigger="the evicted pods are gone",
        rejected=placement.rejections,
        queue=queue_place(case),
    )


def _may_preempt(case: PodCase, placement: Placement, context: PlacementContext) -> Explanation | None:
    """Its priority lets the scheduler evict pods for it, at the next attempt."""
    preemption = case.cluster.preemption(case.view, context)
    if preemption.node is None or not context.policy.preemption:
        return None
    names = ", ".join("/".join(victim.key) for victim in preemption.victims)
    leave, them = ("leaves", "it") if len(preemption.victims) == 1 else ("leave", "them")
    return answer(
        case,
        "preempting",
        VERDICT,
        f"there is room for it only if {names} of lower priority {leave} {preemption.node}",
        change=Change(f"wait for the scheduler to evict {them}", who=NOBODY, nodes=1),
        now=_now(case, placement),
        groups=groups_of(reasons_of(case, placement)),
        nodes=rows_of(case, placement),
        next_trigger="the scheduler's next attempt",
        rejected=placement.rejections,
        queue=queue_place(case),
    )


def leaving_pods(case: PodCase) -> list[str]:
    """The terminating pods of lower priority on the node that the pod is nominated to."""
    table = case.cluster.table
    row = table.row_of.get(case.view.nominated)
    pods = table.pods_on[row].values() if row is not None else ()
    return sorted(
        "/".join(pod.view.key) for pod in pods if pod.view.deleting and pod.view.priority < case.view.priority
    )


# No node.


def _unschedulable(case: PodCase, placement: Placement, context: PlacementContext) -> Explanation:
    offered, changes = smallest_changes(case, context)
    first = changes[0] if changes else None
    recorded = (case.last.nodes if case.last is not None else None) or {}
    again = groups_of(reasons_of(case, placement))
    ours = bool(placement.rejections) and placement.rejections[0].rule == "Freshness"
    cause = f"{_cause(placement, offered)}{_held_room(case, offered)}"
    return answer(
        case, "control-plane" if ours else STAGE, VERDICT, cause,
        change=first, changes=tuple(changes[1 : OTHERS_MAX + 1]),
        groups=again or groups_of(recorded, recorded=True), nodes=rows_of(case, placement),
        queue=queue_place(case), now=_now(case, placement), next_trigger=retry_text(placement.helped_by),
        rejected=placement.rejections, related=_overrides(case, placement),
        details=(*_cordons(case, placement), *_defaults(case, placement)),
    )  # fmt: skip


def _defaults(case: PodCase, placement: Placement) -> tuple[DetailGroup, ...]:
    """Requests that a LimitRange has set, where they are why a node has no room: the template has none."""
    short = {name for reason, _ in placement.rejecting if reason.rule == FIT for name in reason.names}
    lines = [
        f"container {each.container} asks for no {each.resource} itself: {each.resource} {each.amount} is the"
        f" default of a LimitRange of namespace {case.key.namespace}"
        for each in limit_range_defaults(case.pod)
        if each.resource in short
    ]
    return (DetailGroup("requests", tuple(lines)),) if lines else ()


def _cordons(case: PodCase, placement: Placement) -> tuple[DetailGroup, ...]:
    """Who cordoned nodes that reject the pod for it, where the audit log says it."""
    if not case.evidence.may_read_nodes:
        return ()
    rejecting = sorted(name for name, reason in _rejections(case, placement).items() if reason.rule == CORDON)
    nodes = [(name, case.evidence.objects.get("nodes", Key("", name))) for name in rejecting]
    lines = [
        f"{name} was {by}"
        for name, node in nodes
        if node is not None and (by := cordoned_by(case.evidence, node))
    ]
    return (DetailGroup("cordon", tuple(lines[:CORDONS_SHOWN])),) if lines else ()


def _overrides(case: PodCase, placement: Placement) -> tuple[ObjectRef, ...]:
    """Those that keep the pod from nodes."""
    return override_refs(
        case.evidence, (reason.about for reason, _ in placement.rejecting if reason.rule == "Override")
    )


def smallest_changes(
    case: PodCase, context: PlacementContext, shape: PodShape | None = None
) -> tuple[list[Remedy], list[Change]]:
    """What would give the pod a node, the smallest first, as the decider has it and as one types it.
    `shape`: instead of the pod's own."""
    offered = remedies(shape or case.view.shape, case.cluster.table, context, case.cluster.decider.rules)
    pairs = [(remedy, worded(remedy, case, context)) for remedy in offered]
    # Room that no lower request gives has to be made: on a full node, or by two containers together.
    pairs.sort(key=lambda pair: pair[0].effort == ROOM and bool(pair[0].short) and not pair[1].command)
    if not pairs:
        return [], []
    sizes = [remedy.size for remedy, _ in pairs]
    equals = sum(remedy.ways for remedy, _ in pairs if remedy.size == sizes[0])
    changes = [change for _, change in pairs]
    changes[0] = msgspec.structs.replace(changes[0], one_of=equals)
    return [remedy for remedy, _ in pairs], changes


def _cause(placement: Placement, offered: list[Remedy]) -> str:
    """The rule that the smallest change is about: it is what the nearest nodes lack."""
    if not placement.rejecting:
        return "the cluster has no nodes"
    ordered = sorted(placement.rejecting, key=lambda pair: (-pair[1], reason_text(pair[0])))
    rules = [part.rule for part in (offered[0].parts or offered[:1])] if offered else []
    of_rule = [pair for pair in ordered if pair[0].rule in rules]
    reason, count = next(
        (pair for pair in of_rule if _is_about(pair[0], offered[0])), (of_rule or ordered)[0]
    )
    return f"{_clause(reason, count, placement.nodes)} ({reason.rule})"


def _held_room(case: PodCase, offered: list[Remedy]) -> str:
    """Room on the nearest node is not free where it is held for pods of higher priority, or reserved."""
    table = case.cluster.table
    row = table.row_of.get(offered[0].node) if offered and offered[0].rule == FIT else None
    claims = table.claims_on.get(row, {}).values() if row is not None else ()
    pods = {uid_of(pod): pod for pod in case.evidence.objects.list(PODS)} if claims else {}
    holders = [
        _holder(pods.get(claim.holder), claim.holder)
        for claim in claims
        if claim.holder != case.view.uid and claim.priority >= case.view.priority
    ]
    return f"; room on {offered[0].node} is held for {', '.join(sorted(holders))}" if holders else ""


def _holder(pod: Obj | None, name: str) -> str:
    """A pod, or a Reservation by name."""
    if pod is None:
        return name
    return f"pod {'/'.join(key_of(pod))} of priority {lookup(pod, 'spec', 'priority') or 0}"


def _is_about(reason: Reason, remedy: Remedy) -> bool:
    """Of several reasons of one rule, such as two taints, the one that the change is about."""
    if remedy.rule == FIT:
        return any(name in reason.names for name, _, _ in remedy.short)
    named = {*reason.names, reason.about, reason.pending}
    return bool(remedy.about) and all(name in named for name in remedy.about[:2] if name)


def _clause(reason: Reason, count: int, nodes: int) -> str:
    """'2 of 3 nodes had untolerated taint {spot: yes}': the scheduler's words with a subject."""
    if reason.rule == FIT and reason.names and POD_COUNT not in reason.names:
        verb = "has" if nodes == 1 else "have"
        return f"{_share(count, nodes)} {verb} too little free {' and '.join(reason.names)}"
    if reason.rule == "TenantQuota":
        return f"{' and '.join(reason.texts)} has no room left, on {_share(count, nodes)}"
    texts = " and ".join(reason.texts)
    if reason.rule in {"VolumeBinding", "MaxZoneSkew", "Override", "CapacityClass", "Freshness"}:
        return f"{texts.replace('node(s)', 'nodes')}, on {_share(count, nodes)}"
    return f"{_share(count, nodes)} {texts.replace('node(s) ', '')}"


def _share(count: int, nodes: int) -> str:
    return f"{count} of {nodes} nodes" if nodes != 1 else "the only node"


def reasons_of(case: PodCase, placement: Placement) -> dict[str, str]:
    """Node -> why it rejects the pod, for a decision just made; '' where it fits."""
    if placement.verdicts is None:
        return {}
    table, rejections = case.cluster.table, _rejections(case, placement)
    alive = [table.names[row] for row in np.flatnonzero(table.alive[: table.height]).tolist()]
    return {name: reason_text(rejections[name]) if name in rejections else "" for name in alive}


def _rejections(case: PodCase, placement: Placement) -> dict[str, Reason]:
    """Node -> the reason that rejects the pod there, for a decision just made."""
    if placement.verdicts is None:
        return {}
    table = case.cluster.table
    codes, listed = placement.verdicts.codes(), placement.verdicts.reasons()
    alive = np.flatnonzero(table.alive[: table.height]).tolist()
    return {table.names[row]: listed[int(codes[row])] for row in alive if codes[row] != FITS}


def reason_text(reason: Reason) -> str:
    return f"{reason.rule}: {', '.join(reason.texts)}"


def rows_of(case: PodCase, placement: Placement) -> tuple[NodeRow, ...]:
    return tuple(
        NodeRow(node, not reason, reason) for node, reason in sorted(reasons_of(case, placement).items())
    )


def _now(case: PodCase, placement: Placement) -> Now:
    if case.last is None:
        return Now(False, placement.message)
    decision = case.last.kept.decision
    return Now(decision.verdict == "bind" or not _is_as_recorded(placement, decision), placement.message)


def _is_as_recorded(placement: Placement, decision: Decision) -> bool:
    """Whether both decisions agree on what was rejected, as far as the journal has kept it."""
    if decision.nodes != placement.nodes:
        return False
    if decision.filters:
        return decision.filters == dict(placement.rejected)
    return decision.rejected in {(), placement.rejections}
