"""A batch decides what its pods, one after the other, would have got."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import THEMES, World, table_of, worlds

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import Decider, Placement, place, place_batch
from fathom.schedule.decide.pods import PodView

pytestmark = pytest.mark.slow

every_theme = pytest.mark.parametrize("theme", THEMES)


def copies(world: World, count: int) -> list[PodView]:
    view = world.view()
    return [msgspec.structs.replace(view, uid=f"{view.uid}{i or ''}") for i in range(count)]


def shown(placement: Placement, table: NodeTable) -> dict[str, Any]:
    """Everything about a placement, its verdicts written out by node."""
    fields = {name: getattr(placement, name) for name in placement.__struct_fields__ if name != "verdicts"}
    if placement.verdicts is None:
        return fields
    codes, reasons = placement.verdicts.codes(), placement.verdicts.reasons()
    return {**fields, "why": {name: reasons[int(codes[row])].texts for name, row in table.row_of.items()}}


def less(context: PlacementContext, placement: Placement) -> PlacementContext:
    """What the overrides have left to give."""
    left = tuple(
        msgspec.structs.replace(one, left=one.left - (one.override in placement.overrides))
        if one.left is not None
        else one
        for one in context.allowed
    )
    return msgspec.structs.replace(context, allowed=left)


@every_theme
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_batch_is_its_pods_placed_in_turn(theme: str, data: st.DataObject) -> None:
    world: World = data.draw(worlds(theme))
    pods = copies(world, 6)
    together, in_turn = table_of(world), table_of(world)
    expected, context = [], world.context
    for pod in pods:
        placement = place(pod, in_turn, context)
        expected.append(shown(placement, in_turn))
        if placement.node is not None:
            in_turn.assume(pod, placement.node, capacity_class=placement.capacity_class)
        context = less(context, placement)
    found = place_batch(pods, together, world.context)
    assert [shown(one, together) for one in found] == expected


@every_theme
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_kept_pass_answers_like_a_new_one(theme: str, data: st.DataObject) -> None:
    """Between batches others come and go; the pass is brought up to date, not made anew."""
    world: World = data.draw(worlds(theme))
    table = table_of(world)
    decider = Decider(table)
    for number, pod in enumerate(copies(world, 4)):
        answered = decider.place(pod, world.context)
        assert shown(answered, table) == shown(place(pod, table, world.context), table)
        if answered.node is not None and data.draw(st.booleans()):
            decider.place_batch([pod], world.context)
        if data.draw(st.booleans()) and world.pods:
            gone = data.draw(st.sampled_from(world.pods))
            table.remove_pod(gone["metadata"]["uid"])
        if number == 2 and world.nodes and data.draw(st.booleans()):
            table.remove_node(world.nodes[0]["metadata"]["name"])
