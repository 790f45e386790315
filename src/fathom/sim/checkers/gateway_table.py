"""At rest the gateway's table and the statuses of TrafficRoutes are what Services, EndpointSlices, Nodes and
TrafficRoutes say, recomputed from these objects alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fathom.gateway.controller import Gateway
from fathom.model.objects import Obj, key_of, labels_of, lookup, metadata
from fathom.model.resource_names import SLICES
from fathom.sim.world.invariants import Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World

SERVICES, ROUTES = "services", "trafficroutes.fathom.dev"
LABELS = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "pool": "fathom.dev/pool",
}
STICKY_S = 10800  # Kubernetes' default.

# Address and port; the Service; for how long a client keeps its endpoint; weights by pool; endpoints.
Listener = tuple[str, int, str, int, tuple[tuple[str, int], ...], tuple[tuple[str, int, str, bool], ...]]


class GatewayFollowsObjects(Checker):
    name = "the gateway's table and routes' statuses match the objects when settled"
    patience_s = 120.0  # As for other statuses: an old connection is noticed after a while.

    def settled(self, world: World) -> Iterable[str | Finding]:
        gateways = [
            process.state
            for process in world.engine.processes.values()
            if process.alive and isinstance(process.state, Gateway)
        ]
        if not gateways:
            return
        facts = _Facts(world)
        wanted = sorted(facts.listeners())
        for gateway in gateways:
            table = sorted(_plain(gateway))
            if table != wanted:
                wrong = sorted({*table} ^ {*wanted})[:2]
                yield f"the gateway's table and the objects differ, first in {wrong}"
        yield from facts.untrue_routes(wanted)


def _plain(gateway: Gateway) -> Iterator[Listener]:
    for listener in gateway.table:
        endpoints = ((each.address, each.port, each.pool, each.leaving) for each in listener.endpoints)
        place = (listener.address, listener.port, listener.service, listener.sticky_s)
        yield (*place, tuple(sorted(listener.weights)), tuple(sorted(endpoints)))


class _Facts:
    """The store, read once."""

    def __init__(self, world: World) -> None:
        self._services = world.list(SERVICES)
        self._slices = world.list(SLICES)
        self._routes = world.list(ROUTES)
        self._nodes = {key_of(node).name: node for node in world.list("nodes")}

    # Routes.

    def oldest(self, service: str) -> Obj | None:
        """Of several routes for a Service the oldest holds; of those of one second, the first by name."""
        about = [route for route in self._routes if _service_of(route) == service]
        return min(about, key=_age, default=None)

    def untrue_routes(self, listeners: list[Listener]) -> Iterator[Finding]:
        for route in self._routes:
            key, path = key_of(route), f"{ROUTES}/{key_of(route).namespace}/{key_of(route).name}"
            status = route.get("status") or {}
            conditions = {each.get("type"): each for each in status.get("conditions") or ()}
            said = conditions.get("InForce") or {}
            wanted = self._in_force(route, listeners)
            if (said.get("status"), said.get("reason")) != wanted:
                told = f"{said.get('status')} {said.get('reason')}"
                yield Finding(f"{key.name} says InForce {told}, but it is {' '.join(wanted)}", (path,))
            generation = metadata(route).get("generation")
            seen = {status.get("observedGeneration"), said.get("observedGeneration")}
            if seen != {generation} or "gateway" not in (status.get("observedBy") or ()):
                yield Finding(f"{key.name} has generation {generation}, its status is of {seen}", (path,))

    def _in_force(self, route: Obj, listeners: list[Listener]) -> tuple[str, str]:
        service = _service_of(route)
        if all("/".join(key_of(each)) != service for each in self._services):
            return "False", "NoSuchService"
        if self.oldest(service) is not route:
            return "False", "AnotherHolds"
        there = {pool for listener in listeners if listener[2] == service for _, _, pool, _ in listener[5]}
        empty = any(weight and pool not in there for pool, weight in _weights(route).items())
        return "True", "NobodyThere" if empty else "InForce"

    # The table.

    def listeners(self) -> Iterator[Listener]:
        for service in self._services:
            name, spec = "/".join(key_of(service)), service.get("spec") or {}
            weights = _weights(self.oldest(name))
            sticky_s = 0
            if spec.get("sessionAffinity") == "ClientIP":
                sticky_s = lookup(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") or STICKY_S
            for port in spec.get("ports") or ():
                if port.get("protocol", "TCP") == "TCP":
                    endpoints = tuple(sorted(self._endpoints(service, str(port.get("name") or ""), weights)))
                    for address, number in self._addresses(spec, port):
                        yield (address, number, name, sticky_s, tuple(sorted(weights.items())), endpoints)

    def _addresses(self, spec: Obj, port: Obj) -> Iterator[tuple[str, int]]:
        own = str(spec.get("clusterIP") or "None")
        if own != "None" and ":" not in own:
            yield own, port["port"]
        if port.get("nodePort"):
            yield "127.0.0.1", port["nodePort"]
            for node in self._nodes.values():
                if labels_of(node).get("fathom.dev/driver") != "simulated":
                    for listed in lookup(node, "status", "addresses") or ():
                        if listed["type"] == "InternalIP" and listed["address"].startswith("127."):
                            yield listed["address"], port["nodePort"]

    def _endpoints(
        self, service: Obj, port: str, weights: dict[str, int]
    ) -> Iterator[tuple[str, int, str, bool]]:
        for each in self._slices:
            of = labels_of(each).get("kubernetes.io/service-name")
            if (key_of(each).namespace, of) != tuple(key_of(service)):
                continue
            numbers = [at["port"] for at in each.get("ports") or () if (at.get("name") or "") == port]
            for endpoint in (each.get("endpoints") or ()) if numbers else ():
                state = endpoint.get("conditions") or {}
                ready = state.get("ready") is not False
                if ready or (state.get("terminating") and state.get("serving")):
                    yield endpoint["addresses"][0], numbers[0], self._pool(endpoint, weights), not ready

    def _pool(self, endpoint: Obj, weights: dict[str, int]) -> str:
        """The first pool of the route that the endpoint is in; '' for the rest."""
        node = self._nodes.get(str(endpoint.get("nodeName")), {})
        places = {kind: labels_of(node).get(label) for kind, label in LABELS.items()}
        places["zone"] = endpoint.get("zone") or places["zone"]
        mine = {f"{kind}/{place}" for kind, place in places.items() if place}
        return next((pool for pool in weights if pool in mine), "")


def _age(route: Obj) -> tuple[str, str, str]:
    return str(metadata(route).get("creationTimestamp")), *key_of(route)


def _service_of(route: Obj) -> str:
    """Its own `service`, else the one with the name of its workload, else with its own name."""
    key, spec = key_of(route), route.get("spec") or {}
    name = spec.get("service") or str(spec.get("workload") or "").split("/")[-1] or key.name
    return f"{key.namespace}/{name}"


def _weights(route: Obj | None) -> dict[str, int]:
    weights: dict[str, int] = {}
    for entry in lookup(route, "spec", "routes") or ():
        weights |= {
            f"{kind}/{entry[kind]}": int(entry.get("weight") or 0) for kind in LABELS if entry.get(kind)
        }
    return weights
