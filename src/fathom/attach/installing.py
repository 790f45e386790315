"""Installs fathom's objects in a foreign cluster, and removes all that it left there.

What is removed is found by the label that `attach` gives, never by name: an object that somebody else made
stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fathom.attach.ask_objects import API_SERVICES
from fathom.attach.installed import SELECTOR
from fathom.attach.steering import DEFINITION, OVERRIDES, POLICY, POLICY_BINDING, is_for_steering
from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.control.override_policy import POLICIES, POLICY_BINDINGS
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.conditions import SCHEDULING_RETRYING, conditions_of, find_condition
from fathom.model.errors import ApiError
from fathom.model.media_types import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.resources import (
    DEFINITIONS,
    LEASES,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SLICES,
)
from fathom.seams.loop_clock import loop_now_s

# In an order in which they can be removed: a right goes before the account that has it.
INSTALLED: dict[str, Resource] = {
    # First: while it is there and nobody answers, no namespace can be deleted.
    "APIService": API_SERVICES,
    "Service": SERVICES,
    "EndpointSlice": SLICES,
    DEFINITION: DEFINITIONS,  # With its objects: while the policy still vouches for them.
    POLICY_BINDING: POLICY_BINDINGS,
    POLICY: POLICIES,
    "ClusterRoleBinding": Resource(RBAC_GROUP, "v1", "clusterrolebindings", namespaced=False),
    "ClusterRole": Resource(RBAC_GROUP, "v1", "clusterroles", namespaced=False),
    "RoleBinding": Resource(RBAC_GROUP, "v1", "rolebindings"),
    "Role": Resource(RBAC_GROUP, "v1", "roles"),
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Namespace": NAMESPACES,
}
OWN_ANNOTATIONS = "fathom.dev/"
OWN_LEASES = "scheduler"  # What `serve scheduler` calls its lease, with its name and shard behind it.
GONE_S_MAX = 120.0  # A namespace takes as long as its contents.
SERVED_S_MAX = 30.0
POLL_S = 0.3


class NotInstalled(Exception):
    """The cluster refused; the message is one line for the user."""


async def install(api: Api, objects: list[Obj]) -> list[str]:
    """Creates what is missing, and waits until its kinds are served; returns a line for each object. Raises
    NotInstalled."""
    lines = []
    for obj in objects:
        outcome = await api.create(INSTALLED[obj["kind"]], key_of(obj).namespace, obj)
        if isinstance(outcome, Committed):
            lines.append(f"created {_title(obj)}")
        elif isinstance(outcome, Conflict):
            lines.append(f"{_title(obj)} is there already")
        elif is_for_steering(obj):  # It schedules without them too.
            lines.append(f"{_title(obj)} was not created, so overrides do nothing: {why_not(outcome)}")
        else:
            raise NotInstalled(f"{_title(obj)} was not created: {why_not(outcome)}")
        if obj["kind"] == DEFINITION and isinstance(outcome, Committed):
            await _until_served(api, obj)
    return lines


async def _until_served(api: Api, definition: Obj) -> None:
    """Raises NotInstalled."""
    spec, until_s = definition["spec"], loop_now_s() + SERVED_S_MAX
    group, version, plural = spec["group"], spec["versions"][0]["name"], spec["names"]["plural"]
    while True:
        try:
            listed = await api.resources(group, version)
        except ApiError:
            listed = []
        if any(resource.get("name") == plural for resource in listed):
            return
        if loop_now_s() > until_s:
            raise NotInstalled(
                f"{_title(definition)} is not served after {SERVED_S_MAX:g} s: look at its status"
            )
        await asyncio.sleep(POLL_S)


async def remove(api: Api) -> list[str]:
    """Removes what `install` and the scheduler left; returns a line for each object. Raises NotInstalled,
    ApiError."""
    leases = [lease async for lease in _all(api, LEASES, SYSTEM_NAMESPACE) if _is_own(lease)]
    _refuse_running(leases)
    lines = [await _removed(api, LEASES, {**lease, "kind": "Lease"}) for lease in leases]
    lines += [line async for line in _without_marks(api)]
    for kind, resource in INSTALLED.items():
        async for obj in _all(api, resource, selector=SELECTOR):
            lines.append(await _removed(api, resource, {**obj, "kind": kind}))
    await _until_gone(api)
    return lines


async def objects_of_our_kinds(api: Api) -> list[str]:
    """The objects that go with their kind when it is removed: people wrote them. Raises ApiError."""
    titles = []
    async for definition in _all(api, DEFINITIONS, selector=SELECTOR):
        spec = definition["spec"]
        namespaced = spec.get("scope") == "Namespaced"
        for version in (each["name"] for each in spec["versions"] if each.get("storage")):
            resource = Resource(spec["group"], version, spec["names"]["plural"], namespaced)
            titles += [_title({**obj, "kind": spec["names"]["kind"]}) async for obj in _all(api, resource)]
    return titles


async def _removed(api: Api, resource: Resource, obj: Obj) -> str:
    key = key_of(obj)
    outcome = await api.delete(resource, key.namespace, key.name, uid=uid_of(obj))
    if isinstance(outcome, Committed) or (isinstance(outcome, Rejected) and outcome.code == 404):
        return f"removed {_title(obj)}"
    raise NotInstalled(f"{_title(obj)} was not removed: {why_not(outcome)}")


async def _without_marks(api: Api) -> AsyncIterator[str]:
    """Takes off pods what the scheduler noted there: which decision placed them, and why they wait."""
    async for pod in _all(api, PODS):
        annotations = metadata(pod).get("annotations") or {}
        ours = {name: None for name in annotations if name.startswith(OWN_ANNOTATIONS)}
        if ours:
            await _patch(api, pod, {"metadata": {"uid": uid_of(pod), "annotations": ours}})
            yield f"removed {', '.join(sorted(ours))} of {_title(pod)}"
        if find_condition(conditions_of(pod), SCHEDULING_RETRYING) is not None:
            # By its key, not as a whole list: kubelets write the other conditions at any moment.
            gone = {"$patch": "delete", "type": SCHEDULING_RETRYING}
            patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [gone]}}
            await _patch(api, pod, patch, subresource="status", media=STRATEGIC_MERGE_PATCH)
            yield f"removed condition {SCHEDULING_RETRYING} of {_title(pod)}"


async def _patch(api: Api, pod: Obj, patch: Obj, *, subresource: str = "", media: str = MERGE_PATCH) -> None:
    """A pod that is gone, or another one of its name, has nothing of ours."""
    key = key_of(pod)
    outcome = await api.patch(PODS, key.namespace, key.name, patch, subresource=subresource, media=media)
    gone = isinstance(outcome, Conflict) or (isinstance(outcome, Rejected) and outcome.code == 404)
    if not isinstance(outcome, Committed) and not gone:
        raise NotInstalled(f"{_title(pod)} was not changed: {why_not(outcome)}")


def _is_own(lease: Obj) -> bool:
    """Whether it is one of our schedulers' leases."""
    return key_of(lease).name.startswith(OWN_LEASES)


def _refuse_running(leases: list[Obj]) -> None:
    """Raises NotInstalled while a scheduler runs: it would make again what we remove."""
    for lease in leases:
        if holder := lookup(lease, "spec", "holderIdentity"):
            raise NotInstalled(
                f"a scheduler still runs as {holder}: stop it first. If it was killed, delete its lease"
                f" {'/'.join(key_of(lease))}"
            )


async def _until_gone(api: Api) -> None:
    """Waits for what takes its contents with it: the kinds, and the namespace."""
    until_s = loop_now_s() + GONE_S_MAX
    waited = [
        ("customresourcedefinition", DEFINITIONS, OVERRIDES),
        ("namespace", NAMESPACES, SYSTEM_NAMESPACE),
    ]
    for what, resource, name in waited:
        while (obj := await api.get(resource, "", name)) is not None:
            if not metadata(obj).get("deletionTimestamp"):
                break  # It was there before us.
            if loop_now_s() > until_s:
                raise NotInstalled(
                    f"{what} {name} is still being deleted after {GONE_S_MAX:g} s: look at its conditions"
                )
            await asyncio.sleep(POLL_S)


async def _all(
    api: Api, resource: Resource, namespace: str = "", *, selector: str = ""
) -> AsyncIterator[Obj]:
    token = ""
    while True:
        try:
            page = await api.list_page(resource, namespace, token=token, labelSelector=selector)
        except ApiError as error:
            if error.code == 404:
                return
            raise
        for item in page.items:
            yield item
        token = page.token
        if not token:
            return


def _title(obj: Obj) -> str:
    key = Key(*key_of(obj))
    return f"{str(obj.get('kind', '')).lower()} {'/'.join(part for part in key if part)}"


def why_not(outcome: Outcome) -> str:
    match outcome:
        case Rejected(message=message):
            return message
        case Conflict(why=why):
            return why
        case Unknown(cause=cause):
            return cause
    return ""
