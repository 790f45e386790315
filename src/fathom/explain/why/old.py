"""Explains why a pod is on its node, or has none: one line first, then the evidence.

Past decisions come from the journal: `schedule/decide/shape_scan.py` finds which rule rejects each node,
`schedule/loop/decision_records.py` records it. Running the same decision again on the cluster as it is
(`now`) shows whether the answer would be different now. Together they tell a stale view from a real obstacle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from fathom.model.decision import Decision, KeptDecision, Rejection, SeenVersions
from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.times import timestamp
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.remedy import OWNER, remedies
from fathom.schedule.decide.verdicts import Reason
from fathom.schedule.loop.cluster_view import ClusterView

REFUSED = frozenset({"conflict", "rejected"})
State = Literal["scheduled", "unschedulable", "gated", "waiting", "finished", "gone"]


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes that were rejected for one reason."""

    reason: str
    count: int
    nodes: tuple[str, ...]


class ExplainedChange(msgspec.Struct, frozen=True):
    """A change that would admit the pod, who can make it, and how many nodes would then take the pod."""

    what: str
    who: str
    rule: str
    nodes: int = 0


class Used(msgspec.Struct, frozen=True):
    """How fresh the decision's view of one kind was."""

    kind: str
    used: int
    latest: (
        int  # Of the store, when the kind was listed now: what the decision could have used, had it waited.
    )
    age_ms: int
    changed: int = 0  # Of the kind's newest object: if beyond `used`, the decision did not see it.


class ExplainedAttempt(msgspec.Struct, frozen=True):
    """The last recorded decision."""

    id: str
    time: str
    verdict: str
    attempt: int
    cause: str
    queued_ms: float
    epoch: int
    node: str
    scores: dict[str, int]
    policies: tuple[str, ...]
    overrides: tuple[str, ...]
    quotas: tuple[str, ...]
    outcome: str
    message: str
    victims: tuple[str, ...] = ()  # Pods evicted for it, in this attempt or the last that evicted any.


class Now(msgspec.Struct, frozen=True):
    """The decider's answer for the cluster as it is."""

    node: str | None
    message: str
    groups: tuple[NodeGroup, ...] = ()
    differs: bool = False  # From the recorded decision.


class Why(msgspec.Struct, frozen=True, kw_only=True):
    summary: str
    pod: str
    uid: str
    state: State
    schedulable: bool
    node: str = ""
    decisive: str = ""  # The decisive rule.
    change: ExplainedChange | None = None
    attempt: ExplainedAttempt | None = None  # None: nothing is recorded.
    attempts: int = 0
    groups: tuple[NodeGroup, ...] = ()
    queue: tuple[int, int] | None = None  # Its place in the queue when last taken: which, of how many.
    freshness: tuple[Used, ...] = ()
    now: Now | None = None
    next_trigger: str = ""
    rejected: tuple[Rejection, ...] = ()  # The rules that reject it now, the decisive one first.


class ReachedStage(msgspec.Struct, frozen=True):
    """The revisions of one kind, as listed."""

    revision: int  # Of the list.
    changed: int = 0  # Of its newest object; lower than the list's if the kind changes seldom.


class WhyEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The input of an explanation."""

    pod: Obj
    kept: tuple[KeptDecision, ...]  # Decisions about this pod's UID, oldest first.
    reasons: Mapping[str, str] | None  # Of the last decision: node -> reason.
    latest: Mapping[str, ReachedStage]
    now_ns: int
    heard: bool = True  # Whether the journal has anything of the scheduler that the pod names.


def explain_gone(name: str, kept: Sequence[KeptDecision], reasons: Mapping[str, str] | None) -> Why:
    """Explain a deleted pod: what is recorded about the last pod of this name."""
    last = kept[-1]
    same = [record for record in kept if record.decision.subject.uid == last.decision.subject.uid]
    attempt = _attempt(same)
    verdict = f"{attempt.verdict} {attempt.node}".rstrip()
    outcome = attempt.outcome or attempt.message or "no outcome on record"
    return Why(
        summary=(
            f"pod {name} no longer exists;"
            f" the last decision {attempt.id} at {attempt.time} was {verdict!r}: {outcome}"
        ),
        pod=name,
        uid=last.decision.subject.uid,
        state="gone",
        schedulable=False,
        node=last.decision.node,
        attempt=attempt,
        attempts=len(same),
        groups=_groups(reasons or {}),
    )


def explain_pod(evidence: WhyEvidence, cluster: ClusterView) -> Why:
    pod = evidence.pod
    view = cluster.view(pod)
    last = evidence.kept[-1] if evidence.kept else None
    name = "/".join(key_of(pod))
    attempt = None if last is None else _attempt(evidence.kept)
    recorded = _groups(evidence.reasons or {})
    if view.node or view.finished:
        return Why(
            summary=_placed_line(name, view, pod, last),
            pod=name,
            uid=view.uid,
            state="finished" if view.finished else "scheduled",
            schedulable=True,
            node=view.node,
            attempt=attempt,
            attempts=len(evidence.kept),
            groups=recorded,
            freshness=_freshness(last, evidence),
        )
    context = cluster.context(view, now_ns=evidence.now_ns)
    placement = cluster.decider.place(view, context)
    change = _smallest(view, cluster, context) if placement.node is None else None
    now = _now(placement, cluster, last)
    decisive = _decisive(placement, view, change)
    state = _state(view, placement)
    return Why(
        summary=_waiting_line(name, placement, decisive, change, evidence),
        pod=name,
        uid=view.uid,
        state=state,
        schedulable=placement.node is not None,
        decisive=decisive,
        change=change,
        attempt=attempt,
        attempts=len(evidence.kept),
        groups=recorded or now.groups,
        queue=last.decision.place if last is not None else None,
        freshness=_freshness(last, evidence),
        now=now,
        next_trigger=_next(view, placement),
        rejected=placement.rejections,
    )


def _smallest(view: PodView, cluster: ClusterView, context: PlacementContext) -> ExplainedChange | None:
    if view.shape.gates:
        return ExplainedChange(
            f"remove the scheduling gates {', '.join(view.shape.gates)}", OWNER, "SchedulingGates"
        )
    if leaving := _leaving(view, cluster):
        names = ", ".join(leaving)
        text = f"wait for the eviction of {names} from {view.nominated} to end: it makes room for the pod"
        return ExplainedChange(text, "time", "NodeResourcesFit", 1)
    changes = remedies(view.shape, cluster.table, context, cluster.decider.rules)
    return (
        ExplainedChange(changes[0].change, changes[0].by, changes[0].rule, changes[0].nodes)
        if changes
        else None
    )


def _leaving(view: PodView, cluster: ClusterView) -> list[str]:
    """The terminating pods of lower priority on the node that the pod is nominated to."""
    row = cluster.table.row_of.get(view.nominated)
    pods = cluster.table.pods_on[row].values() if row is not None else ()
    return sorted(
        "/".join(pod.view.key) for pod in pods if pod.view.deleting and pod.view.priority < view.priority
    )


def _state(view: PodView, placement: Placement) -> State:
    if view.shape.gates:
        return "gated"
    return "waiting" if placement.node is not None else "unschedulable"


def _placed_line(name: str, view: PodView, pod: Obj, last: KeptDecision | None) -> str:
    where = f"pod {name} is on {view.node}" if view.node else f"pod {name} has finished"
    if last is None or last.decision.node != view.node:
        decision_id = (metadata(pod).get("annotations") or {}).get(DECISION_ANNOTATION)
        return f"{where}: no decision on record here placed it" + (f" ({decision_id})" if decision_id else "")
    decision = last.decision
    score = decision.scores.get(view.node)
    other_points = [f"{node} {points}" for node, points in decision.scores.items() if node != view.node]
    scored = (
        f"the best of {_fitting(decision)} nodes that fit, with {score} points" if score is not None else ""
    )
    beside = f" (others: {', '.join(other_points)})" if other_points else ""
    return f"{where}: {scored or 'as decided'}{beside}; decision {decision.id}"


def _fitting(decision: Decision) -> int:
    return decision.nodes - sum(decision.filters.values()) if decision.filters else decision.nodes


def _waiting_line(
    name: str, placement: Placement, decisive: str, change: ExplainedChange | None, evidence: WhyEvidence
) -> str:
    if placement.node is not None:
        before = _failed(evidence.kept[-1] if evidence.kept else None)
        return f"pod {name} fits {placement.node} now{before}: it waits for {_awaited(evidence)}"
    admits = (
        f"; smallest change: {change.what} ({change.who})"
        if change
        else "; no change that would admit it is known"
    )
    message = placement.message.removesuffix(".")
    return f"pod {name} is not schedulable: {message}. Decisive: {decisive}{admits}"


def _awaited(evidence: WhyEvidence) -> str:
    if evidence.heard:
        return "its turn"
    return f"scheduler {scheduler_of(evidence.pod)!r}, which has no record here"


def scheduler_of(pod: Obj) -> str:
    return str(lookup(pod, "spec", "schedulerName") or "default-scheduler")


def _failed(last: KeptDecision | None) -> str:
    if last is None:
        return ""
    if last.decision.verdict == "unschedulable":
        return f", though it did not when it was last tried ({last.decision.message})"
    refused = next((outcome for outcome in reversed(last.outcomes) if outcome.result in REFUSED), None)
    return f", though its last binding was refused ({refused.message})" if refused is not None else ""


def _attempt(kept: Sequence[KeptDecision]) -> ExplainedAttempt:
    """The last attempt. Its victims may come from an earlier one: eviction comes before placement."""
    decision, outcomes = kept[-1].decision, kept[-1].outcomes
    outcome = outcomes[-1] if outcomes else None
    at = f" at {outcome.revision}" if outcome is not None and outcome.revision else ""
    result = "" if outcome is None else f"{outcome.result}{at}"
    return ExplainedAttempt(
        id=decision.id,
        time=timestamp(decision.time_ns),
        verdict=decision.verdict,
        attempt=decision.attempt,
        cause=f"{decision.cause.kind}: {decision.cause.text}",
        queued_ms=decision.queued_ms,
        epoch=decision.epoch,
        node=decision.node,
        scores=decision.scores,
        policies=tuple(_considered(policy) for policy in decision.policies),
        overrides=tuple(_considered(override) for override in decision.overrides),
        quotas=tuple(_considered(quota) for quota in decision.quotas),
        outcome=result if outcome is None or not outcome.message else f"{result}: {outcome.message}",
        message=decision.message,
        victims=next((record.decision.victims for record in reversed(kept) if record.decision.victims), ()),
    )


def _considered(considered: object) -> str:
    name, revision, decisive = (getattr(considered, field) for field in ("name", "revision", "decisive"))
    return f"{name}{f' at {revision}' if revision else ''}{', decisive' if decisive else ''}"


def _groups(reasons: Mapping[str, str]) -> tuple[NodeGroup, ...]:
    nodes: dict[str, list[str]] = {}
    for node, reason in reasons.items():
        if reason:
            nodes.setdefault(reason, []).append(node)
    ordered = sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(NodeGroup(reason, len(names), tuple(sorted(names))) for reason, names in ordered)


def reasons_of(placement: Placement, cluster: ClusterView) -> dict[str, str]:
    """Node -> why it rejects the pod, for a decision just made; '' where it fits."""
    if placement.verdicts is None:
        return {}
    codes, listed = placement.verdicts.codes(), placement.verdicts.reasons()
    by_node = {}
    for row in np.flatnonzero(cluster.table.alive[: cluster.table.height]).tolist():
        reason = listed[int(codes[row])]
        by_node[cluster.table.names[row]] = _text(reason) if reason.rule else ""
    return by_node


def _text(reason: Reason) -> str:
    return f"{reason.rule}: {', '.join(reason.texts)}"


def _now(placement: Placement, cluster: ClusterView, last: KeptDecision | None) -> Now:
    groups = _groups(reasons_of(placement, cluster))
    if last is None:
        return Now(placement.node, placement.message, groups)
    was_placed = last.decision.verdict == "bind"
    differs = was_placed == (placement.node is None) or (
        placement.node is None and not _is_as_recorded(placement, last.decision)
    )
    return Now(placement.node, placement.message, groups, differs)


def _is_as_recorded(placement: Placement, decision: Decision) -> bool:
    """Whether both decisions agree. If filters ran, compare what they rejected: the recorded message may also
    mention preemption."""
    if decision.filters:
        return (decision.nodes, decision.filters) == (placement.nodes, dict(placement.rejected))
    return decision.message == placement.message


def _decisive(placement: Placement, view: PodView, change: ExplainedChange | None) -> str:
    """The rule that the smallest change is about: it is what the nearest nodes lack. For a gated pod, its
    gates."""
    if view.shape.gates:
        return f"SchedulingGates ({', '.join(view.shape.gates)})"
    if placement.node is not None:
        return ""
    if not placement.rejecting:
        return "there are no nodes"
    ordered = sorted(placement.rejecting, key=lambda pair: (-pair[1], _text(pair[0])))
    rule = change.rule if change is not None else ""
    reason, count = next((pair for pair in ordered if pair[0].rule == rule), ordered[0])
    return f"{_text(reason)} ({count} of {placement.nodes} nodes)"


def _freshness(last: KeptDecision | None, evidence: WhyEvidence) -> tuple[Used, ...]:
    if last is None:
        return ()
    seen: Mapping[str, SeenVersions] = last.decision.seen
    return tuple(_used(kind, versions, evidence.latest.get(kind)) for kind, versions in seen.items())


def _used(kind: str, seen: SeenVersions, reached: ReachedStage | None) -> Used:
    """The latest revision is at least the decision's: the server that was listed may be behind it."""
    latest = max(seen.revision, reached.revision if reached is not None else 0)
    return Used(kind, seen.revision, latest, seen.age_ms, reached.changed if reached is not None else 0)


def _next(view: PodView, placement: Placement) -> str:
    if view.shape.gates:
        return "its gates are removed"
    if placement.node is not None:
        return "its turn in the queue"
    return ", ".join(placement.helped_by) + (
        ", or within a minute" if placement.helped_by else "within a minute"
    )
