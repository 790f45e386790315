"""Which records a timeline needs, from the objects alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.timeline.reports import decision_of
from fathom.explain.timeline.scope import (
    OWNED_MAX,
    POLICIES,
    Scope,
    autoscalers_of,
    cited_by,
    owned_by,
    owners_of,
    ref_of,
    scaled_by,
    scope_of,
)
from fathom.explain.timeline.timeline import TimelineSpec
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.record_query import victims_of
from fathom.model.tenancy import tenant_of

# A cluster has few of these; of a cluster with more, a timeline shows those that decisions cite.
STEERING_MAX = 50
EVENTS_MAX = 100


def wanted(subject: ObjectRef, objects: Objects, spec: TimelineSpec) -> RecordQuery:
    """The subject, its owners, what it owns; and what decisions about it may cite: quotas, policies,
    overrides, and the nodes of its pods."""
    obj = objects.get(subject.resource, subject.key)
    uid = subject.uid or (uid_of(obj) if obj is not None else "")
    refs = [msgspec.structs.replace(subject, uid=uid)]
    if obj is not None and uid_of(obj) == uid:
        refs += [ref for ref, _ in owners_of(obj, objects)]
        refs += scaled_by(obj, objects)
    refs += autoscalers_of(refs, subject.namespace, objects)
    refs += owned_by({uid} - {""}, subject.namespace, objects)[:OWNED_MAX]
    refs += _events(refs, objects)
    refs += _nodes(refs, objects)
    refs += _quotas(obj or {"metadata": {"namespace": subject.namespace}}, objects)
    for resource in (POLICIES, OVERRIDES):
        refs += [ref_of(resource, listed) for listed in objects.list(resource)[:STEERING_MAX]]
    return _query(refs, spec)


def wanted_more(evidence: Evidence, spec: TimelineSpec) -> RecordQuery | None:
    """What the records cite beyond the first query: deleted children, other nodes, objects whose change
    woke a decision. None: the first query was enough."""
    scope = scope_of(evidence)
    refs = [ref for uid, ref in scope.refs.items() if uid != scope.subject.uid]
    for record in evidence.decisions:
        cause = record.kept.decision.cause
        if cause.revision and scope.has(record.kept.decision.subject.uid):
            refs.append(ObjectRef(cause.resource, cause.namespace, cause.name))
    refs += cited_by(evidence, scope.uids)
    refs += _others_written(evidence, scope)
    asked = dict.fromkeys(wanted(evidence.subject, evidence.objects, spec).objects)
    more = [ref for ref in dict.fromkeys(refs) if ref not in asked and not _is_covered(ref, asked)]
    ids = _reported(scope.uids, evidence)
    return msgspec.structs.replace(_query(more, spec), decisions=ids) if more or ids else None


def _reported(uids: Collection[str], evidence: Evidence) -> tuple[str, ...]:
    """Decisions that Events about these objects report, and that the first query did not find: a pod that was
    evicted names the decision about another pod."""
    known = {record.kept.decision.id for record in evidence.decisions}
    about = [
        event for event in evidence.objects.list("events") if lookup(event, "involvedObject", "uid") in uids
    ]
    named = dict.fromkeys(map(decision_of, about[-EVENTS_MAX:]))
    return tuple(id_ for id_ in named if id_ and id_ not in known)


def _others_written(evidence: Evidence, scope: Scope) -> Iterator[ObjectRef]:
    """What decisions about the subject and what it owns wrote elsewhere: pods that they evicted, for one."""
    for record in evidence.decisions:
        if scope.role(record.kept.decision.subject.uid) not in {"subject", "owned"}:
            continue
        for victim in victims_of(record.kept.decision.victims):
            yield ObjectRef("pods", *victim.split("/", 1))
        for outcome in record.kept.outcomes:
            if (written := outcome.object) is not None:
                yield ObjectRef(written.resource, written.namespace, written.name, written.uid)


def _is_covered(ref: ObjectRef, asked: Iterable[ObjectRef]) -> bool:
    return not ref.uid and any((ref.resource, ref.key) == (other.resource, other.key) for other in asked)


def _query(refs: Iterable[ObjectRef], spec: TimelineSpec) -> RecordQuery:
    return RecordQuery(objects=tuple(dict.fromkeys(refs)), since_ns=spec.since_ns, until_ns=spec.until_ns)


def _events(refs: Iterable[ObjectRef], objects: Objects) -> list[ObjectRef]:
    """The audit log has their exact times."""
    uids = {ref.uid for ref in refs}
    about = [event for event in objects.list("events") if lookup(event, "involvedObject", "uid") in uids]
    return [ref_of("events", event) for event in about[-EVENTS_MAX:]]


def _nodes(refs: Iterable[ObjectRef], objects: Objects) -> list[ObjectRef]:
    pods = (objects.get("pods", ref.key) for ref in refs if ref.resource == "pods")
    names = {str(lookup(pod, "spec", "nodeName") or "") for pod in pods if pod is not None}
    nodes = (objects.get("nodes", Key("", name)) for name in sorted(names - {""}))
    return [ref_of("nodes", node) for node in nodes if node is not None]


def _quotas(obj: Obj, objects: Objects) -> list[ObjectRef]:
    namespace = key_of(obj).namespace
    refs = [ref_of("resourcequotas", quota) for quota in objects.list("resourcequotas", namespace)]
    tenant = tenant_of(obj, objects.get("namespaces", Key("", namespace)))
    quota = objects.get(TENANT_QUOTAS, Key("", tenant))
    return refs if quota is None else [*refs, ref_of(TENANT_QUOTAS, quota)]
