"""What an override would change for pods that wait: the scheduler's decision with and without it.

For who may not fork the cluster. Pure: nothing is run, so nothing is known about what others would do then.
"""

from __future__ import annotations

from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.questions import PodExplainer
from fathom.explain.why.answer import Explanation
from fathom.explain.why.what_if import ObjectPatch, what_if
from fathom.kinds.override_changes import WORKLOAD_TARGETS
from fathom.kinds.preview_answer import PodWhatIf
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, named, targets_pod
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, with_metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.times import duration_ns, timestamp
from fathom.schedule.decide.rules import Rules

# Pods of one workload wait for the same; two decisions about each take some milliseconds.
PODS_MAX = 8
UID = "previewed"


def waiting_pods(evidence: Evidence, override: SchedulerOverride) -> list[Obj]:
    """Of the target's workload; for an override of nodes, all that the user may read."""
    target = named(override.spec.target)
    of_workload = target is not None and target.kind in WORKLOAD_TARGETS
    readable = evidence.readable
    return [
        pod
        for pod in evidence.objects.list("pods")
        if not lookup(pod, "spec", "nodeName")
        and not is_deleting(pod)
        and not is_terminal(pod)
        and (readable is None or key_of(pod).namespace in readable)
        and (not of_workload or targets_pod(override, pod))
    ][:PODS_MAX]


def explain_with(
    evidence: Evidence, obj: Obj, override: SchedulerOverride, rules: Rules
) -> tuple[PodWhatIf, ...]:
    """`obj`: the override as an object, with its namespace."""
    key = override.metadata.key
    patch = ObjectPatch(OVERRIDES, key.namespace, key.name, in_force(obj, now_ns=evidence.now_ns))
    changed = what_if(evidence, [patch])
    now, then = PodExplainer(rules), PodExplainer(rules)
    return tuple(
        PodWhatIf(
            "/".join(key_of(pod)),
            _decided(now(pod, _about(evidence, pod))),
            _decided(then(pod, _about(changed, pod))),
        )
        for pod in waiting_pods(evidence, override)
    )


def _decided(explanation: Explanation) -> str:
    """What the decider says of the cluster; where it is not asked, as for a gated pod, why not."""
    return explanation.cause if explanation.now is None else explanation.now.answer


def in_force(obj: Obj, *, now_ns: int) -> Obj:
    """As the server would store it now."""
    created = timestamp(now_ns)
    lasts_ns = duration_ns(str(lookup(obj, "spec", "expiresAfter") or "")) or 0
    status = {"expiresAt": timestamp(now_ns + lasts_ns)}
    uid = metadata(obj).get("uid") or UID
    return {**with_metadata(obj, creationTimestamp=created, generation=1, uid=uid), "status": status}


def _about(evidence: Evidence, pod: Obj) -> Evidence:
    return Evidence(
        subject=ObjectRef("pods", *key_of(pod)),
        objects=evidence.objects,
        now_ns=evidence.now_ns,
        may_read_nodes=evidence.may_read_nodes,
        readable=evidence.readable,
    )
