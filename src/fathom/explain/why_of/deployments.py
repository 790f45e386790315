"""Why a Deployment is not as wanted: paused, refused, not ready, not served, or its rollout waits for other
pods."""

from __future__ import annotations

import msgspec

from fathom.controllers.deployment.plan_status import PAUSED, TIMED_OUT
from fathom.controllers.deployment.proportions import limits_of, wanted_of
from fathom.controllers.deployment.revisions import Sets, size_of, split
from fathom.controllers.override_pauses import paused
from fathom.controllers.pod_states import is_active
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import NOBODY, CauseGroup, Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart, unobserved
from fathom.explain.why_of.lookups import NODES, OVERRIDES, PODS, PROGRESS, ExplainPod, owned_by, ref
from fathom.explain.why_of.replicas import (
    ReplicaFacts,
    ready_count,
    replica_trouble,
    replica_verdict,
)
from fathom.explain.why_of.unreached import unreached_replicas
from fathom.kinds.override_scope import InScope, workload_in_scope
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata
from fathom.model.reasons import CRASH, IMAGE, PROBE, START, boundary_of
from fathom.model.resource_names import REPLICA_SETS
from fathom.model.times import timestamp

CONTROLLER = "deployments"
OF_THE_PROGRAM = frozenset({IMAGE, CRASH, PROBE, START})


def explain_deployment(
    evidence: Evidence, deployment: Obj, explain_pod: ExplainPod | None = None
) -> Explanation:
    sets = split(deployment, owned_by(evidence, REPLICA_SETS, deployment))
    pods = [] if sets.new is None else owned_by(evidence, PODS, sets.new)
    wanted, ready = wanted_of(deployment), ready_count(pods)
    older = sum(ready_count(owned_by(evidence, PODS, replica_set)) for replica_set in sets.old)
    facts = _facts(deployment, sets, pods)
    trouble = _trouble(evidence, deployment, sets, facts, explain_pod)
    if trouble is not None and older:
        trouble = _undone(deployment, trouble)
    return answered(
        evidence,
        deployment,
        trouble,
        stage="deployments",
        verdict=replica_verdict(trouble, ready=ready, wanted=wanted, older=older),
        controller=CONTROLLER,
        related=_related(evidence, deployment, sets),
        ready=ready,
        wanted=wanted,
    )


def _undone(deployment: Obj, trouble: SubjectTrouble) -> SubjectTrouble:
    """Pods of the template before are ready, and those of the new one do not start: to return is known to
    help, while nobody but its author knows what the program, its image or its probe should be."""
    if not trouble.causes or boundary_of(trouble.causes[0].cause) not in OF_THE_PROGRAM:
        return trouble
    namespace, name = key_of(deployment)
    command = f"kubectl rollout undo deployment/{word(name)} -n {word(namespace)}"
    who = f"the owner of deployment/{name}"
    change = Change("return to the template before, whose pods are ready", command, who)
    return msgspec.structs.replace(trouble, change=change)


def _facts(deployment: Obj, sets: Sets, pods: list[Obj]) -> ReplicaFacts:
    """The rollout decides how many pods the newest ReplicaSet may have by now."""
    return ReplicaFacts(
        owner=deployment,
        creator=sets.new,
        target=f"deployment/{key_of(deployment).name}",
        wanted=0 if sets.new is None else size_of(sets.new),
        pods=pods,
        min_ready_s=int(lookup(deployment, "spec", "minReadySeconds") or 0),
    )


def _trouble(
    evidence: Evidence, deployment: Obj, sets: Sets, facts: ReplicaFacts, explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    complete = _is_rolled_out(evidence, deployment, sets)
    pause = _pause(evidence, deployment, complete=complete)
    if pause is not None:
        return pause
    behind = unobserved(evidence, deployment, CONTROLLER)
    if behind:
        return SubjectTrouble(
            "is not observed", behind, restart(part_trouble(evidence, CONTROLLERS), CONTROLLERS)
        )
    if sets.new is None:
        return _without_new_set(evidence, deployment)
    trouble = replica_trouble(evidence, facts, explain_pod)
    if trouble is not None:
        return _with_deadline(deployment, trouble)
    if not complete:
        return _rolling(evidence, deployment, sets)
    return unreached_replicas(evidence, deployment, facts.pods)


def _is_rolled_out(evidence: Evidence, deployment: Obj, sets: Sets) -> bool:
    """Whether the newest template has all replicas, and no pod of an older one is left."""
    if sets.new is None or size_of(sets.new) != wanted_of(deployment):
        return False
    old = [pod for replica_set in sets.old for pod in owned_by(evidence, PODS, replica_set)]
    return not any(map(size_of, sets.old)) and not any(map(is_active, old))


# Paused.


def _pause(evidence: Evidence, deployment: Obj, *, complete: bool) -> SubjectTrouble | None:
    """A pause is no trouble when there is nothing left to roll out."""
    if complete:
        return None
    namespace, name = key_of(deployment)
    if lookup(deployment, "spec", "paused"):
        command = f"kubectl rollout resume deployment/{word(name)} -n {word(namespace)}"
        change = Change("resume the rollout", command, f"whoever may update deployment/{name}")
        return SubjectTrouble(
            "is paused", "spec.paused is true, so the new template is not rolled out", change, kind="intended"
        )
    overrides = evidence.objects.list(OVERRIDES, namespace)
    pause = paused(
        overrides,
        "Deployment",
        Key(namespace, name),
        "pause_rollout",
        now_ns=evidence.now_ns,
        in_scope=_in_scope(evidence, deployment),
    )
    if pause is None:
        return None
    until = timestamp(pause.until_ns)
    command = f"kubectl delete scheduleroverride {word(pause.override)} -n {word(namespace)}"
    change = Change(
        f"end the override, or wait until {until}", command, f"whoever may delete overrides in {namespace}"
    )
    override = evidence.objects.get(OVERRIDES, Key(namespace, pause.override))
    related = () if override is None else (ref(OVERRIDES, override),)
    cause = f"the override {pause.override} pauses its rollout until {until}"
    return SubjectTrouble("is paused", cause, change, related=related, kind="intended")


def _in_scope(evidence: Evidence, deployment: Obj) -> InScope:
    """Without nodes, which the user may not be allowed to read, every override counts that may pause it."""
    cluster = evidence.objects.list(NODES) if evidence.may_read_nodes else ()

    def includes(scope: str) -> bool:
        if not cluster:
            return True
        sets = owned_by(evidence, REPLICA_SETS, deployment)
        pods = [pod for replica_set in sets for pod in owned_by(evidence, PODS, replica_set)]
        names = dict.fromkeys(str(lookup(pod, "spec", "nodeName") or "") for pod in pods)
        nodes = [evidence.objects.get(NODES, Key("", name)) for name in names if name]
        own_nodes = [labels_of(node) for node in nodes if node is not None]
        return workload_in_scope(scope, own_nodes, map(labels_of, cluster))

    return includes


# The rollout.


def _without_new_set(evidence: Evidence, deployment: Obj) -> SubjectTrouble | None:
    progressing = find_condition(conditions_of(deployment), "Progressing") or {}
    why = f": {progressing['message']}" if progressing.get("reason") == "ReplicaSetCreateError" else ""
    trouble = part_trouble(evidence, CONTROLLERS)
    because = f": {trouble}" if trouble else why
    cause = f"the ReplicaSet of its newest template does not exist yet{because}"
    return SubjectTrouble("is not created", cause, restart(trouble, CONTROLLERS))


def _with_deadline(deployment: Obj, trouble: SubjectTrouble) -> SubjectTrouble:
    """A rollout that has timed out gets no more pods: that is said beside the pods' own cause."""
    progressing = find_condition(conditions_of(deployment), "Progressing") or {}
    if progressing.get("reason") != TIMED_OUT:
        return trouble
    late = CauseGroup(TIMED_OUT, 0, (), str(progressing.get("message") or ""))
    seconds = lookup(deployment, "spec", "progressDeadlineSeconds")
    return SubjectTrouble(
        "is stuck",
        f"{trouble.cause}; the rollout made no progress within its deadline of {seconds} s",
        trouble.change,
        (*trouble.causes, late),
        trouble.related,
    )


def _rolling(evidence: Evidence, deployment: Obj, sets: Sets) -> SubjectTrouble:
    """All pods of the newest template that there may be are available: what the others wait for."""
    assert sets.new is not None
    limits, wanted, size = limits_of(deployment), wanted_of(deployment), size_of(sets.new)
    old = [pod for replica_set in sets.old for pod in owned_by(evidence, PODS, replica_set)]
    limit = f"maxSurge {limits.surge}, maxUnavailable {limits.unavailable}"
    if lookup(deployment, "spec", "strategy", "type") == "Recreate":
        limit = "strategy Recreate"
    going = sum(not is_active(pod) for pod in old)
    rest = f", {going} of them terminating" if going else ""
    cause = (
        f"{size} of {wanted} replicas have the newest template, and {len(old)} old pods are left{rest}: "
        f"the rollout goes on step by step ({limit})"
    )
    progressing = find_condition(conditions_of(deployment), "Progressing") or {}
    if progressing.get("reason") == PAUSED:
        cause = str(progressing.get("message") or cause)
    trouble = part_trouble(evidence, CONTROLLERS)
    if trouble:
        return SubjectTrouble(
            "is rolling out", f"{cause}: {trouble}", restart(trouble, CONTROLLERS), kind="passing"
        )
    change = Change("wait until its controller takes the next step", "", NOBODY)
    return SubjectTrouble("is rolling out", cause, change, kind="passing")


def _related(evidence: Evidence, deployment: Obj, sets: Sets) -> list[ObjectRef]:
    namespace = key_of(deployment).namespace
    progress = [
        ref(PROGRESS, obj)
        for obj in evidence.objects.list(PROGRESS, namespace)
        if lookup(obj, "spec", "workload", "uid") == metadata(deployment).get("uid")
    ]
    newest = [] if sets.new is None else [ref(REPLICA_SETS, sets.new)]
    return [*newest, *progress]
