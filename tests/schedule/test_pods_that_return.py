"""A pod that becomes another scheduler's while its binding is under way, and is ours again soon after."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import NODES, PODS
from fathom.model.tenancy import TENANT
from fathom.sim.scenarios.scheduling import node, pod, run_scheduler
from fathom.sim.world.faults import SlowRequest
from fathom.sim.world.world import World

NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
BINDINGS = "POST /apis/fathom.dev/v1alpha1/bindingbatches"
# Of two schedulers, the second one's and the first one's. Only the second one runs here.
OURS, THEIRS = "red", "blue"
WEB = Key("default", "web")


def namespace(tenant: str) -> Obj:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": WEB.namespace, "labels": {TENANT: tenant}},
    }


def test_a_pod_that_returns_while_its_binding_is_under_way_waits_for_that_answer() -> None:
    """1. The binding to node-1 is under way. 2. The pod is another tenant's, and its node cordoned. 3. The
    pod is ours again: an attempt now would find no node, and park it. 4. The binding is refused: the pod that
    is to be tried again must not be parked."""

    async def story(world: World) -> None:
        run_scheduler(world, "scheduler", shard=1, shards=2)
        await world.apply(NAMESPACES, namespace(OURS))
        await world.apply(NODES, node("node-1"))
        await world.sleep(2)
        await world.apply(PODS, pod(WEB.name))
        await world.sleep(0.5)
        await world.apply(NAMESPACES, namespace(THEIRS))
        await world.apply(NODES, node("node-1", cordoned=True))
        await world.sleep(0.5)
        await world.apply(NAMESPACES, namespace(OURS))
        await world.sleep(6)
        assert lookup(world.get("pods", WEB), "spec", "nodeName") is None
        await world.apply(NODES, node("node-1"))
        await world.until(
            lambda: lookup(world.get("pods", WEB), "spec", "nodeName") == "node-1",
            within_s=10,
            what="the pod is bound",
        )

    told(story, faults=[SlowRequest(at_s=0.0, target="scheduler", match=BINDINGS, delay_s=2.0)])
