"""Preempted and evicted: the victim's answer, with who took its place.

The condition DisruptionTarget says what kind of eviction it is; the scheduler's decision that names the pod
as a victim, and the Event Preempted, say for whom.
"""

from __future__ import annotations

import re

from fathom.explain.evidence import Evidence, Recorded
from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PODS, PodCase
from fathom.explain.why.records import cited
from fathom.model.conditions import DISRUPTION_TARGET
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of

STAGE = "displaced"
PREEMPTION, TAINT = "PreemptionByScheduler", "DeletionByTaintManager"
EVICTION_API = "EvictionByEvictionAPI"  # As `kubectl drain` uses it.
PREEMPTED_BY = re.compile(r"Preempted by pod (\S+) on node (\S+)")


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
            decisions=cited(records) or cited(case.decisions),
        )  # fmt: skip
    message = str(target.get("message") or target.get("reason") or "no reason given")
    if target.get("reason") == EVICTION_API:
        message = f"{message}, {_evicted_by(case)}"
    return answer(
        case, STAGE, _verdict(case, "evicted"), f"{message}{since}", change=_of_taint(case, message)
    )


def _verdict(case: PodCase, done: str) -> str:
    return (
        f"was {done}"
        if lookup(case.pod, "status", "phase") in {"Failed", "Succeeded"}
        else f"is being {done}"
    )


def _evicted_by(case: PodCase) -> str:
    users = [
        entry.user
        for entry in case.evidence.audit
        if entry.subresource == "eviction" and entry.wrote and (entry.namespace, entry.name) == case.key
    ]
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
    winner, node = _by_event(case)
    if winner is not None:
        priority = int(lookup(winner, "spec", "priority") or 0)
        name = "/".join(key_of(winner))
        return f"pod {name} of priority {priority} takes its place on {node}; its own is {own}"
    return f"a pod of higher priority takes its place on {case.node or node}: no data about which"


def _by_event(case: PodCase) -> tuple[Obj | None, str]:
    for event in reversed(case.events):
        match = PREEMPTED_BY.search(str(event.get("message") or ""))
        if event.get("reason") == "Preempted" and match is not None:
            pods = case.evidence.objects.list(PODS)
            return next((pod for pod in pods if uid_of(pod) == match[1]), None), match[2]
    return None, ""


def victim_records(evidence: Evidence, key: Key) -> list[Recorded]:
    """Decisions to make room by evicting this pod, oldest first."""
    prefix = f"{key.namespace}/{key.name}:"
    return [
        recorded
        for recorded in evidence.decisions
        if any(victim.startswith(prefix) for victim in recorded.kept.decision.victims)
    ]


def _regain(case: PodCase) -> Change:
    return Change(
        "give the pod a PriorityClass that is not below the other's, or add a node",
        "",
        commands.owner_text(case),
    )


def _of_taint(case: PodCase, message: str) -> Change | None:
    if case.condition(DISRUPTION_TARGET).get("reason") != TAINT:
        return None
    taint = message.rpartition(" ")[2]
    toleration = {"key": taint, "operator": "Exists", "effect": "NoExecute"}
    add = commands.set_field(case, ("spec", "tolerations", commands.END), toleration)
    return Change(
        f"tolerate the taint {taint}, or remove it from node {case.node}",
        commands.spec_change(case, [add]),
        commands.owner_text(case),
    )
