"""Reads what the conditions of a runbook look at: objects, lists, metrics, decisions.

A read that fails makes its input Unknown, with the reason; it never fails the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.client.api import Api, own_resource
from fathom.kinds import decision
from fathom.kinds.runbook import DecisionsAbout, ListedObjects, MetricSamples, RunbookInput
from fathom.kinds.scheduler_override import workloads_of
from fathom.kinds.shape import ObjectRef
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.resource import Resource
from fathom.model.resources import PODS
from fathom.model.times import moment_ns
from fathom.steer.conditions import Observation
from fathom.steer.metrics_text import samples
from fathom.steer.resources import NoSuchKind, Resources
from fathom.steer.templates import Values, filled_struct

ALL_NAMESPACES = "*"
PAGES_MAX = 20  # Of 500 objects. A list that was not read to its end is Unknown.
DECISIONS = own_resource(decision.DEFINITION)


class Unread(Exception):
    """An input has no value; the message says why."""


async def observe(
    api: Api,
    resources: Resources,
    inputs: tuple[RunbookInput, ...],
    values: Values,
    acted: Mapping[str, str],
) -> dict[str, Observation]:
    """`acted`: when each step had done its action, for decisions after one."""
    namespace = values.texts["namespace"]
    observations: dict[str, Observation] = {}
    for template in inputs:
        given = filled_struct(template, values)
        try:
            observations[given.name] = Observation(await _read(api, resources, given, namespace, acted))
        except (ApiError, NoSuchKind, Unread) as error:
            observations[given.name] = Observation(None, f"it could not be read: {error}")
    return observations


async def _read(
    api: Api, resources: Resources, given: RunbookInput, namespace: str, acted: Mapping[str, str]
) -> Obj | list[Obj] | None:
    if given.object is not None:
        return await read_object(api, resources, given.object, namespace)
    if given.list is not None:
        return await _list(api, resources, given.list, namespace)
    if given.metric is not None:
        return await _metric(api, given.metric)
    if given.decisions is not None:
        return await _decisions(api, given.decisions, namespace, acted)
    raise Unread("it names no object, list, metric or decisions")


async def read_object(api: Api, resources: Resources, ref: ObjectRef, namespace: str) -> Obj | None:
    resource = await resources.of_ref(ref)
    return await api.get(resource, ref.namespace or namespace, ref.name)


async def _list(api: Api, resources: Resources, wanted: ListedObjects, namespace: str) -> list[Obj]:
    resource = await resources.of(wanted.api_version, wanted.kind)
    where = "" if wanted.namespace == ALL_NAMESPACES else wanted.namespace or namespace
    selectors = {"labelSelector": wanted.label_selector, "fieldSelector": wanted.field_selector}
    options = {name: value for name, value in selectors.items() if value}
    return await _all_pages(api, resource, where, options)


async def _all_pages(api: Api, resource: Resource, namespace: str, options: Mapping[str, Any]) -> list[Obj]:
    page = await api.list_page(resource, namespace, **options)
    objects = list(page.items)
    for _ in range(PAGES_MAX):
        if not page.token:
            return objects
        page = await api.list_page(resource, namespace, token=page.token, **options)
        objects += page.items
    raise Unread(f"there are more than {len(objects)} {resource.plural}")


async def _metric(api: Api, wanted: MetricSamples) -> list[Obj]:
    values = samples(await api.page(f"/metrics/{wanted.process}"), wanted.name, wanted.labels)
    if not values:
        raise Unread(f"{wanted.process} has no sample of {wanted.name}")
    return values


async def _decisions(api: Api, wanted: DecisionsAbout, namespace: str, acted: Mapping[str, str]) -> list[Obj]:
    after_ns = 0
    if wanted.after:
        moment = moment_ns(acted.get(wanted.after))
        if moment is None:
            raise Unread(f"step {wanted.after} is not done yet")
        after_ns = moment
    pods = await _all_pages(api, PODS, namespace, {})
    ours = {str(metadata(pod).get("name")) for pod in pods if wanted.workload in workloads_of(pod)}
    options: dict[str, Any] = (
        {"fieldSelector": f"spec.controller={wanted.controller}"} if wanted.controller else {}
    )
    page = await api.list_page(DECISIONS, namespace, **options)
    about = [
        each
        for each in page.items
        if _about(each, wanted.workload, ours) and (moment_ns(lookup(each, "spec", "time")) or 0) > after_ns
    ]
    return sorted(about, key=lambda each: str(lookup(each, "spec", "time")))


def _about(recorded: Obj, workload: str, pods: set[str]) -> bool:
    """Of the workload, its pods, or a ReplicaSet or HorizontalPodAutoscaler that is named after it."""
    resource = str(lookup(recorded, "spec", "subject", "resource") or "")
    name = str(lookup(recorded, "spec", "subject", "name") or "")
    if resource == "pods":
        return name in pods
    return name == workload or (resource == "replicasets.apps" and name.rpartition("-")[0] == workload)
