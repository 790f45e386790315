"""What an override would change for pods that wait: the scheduler's decision with and without it.

For who may not fork the cluster. Nothing is run, so nothing is known about what others would do then.
"""

from __future__ import annotations

import asyncio

from fathom.api.core import Core
from fathom.ask.access import Access
from fathom.ask.kept_cluster import KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.ask.preview_question import PreviewQuestion
from fathom.ask.subjects import kind_named
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.questions import PodExplainer
from fathom.explain.why.answer import Explanation
from fathom.explain.why.what_if import ObjectPatch, what_if
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS, WORKLOAD_TARGETS
from fathom.kinds.override_preview import FORK_VERB, STATES
from fathom.kinds.preview_answer import (
    WHAT_IF,
    PodWhatIf,
    Preview,
    Touched,
    preview_token,
    touched_object,
    tried_hash,
)
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, named, targets_pod
from fathom.kinds.shape import GROUP, read
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, with_metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.times import duration_ns, timestamp
from fathom.schedule.decide.rules import Rules

# Pods of one workload wait for the same; two decisions about each take some milliseconds.
PODS_MAX = 8
UID = "previewed"
NEEDS_VERB = (
    f'a preview in a fork needs the verb "{FORK_VERB}" on {STATES}.{GROUP} in the whole cluster; this is '
    "only what the scheduler would decide about waiting pods"
)
NOTHING_WAITS = "No pod of the target waits: there is nothing to decide now."
TARGET_RESOURCES = {
    "workload": ("deployments.apps", "replicasets.apps", "jobs.batch"),
    "deployment": ("deployments.apps",),
    "replicaset": ("replicasets.apps",),
    "job": ("jobs.batch",),
    "node": ("nodes",),
}


class WhatIfOverride:
    def __init__(self, core: Core, kept_cluster: KeptCluster) -> None:
        self._core = core
        self._kept_cluster = kept_cluster

    async def answer(self, question: PreviewQuestion, access: Access) -> Preview:
        """Raises 403 for who may not get the pods, or the nodes, that the override is about."""
        objects, override = CachedObjects(self._core.cache), read(SchedulerOverride, question.tried)
        target, namespace = named(override.spec.target), override.metadata.namespace
        about = "nodes" if target is not None and target.kind in INFRASTRUCTURE_TARGETS else "pods"
        place = ObjectRef(about, "" if about == "nodes" else namespace, "")
        await access.require(kind_named(self._core.registry, about), place)
        evidence = Evidence(
            subject=ObjectRef("", namespace, ""),
            objects=objects,
            now_ns=self._core.outside.clock.now_ns(),
            may_read_nodes=await access.may_read_nodes(),
            readable=await access.readable(objects),
        )
        rules = self._kept_cluster.rules
        pods = await asyncio.to_thread(explain_with, evidence, question.tried, override, rules)
        revision, hash_ = objects.revision("pods"), tried_hash(question.tried)
        return Preview(
            token=preview_token(revision, hash_),
            revision=revision,
            hash=hash_,
            method=WHAT_IF,
            reason=NEEDS_VERB,
            minutes=question.minutes,
            notes=() if pods else (NOTHING_WAITS,),
            what_if=pods,
            touched=await self._touched(override, objects, access),
        )

    async def _touched(
        self, override: SchedulerOverride, objects: CachedObjects, access: Access
    ) -> tuple[Touched, ...]:
        """The target, where it is one object and the user may get it."""
        target = named(override.spec.target)
        touched: list[Touched] = []
        for resource in () if target is None else TARGET_RESOURCES.get(target.kind, ()):
            kind = kind_named(self._core.registry, resource)
            key = Key(override.metadata.namespace if kind.namespaced else "", target.name if target else "")
            obj = objects.get(kind.resource, key)
            if obj is not None and await access.may_get(kind, *key):
                touched.append(touched_object(kind.kind, obj))
        return tuple(touched)


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
