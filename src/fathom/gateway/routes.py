"""Build the proxy's table from Services, EndpointSlices and TrafficRoutes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fathom.model.conditions import Status
from fathom.model.objects import Obj, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.service_levels import Objective, objective_of
from fathom.model.well_known import DRIVER_LABEL, POOL_LABEL, REGION_LABEL, SERVICE_NAME_LABEL, ZONE_LABEL

LOOPBACK = "127.0.0.1"
# The pool of endpoints that no weight names.
REST = ""


class RouteEndpoint(msgspec.Struct, frozen=True, order=True):
    """One pod behind a port."""

    address: str
    port: int
    pod: str = ""  # namespace/name
    uid: str = ""
    pool: str = REST
    real: bool = True  # False on a simulated node: connecting proves nothing.
    leaving: bool = False  # Terminating, but still serving: used where no other is left.


class RouteListener(msgspec.Struct, frozen=True, order=True):
    """An address and port to listen on, and the endpoints behind it."""

    address: str
    port: int
    service: str  # namespace/name
    sticky_s: int = 0  # How long a client keeps its endpoint.
    weights: tuple[tuple[str, int], ...] = ()  # By pool; empty: all endpoints alike.
    endpoints: tuple[RouteEndpoint, ...] = ()
    service_uid: str = ""
    objective: Objective = Objective()


Table = tuple[RouteListener, ...]


class SeenObjects(msgspec.Struct, frozen=True):
    """The objects that the table is made from."""

    services: Sequence[Obj]
    slices: Sequence[Obj]
    routes: Sequence[Obj] = ()
    nodes: Sequence[Obj] = ()


def make_table(seen: SeenObjects) -> Table:
    """The table, sorted, so that equal objects give equal tables."""
    slices: dict[str, list[Obj]] = {}
    for endpoint_slice in seen.slices:
        name = f"{key_of(endpoint_slice).namespace}/{labels_of(endpoint_slice).get(SERVICE_NAME_LABEL, '')}"
        slices.setdefault(name, []).append(endpoint_slice)
    weights = {name: _weights(route) for name, route in _in_force(seen.routes).items()}
    nodes = {key_of(node).name: node for node in seen.nodes}
    return tuple(
        sorted(
            listener for service in seen.services for listener in _listeners(service, slices, weights, nodes)
        )
    )


def _listeners(
    service: Obj,
    slices: Mapping[str, Sequence[Obj]],
    weights: Mapping[str, Mapping[tuple[str, str], int]],
    nodes: Mapping[str, Obj],
) -> Iterable[RouteListener]:
    name = "/".join(key_of(service))
    spec = service.get("spec") or {}
    weighted = weights.get(name, {})
    objective = objective_of(metadata(service).get("annotations") or {})
    for port in spec.get("ports") or ():
        if port.get("protocol", "TCP") != "TCP":
            continue  # Only TCP is proxied.
        endpoints = tuple(
            sorted(
                endpoint
                for endpoint_slice in slices.get(name, ())
                for endpoint in _endpoints(endpoint_slice, str(port.get("name") or ""), weighted, nodes)
            )
        )
        for address, number in _addresses(spec, port, nodes):
            yield RouteListener(
                address,
                number,
                name,
                sticky_s=_sticky_s(spec),
                weights=tuple(sorted((pool_name(*pool), weight) for pool, weight in weighted.items())),
                endpoints=endpoints,
                service_uid=uid_of(service),
                objective=objective,
            )


def _addresses(spec: Obj, port: Obj, nodes: Mapping[str, Obj]) -> list[tuple[str, int]]:
    addresses = []
    address = spec.get("clusterIP")
    if isinstance(address, str) and address not in {"", "None"} and ":" not in address:
        addresses.append((address, int(port["port"])))
    if port.get("nodePort"):
        addresses += [(address, int(port["nodePort"])) for address in (LOOPBACK, *_node_addresses(nodes))]
    return addresses


def _node_addresses(nodes: Mapping[str, Obj]) -> list[str]:
    """Loopback addresses of this machine's nodes. Simulated nodes are skipped: no client connects to them."""
    return [
        str(address.get("address"))
        for node in nodes.values()
        if labels_of(node).get(DRIVER_LABEL) != "simulated"
        for address in lookup(node, "status", "addresses") or ()
        if address.get("type") == "InternalIP" and str(address.get("address")).startswith("127.")
    ]


def _sticky_s(spec: Obj) -> int:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    return int(lookup(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") or 10800)


def _endpoints(
    endpoint_slice: Obj, port: str, weighted: Mapping[tuple[str, str], int], nodes: Mapping[str, Obj]
) -> Iterable[RouteEndpoint]:
    number = next(
        (each.get("port") for each in endpoint_slice.get("ports") or () if (each.get("name") or "") == port),
        None,
    )
    if not isinstance(number, int):
        return
    for endpoint in endpoint_slice.get("endpoints") or ():
        state = endpoint.get("conditions") or {}
        ready = state.get("ready", True) is not False
        leaving = bool(state.get("terminating")) and state.get("serving", False) is True
        if not ready and not leaving:
            continue
        node = nodes.get(str(endpoint.get("nodeName") or ""))
        reference = endpoint.get("targetRef") or {}
        for address in (endpoint.get("addresses") or ())[:1]:
            yield RouteEndpoint(
                str(address),
                number,
                pod=f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else "",
                uid=str(reference.get("uid") or ""),
                pool=_pool(endpoint, node, weighted),
                real=node is None or labels_of(node).get(DRIVER_LABEL) != "simulated",
                leaving=not ready,
            )


# Weights.


def pool_name(by: str, value: str) -> str:
    return f"{by}/{value}"


def _pool(endpoint: Obj, node: Obj | None, weighted: Mapping[tuple[str, str], int]) -> str:
    """The first of the route's pools that the endpoint is in."""
    labels = labels_of(node) if node is not None else {}
    zone = str(endpoint.get("zone") or labels.get(ZONE_LABEL) or "")
    pools = {
        "zone": zone,
        "region": str(labels.get(REGION_LABEL) or ""),
        "pool": str(labels.get(POOL_LABEL) or ""),
    }
    return next((pool_name(by, value) for by, value in weighted if pools.get(by) == value), REST)


def _routed(route: Obj) -> str:
    """The Service that a route is for: its own `service`, else the one named like its workload."""
    spec = route.get("spec") or {}
    workload = str(spec.get("workload") or "").rpartition("/")[2]
    return f"{key_of(route).namespace}/{spec.get('service') or workload or key_of(route).name}"


def _in_force(routes: Sequence[Obj]) -> dict[str, Obj]:
    """Route by Service. Of several routes for one, the oldest holds: a later one must not move traffic by
    accident."""
    by_age = sorted(
        routes,
        key=lambda route: (str(metadata(route).get("creationTimestamp") or ""), key_of(route)),
        reverse=True,
    )
    return {_routed(route): route for route in by_age}


def other_routes(route: Obj, routes: Sequence[Obj]) -> list[tuple[Obj, bool]]:
    """The other routes for its Service, and whether it is that one which holds instead."""
    name = _routed(route)
    first = key_of(_in_force(routes)[name])
    others = [other for other in routes if _routed(other) == name and key_of(other) != key_of(route)]
    return [(other, key_of(other) == first) for other in others]


def said_of(route: Obj, seen: SeenObjects, table: Table) -> tuple[Status, str, str]:
    """Whether the route's weights are in force: status, reason and message of its condition."""
    name = _routed(route)
    if all("/".join(key_of(each)) != name for each in seen.services):
        return "False", "NoSuchService", f"there is no Service {name.partition('/')[2]}"
    first = _in_force(seen.routes)[name]
    if key_of(first) != key_of(route):
        return "False", "AnotherHolds", f"TrafficRoute {key_of(first).name} is older and for the same Service"
    pools = {each.pool for listener in table if listener.service == name for each in listener.endpoints}
    empty = [
        pool_name(*pool)
        for pool, weight in _weights(route).items()
        if weight and pool_name(*pool) not in pools
    ]
    if empty:
        return "True", "NobodyThere", f"no endpoint in {', '.join(empty)}: the other pools take its share"
    return "True", "InForce", ""


def _weights(route: Obj) -> dict[tuple[str, str], int]:
    weights: dict[tuple[str, str], int] = {}
    for entry in lookup(route, "spec", "routes") or ():
        for by in ("region", "zone", "pool"):
            if entry.get(by):
                weights[by, str(entry[by])] = max(0, int(entry.get("weight") or 0))
    return weights
