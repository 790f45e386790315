"""What the records say: the decisions that an answer cites, and how fresh the view was that they used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fathom.explain.evidence import Evidence, Objects, ProcessState, Recorded
from fathom.explain.why.answer import CitedDecision, Freshness, NodeGroup, QueuePlace
from fathom.explain.why.case import PodCase, resource_name
from fathom.kinds import traffic_route
from fathom.model.decision import Considered, Decision, Outcome, SeenVersions
from fathom.model.objects import uid_of
from fathom.model.times import timestamp
from fathom.schedule.loop.watched_kinds import KINDS

CITED_MAX = 5  # The newest; `fathom decisions` has them all.
AHEAD_MAX = 10  # Pods named as ahead in the queue.
RESOURCES = {kind.name: resource_name(kind.resource.group, kind.resource.plural) for kind in KINDS}

# What is listed among the policies, and is none: a pod's policy comes with the rollout that gave it.
WORDS = {
    RESOURCES["PolicyRollout"]: "rollout",
    traffic_route.DEFINITION.resource: "route",
    "poddisruptionbudgets.policy": "budget",
    "configmaps": "settings",
}


def cited(records: Sequence[Recorded]) -> tuple[CitedDecision, ...]:
    return tuple(_cited(recorded) for recorded in records[-CITED_MAX:])


def _cited(recorded: Recorded) -> CitedDecision:
    decision, outcomes = recorded.kept.decision, recorded.kept.outcomes
    return CitedDecision(
        id=decision.id,
        time=timestamp(decision.time_ns),
        process=recorded.process,
        controller=decision.controller,
        verdict=decision.verdict,
        attempt=decision.attempt,
        queued_ms=decision.queued_ms,
        cause=f"{decision.cause.kind}: {decision.cause.text}".removesuffix(": "),
        node=decision.node,
        message=decision.message,
        outcome=outcome_text(outcomes[-1]) if outcomes else "",
        considered=tuple(considered_texts(decision)),
        victims=decision.victims,
    )


def outcome_text(outcome: Outcome) -> str:
    at = f" at {outcome.revision}" if outcome.revision else ""
    return f"{outcome.result}{at}" + (f": {outcome.message}" if outcome.message else "")


def considered_texts(decision: Decision) -> Iterable[str]:
    for kind, listed in (
        ("policy", decision.policies),
        ("override", decision.overrides),
        ("quota", decision.quotas),
    ):
        for considered in listed:
            yield f"{WORDS.get(considered.resource, kind)} {_considered(considered)}"


def _considered(considered: Considered) -> str:
    at = f" at {considered.revision}" if considered.revision else ""
    return f"{considered.name}{at}{', decisive' if considered.decisive else ''}"


# Freshness.


def freshness(case: PodCase) -> tuple[Freshness, ...]:
    """Of the view that the last decision used; without one, of the scheduler's caches as they are."""
    if case.evidence.attached:
        return ()  # The scheduler's revisions are the cluster's; those of the objects are the copy's own.
    last = case.last
    seen: Mapping[str, SeenVersions] = last.kept.decision.seen if last is not None else {}
    if not seen:
        seen = next((process.caches for process in schedulers(case.evidence) if process.caches), {})
    return tuple(_freshness(kind, versions, case.evidence.objects) for kind, versions in seen.items())


def _freshness(kind: str, seen: SeenVersions, objects: Objects) -> Freshness:
    changed = objects.last_change(RESOURCES.get(kind, kind))
    applied = max(seen.revision, seen.applied)
    return Freshness(kind, seen.revision, applied, max(changed, applied), seen.age_ms)


def schedulers(evidence: Evidence) -> list[ProcessState]:
    """Parts that are schedulers: 'scheduler', and 'scheduler-0of2' for a shard."""
    return [
        process
        for process in evidence.processes
        if any(part.startswith("scheduler") for part in process.parts)
    ]


# The queue.


def queue_entry(case: PodCase) -> Mapping[str, Any]:
    """What the scheduler's queue says about the pod (`schedule/loop/queue_state.py`); {}: nothing."""
    for process in schedulers(case.evidence):
        pods = (process.state.get("queue") or {}).get("pods") or {}
        entry = pods.get(uid_of(case.pod))
        if entry and process.leads is not False:
            return entry  # type: ignore[no-any-return]  # an object
    return {}


def queue_place(case: PodCase) -> QueuePlace | None:
    """From the queue itself where the scheduler tells it; else the place when the pod was last taken."""
    entry = queue_entry(case)
    if "place" in entry:
        ahead = [f"{pod['namespace']}/{pod['name']}" for pod in entry.get("ahead") or ()]
        return QueuePlace(int(entry["place"]), int(entry["of"]), tuple(ahead[-AHEAD_MAX:]))
    place = case.last.kept.decision.place if case.last is not None else None
    return None if place is None else QueuePlace(*place, source="record")


# Nodes.


def groups_of(reasons: Mapping[str, str], *, recorded: bool = False) -> tuple[NodeGroup, ...]:
    """Nodes by the reason that rejected them, most nodes first. `recorded`: by a decision on record."""
    nodes: dict[str, list[str]] = {}
    for node, reason in reasons.items():
        if reason:
            nodes.setdefault(reason, []).append(node)
    ordered = sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(NodeGroup(reason, len(names), tuple(sorted(names)), recorded) for reason, names in ordered)
