"""What keeps the replicas of a Deployment or a ReplicaSet from being ready: refused, not created, not ready.

The order counts: pods that exist and fail explain a stalled rollout better than its deadline does, and a
refusal explains missing pods better than the controller's silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from fathom.controllers.pod_states import available_in_s, is_active, is_ready
from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import NOBODY, CauseGroup, Change
from fathom.explain.why.node_lost import unheard_of
from fathom.explain.why_of.answering import SubjectTrouble
from fathom.explain.why_of.control_plane import CONTROLLERS, held_back, part_trouble, restart
from fathom.explain.why_of.lookups import NODES, PODS, ExplainPod, ref, shown_names
from fathom.explain.why_of.pod_causes import PodCause, causes_of, decisive, explained_pod, grouped
from fathom.explain.why_of.refusals import change_of_refusal, quota_ref, refusal_of
from fathom.model.objects import Key, Obj, key_of, lookup

WAIT = NOBODY


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One workload, as the questions below need it."""

    owner: Obj  # The Deployment or ReplicaSet that is asked about.
    creator: Obj | None  # The ReplicaSet that creates the pods; None: it does not exist yet.
    target: str  # 'deployment/web'
    wanted: int
    pods: Sequence[Obj]  # Those of `creator`.
    min_ready_s: int = 0
    controller: str = "replicasets"

    @property
    def active(self) -> list[Obj]:
        return [pod for pod in self.pods if is_active(pod)]

    @property
    def missing(self) -> int:
        return max(0, self.wanted - len(self.active))


def replica_trouble(
    evidence: Evidence, facts: ReplicaFacts, explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    """None if every wanted pod exists and is available."""
    return (
        _refused(evidence, facts, explain_pod)
        or unready(evidence, facts, explain_pod)
        or _uncreated(evidence, facts)
        or _too_young(evidence, facts)
        or _unheard(evidence, facts, explain_pod)
    )


def _refused(
    evidence: Evidence, facts: ReplicaFacts, explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    if not facts.missing:
        return None
    sources = [facts.owner] if facts.creator is None else [facts.creator, facts.owner]
    refusal = refusal_of(evidence, sources)
    if refusal is None:
        return None
    group = CauseGroup(refusal.boundary, facts.missing, (), refusal.message)
    others = grouped(evidence, causes_of(evidence, facts.active))
    return SubjectTrouble(
        f"is refused by {refusal.boundary}",
        f"{_pods(facts.missing)} not created: {refusal.message}",
        change_of_refusal(evidence, facts.owner, refusal, missing=facts.missing, target=facts.target),
        (group, *others),
        quota_ref(evidence, key_of(facts.owner).namespace, refusal),
    )


def unready(evidence: Evidence, facts: ReplicaFacts, explain_pod: ExplainPod | None) -> SubjectTrouble | None:
    causes = causes_of(evidence, facts.active)
    first = decisive(causes)
    if first is None:
        return None
    pod, cause = first
    count = sum(other.reason == cause.reason for _, other in causes)
    explained = explained_pod(evidence, pod, cause, explain_pod, owner=facts.target)
    # Between two crashes a pod is ready, for the moment.
    state = "ready for the moment" if is_ready(pod) else "not ready"
    return SubjectTrouble(
        "is not ready",
        f"{_pods(count)} {state}: {explained.cause}{_beside(causes, cause.reason)}",
        _for_one_of(count, explained.change),
        grouped(evidence, causes),
        (ref(PODS, pod), *explained.overrides),
    )


def _beside(causes: Sequence[tuple[Obj, PodCause]], reason: str) -> str:
    """'; also 1 pod: image': other causes at the same time, the largest group first. Deletion passes."""
    others = Counter(other.reason for _, other in causes if other.reason not in {reason, "deletion"})
    ordered = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"; also {count} pod{'' if count == 1 else 's'}: {name}" for name, count in ordered)


def _for_one_of(count: int, change: Change | None) -> Change | None:
    """The decider has tried the change for the pod that stands for its group. Whether the others fit beside
    it is another question, which nobody has asked."""
    if change is None or not change.nodes or count == 1:
        return change
    return msgspec.structs.replace(change, what=f"{change.what}, tried for one of {count} pods")


def _uncreated(evidence: Evidence, facts: ReplicaFacts) -> SubjectTrouble | None:
    if not facts.missing:
        return None
    trouble = part_trouble(evidence, CONTROLLERS)
    held = held_back(evidence, facts.creator, facts.controller) if facts.creator is not None else ""
    ended = grouped(evidence, causes_of(evidence, [pod for pod in facts.pods if not is_active(pod)]))
    why = trouble or held or (ended[0].message if ended else "its controller has not created them yet")
    group = CauseGroup("admission", facts.missing, (), why)
    change = restart(trouble, CONTROLLERS)
    return SubjectTrouble(
        "is not created", f"{_pods(facts.missing)} not created: {why}", change, (group, *ended)
    )


def _too_young(evidence: Evidence, facts: ReplicaFacts) -> SubjectTrouble | None:
    now_s = evidence.now_ns / 1e9
    waits_s = [available_in_s(pod, min_ready_s=facts.min_ready_s, now_s=now_s) for pod in facts.active]
    young = [wait_s for wait_s in waits_s if wait_s]
    if not young:
        return None
    cause = f"{_pods(len(young))} ready for less than minReadySeconds {facts.min_ready_s}"
    change = Change(f"wait {max(young):.0f} s", "", WAIT)
    group = CauseGroup("minReadySeconds", len(young), (), cause)
    return SubjectTrouble("is not available yet", cause, change, (group,), kind="passing")


def _unheard(
    evidence: Evidence, facts: ReplicaFacts, explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    """Pods whose readiness is what a node last reported that is not heard of: the brake, which holds back
    what is done about such nodes, also keeps their pods looking ready."""
    nodes = [(pod, _node_of(evidence, pod)) for pod in facts.active]
    unheard = [(pod, node, why) for pod, node in nodes if node is not None and (why := unheard_of(node))]
    if not unheard:
        return None
    pod, node, why = unheard[0]
    explained = None if explain_pod is None else explain_pod(pod, evidence)
    cause = why if explained is None else explained.cause
    if not evidence.may_read_nodes:
        cause = "its node is not heard of"
    return SubjectTrouble(
        "is in doubt",
        f"{_pods(len(unheard))} ready only by the last report: {cause}",
        None if explained is None else explained.change,
        (CauseGroup("node", len(unheard), shown_names(evidence, [pod for pod, _, _ in unheard]), cause),),
        (ref(PODS, pod), *((ref(NODES, node),) if evidence.may_read_nodes else ())),
        kind="held",
    )


def _node_of(evidence: Evidence, pod: Obj) -> Obj | None:
    return evidence.objects.get(NODES, Key("", str(lookup(pod, "spec", "nodeName") or "")))


def replica_verdict(trouble: SubjectTrouble | None, *, ready: int, wanted: int, older: int = 0) -> str:
    """`older`: ready pods of older templates."""
    if trouble is None:
        return f"has all {wanted} replicas ready" if wanted != 1 else "has its replica ready"
    beside = f" beside {older} of older templates" if older else ""
    return f"{trouble.verdict} with {ready} of {wanted} replicas ready{beside}"


def ready_count(pods: Sequence[Obj]) -> int:
    return sum(is_active(pod) and is_ready(pod) for pod in pods)


def _pods(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
