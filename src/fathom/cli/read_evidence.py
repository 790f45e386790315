"""Evidence that a command collects itself, for API servers that answer no questions: lists of objects, and
the journals and the audit log beside the kubeconfig, where these are on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fathom.cli.problem import Problem
from fathom.cli.why import is_of, journals
from fathom.client.api import Api, Resource
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.once import api_of
from fathom.client.servers import find_server
from fathom.explain.evidence import Evidence, Gap, HeldObjects, ObjectRef, Recorded, RecordQuery
from fathom.explain.questions import STUCK, WHY, answer, wanted
from fathom.explain.status import NoSubject
from fathom.explain.why_of.kinds import NoExplanation
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.audit import AuditEntry
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.record.audit_reading import read_entries
from fathom.record.journal import WantedDecisions, read_journal
from fathom.seams.outside import live

if TYPE_CHECKING:
    from fathom.cli.explanations import Question

NAMESPACED = (
    Resource("", "v1", "pods"),
    Resource("", "v1", "events"),
    Resource("", "v1", "services"),
    Resource("", "v1", "resourcequotas"),
    Resource("apps", "v1", "deployments"),
    Resource("apps", "v1", "replicasets"),
    Resource("batch", "v1", "jobs"),
    Resource("discovery.k8s.io", "v1", "endpointslices"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers"),
    Resource("policy", "v1", "poddisruptionbudgets"),
    Resource("fathom.dev", "v1alpha1", "workloadprogresses"),
    Resource("fathom.dev", "v1alpha1", "scheduleroverrides"),
)
CLUSTER_SCOPED = (
    Resource("", "v1", "nodes", namespaced=False),
    Resource("", "v1", "namespaces", namespaced=False),
    Resource("fathom.dev", "v1alpha1", "policyrollouts", namespaced=False),
    Resource("fathom.dev", "v1alpha1", "schedulingpolicies", namespaced=False),
    Resource("fathom.dev", "v1alpha1", "tenantquotas", namespaced=False),
    Resource("fathom.dev", "v1alpha1", "capacityclasses", namespaced=False),
)
LEASES = Resource("coordination.k8s.io", "v1", "leases")
AUDIT = "audit"  # The directory of the audit log, in the API server's data directory.
# Those whose subjects concern other namespaces too.
EVERYWHERE = frozenset({"pods", "poddisruptionbudgets.policy", "scheduleroverrides.fathom.dev"})


def resource_named(kind: str) -> Resource | None:
    """'deploy', 'Deployment', 'deployments.apps'; None if there is no such kind to explain."""
    resources = (*NAMESPACED, *CLUSTER_SCOPED)
    return next((resource for resource in resources if is_of(kind, resource.name)), None)


async def read_evidence(
    api: Api, subject: ObjectRef, data: Path, *, now_ns: int, view: str = WHY
) -> Evidence:
    """Raises ApiError."""
    objects, gaps = await _list_objects(api, subject.name if view == STUCK else subject.namespace)
    query = wanted(subject, objects, view=view)
    paths = journals(data)
    if not paths:
        gaps.append(Gap("journals", f"{data} has none"))
    if not (data / AUDIT).is_dir():
        gaps.append(Gap("audit log", f"{data / AUDIT} does not exist"))
    return Evidence(
        subject=subject,
        objects=objects,
        decisions=_records(paths, query),
        audit=_entries(data / AUDIT, query),
        gaps=tuple(gaps),
        now_ns=now_ns,
        may_read_nodes="nodes" not in {gap.source for gap in gaps},
    )


def answer_question(question: Question, kubeconfig: Path | None, data: Path) -> dict[str, Any]:
    """The answer as a document. Raises Problem."""
    resource = resource_named(question.kind)
    if resource is None:
        raise Problem(f"there is no kind {question.kind!r} that can be explained")
    subject = ObjectRef(resource.name, question.namespace if resource.namespaced else "", question.name)
    try:
        evidence = asyncio.run(_ask(subject, question, kubeconfig, data))
        document: dict[str, Any] = msgspec.to_builtins(answer(evidence, view=question.view))
    except (BadKubeconfig, ApiError, NoSubject, NoExplanation) as error:
        raise Problem(str(error)) from error
    return document


async def _ask(subject: ObjectRef, question: Question, kubeconfig: Path | None, data: Path) -> Evidence:
    clock = live().clock
    async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
        return await read_evidence(api, subject, data, now_ns=clock.now_ns(), view=question.view)


async def _list_objects(api: Api, namespace: str) -> tuple[HeldObjects, list[Gap]]:
    """`namespace`: '' is all of them."""
    objects: dict[str, list[Obj]] = {}
    gaps: list[Gap] = []
    revision = 0
    for resource in (*NAMESPACED, *CLUSTER_SCOPED):
        near = resource.namespaced and resource.name not in EVERYWHERE
        try:
            objects[resource.name], reached = await _all(api, resource, namespace if near else "")
            revision = max(revision, reached)
        except ApiError as error:
            if error.code not in {403, 404}:
                raise
            gaps.append(Gap(resource.name, error.message))
    try:
        objects[LEASES.name], _ = await _all(api, LEASES, SYSTEM_NAMESPACE)
    except ApiError as error:
        gaps.append(Gap(LEASES.name, error.message))
    return HeldObjects(objects, revision=revision), gaps


async def _all(api: Api, resource: Any, namespace: str) -> tuple[list[Obj], int]:
    page = await api.list_page(resource, namespace)
    items = page.items
    while page.token:
        page = await api.list_page(resource, namespace, token=page.token)
        items += page.items
    return items, page.revision


def _records(paths: Iterable[Path], query: RecordQuery) -> tuple[Recorded, ...]:
    """Oldest first."""
    keys = {(each.resource, each.namespace, each.name) for each in query.objects}
    namespaces = {each.namespace for each in query.objects}
    records = [
        Recorded(path.name, kept)
        for path in paths
        for namespace in sorted(namespaces)
        for kept in read_journal(path, WantedDecisions(namespace=namespace))
        if (kept.decision.subject.resource, kept.decision.subject.namespace, kept.decision.subject.name)
        in keys
    ]
    return tuple(sorted(records, key=lambda record: record.kept.decision.time_ns))


def _entries(directory: Path, query: RecordQuery) -> tuple[AuditEntry, ...]:
    """Of the subject alone: the log is read as a whole for each object."""
    subject = query.objects[0] if query.objects else None
    if subject is None or not directory.is_dir():
        return ()
    entries = read_entries(
        directory, resource=subject.resource, namespace=subject.namespace, name=subject.name
    )
    return tuple(entries)
