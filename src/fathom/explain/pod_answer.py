"""Explains pods from evidence that was collected by `ask/`: builds the scheduler's view of the cluster, and
calls `why`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Objects, Recorded, RecordQuery
from fathom.explain.why import ReachedStage, Why, WhyEvidence, explain_gone, explain_pod
from fathom.kinds.explanation import ExplanationSpec
from fathom.model.errors import bad_request, not_found
from fathom.model.objects import metadata, uid_of
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.user_rules import installed_rules
from fathom.schedule.loop.watched_kinds import KINDS


def wanted(subject: ObjectRef, objects: Objects, spec: ExplanationSpec) -> RecordQuery:
    if subject.resource != "pods":
        raise bad_request(f"explanations are about pods, not {subject.resource}")
    return RecordQuery(objects=(subject,))


def answer(evidence: Evidence, spec: ExplanationSpec) -> Why:
    subject = evidence.subject
    pod = evidence.objects.get("pods", subject.key)
    records = [record for record in evidence.decisions if _is_placement(record, subject)]
    if pod is None and not records:
        raise not_found("pods", subject.name)
    if pod is None:
        name = f"{subject.namespace}/{subject.name}"
        return _shown(explain_gone(name, [record.kept for record in records], _reasons(records)), evidence)
    mine = [record for record in records if record.kept.decision.subject.uid == uid_of(pod)]
    cluster, latest = _cluster(evidence.objects)
    why = explain_pod(
        WhyEvidence(
            pod=pod,
            kept=tuple(record.kept for record in mine),
            reasons=_reasons(mine),
            latest=latest,
            now_ns=evidence.now_ns,
            heard=bool(mine) or any("scheduler" in state.parts for state in evidence.processes),
        ),
        cluster,
    )
    return _shown(why, evidence)


def _is_placement(record: Recorded, subject: ObjectRef) -> bool:
    decision = record.kept.decision
    return decision.controller.startswith("scheduler") and subject.is_subject(decision.subject)


def _reasons(records: Sequence[Recorded]) -> dict[str, str] | None:
    return dict(records[-1].nodes) if records and records[-1].nodes is not None else None


def _cluster(objects: Objects) -> tuple[ClusterView, dict[str, ReachedStage]]:
    """The cluster as a freshly started scheduler sees it, and the revision of each kind."""
    cluster = ClusterView(rules=installed_rules())
    latest = {}
    for kind in sorted(KINDS, key=lambda kind: kind.name == "Pod"):  # Pods last: namespaces name tenants.
        resource = kind.resource.plural + (f".{kind.resource.group}" if kind.resource.group else "")
        listed = objects.list(resource)
        changed = max((int(metadata(obj).get("resourceVersion") or 0) for obj in listed), default=0)
        latest[kind.name] = ReachedStage(objects.revision(resource), changed)
        for obj in listed:
            if kind.name == "Pod":
                cluster.put_pod(obj)
            else:
                cluster.put(kind.name, None, obj)
    return cluster, latest


def _shown(why: Why, evidence: Evidence) -> Why:
    """Without names of nodes for a user that may not read them."""
    if evidence.may_read_nodes:
        return why
    groups = tuple(msgspec.structs.replace(group, nodes=()) for group in why.groups)
    now = why.now
    if now is not None:
        now_groups = tuple(msgspec.structs.replace(group, nodes=()) for group in now.groups)
        now = msgspec.structs.replace(now, groups=now_groups, node=None)
    attempt = why.attempt
    if attempt is not None:
        attempt = msgspec.structs.replace(attempt, scores={}, node="")
    return msgspec.structs.replace(why, groups=groups, now=now, attempt=attempt)
