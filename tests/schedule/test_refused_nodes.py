"""A node that refused is left alone until our view of pods and of nodes is newer than its refusal."""

from __future__ import annotations

import pytest
from immutables import Map

from fathom.cache.contents import Contents
from fathom.cache.indexed import HeldObject
from fathom.cache.snapshot import Snapshot
from fathom.schedule.loop.refused_nodes import RefusedNodes

EMPTY = Contents(Map(), {}, [])


def view(*, pods: tuple[int, float], nodes: tuple[int, float]) -> Snapshot:
    """Of each: the revision reached, and when it was last heard of."""
    held = {kind: HeldObject(EMPTY, *one, True) for kind, one in (("Pod", pods), ("Node", nodes))}
    return Snapshot(held, taken_s=100.0)


@pytest.mark.parametrize(
    ("pods", "nodes", "why"),
    [
        ((39, 60.0), (40, 60.0), "pods are not as new"),
        ((40, 60.0), (39, 60.0), "nodes are not as new"),
        ((40, 50.0), (40, 60.0), "pods have not been heard of since"),
        ((40, 60.0), (40, 50.0), "nodes have not been heard of since"),
    ],
)
def test_a_refused_node_is_skipped_while(pods: tuple[int, float], nodes: tuple[int, float], why: str) -> None:
    refused_nodes = RefusedNodes()
    refused_nodes.add("node-1", 40, now_s=50.0)
    assert (refused_nodes.settle(view(pods=pods, nodes=nodes)), refused_nodes.nodes) == ([], ("node-1",)), why


def test_only_refusals_that_the_view_has_caught_up_with_are_over() -> None:
    refused_nodes = RefusedNodes()
    refused_nodes.add("node-1", 40, now_s=50.0)
    refused_nodes.add("node-2", 41, now_s=50.0)
    refused_nodes.add("node-3", 0, now_s=50.0)  # Whoever refused did not say how far it was.
    over = refused_nodes.settle(view(pods=(40, 60.0), nodes=(45, 60.0)))
    assert (over, refused_nodes.nodes) == (["node-1", "node-3"], ("node-2",))


def test_a_node_that_refuses_again_is_skipped_again() -> None:
    refused_nodes = RefusedNodes()
    refused_nodes.add("node-1", 40, now_s=50.0)
    refused_nodes.add("node-1", 44, now_s=55.0)
    assert refused_nodes.settle(view(pods=(40, 60.0), nodes=(40, 60.0))) == []
    assert refused_nodes.settle(view(pods=(44, 60.0), nodes=(44, 60.0))) == ["node-1"]
