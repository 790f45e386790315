"""Pods without a controller that wait for a node: of many that wait for the same, one stands for all.

The decider takes a millisecond or more for each pod that it is asked about, and an operator who has a
thousand of them wants one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.controllers.pod_states import has_ended
from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import CauseGroup, Explanation
from fathom.explain.why_of.lookups import PODS, ExplainPod, ref, shown_names
from fathom.explain.why_of.pod_causes import PodCause, causes_of, explain_pod_by_status
from fathom.model.objects import Obj, is_deleting, key_of, lookup

LISTED_MAX = 3  # Pods that wait for the same and are explained one by one.
DETAILED_MAX = 30  # Pods of one answer that the decider is asked about.

Waiting = list[tuple[Obj, PodCause]]


def waits_for_a_node(pod: Obj) -> bool:
    return not lookup(pod, "spec", "nodeName") and not is_deleting(pod) and not has_ended(pod)


def explain_waiting(
    evidence: Evidence, pods: Sequence[Obj], explain_pod: ExplainPod | None
) -> Iterator[Explanation]:
    """Of each pod, or of one with how many more there are like it."""
    left = DETAILED_MAX
    for group in _alike(evidence, pods):
        shown = group if len(group) <= LISTED_MAX else group[:1]
        for pod, _ in shown:
            explain = explain_pod if explain_pod is not None and left > 0 else explain_pod_by_status
            left -= 1
            about = msgspec.structs.replace(evidence, subject=ref(PODS, pod))
            yield _with_others(explain(pod, about), evidence, group, len(group) - len(shown))


def _alike(evidence: Evidence, pods: Sequence[Obj]) -> list[Waiting]:
    """By namespace and by what their status says; the largest group first."""
    groups: dict[tuple[str, str, str], Waiting] = {}
    for pod, cause in causes_of(evidence, pods):
        groups.setdefault((key_of(pod).namespace, cause.reason, cause.message), []).append((pod, cause))
    return sorted(groups.values(), key=lambda group: -len(group))


def _with_others(explanation: Explanation, evidence: Evidence, group: Waiting, others: int) -> Explanation:
    if not others or explanation.as_wanted:
        return explanation
    _, cause = group[0]
    names = shown_names(evidence, [pod for pod, _ in group[1:]])
    listed = f", such as {names[0].rpartition('/')[2]}" if names else ""
    summary = f"{explanation.summary.rstrip('. ')}. {others} more pods wait for the same{listed}"
    return msgspec.structs.replace(
        explanation,
        summary=summary,
        causes=(CauseGroup(cause.reason, len(group), names, cause.message), *explanation.causes),
    )
