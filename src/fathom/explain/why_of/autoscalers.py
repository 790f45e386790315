"""Why a HorizontalPodAutoscaler does not scale: no target, no metrics, held back, paused, at its limit."""

from __future__ import annotations

import msgspec

from fathom.controllers.autoscaler.plan import ABLE, ACTIVE, HELD_BY, LIMITED, max_of
from fathom.controllers.autoscaler.plan_metrics import measure_of
from fathom.controllers.autoscaler.samples import MissingSamples, request_of
from fathom.controllers.override_pauses import paused
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import NOBODY, Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart, unobserved
from fathom.explain.why_of.deployments import explain_deployment
from fathom.explain.why_of.lookups import OVERRIDES, PODS, ExplainPod, last_decision, owned_by, ref
from fathom.explain.why_of.replica_sets import explain_replica_set
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.formats import dns_subdomain
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS

CONTROLLER = "autoscaling"
PAUSES = ("pause_autoscaler", "pause_expansion")  # Of an override.
TARGETS = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS}


def explain_autoscaler(
    evidence: Evidence, autoscaler: Obj, explain_pod: ExplainPod | None = None
) -> Explanation:
    trouble = _trouble(evidence, autoscaler, explain_pod)
    return answered(
        evidence,
        autoscaler,
        trouble,
        stage="autoscalers",
        verdict=_verdict(autoscaler, trouble),
        controller=CONTROLLER,
        cause=_last_reason(evidence, autoscaler),
    )


def _verdict(autoscaler: Obj, trouble: SubjectTrouble | None) -> str:
    current = int(lookup(autoscaler, "status", "currentReplicas") or 0)
    if trouble is None:
        return f"keeps its target at {current} replicas"
    return f"{trouble.verdict} at {current} replicas"


def _last_reason(evidence: Evidence, autoscaler: Obj) -> str:
    """The reason of its last decision, or of its condition."""
    recorded = last_decision(evidence, autoscaler, CONTROLLER)
    if recorded is not None:
        return recorded.kept.decision.message
    return str(_condition(autoscaler, ABLE).get("message") or "")


def autoscaler_reason(autoscaler: Obj) -> tuple[str, str]:
    """Why it last decided as it did, in few words, and the condition that says so."""
    for type_, wanted in ((ABLE, "True"), (ACTIVE, "True"), (LIMITED, "False")):
        condition = _condition(autoscaler, type_)
        if condition and condition.get("status") != wanted:
            return f"{condition.get('reason')}: {condition.get('message')}", type_
    condition = _condition(autoscaler, ABLE)
    return (f"{condition.get('reason')}: {condition.get('message')}", ABLE) if condition else ("", "")


def _condition(autoscaler: Obj, type_: str) -> Obj:
    return find_condition(conditions_of(autoscaler), type_) or {}


def _trouble(evidence: Evidence, autoscaler: Obj, explain_pod: ExplainPod | None) -> SubjectTrouble | None:
    trouble = part_trouble(evidence, CONTROLLERS)
    if trouble:
        return SubjectTrouble("is not run", trouble, restart(trouble, CONTROLLERS))
    behind = unobserved(evidence, autoscaler, CONTROLLER)
    if behind:
        return SubjectTrouble("is not observed", behind)
    if _condition(autoscaler, ABLE).get("status") == "False":
        return _without_target(evidence, autoscaler)
    if _condition(autoscaler, ACTIVE).get("status") == "False":
        return _inactive(evidence, autoscaler)
    if _condition(autoscaler, LIMITED).get("status") == "True":
        return _limited(evidence, autoscaler, explain_pod)
    return None


def _patch(autoscaler: Obj, patch: str) -> str:
    namespace, name = key_of(autoscaler)
    return f"kubectl patch hpa {word(name)} -n {word(namespace)} --type=merge -p {word(patch)}"


def _owner(autoscaler: Obj) -> str:
    return f"the owner of hpa/{key_of(autoscaler).name}"


# Its target.


def _reference(autoscaler: Obj) -> tuple[str, str]:
    reference = lookup(autoscaler, "spec", "scaleTargetRef") or {}
    return str(reference.get("kind") or ""), str(reference.get("name") or "")


def target_of(evidence: Evidence, autoscaler: Obj) -> tuple[ObjectRef, ...]:
    kind, name = _reference(autoscaler)
    resource = TARGETS.get(kind)
    workload = None
    if resource is not None:
        workload = evidence.objects.get(resource, Key(key_of(autoscaler).namespace, name))
    return () if workload is None or resource is None else (ref(resource, workload),)


def _without_target(evidence: Evidence, autoscaler: Obj) -> SubjectTrouble:
    kind, name = _reference(autoscaler)
    message = str(_condition(autoscaler, ABLE).get("message") or "")
    resource = TARGETS.get(kind, "")
    existing = [key_of(obj).name for obj in evidence.objects.list(resource, key_of(autoscaler).namespace)]
    near = [other for other in existing if other.startswith(name[:3])] or existing
    if not resource or not near:
        is_name = resource and not dns_subdomain(name)  # Else it is any text, also an option of kubectl.
        command = f"kubectl create {word(kind.lower())} {word(name)}" if is_name else ""
        change = Change(f"create {kind} {name}", command, _owner(autoscaler))
        return SubjectTrouble("cannot scale", message, change)
    patch = f'{{"spec":{{"scaleTargetRef":{{"name":"{near[0]}"}}}}}}'
    change = Change(
        f"name an existing {kind}, such as {near[0]}", _patch(autoscaler, patch), _owner(autoscaler)
    )
    return SubjectTrouble("cannot scale", message, change)


# Its metrics.


def _inactive(evidence: Evidence, autoscaler: Obj) -> SubjectTrouble:
    condition, (kind, name) = _condition(autoscaler, ACTIVE), _reference(autoscaler)
    namespace, target = key_of(autoscaler).namespace, f"{kind.lower()}/{name}"
    reason, message = str(condition.get("reason") or ""), str(condition.get("message") or "")
    owner = f"the owner of {target}"
    related = target_of(evidence, autoscaler)
    if reason == "ScalingDisabled":
        change = Change(
            "give the target a replica",
            f"kubectl scale {word(target)} -n {word(namespace)} --replicas=1",
            owner,
        )
        return SubjectTrouble("is disabled", message, change, related=related)
    if reason == "AmbiguousSelector":
        command = f"kubectl delete hpa {word(key_of(autoscaler).name)} -n {word(namespace)}"
        change = Change("delete all autoscalers of the target but one", command, _owner(autoscaler))
        return SubjectTrouble("is disabled", message, change, related=related)
    resource = _unrequested(evidence, autoscaler)
    if resource:
        command = (
            f"kubectl set resources {word(target)} -n {word(namespace)} --requests={word(resource)}=100m"
        )
        change = Change(f"set requests of {resource} in the target's pods", command, owner)
        return SubjectTrouble("has no metrics", f"{reason}: {message}", change, related=related)
    if (unsupported := _unsupported(autoscaler)) is not None:
        return SubjectTrouble("has no metrics", f"{reason}: {message}", unsupported, related=related)
    command = f"kubectl get pods.metrics.k8s.io -n {word(namespace)} -o yaml"
    change = Change("check that the nodes of its pods report use", command, "a cluster operator")
    return SubjectTrouble("has no metrics", f"{reason}: {message}", change, related=related)


def _unsupported(autoscaler: Obj) -> Change | None:
    """Of several metrics one that can be read is enough to scale by."""
    metrics = lookup(autoscaler, "spec", "metrics") or ()
    if not metrics or any(measure_of(metric) is not None for metric in metrics):
        return None
    patch = (
        '{"spec":{"metrics":[{"type":"Resource","resource":'
        '{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}'
    )
    return Change("scale by a metric of type Resource", _patch(autoscaler, patch), _owner(autoscaler))


def _unrequested(evidence: Evidence, autoscaler: Obj) -> str:
    """The first resource whose share of the requests a metric is about and that a pod of the target does not
    request; '' if there is none."""
    measures = [measure_of(metric) for metric in lookup(autoscaler, "spec", "metrics") or ()]
    pods = _pods_of_target(evidence, autoscaler)
    return next(
        (
            measure.resource
            for measure in measures
            if measure is not None
            and measure.by_share
            and any(isinstance(request_of(pod, measure), MissingSamples) for pod in pods)
        ),
        "",
    )


def _pods_of_target(evidence: Evidence, autoscaler: Obj) -> list[Obj]:
    """The target's pods: admission may have given them requests. Without any, one as its template has it."""
    for target in target_of(evidence, autoscaler):
        workload = evidence.objects.get(target.resource, target.key) or {}
        sets = [workload]
        if target.resource == DEPLOYMENTS:
            sets = owned_by(evidence, REPLICA_SETS, workload)
        pods = [pod for owner in sets for pod in owned_by(evidence, PODS, owner)]
        template = {"metadata": {"name": target.name}, "spec": lookup(workload, "spec", "template", "spec")}
        return pods or [template]
    return []


# What keeps it from the size that its metrics ask for.


def _limited(evidence: Evidence, autoscaler: Obj, explain_pod: ExplainPod | None) -> SubjectTrouble | None:
    condition = _condition(autoscaler, LIMITED)
    reason, message = str(condition.get("reason") or ""), str(condition.get("message") or "")
    if reason == "TooFewReplicas":
        return None  # Its metrics ask for fewer than the minimum: that is what a minimum is for.
    if reason == "TooManyReplicas":
        return _at_maximum(evidence, autoscaler, message)
    if reason == "Paused":
        return _paused(evidence, autoscaler, message)
    if reason.startswith(HELD_BY):
        return _held(evidence, autoscaler, message, explain_pod)
    if reason in {"ScaleUpLimit", "ScaleDownLimit"}:
        change = Change("wait, or allow larger steps in spec.behavior", "", NOBODY)
        return SubjectTrouble("scales step by step", message, change, kind="passing")
    change = Change("wait until the progress of its target is known", "", NOBODY)
    related = target_of(evidence, autoscaler)
    return SubjectTrouble("waits", f"{reason}: {message}", change, related=related, kind="passing")


def _at_maximum(evidence: Evidence, autoscaler: Obj, message: str) -> SubjectTrouble:
    most = max_of(autoscaler)
    wanted = max(most + 1, _asked_for(autoscaler))
    patch = f'{{"spec":{{"maxReplicas":{wanted}}}}}'
    step = "" if wanted == most + 1 else f", all that its metrics ask for; {most + 1} is one replica more"
    what = f"raise maxReplicas from {most} to {wanted}{step}"
    change = Change(what, _patch(autoscaler, patch), _owner(autoscaler))
    return SubjectTrouble("is at its limit", message, change, related=target_of(evidence, autoscaler))


def _asked_for(autoscaler: Obj) -> int:
    """How many replicas its current metrics ask for: present ones times use over target, rounded up."""
    current = int(lookup(autoscaler, "status", "currentReplicas") or 0)
    targets = {
        lookup(metric, "resource", "name"): lookup(metric, "resource", "target", "averageUtilization")
        for metric in lookup(autoscaler, "spec", "metrics") or ()
    }
    wanted = [0]
    for metric in lookup(autoscaler, "status", "currentMetrics") or ():
        use = lookup(metric, "resource", "current", "averageUtilization")
        target = targets.get(lookup(metric, "resource", "name"))
        if isinstance(use, int) and isinstance(target, int) and target > 0:
            wanted.append(-(-current * use // target))
    return max(wanted)


def _paused(evidence: Evidence, autoscaler: Obj, message: str) -> SubjectTrouble:
    namespace, (kind, workload) = key_of(autoscaler).namespace, _reference(autoscaler)
    pause = paused(
        evidence.objects.list(OVERRIDES, namespace),
        kind,
        Key(namespace, workload),
        *PAUSES,
        now_ns=evidence.now_ns,
        in_scope=lambda _: True,  # Its condition says that one of them pauses it.
    )
    if pause is None:
        change = Change("wait: no override pauses it any more, and the next look scales it", "", NOBODY)
        return SubjectTrouble("is paused", message, change, kind="intended")
    command = f"kubectl delete scheduleroverride {word(pause.override)} -n {word(namespace)}"
    change = Change(
        "end the override, or let it expire", command, f"whoever may delete overrides in {namespace}"
    )
    override = evidence.objects.get(OVERRIDES, Key(namespace, pause.override))
    related = () if override is None else (ref(OVERRIDES, override),)
    return SubjectTrouble("is paused", message, change, related=related, kind="intended")


def _held(
    evidence: Evidence, autoscaler: Obj, message: str, explain_pod: ExplainPod | None
) -> SubjectTrouble:
    """More replicas would wait at the same boundary: the target's own trouble is the cause."""
    related = target_of(evidence, autoscaler)
    if not related:
        return SubjectTrouble("is held", message, kind="held")
    about = msgspec.structs.replace(evidence, subject=related[0])
    workload = evidence.objects.get(related[0].resource, related[0].key)
    assert workload is not None  # `target_of` has found it.
    explain = explain_deployment if related[0].resource == DEPLOYMENTS else explain_replica_set
    target = explain(about, workload, explain_pod)
    why = f": {target.cause}" if target.cause else ""
    return SubjectTrouble("is held", f"{message}{why}", target.change, target.causes, related, kind="held")
