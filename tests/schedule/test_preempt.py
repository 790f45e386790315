"""Whom to ask to leave: the vectorised answer against one worked out from scratch, and the finer points."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import World, table_of, worlds

from fathom.model.objects import Key, Obj
from fathom.schedule.decide.context import PlacementContext, Policy
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import place
from fathom.schedule.decide.pods import PodView, pod_view
from fathom.schedule.decide.preempt import (
    ConsultedBudget,
    DisruptionBudget,
    Preempter,
    Preemption,
    preempt,
)
from fathom.schedule.decide.read_shape import selector_of
from fathom.sim.slow_rules import filters
from fathom.sim.slow_rules import victims as slow_victims

FINAL = (
    "affinity/selector",
    "untolerated taint",
    "unschedulable",
    "avoided",
    "refused a placement",
    "capacity",
    "freshness",
    "olume",
    "missing required label",
    "didn't match pod affinity rules",
    "quota",
)


def twin_victims(world: World, node: str) -> list[str] | None:
    """Uids, or None where it does not help."""
    cluster, pod = world.cluster(), world.newcomer
    reason = filters.first_reason(pod, world.tenant, cluster.nodes[node], cluster, world.context)
    if any(one in text for text in reason for one in FINAL):
        return None
    found = slow_victims.victims(pod, world.tenant, node, cluster, world.context)
    return None if found is None else [one["metadata"]["uid"] for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["tightness", "ports", "claims", "pod affinity", "spread", "skew"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_victims_are_the_twins(theme: str, data: st.DataObject) -> None:
    world: World = data.draw(worlds(theme, nodes_max=3, pods_max=8))
    world.newcomer["spec"]["priority"] = 1000
    table = table_of(world)
    if place(world.view(), table, world.context).node is not None:
        return
    expected = {name: twin_victims(world, name) for name in table.row_of}
    found = preempt(world.view(), table, world.context)
    if found.node is None:
        assert all(one is None for one in expected.values())
    else:
        assert [one.uid for one in found.victims] == expected[found.node]
        assert found.candidates == sum(one is not None for one in expected.values())
        for victim in found.victims:
            table.remove_pod(victim.uid)
        assert place(world.view(), table, world.context).node is not None


def node(name: str, cpu: str = "2") -> Obj:
    labels = {"kubernetes.io/hostname": name}
    room = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": room}}


def pod(
    name: str, *, on: str = "", cpu: str = "1", priority: int = 0, started: str = "", **meta: object
) -> PodView:
    spec: Obj = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        "priority": priority,
    }
    if on:
        spec["nodeName"] = on
    status = {"startTime": started} if started else {}
    labels = meta.pop("labels", {})
    obj = {"metadata": {"name": name, "uid": name, "namespace": "ns", "labels": labels, **meta}, "spec": spec}
    return pod_view({**obj, "status": status}, tenant="ns")


def table_with(nodes: list[Obj], *pods: PodView) -> NodeTable:
    table = NodeTable()
    for one in nodes:
        table.put_node(one)
    for view in pods:
        table.put_pod(view)
    return table


def outcome(found: Preemption) -> tuple[str | None, list[str]]:
    return found.node, [one.uid for one in found.victims]


def test_the_node_whose_highest_victim_is_lowest_is_chosen() -> None:
    table = table_with(
        [node("a"), node("b")],
        pod("a1", on="a", cpu="2", priority=5),
        pod("b1", on="b", priority=1),
        pod("b2", on="b", priority=1),
    )
    assert outcome(preempt(pod("new", cpu="2", priority=10), table, PlacementContext())) == (
        "b",
        ["b1", "b2"],
    )


def test_as_few_as_possible_leave_and_the_least_important_first() -> None:
    table = table_with(
        [node("a", cpu="3")],
        pod("old", on="a", priority=1, started="2026-01-01T00:00:00Z"),
        pod("young", on="a", priority=1, started="2026-02-01T00:00:00Z"),
        pod("high", on="a", priority=4),
    )
    assert outcome(preempt(pod("new", priority=10), table, PlacementContext())) == ("a", ["young"])


def test_a_budget_that_has_nothing_left_turns_preemption_elsewhere() -> None:
    table = table_with(
        [node("a", cpu="1"), node("b", cpu="1")],
        pod("a1", on="a", labels={"app": "db"}),
        pod("b1", on="b", priority=3),
    )
    budget = DisruptionBudget(Key("ns", "db"), selector_of({"matchLabels": {"app": "db"}}), allowed=0)
    new = pod("new", priority=10)
    assert outcome(preempt(new, table, PlacementContext())) == ("a", ["a1"])
    found = preempt(new, table, PlacementContext(), [budget])
    assert outcome(found) == ("b", ["b1"])
    assert found.budgets == (ConsultedBudget(Key("ns", "db"), decisive=True),)


def test_a_budget_is_broken_only_when_nothing_else_helps_and_it_is_said() -> None:
    table = table_with([node("a", cpu="1")], pod("a1", on="a", labels={"app": "db"}))
    budget = DisruptionBudget(Key("ns", "db"), selector_of({"matchLabels": {"app": "db"}}), allowed=0)
    found = preempt(pod("new", priority=10), table, PlacementContext(), [budget])
    assert [(one.uid, one.breaks) for one in found.victims] == [("a1", "ns/db")]
    assert found.budgets == (ConsultedBudget(Key("ns", "db")),), "without it the victim would be the same"
    assert found.victims[0].reason == (
        "preempted on a to make room for ns/new (priority 10); breaks PodDisruptionBudget ns/db"
    )


def test_equals_are_not_preempted_and_the_message_says_what_was_tried() -> None:
    table = table_with([node("a", cpu="1")], pod("a1", on="a", priority=10))
    found = preempt(pod("new", priority=10), table, PlacementContext())
    text = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert (found.node, found.message) == (None, text)


def test_who_may_not_preempt_does_not() -> None:
    table = table_with([node("a", cpu="1")], pod("a1", on="a"))
    view = pod_view(
        {
            "metadata": {"name": "new", "uid": "new", "namespace": "ns"},
            "spec": {
                "priority": 5,
                "preemptionPolicy": "Never",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
        tenant="ns",
    )
    assert (
        preempt(view, table, PlacementContext()).message
        == "preemption: not eligible due to preemptionPolicy=Never."
    )
    off = PlacementContext(policy=Policy(name="calm", preemption=False))
    found = preempt(pod("other", priority=5), table, off)
    assert found.message == "preemption: not eligible due to policy calm."


def test_room_that_is_claimed_is_not_made_twice() -> None:
    """Two pods of high priority, one node: the second does not count on the room of the first."""
    table = table_with([node("a", cpu="2")], pod("a1", on="a"), pod("a2", on="a"))
    preempter, first, second, third = Preempter(table), *(pod(f"new{i}", priority=10) for i in range(3))
    found = preempter.preempt(first, PlacementContext())
    assert outcome(found) == ("a", ["a2"])
    table.claim(first.uid, "a", first.shape.requests, priority=first.priority)
    assert outcome(preempter.preempt(second, PlacementContext())) == ("a", ["a1", "a2"])
    table.claim(second.uid, "a", second.shape.requests, priority=second.priority)
    assert preempter.preempt(third, PlacementContext()).node is None
    assert place(pod("low"), table, PlacementContext()).node is None
    table.remove_pod("a2")
    assert place(first, table, PlacementContext()).node == "a"
    assert place(third, table, PlacementContext()).node is None


def test_a_pod_whose_victims_are_leaving_waits_for_them() -> None:
    leaving = pod("a1", on="a", deletionTimestamp="2026-01-01T00:00:00Z")
    table = table_with([node("a", cpu="1")], leaving)
    new = pod("new", priority=10)
    view = PodView(key=new.key, uid=new.uid, shape=new.shape, nominated="a")
    found = preempt(view, table, PlacementContext())
    text = "preemption: not eligible due to terminating pods on the nominated node a."
    assert (found.node, found.message, found.leaving) == (None, text, True)


def test_a_policys_name_does_not_make_victims_that_are_leaving() -> None:
    policy = Policy(name="no-terminating", preemption=False)
    table = table_with([node("a", cpu="1")], pod("a1", on="a"))
    assert not preempt(pod("new", priority=9), table, PlacementContext(policy=policy)).leaving


def test_a_try_leaves_the_table_as_it_was() -> None:
    table = table_with([node("a", cpu="2")], pod("a1", on="a"), pod("a2", on="a"))

    def seen() -> tuple[object, ...]:
        return (
            table.version,
            table.tally.requested.tolist(),
            sorted(table.pods_on[0]),
            deepcopy(table.tally.used),
        )

    before = seen()
    preempt(pod("new", priority=10), table, PlacementContext())
    assert seen() == before
