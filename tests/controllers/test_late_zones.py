"""Endpoints name the zone of their node, also if the node got its zone after them."""

from __future__ import annotations

import pytest
from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.controllers.endpoints.controller import EndpointSlices
from fathom.model.objects import Obj
from fathom.model.resources import DEPLOYMENTS
from fathom.model.well_known import ZONE_LABEL
from fathom.sim.scenarios.real import deployment, run_real_cluster, until_ready
from fathom.sim.testing import run_controllers
from fathom.sim.world.world import World

pytestmark = pytest.mark.slow

NODES = Resource("", "v1", "nodes", namespaced=False)
SERVICES = Resource("", "v1", "services")


def zones(world: World) -> dict[str, str]:
    """Node -> the zone that its endpoints name."""
    slices = world.list("endpointslices.discovery.k8s.io", "default")
    endpoints: list[Obj] = [endpoint for each in slices for endpoint in each.get("endpoints") or ()]
    return {endpoint["nodeName"]: endpoint.get("zone", "") for endpoint in endpoints}


async def label(world: World, node: str, zone: str | None) -> None:
    patch = {"metadata": {"labels": {ZONE_LABEL: zone}}}
    await world.api.patch(NODES, "", node, patch)


def test_the_zone_of_an_endpoint_follows_its_node() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, spare=False)
        run_controllers(world, "endpoints", EndpointSlices)
        service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await world.apply(
            SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service}
        )
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await until_ready(world, "web", 2)
        await world.sleep(10)
        node = min(zones(world))
        for zone in ("zone-late", "zone-other", None):
            others = {name: zone for name, zone in zones(world).items() if name != node}
            await label(world, node, zone)
            await world.until(
                lambda zone=zone, others=others: zones(world) == {**others, node: zone or ""},  # type: ignore[misc]
                within_s=5,
                what=f"endpoints on {node} name {zone}",
            )

    told(story)
