"""Why a pod is as it is: the stages of its life are asked in order, and the first that applies answers."""

from __future__ import annotations

from collections.abc import Callable

from fathom.explain.cordons import cordoned_nodes
from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.hidden_names import HiddenNames, hidden_from
from fathom.explain.why import (
    displaced,
    finished,
    gated,
    gone,
    not_ready,
    not_serving,
    placed,
    refused,
    unschedulable,
)
from fathom.explain.why.answer import Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import OWNER_RESOURCES, PODS, PodCase
from fathom.explain.why.control_plane import scheduler_trouble
from fathom.explain.why.redact import redacted
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.loop.cluster_view import ClusterView

# Of each object and process. An answer cites five; stages look for what ended a pod, which is never far back.
RECORDS_MAX = 50

Stage = Callable[[PodCase], Explanation | None]


def wanted(subject: ObjectRef, objects: Objects) -> RecordQuery:
    """The records that the question needs: about the pod, its owners and its node, and the decision that
    placed it. A victim's answer is in the decision about another pod, which records know by the victim."""
    pod = objects.get(PODS, subject.key)
    about = [subject]
    decisions: tuple[str, ...] = ()
    if pod is not None:
        case = PodCase(pod, Evidence(subject=subject, objects=objects))
        about = [ObjectRef(PODS, *subject.key, uid_of(pod))]
        about += [
            ObjectRef(OWNER_RESOURCES[kind], *key_of(owner), uid_of(owner)) for kind, owner in case.owners
        ]
        if case.node:
            about.append(ObjectRef("nodes", "", case.node))
        placed_by = (metadata(pod).get("annotations") or {}).get(DECISION_ANNOTATION)
        decisions = (str(placed_by),) if placed_by else ()
    else:
        maker = refused.maker_of(subject, Evidence(subject=subject, objects=objects))
        if maker is not None:
            resource = OWNER_RESOURCES.get(str(maker.get("kind")), "replicasets.apps")
            about.append(ObjectRef(resource, *key_of(maker), uid_of(maker)))
    waits = pod is not None and not lookup(pod, "spec", "nodeName")
    return RecordQuery(
        objects=tuple(about),
        decisions=decisions,
        newest=RECORDS_MAX,
        writes_of=cordoned_nodes(objects) if waits else (),
    )


def explain(
    subject: ObjectRef,
    evidence: Evidence,
    *,
    cluster: ClusterView | None = None,
    rules: Rules = RULES,
    hidden: HiddenNames | None = None,
    brief: bool = False,
) -> Explanation:
    """`cluster`: the cluster as the scheduler sees it, where the caller has it already; it must be as new as
    the evidence's objects. `hidden`: what the user must not learn, where the caller knows it already.
    `brief`: of a pod that is as wanted, only that it is."""
    if hidden is None:
        hidden = hidden_from(evidence)
    pod = evidence.objects.get(PODS, subject.key)
    if pod is None or (subject.uid and subject.uid != uid_of(pod)):
        existed = pod is not None or gone.existed(subject, evidence)
        absent = None if existed else refused.explain(subject, evidence)
        return redacted(absent or gone.explain(subject, evidence), evidence, hidden)
    case = PodCase(pod, evidence, cluster=cluster, rules=rules)
    stages = BOUND if case.node else UNBOUND
    for stage in stages:
        explanation = stage(case)
        if explanation is not None:
            return redacted(explanation, evidence, hidden)
    return redacted(placed.explain(case, brief=brief), evidence, hidden)


def explain_pod(pod: Obj, evidence: Evidence) -> Explanation:
    """The same for a pod that is at hand, as for one of a workload's."""
    return explain(ObjectRef(PODS, *key_of(pod), uid_of(pod)), evidence)


def _gated(case: PodCase) -> Explanation | None:
    """A gate holds the pod, unless there is no scheduler that its removal would help."""
    explanation = gated.explain(case)
    trouble = scheduler_trouble(case) if explanation is not None else None
    if explanation is None or trouble is None:
        return explanation
    gates = ", ".join(str(gate.get("name")) for gate in lookup(case.pod, "spec", "schedulingGates") or ())
    cause = f"{trouble.cause}; and it has the scheduling gate {gates}"
    return answer(
        case, "control-plane", explanation.verdict, cause,
        change=trouble.change, changes=(explanation.change,) if explanation.change is not None else (),
        next_trigger=trouble.next_trigger,
    )  # fmt: skip


# How it ends comes first: a victim that is terminating is not "not ready", and a pod that is being deleted
# has not failed because its containers were stopped.
UNBOUND: tuple[Stage, ...] = (
    displaced.explain, gone.terminating, finished.explain, _gated, unschedulable.explain,
)  # fmt: skip
BOUND: tuple[Stage, ...] = (
    displaced.explain, gone.terminating, finished.explain, not_ready.explain, not_serving.explain,
)  # fmt: skip
