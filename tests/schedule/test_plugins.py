"""Rules of one's own, through the documented entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import msgspec
import numpy as np
import pytest
from tests.schedule.test_remedy import node, pod, table_of

from fathom.model.decision import Rejection
from fathom.schedule.decide.context import PlacementContext, Policy
from fathom.schedule.decide.node_columns import Ints
from fathom.schedule.decide.place import place, place_batch
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.rules import NODE_CHANGED, RULES, FilterRule, Score
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.verdicts import Codes, Reason
from fathom.schedule.loop.user_rules import RuleError, loaded, with_rules


def quiet_hours(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    code = reasons.code(Reason("QuietHours", ("node(s) are being serviced",), resolvable=False))
    return np.where(rows.having((("service", "now"),)), code, 0).astype(np.uint8)


def few_pods(shape: PodShape, rows: Rows, world: PlacementContext) -> Ints:
    _, requested = rows.amounts("pods")
    return 100 - np.minimum(requested, 100)


QUIET_HOURS = FilterRule("QuietHours", quiet_hours, (NODE_CHANGED,))
FEW_PODS = Score("FewPods", 50, few_pods, reads="pods")


def both() -> tuple[FilterRule, Score]:
    return QUIET_HOURS, FEW_PODS


def entry(name: str) -> EntryPoint:
    return EntryPoint("mine", f"{__name__}:{name}", "fathom.rules")


def test_a_filter_and_a_score_of_ones_own_take_part_in_placements_and_reasons() -> None:
    rules = with_rules(RULES, [QUIET_HOURS, FEW_PODS])
    table = table_of(node("a", labels={"service": "now"}), node("b"), node("c"), pods=(pod("old", on="b"),))
    placement = place(pod(), table, PlacementContext(), rules)
    assert (placement.node, placement.rejected) == ("c", {"node(s) are being serviced": 1})
    placed = place_batch([pod("p1"), pod("p2"), pod("p3")], table, PlacementContext(), rules)
    assert sorted(one.node or "" for one in placed) == ["b", "c", "c"]


def test_a_filter_of_ones_own_names_its_boundary_and_remedy() -> None:
    own = msgspec.structs.replace(QUIET_HOURS, boundary="service", remedy="EndService")
    table = table_of(node("a", labels={"service": "now"}))
    placement = place(pod(), table, PlacementContext(), with_rules(RULES, [own]))
    assert placement.rejections == (Rejection("QuietHours", "service", 1, "EndService", "service"),)
    unsaid = place(pod(), table, PlacementContext(), with_rules(RULES, [QUIET_HOURS]))
    assert unsaid.rejections == (Rejection("QuietHours", "scheduler", 1, "AskScheduler", "scheduler"),)


def test_a_policy_switches_an_optional_rule_off_and_weighs_a_score() -> None:
    rules = with_rules(RULES, [QUIET_HOURS, FEW_PODS])
    table = table_of(node("a", labels={"service": "now"}))
    off = PlacementContext(policy=Policy(disabled_filters=("QuietHours",), weights={"FewPods": 0}))
    assert place(pod(), table, PlacementContext(), rules).node is None
    assert place(pod(), table, off, rules).node == "a"


def test_what_the_ledger_insists_on_cannot_be_switched_off() -> None:
    table = table_of(node("a", cpu="100m"))
    off = PlacementContext(policy=Policy(disabled_filters=("NodeResourcesFit", "TenantQuota", "NodePorts")))
    assert place(pod(), table, off).rejected == {"Insufficient cpu": 1}


def test_an_entry_point_names_a_rule_a_tuple_of_them_or_what_makes_them() -> None:
    assert loaded([entry("QUIET_HOURS")]) == [QUIET_HOURS]
    assert loaded([entry("both")]) == [QUIET_HOURS, FEW_PODS]


@pytest.mark.parametrize(
    ("point", "words"),
    [
        (entry("nowhere"), "cannot be loaded: AttributeError"),
        (
            EntryPoint("mine", "no_such_module_at_all:x", "fathom.rules"),
            "cannot be loaded: ModuleNotFoundError",
        ),
        (entry("__name__"), "is not a rule but str"),
    ],
)
def test_what_is_no_rule_is_refused_in_words(point: EntryPoint, words: str) -> None:
    with pytest.raises(RuleError, match="entry point 'mine'") as caught:
        loaded([point])
    assert words in str(caught.value)


def test_two_rules_of_one_name_are_refused() -> None:
    twice = FilterRule("NodeName", quiet_hours, ())
    with pytest.raises(RuleError, match="already a rule named 'NodeName'"):
        with_rules(RULES, [twice])
