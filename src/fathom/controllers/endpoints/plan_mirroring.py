"""EndpointSlices from Endpoints that are kept by hand, for a Service without selector. Pure.

As kube-controller-manager mirrors them: clients that watch slices only, such as our gateway, find them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import child_name, owned
from fathom.control.plan import NOTHING, OWN_WRITES, Create, Delete, Patch, Plan, target
from fathom.controllers.endpoints.plan import MANAGED_BY, has_selector
from fathom.model.freshness import ENDPOINTS_FRESH_S
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup, metadata
from fathom.model.well_known import SERVICE_NAME_LABEL, SKIP_MIRROR_LABEL

MIRROR = "endpointslicemirroring-controller.k8s.io"
LEADER = "control-plane.alpha.kubernetes.io/leader"  # Marks an Endpoints object that is used as a lock.
SUBSET_ADDRESSES_MAX = 1000  # Kubernetes' limit.

NEEDS: tuple[Need, ...] = (
    OWN_WRITES,
    NoOlderThan(ENDPOINTS_FRESH_S, ("Service", "Endpoints", "EndpointSlice")),
)


def is_mirrored(endpoints: Obj, service: Obj | None) -> bool:
    if service is None or is_deleting(service) or is_deleting(endpoints):
        return False
    annotations = metadata(endpoints).get("annotations") or {}
    if labels_of(endpoints).get(SKIP_MIRROR_LABEL) == "true" or LEADER in annotations:
        return False
    return lookup(service, "spec", "type") != "ExternalName" and not has_selector(service)


def plan_mirror(
    endpoints: Obj, service: Obj | None, slices: Sequence[Obj], strays: Sequence[Obj] = ()
) -> Plan:
    """`slices`: those that belong to these Endpoints. `strays`: those of earlier ones of this name that were
    deleted without them; they go first, for the new ones have the same names."""
    mine = {
        metadata(endpoint_slice)["name"]: endpoint_slice
        for endpoint_slice in slices
        if labels_of(endpoint_slice).get(MANAGED_BY) == MIRROR
    }
    wanted = dict(_wanted(endpoints)) if is_mirrored(endpoints, service) else {}
    in_the_way = {metadata(endpoint_slice)["name"] for endpoint_slice in strays}
    creates = [
        Create("EndpointSlice", owned(endpoint_slice, endpoints))
        for name, endpoint_slice in wanted.items()
        if name not in mine and name not in in_the_way
    ]
    patches = [
        Patch(target("EndpointSlice", current), change)
        for name, current in mine.items()
        if name in wanted and (change := _change(current, wanted[name]))
    ]
    outdated = [endpoint_slice for name, endpoint_slice in mine.items() if name not in wanted]
    deletes = [
        Delete(target("EndpointSlice", endpoint_slice))
        for endpoint_slice in (*outdated, *strays)
        if not is_deleting(endpoint_slice)
    ]
    if not creates and not patches and not deletes:
        return NOTHING
    return Plan(
        creates=tuple(creates),
        patches=tuple(patches),
        deletes=tuple(deletes),
        needs=NEEDS if deletes else (),
        why="the Endpoints changed",
    )


def _wanted(endpoints: Obj) -> Iterator[tuple[str, Obj]]:
    """One slice for each subset and address family, named after both."""
    key = key_of(endpoints)
    labels = {**labels_of(endpoints), SERVICE_NAME_LABEL: key.name, MANAGED_BY: MIRROR}
    for number, subset in enumerate(endpoints.get("subsets") or ()):
        for family in ("IPv4", "IPv6"):
            of_family = [
                endpoint
                for endpoint in _endpoints(subset)
                if (":" in endpoint["addresses"][0]) == (family == "IPv6")
            ]
            if of_family:
                name = child_name(f"{key.name}-mirror-{family.lower()}", number)
                yield (
                    name,
                    {
                        "metadata": {"name": name, "namespace": key.namespace, "labels": labels},
                        "addressType": family,
                        "ports": [_port(port) for port in subset.get("ports") or ()],
                        "endpoints": of_family[:SUBSET_ADDRESSES_MAX],
                    },
                )


def _endpoints(subset: Obj) -> Iterator[Obj]:
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(field) or ():
            kept = {
                name: address[name] for name in ("hostname", "nodeName", "targetRef") if address.get(name)
            }
            yield {"addresses": [str(address["ip"])], "conditions": {"ready": ready}, **kept}


def _port(port: Obj) -> Obj:
    shown = {"name": port.get("name") or "", "port": port["port"], "protocol": port.get("protocol") or "TCP"}
    return {**shown, **({"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {})}


def _change(current: Obj, wanted: Obj) -> Obj:
    change = {
        name: wanted[name] for name in ("endpoints", "ports") if (current.get(name) or []) != wanted[name]
    }
    labels = metadata(wanted)["labels"]
    if any(labels_of(current).get(name) != value for name, value in labels.items()):
        change["metadata"] = {"labels": labels}
    return change
