"""Asks a foreign API server what it has: version, kinds, rights of the kubeconfig's user, features.

Reads only; the reviews that it creates are answered and never stored.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.attach.ask_objects import API_SERVICE, API_SERVICES, IN_CLUSTER, SERVICE, address_of
from fathom.attach.kinds import MIRRORED
from fathom.attach.rights import READ, Right
from fathom.attach.steering import OVERRIDES
from fathom.client.api import Api, Resource
from fathom.client.events import INITIAL_EVENTS_END
from fathom.client.outcomes import Committed
from fathom.control.override_policy import ADMISSION, POLICIES, fetch_vouching
from fathom.kinds import override_policy
from fathom.kinds.override_policy import Vouching
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, lookup
from fathom.model.resources import LEASES, NAMESPACES, SLICES

REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
AT_ONCE = 8  # Requests: a small server must not feel them.
WATCH_LIST_S = 2
WATCH_LIST = (
    "/api/v1/namespaces?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    f"&resourceVersionMatch=NotOlderThan&timeoutSeconds={WATCH_LIST_S}"
)


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    version: str
    is_fathom: bool  # The server answers questions itself.
    absent: frozenset[str]  # Kinds that it does not serve, as 'pods', 'deployments.apps'.
    denied: frozenset[Right]  # Rights that the user lacks.
    has_watch_list: bool
    leader: str  # Who holds the lease kube-system/kube-scheduler; '' if nobody, or it cannot be read.
    has_namespace: bool
    has_overrides: bool = False  # Whether the kind SchedulerOverride is installed.
    has_policies: bool = False  # Whether it serves ValidatingAdmissionPolicies.
    vouching: Vouching = Vouching()  # What our own vouches for.
    ask_api: str = ""  # Where an installed APIService of ours leads to; '' if there is none.


async def survey(api: Api, url: str, rights: list[Right]) -> Survey:
    """Raises ApiError where the server does not answer at all, or does not know the user."""
    version = await _version(api)
    turns = asyncio.Semaphore(AT_ONCE)
    groups = sorted({(kind.resource.group, kind.resource.version) for kind in MIRRORED})
    policies, vouches = await asyncio.gather(_served(api, ADMISSION, "v1", turns), _vouching(api))
    served, denied, watch_list, leader, namespace = await asyncio.gather(
        asyncio.gather(*(_served(api, *group, turns) for group in groups)),
        asyncio.gather(*(_is_denied(api, right, turns) for right in rights)),
        _has_watch_list(api),
        _leader(api),
        _exists(api, SYSTEM_NAMESPACE),
    )
    names = frozenset().union(*served)
    return Survey(
        url=url,
        version=version,
        is_fathom="explanations.fathom.dev" in names,
        absent=frozenset(kind.name for kind in MIRRORED if kind.name not in names),
        denied=frozenset(right for right, denies in zip(rights, denied, strict=True) if denies),
        has_watch_list=watch_list,
        leader=leader,
        has_namespace=namespace,
        has_overrides=OVERRIDES in names,
        has_policies=POLICIES.name in policies,
        vouching=vouches,
        ask_api=await _ask_api(api),
    )


async def _version(api: Api) -> str:
    try:
        return str(msgspec.json.decode(await api.page("/version")).get("gitVersion") or "unknown")
    except msgspec.DecodeError:
        raise ApiError(502, "BadGateway", "this is no Kubernetes API server: /version is no JSON") from None


async def _served(api: Api, group: str, version: str, turns: asyncio.Semaphore) -> frozenset[str]:
    async with turns:
        try:
            listed = await api.resources(group, version)
        except ApiError:
            return frozenset()
    return frozenset(f"{resource['name']}.{group}" if group else str(resource["name"]) for resource in listed)


async def _is_denied(api: Api, right: Right, turns: asyncio.Semaphore) -> bool:
    """Whether one of its verbs is. A server that does not say so is tried."""
    resource, _, subresource = right.resource.partition("/")
    for verb in right.verbs:
        wanted = {
            "namespace": right.namespace, "verb": verb, "group": right.group, "resource": resource,
            "subresource": subresource, "name": right.object_name,
        }  # fmt: skip
        review: Obj = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in wanted.items() if value}},
        }
        async with turns:
            outcome = await api.create(REVIEWS, "", review)
        if isinstance(outcome, Committed) and not lookup(outcome.obj, "status", "allowed"):
            return True
    return False


async def _has_watch_list(api: Api) -> bool:
    """Whether the server streams a list to its end: one whose etcd is too old begins and never ends."""
    try:
        return INITIAL_EVENTS_END in await api.page(WATCH_LIST)
    except ApiError:
        return False


async def _leader(api: Api) -> str:
    try:
        lease = await api.get(LEASES, "kube-system", "kube-scheduler")
    except ApiError:
        return ""
    return str(lookup(lease or {}, "spec", "holderIdentity") or "")


async def _vouching(api: Api) -> Vouching:
    try:
        return await fetch_vouching(api)
    except ApiError as error:
        return Vouching(None, f"the policy {override_policy.NAME} cannot be read: {error.message}")


async def _ask_api(api: Api) -> str:
    """The address behind the APIService: 'a Service' in a cluster, else of the EndpointSlice."""
    try:
        if await api.get(API_SERVICES, "", API_SERVICE) is None:
            return ""
        endpoints = await api.get(SLICES, SYSTEM_NAMESPACE, SERVICE)
    except ApiError:
        return ""
    return IN_CLUSTER if endpoints is None else address_of(endpoints)


async def may_follow(api: Api, resource: Resource) -> bool:
    """Whether the server serves it, and lets us list and watch it."""
    turns = asyncio.Semaphore(AT_ONCE)
    if resource.name not in await _served(api, resource.group, resource.version, turns):
        return False
    return not await _is_denied(api, Right(READ, resource.group, resource.plural, ""), turns)


async def _exists(api: Api, namespace: str) -> bool:
    try:
        return await api.get(NAMESPACES, "", namespace) is not None
    except ApiError:
        return False
