"""Preempted and evicted: the victim's answer, with who took its place.

The condition DisruptionTarget says what kind of eviction it is; the scheduler's decision that names the pod
as a victim, and the object that the Event Preempted is related to, say for whom. The node has the taint.
"""

from __future__ import annotations

from fathom.controllers.node_health.plan_evictions import DECLARED, no_execute, stays_beside_s
from fathom.explain.evidence import Evidence, ObjectRef, Recorded, committed_writes
from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation, TroubleKind
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PODS, PodCase
from fathom.explain.why.records import cited
from fathom.model.conditions import DISRUPTION_TARGET
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.record_query import victims_of

STAGE = "displaced"
PREEMPTION, TAINT = "PreemptionByScheduler", "DeletionByTaintManager"
EVICTION_API = "EvictionByEvictionAPI"  # As `kubectl drain` uses it.
PREEMPTED = "Preempted"  # Reason of an Event, as kube-scheduler has it too.


def explain(case: PodCase) -> Explanation | None:
    """None: nobody has asked for its eviction."""
    target = case.condition(DISRUPTION_TARGET)
    if target.get("status") != "True":
        return None
    since = f" at {target['lastTransitionTime']}" if target.get("lastTransitionTime") else ""
    if target.get("reason") == PREEMPTION:
        records = victim_records(case.evidence, case.key)
        cause = f"{_by(case, records)}; evicted{since}" if since else _by(case, records)
        return answer(
            case, STAGE, _verdict(case, "preempted"), cause, change=_regain(case),
            decisions=cited(records) or cited(case.decisions), kind=_kind(case),
        )  # fmt: skip
    message = str(target.get("message") or target.get("reason") or "no reason given")
    if target.get("reason") == EVICTION_API:
        message = f"{message}, {_evicted_by(case)}"
    cause = f"{message}{since}"
    return answer(case, STAGE, _verdict(case, "evicted"), cause, change=_of_taint(case), kind=_kind(case))


def _verdict(case: PodCase, done: str) -> str:
    return f"was {done}" if _has_ended(case) else f"is being {done}"


def _kind(case: PodCase) -> TroubleKind:
    return "trouble" if _has_ended(case) else "passing"


def _has_ended(case: PodCase) -> bool:
    return lookup(case.pod, "status", "phase") in {"Failed", "Succeeded"}


def _evicted_by(case: PodCase) -> str:
    writes = committed_writes(case.evidence.audit, ObjectRef(PODS, *case.key, uid_of(case.pod)))
    users = [entry.user for entry in writes if entry.subresource == "eviction"]
    return f"asked for by {users[-1]}" if users else "no data about who asked for it"


def _by(case: PodCase, records: list[Recorded]) -> str:
    """'by shop/big, which took its place on node-1 (priority 100 over 0)'"""
    own = int(lookup(case.pod, "spec", "priority") or 0)
    if records:
        decision = records[-1].kept.decision
        subject = decision.subject
        name = f"{subject.namespace}/{subject.name}"
        return (
            f"pod {name} of priority {decision.priority} takes its place on {decision.node}; its own is {own}"
        )
    winner = _by_event(case)
    if winner is not None:
        priority = int(lookup(winner, "spec", "priority") or 0)
        name = "/".join(key_of(winner))
        return f"pod {name} of priority {priority} takes its place on {case.node}; its own is {own}"
    return f"a pod of higher priority takes its place on {case.node}: no data about which"


def _by_event(case: PodCase) -> Obj | None:
    uids = [lookup(event, "related", "uid") for event in case.events if event.get("reason") == PREEMPTED]
    uid = next((uid for uid in reversed(uids) if uid), None)
    pods = case.evidence.objects.list(PODS) if uid else []
    return next((pod for pod in pods if uid_of(pod) == uid), None)


def victim_records(evidence: Evidence, key: Key) -> list[Recorded]:
    """Decisions to make room by evicting this pod, oldest first."""
    name = f"{key.namespace}/{key.name}"
    return [recorded for recorded in evidence.decisions if name in victims_of(recorded.kept.decision.victims)]


def _regain(case: PodCase) -> Change:
    return Change(
        "give the pod a PriorityClass that is not below the other's, or add a node",
        "",
        commands.owner_text(case),
    )


def _of_taint(case: PodCase) -> Change | None:
    if case.condition(DISRUPTION_TARGET).get("reason") != TAINT:
        return None
    evicting = evicting_taints(case)
    if not evicting:
        return None  # It was removed in the meantime: the pod's successor may come back.
    add = [
        commands.set_field(
            case,
            ("spec", "tolerations", commands.END),
            {"key": key, "operator": "Exists", "effect": "NoExecute"},
        )
        for key in evicting
    ]
    listed = f"taint{'s' if len(evicting) > 1 else ''} {' and '.join(evicting)}"
    return Change(
        f"tolerate the {listed}, or remove {'it' if len(evicting) == 1 else 'them'} from node {case.node}",
        commands.spec_change(case, add),
        commands.owner_text(case),
    )


def evicting_taints(case: PodCase) -> list[str]:
    """The keys of the node's taints that evict the pod, now or after the time that it tolerates them for."""
    node, tolerations = case.node_object or {}, lookup(case.pod, "spec", "tolerations") or ()
    declared = bool((metadata(node).get("annotations") or {}).get(DECLARED))
    return [
        str(taint.get("key"))
        for taint in no_execute(node)
        if stays_beside_s(taint, tolerations, declared=declared) is not None
    ]
