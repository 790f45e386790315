"""What an autoscaler scales: Deployments and ReplicaSets from the cache, any other kind by a request.

Every kind with a `scale` subresource can be a target, a CustomResourceDefinition's too.
"""

from __future__ import annotations

import msgspec

from fathom.client.api import Api, Resource
from fathom.control.watches import DEPLOYMENT, REPLICA_SET
from fathom.controllers.autoscaler.plan import SCALE
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, lookup
from fathom.model.selectors import LabelSelector, parse_label_selector

CACHED = {"Deployment": DEPLOYMENT, "ReplicaSet": REPLICA_SET}


class Foreign(msgspec.Struct, frozen=True):
    """A workload as its Scale shows it."""

    workload: Obj
    selector: LabelSelector
    resource: Resource


def is_cached(reference: Obj) -> bool:
    return reference.get("kind") in CACHED and str(reference.get("apiVersion", "apps/")).startswith("apps/")


async def fetch_foreign(api: Api, namespace: str, reference: Obj) -> Foreign | None:
    """None: there is no such object, or its kind cannot be scaled. Raises ApiError."""
    resource = await _fetch_resource(api, str(reference.get("apiVersion") or ""), str(reference.get("kind")))
    if resource is None:
        return None
    scale = await api.get(resource, namespace, str(reference.get("name")), SCALE)
    return None if scale is None else as_workload(str(reference["kind"]), scale, resource)


def as_workload(kind: str, scale: Obj, resource: Resource) -> Foreign:
    spec = {"replicas": int(lookup(scale, "spec", "replicas") or 0)}
    text = str(lookup(scale, "status", "selector") or "")
    try:
        # Without a selector its pods are unknown: matching all pods would be too many.
        selector = parse_label_selector(text) if text else LabelSelector.from_object(None)
    except ValueError:
        selector = LabelSelector.from_object(None)
    return Foreign({"kind": kind, "metadata": scale["metadata"], "spec": spec}, selector, resource)


async def _fetch_resource(api: Api, api_version: str, kind: str) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    try:
        resources = await api.resources(group, version)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    plurals = [str(resource["name"]).partition("/")[0] for resource in resources if _scales(resource)]
    named = {
        str(resource["name"])
        for resource in resources
        if resource.get("kind") == kind and resource.get("namespaced")
    }
    plural = next((plural for plural in plurals if plural in named), None)
    return None if plural is None else Resource(group, version, plural)


def _scales(resource: Obj) -> bool:
    return str(resource.get("name")).partition("/")[2] == SCALE
