"""Evidence collected by the command itself, for API servers that do not answer questions. About pods; for
other kinds see `cli/read_evidence.py`.

It lists what the decision reads, and reads the journals beside the kubeconfig.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec

from fathom.cli.problem import Problem
from fathom.cli.why import is_of, journals
from fathom.client.api import Api, Resource
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.once import api_of
from fathom.client.servers import find_server
from fathom.explain.evidence import Evidence, Gap, HeldObjects, ObjectRef, Recorded
from fathom.explain.why.case import resource_name
from fathom.explain.why.pod import explain
from fathom.explain.why.what_if import BadPatch, read_patch, what_if
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.record.journal import WantedDecisions, node_reasons, read_journal
from fathom.schedule.loop.user_rules import RuleError, installed_rules
from fathom.schedule.loop.watched_kinds import KINDS
from fathom.seams.outside import live

if TYPE_CHECKING:
    from pathlib import Path

    from fathom.cli.explanations import Answer, Question

POD_KINDS = frozenset({"pod", "pods", "po"})
# Beside what the scheduler reads: kinds of the pod's namespace, and leases of the schedulers.
NEARBY = (
    Resource("", "v1", "events"),
    Resource("", "v1", "services"),
    Resource("", "v1", "resourcequotas"),
    Resource("apps", "v1", "replicasets"),
    Resource("apps", "v1", "deployments"),
    Resource("batch", "v1", "jobs"),
    Resource("discovery.k8s.io", "v1", "endpointslices"),
)
LEASES = Resource("coordination.k8s.io", "v1", "leases")


def explain_locally(question: Question, kubeconfig: Path | None, data: Path) -> Answer:
    """Raises Problem."""
    if question.at:
        raise Problem("this API server explains nothing, and --at needs it")
    if question.view or question.kind.lower() not in POD_KINDS:
        if question.what_if:
            raise Problem("this API server explains nothing, and without it --what-if is for pods only")
        from fathom.cli.read_evidence import answer_question  # noqa: PLC0415

        return answer_question(question, kubeconfig, data)
    try:
        evidence = asyncio.run(_collect(question, kubeconfig, data))
        rules = installed_rules()
    except (BadKubeconfig, ApiError, RuleError) as error:
        raise Problem(str(error)) from error
    try:
        patches = [read_patch(text, question.namespace, resource_of) for text in question.what_if]
    except BadPatch as error:
        raise Problem(f"--what-if: {error}") from error
    explanation = explain(evidence.subject, what_if(evidence, patches), rules=rules)
    document: Answer = msgspec.to_builtins(explanation)
    return document


async def _collect(question: Question, kubeconfig: Path | None, data: Path) -> Evidence:
    clock = live().clock
    namespace = question.namespace
    objects: dict[str, list[Obj]] = {}
    async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
        for kind in KINDS:
            await _list(api, kind.resource, "", objects)
        for resource in NEARBY:
            await _list(api, resource, namespace, objects)
        await _list(api, LEASES, SYSTEM_NAMESPACE, objects)
    return Evidence(
        subject=ObjectRef("pods", namespace, question.name),
        objects=HeldObjects(objects),
        decisions=_records(data, namespace, question.name),
        gaps=(Gap("audit log", "the API server answers no questions"),),
        now_ns=clock.now_ns(),
    )


async def _list(api: Api, resource: Resource, namespace: str, objects: dict[str, list[Obj]]) -> None:
    """A kind that the server does not have, or that the user may not read, is left out."""
    try:
        page = await api.list_page(resource, namespace)
        items = page.items
        while page.token:
            page = await api.list_page(resource, namespace, token=page.token)
            items += page.items
    except ApiError as error:
        if error.code not in {403, 404}:
            raise
        return
    objects[resource_name(resource.group, resource.plural)] = items


def _records(data: Path, namespace: str, name: str) -> tuple[Recorded, ...]:
    wanted = WantedDecisions(resource="pods", namespace=namespace, name=name)
    records = [(path, kept) for path in journals(data) for kept in read_journal(path, wanted)]
    records.sort(key=lambda record: record[1].decision.time_ns)
    return tuple(
        Recorded(path.name, kept, node_reasons(path, kept.decision) if kept is records[-1][1] else None)
        for path, kept in records
    )


def resource_of(kind: str) -> tuple[str, bool] | None:
    """The resource of a kind as users write it, and whether it has namespaces."""
    for resource in (*(watched.resource for watched in KINDS), *NEARBY):
        name = resource_name(resource.group, resource.plural)
        if is_of(kind, name):
            return name, resource.namespaced
    return None
