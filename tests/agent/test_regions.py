"""The region of a node, by its zone."""

from __future__ import annotations

import pytest

from fathom.agent.live import NodeWanted, named_nodes
from fathom.agent.node import region_of


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("eu-west-a", "eu-west"),
        ("eu-west-1", "eu-west"),
        ("europe-west1-b", "europe-west1"),
        ("us-east-1a", "us-east-1"),
        ("us-east-12", "us-east"),
        ("zone-a", "local"),
        ("a", "local"),
        ("rack-12", "local"),
        ("eu-west", "local"),
        ("", "local"),
    ],
)
def test_a_zone_is_in_the_region_that_its_name_begins_with(zone: str, region: str) -> None:
    assert region_of(zone) == region


def test_nodes_are_in_the_region_of_their_zone_or_in_the_one_that_is_given() -> None:
    assert named_nodes(count=3, zones=["eu-west-a", "us-east-1a"]) == (
        NodeWanted("node-1", "eu-west-a", "eu-west"),
        NodeWanted("node-2", "us-east-1a", "us-east-1"),
        NodeWanted("node-3", "eu-west-a", "eu-west"),
    )
    assert named_nodes(name="n", zones=["eu-west-a"], region="moon") == (
        NodeWanted("n", "eu-west-a", "moon"),
    )
    assert named_nodes(name="n") == (NodeWanted("n"),)
