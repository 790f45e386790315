"""Publish the addresses of a Service's pods: EndpointSlices, and the Endpoints that older clients read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from fathom.cache.indexes import STANDARD, Index
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Resource
from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import NODE, POD, SERVICE, Concerns, Primary, Related, View, Watch, WatchedKind
from fathom.controllers.adoption import FOR_CHILDREN, owner_key
from fathom.controllers.endpoints.plan import MANAGER, plan_endpoints, plan_slices, selects, stray_of
from fathom.controllers.endpoints.plan_mirroring import MIRROR, plan_mirror
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Key, Obj, key_of, labels_of, metadata, uid_of
from fathom.model.resources import SLICES
from fathom.model.well_known import ZONE_LABEL

ENDPOINTS = WatchedKind("Endpoints", Resource("", "v1", "endpoints"))
ENDPOINT_SLICE = WatchedKind("EndpointSlice", SLICES)
ON_NODES = "nodes"


def _services_of(pod: Obj, view: View) -> Iterable[Key]:
    services = view().list("Service", str(metadata(pod).get("namespace")))
    return tuple(key_of(service) for service in services if selects(service, pod))


def _namesake(obj: Obj, view: View) -> Iterable[Key]:
    return (key_of(obj),)


def _nodes_of(endpoint_slice: Obj) -> tuple[str, ...]:
    """An index: the nodes of its endpoints."""
    nodes = (endpoint.get("nodeName") for endpoint in endpoint_slice.get("endpoints") or ())
    return tuple(dict.fromkeys(node for node in nodes if isinstance(node, str)))


def _services_with_another_zone(node: Obj, view: View) -> Iterable[Key]:
    """Those with endpoints on the node that name another zone: a node, or its label, may come after them."""
    snapshot, key = view(), key_of(node)
    zone = _zone_of(snapshot, key.name)
    for endpoint_slice in snapshot.by_index("EndpointSlice", ON_NODES, key.name):
        zones = {
            endpoint.get("zone", "")
            for endpoint in endpoint_slice.get("endpoints") or ()
            if endpoint.get("nodeName") == key.name
        }
        service = owner_key(endpoint_slice, SERVICE)
        if service is not None and zones != {zone}:
            yield service


def _zone_of(view: Snapshot, node: str) -> str:
    return labels_of(view.get("Node", Key("", node)) or {}).get(ZONE_LABEL, "")


def _pods_of(view: Snapshot, service: Obj) -> list[Obj]:
    return [pod for pod in view.list("Pod", key_of(service).namespace) if selects(service, pod)]


def _strays(manager: str) -> Index:
    """An index: slices that belong to nobody, by the Service that they name."""

    def services(endpoint_slice: Obj) -> tuple[str, ...]:
        key = stray_of(endpoint_slice, manager)
        return () if key is None else ("/".join(key),)

    return services


def _served_by(owner: WatchedKind, manager: str) -> Concerns:
    """A slice concerns its owner; one that belongs to nobody, who has the name of its Service."""

    def keys(endpoint_slice: Obj, view: View) -> Iterable[Key]:
        key = owner_key(endpoint_slice, owner) or stray_of(endpoint_slice, manager)
        return () if key is None else (key,)

    return keys


STRAYS, MIRRORED_STRAYS = "strays", "mirrored-strays"
FOR_SLICES = {**STANDARD, ON_NODES: _nodes_of, STRAYS: _strays(MANAGER)}
FOR_MIRRORS = {**STANDARD, MIRRORED_STRAYS: _strays(MIRROR)}


class EndpointSlices:
    name = "endpointslices"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(SERVICE, conditions=False),
        Related(POD, concerns=_services_of, indexes=FOR_CHILDREN),
        Related(ENDPOINT_SLICE, concerns=_served_by(SERVICE, MANAGER), indexes=FOR_SLICES),
        Related(NODE, concerns=_services_with_another_zone),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Service", ("metadata.labels", "spec")),
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("EndpointSlice"),
        Reads("Node", ("metadata.labels",)),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("EndpointSlice", ("endpoints", "metadata.labels", "ports"), creates=True, deletes=True),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        service = view.get("Service", key)
        if service is None:
            return ReconcileResult.never()
        plan = plan_slices(
            service,
            _pods_of(view, service),
            view.owned("EndpointSlice", uid_of(service)),
            strays=view.by_index("EndpointSlice", STRAYS, "/".join(key)),
            zone_of=lambda node: _zone_of(view, node),
            named=lambda name: view.get("EndpointSlice", Key(key.namespace, name)) is not None,
        )
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


class EndpointsOfServices:
    name = "endpoints"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(SERVICE, conditions=False),
        Related(POD, concerns=_services_of, indexes=FOR_CHILDREN),
        Related(ENDPOINTS, concerns=_namesake),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Service", ("metadata.labels", "spec")),
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("Endpoints"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Endpoints", ("metadata.annotations", "metadata.labels", "subsets"), creates=True),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        service = view.get("Service", key)
        if service is None:
            return ReconcileResult.never()
        plan = plan_endpoints(service, _pods_of(view, service), view.get("Endpoints", key))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


class MirroredEndpoints:
    """The other way round: mirrors Endpoints that are kept by hand as slices."""

    name = "mirrored-endpoints"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(ENDPOINTS, conditions=False),
        Related(SERVICE, concerns=_namesake),
        Related(ENDPOINT_SLICE, concerns=_served_by(ENDPOINTS, MIRROR), indexes=FOR_MIRRORS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Endpoints"),
        Reads("Service", ("metadata.labels", "spec")),
        Reads("EndpointSlice"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes(
            "EndpointSlice",
            ("endpoints", "metadata.annotations", "metadata.labels", "ports"),
            creates=True,
            deletes=True,
        ),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        endpoints = view.get("Endpoints", key)
        if endpoints is None:
            return ReconcileResult.never()
        slices = view.owned("EndpointSlice", uid_of(endpoints))
        strays = view.by_index("EndpointSlice", MIRRORED_STRAYS, "/".join(key))
        plan = plan_mirror(endpoints, view.get("Service", key), slices, strays)
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))
