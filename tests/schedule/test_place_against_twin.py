"""The vectorised rules say what slow, obvious ones say, about every node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import THEMES, World, table_of, worlds

from fathom.schedule.decide.place import place
from fathom.schedule.decide.rules import RULES
from fathom.sim.slow_rules import filters
from fathom.sim.slow_rules import scores as slow_scores

pytestmark = pytest.mark.slow

every_theme = pytest.mark.parametrize("theme", THEMES)


@every_theme
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_nodes_verdict_is_the_twins(theme: str, data: st.DataObject) -> None:
    world: World = data.draw(worlds(theme))
    table = table_of(world)
    placement = place(world.view(), table, world.context)
    assert placement.verdicts is not None
    codes, reasons = placement.verdicts.codes(), placement.verdicts.reasons()
    found = {name: reasons[int(codes[row])].texts for name, row in table.row_of.items()}
    assert found == filters.verdicts(world.newcomer, world.tenant, world.cluster(), world.context)
    assert {one.rule for one in reasons[1:]} <= {one.name for one in RULES.filters}


@every_theme
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_the_chosen_node_has_the_best_total_of_the_twins(theme: str, data: st.DataObject) -> None:
    world: World = data.draw(worlds(theme))
    placement = place(world.view(), table_of(world), world.context)
    scores = slow_scores.scores(world.newcomer, world.tenant, world.cluster(), world.context)
    best = max(scores.values(), default=None)
    tied = [name for name, total in scores.items() if total == best]
    assert (placement.node in tied) if tied else placement.node is None
    assert placement.tied == len(tied)
    assert set(placement.scores.items()) <= {(name, best) for name in tied}
