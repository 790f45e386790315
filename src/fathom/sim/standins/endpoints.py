"""Keeps a Service's Endpoints what its ready pods are. Stands in for the endpoints controller.

"Equal, so nothing to do" is right only against what is really there:

    1. A pod is ready, its address is written. 2. The pod goes; our view of the Endpoints is from before 1.
    3. None wanted, none there: equal. The address stays for ever.

Two things keep that from happening: the loop waits until our own writes are seen, and a change of the
Endpoints themselves is looked at too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from fathom.client.api import Resource
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.owning import owned
from fathom.control.plan import NOTHING, Create, Patch, Plan, target
from fathom.control.watches import POD, SERVICE, Kind, OwnedBy, Primary, Related, View, Watch
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata

ENDPOINTS = Kind("Endpoints", Resource("", "v1", "endpoints"))


def selects(service: Obj, pod: Obj) -> bool:
    selector = lookup(service, "spec", "selector") or {}
    labels = labels_of(pod)
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items())


def subsets_of(service: Obj, pods: Sequence[Obj]) -> list[Obj]:
    ready = [pod for pod in pods if selects(service, pod) and is_true(pod, "Ready") and not is_deleting(pod)]
    addresses = sorted(str(ip) for pod in ready if (ip := lookup(pod, "status", "podIP")))
    ports = [{"port": port["port"], "protocol": "TCP"} for port in lookup(service, "spec", "ports") or ()]
    return [{"addresses": [{"ip": ip} for ip in addresses], "ports": ports}] if addresses else []


def plan_endpoints(service: Obj, pods: Sequence[Obj], there: Obj | None) -> Plan:
    if is_deleting(service):
        return NOTHING
    wanted = subsets_of(service, pods)
    if there is None:
        key = key_of(service)
        endpoints = {"metadata": {"name": key.name, "namespace": key.namespace}, "subsets": wanted}
        return Plan(creates=(Create("Endpoints", owned(endpoints, service)),), why="first")
    if (there.get("subsets") or []) == wanted:
        return NOTHING
    return Plan(patches=(Patch(target("Endpoints", there), {"subsets": wanted or None}),), why="another set")


def _services_of(pod: Obj, view: View) -> Iterable[Key]:
    services = view().list("Service", metadata(pod)["namespace"])
    return tuple(key_of(service) for service in services if selects(service, pod))


class EndpointsCopier:
    name = "endpoints"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(SERVICE, conditions=False),
        Related(POD, concerns=_services_of),
        OwnedBy(ENDPOINTS),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        service = view.get("Service", key)
        if service is None:
            return Again.never()
        plan = plan_endpoints(service, view.list("Pod", key.namespace), view.get("Endpoints", key))
        return Again.after(await self._kit.apply(key, plan, seen=view))
