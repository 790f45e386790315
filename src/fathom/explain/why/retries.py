"""When a pod without a node is tried again, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fathom.schedule.decide import rules

# What the scheduler's queue wakes pods for -> the same as a clause, in the order of the sentence.
WORDS: Mapping[str, str] = {
    rules.NODE_ADDED: "a node is added",
    rules.NODE_CHANGED: "a node changes",
    rules.POD_CHANGED: "the pod changes",
    rules.POD_GONE: "a pod leaves a node",
    rules.POD_PLACED: "a pod gets a node",
    rules.NEIGHBOUR_CHANGED: "a pod on a node changes its labels or is being deleted",
    rules.QUOTA_CHANGED: "the tenant's quota changes",
    rules.POLICY_CHANGED: "the scheduling policy changes",
    rules.OVERRIDE_CHANGED: "an override begins or ends",
    rules.CLASS_CHANGED: "a capacity class changes",
    rules.VOLUME_CHANGED: "a volume or a claim changes",
    rules.NAMESPACE_CHANGED: "a namespace changes",
    rules.TRUST_CHANGED: "a node is trusted again",
    rules.VIEW_FRESH: "the scheduler's view is fresh again",
}


def retry_text(events: Iterable[str]) -> str:
    """'tried again when a node is added, or within a minute'"""
    expected = set(events)
    clauses = [clause for event, clause in WORDS.items() if event in expected]
    clauses += sorted(expected - WORDS.keys())  # Of a rule that users have installed.
    listed = f"when {', '.join(clauses)}, or " if clauses else ""
    return f"tried again {listed}within a minute"
