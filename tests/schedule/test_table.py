"""The table that was changed step by step is the table made at once from what is there in the end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import NAMESPACES, nodes, one_of, pods

from fathom.model.objects import Obj
from fathom.schedule.decide.context import PlacementContext, Policy
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import place
from fathom.schedule.decide.pod_groups import WantedCount, anywhere_in
from fathom.schedule.decide.pods import pod_view
from fathom.schedule.decide.read_shape import selector_of
from fathom.sim.slow_rules.cluster import namespace

pytestmark = pytest.mark.slow

BUSY = {"taints", "pod affinity", "neighbours", "ports", "images", "tightness", "classes"}
WATCHED = WantedCount((anywhere_in("n1", selector_of({"matchLabels": {"app": "web"}})),), alive=True)


def contents(table: NodeTable) -> dict[str, Any]:
    """By names, since rows and columns are a matter of history."""
    return {
        "nodes": {name: _row(table, row) for name, row in table.row_of.items()},
        "used": {tenant: dict(places) for tenant, places in table.tally.used.items()},
        "placed": {uid: (one.node, one.capacity_class) for uid, one in table.placed.items()},
    }


def _row(table: NodeTable, row: int) -> dict[str, Any]:
    name = table.names[row]
    amounts = {
        resource: (int(table.allocatable[row, column]), int(table.tally.requested[row, column]))
        for resource, column in table.resources.items()
    }
    return {
        "amounts": {resource: both for resource, both in amounts.items() if any(both)},
        "scored": table.tally.scored[row].tolist(),
        "pods": sorted(table.pods_on[row]),
        "taints": table.taints[table.taint_sets[row]],
        "zone": table.zones[row],
        "ports": {port: rows[row] for port, rows in table.tally.ports.items() if row in rows},
        "images": {image: rows[row] for image, rows in table.images.items() if row in rows},
        "watched": int(table.counter(WATCHED).counts[row]),
        "terms": sorted(
            (str(key), one.rows[row]) for key, one in table.tally.terms.items() if row in one.rows
        ),
        "drawn": {key[1]: one for key, one in table.tally.drawn.items() if key[0] == row},
        "alive": bool(table.alive[row]) and name != "",
    }


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_small_steps_lead_to_the_table_made_at_once(data: st.DataObject) -> None:
    table = NodeTable()
    table.counter(WATCHED)  # Counted from the start here, all at once in the other.
    there: dict[str, Obj] = {}
    bound: dict[str, Obj] = {}
    for _ in range(data.draw(st.integers(1, 14))):
        step(data, table, there, bound)
    again = NodeTable()
    for one in there.values():
        again.put_node(one)
    for pod in bound.values():
        again.put_pod(pod_view(pod, tenant=namespace(pod)))
    assert contents(table) == contents(again)
    newcomer = data.draw(pods("newcomer", None, BUSY))
    view, world = (
        pod_view(newcomer, tenant=namespace(newcomer)),
        PlacementContext(policy=Policy(max_zone_skew=1)),
    )
    stepwise, at_once = place(view, table, world), place(view, again, world)
    assert (stepwise.rejected, stepwise.tied) == (at_once.rejected, at_once.tied)


def step(data: st.DataObject, table: NodeTable, there: dict[str, Obj], bound: dict[str, Obj]) -> None:
    name, uid = f"node-{data.draw(st.integers(0, 11))}", f"p{data.draw(st.integers(0, 5))}"
    match data.draw(
        one_of(["put node", "put node", "remove node", "bind", "bind", "assume", "forget", "remove pod"])
    ):
        case "put node":
            there[name] = data.draw(nodes(name, BUSY))
            table.put_node(there[name])
        case "remove node":
            assert table.remove_node(name) is (there.pop(name, None) is not None)
        case "bind":
            bound[uid] = {**data.draw(pods(uid, name, BUSY))}
            table.put_pod(pod_view(bound[uid], tenant=namespace(bound[uid])))
        case "assume":
            pod = data.draw(pods(uid, None, BUSY))
            if f"uid-{uid}" not in table.placed:
                table.assume(pod_view(pod, tenant=namespace(pod)), name)
                pod["spec"]["nodeName"] = name
                bound[uid] = pod
        case "forget":
            if table.forget(f"uid-{uid}"):
                del bound[uid]
        case "remove pod":
            assert table.remove_pod(f"uid-{uid}") is (bound.pop(uid, None) is not None)


def node(name: str, **labels: str) -> Obj:
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": "7"},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
    }


def pod(name: str, node_name: str = "", **requests: str) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    meta = {"name": name, "uid": name, "namespace": NAMESPACES[0]}
    return {"metadata": meta, "spec": {**spec, "nodeName": node_name} if node_name else spec, "status": {}}


def free_cpu(table: NodeTable, name: str) -> int:
    row = table.row_of[name]
    return int(table.allocatable[row, 0] - table.tally.requested[row, 0])


def test_a_heartbeat_changes_nothing() -> None:
    table = NodeTable()
    assert table.put_node(node("a"))
    before = table.version
    later = node("a")
    later["metadata"]["resourceVersion"] = "8"
    later["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}]
    assert not table.put_node(later)
    assert (table.version, table.revisions[0]) == (before, 8)


def test_an_unbound_view_does_not_undo_an_assumption_and_a_bound_one_confirms_it() -> None:
    table = NodeTable()
    table.put_node(node("a"))
    waiting = pod_view(pod("p", cpu="500m"), tenant="n1")
    table.assume(waiting, "a")
    assert not table.put_pod(waiting)
    assert (free_cpu(table, "a"), table.assumed("p")) == (1500, "a")
    table.put_pod(pod_view(pod("p", "a", cpu="500m"), tenant="n1"))
    assert (free_cpu(table, "a"), table.assumed("p")) == (1500, None)
    assert not table.forget("p")
    assert free_cpu(table, "a") == 1500


def test_a_pod_that_was_bound_elsewhere_than_assumed_counts_where_it_is() -> None:
    table = NodeTable()
    table.put_node(node("a"))
    table.put_node(node("b"))
    table.assume(pod_view(pod("p", cpu="500m"), tenant="n1"), "a")
    table.put_pod(pod_view(pod("p", "b", cpu="500m"), tenant="n1"))
    assert (free_cpu(table, "a"), free_cpu(table, "b")) == (2000, 1500)


def test_a_finished_pod_takes_nothing_even_if_it_was_assumed() -> None:
    table = NodeTable()
    table.put_node(node("a"))
    table.assume(pod_view(pod("p", cpu="500m"), tenant="n1"), "a")
    done = pod("p", "a", cpu="500m")
    done["status"]["phase"] = "Succeeded"
    table.put_pod(pod_view(done, tenant="n1"))
    assert free_cpu(table, "a") == 2000


def named(table: NodeTable, version: int) -> list[str]:
    rows = table.changed_rows(version)
    assert rows is not None
    return [table.names[row] for row in rows if row >= 0]


def test_rows_changed_since_a_version_are_named_until_nodes_change() -> None:
    table = NodeTable()
    for name in ("a", "b", "c"):
        table.put_node(node(name))
    seen = table.version
    table.assume(pod_view(pod("p"), tenant="n1"), "c")
    table.assume(pod_view(pod("q"), tenant="n1"), "a")
    assert named(table, seen) == ["a", "c"]
    assert named(table, table.version) == []
    before = table.version
    table.put_pod(pod_view(pod("r", "nowhere"), tenant="n1"))
    assert (table.version > before, named(table, before)) == (True, [])
    table.remove_node("b")
    assert table.changed_rows(seen) is None


@pytest.mark.parametrize("count", [7, 8, 9, 17, 100])
def test_a_table_grows_with_its_nodes_and_keeps_what_it_knew(count: int) -> None:
    table = NodeTable()
    for i in range(count):
        table.put_node(node(f"n{i}", zone=f"z{i % 3}"))
        table.assume(pod_view(pod(f"p{i}", cpu="100m"), tenant="n1"), f"n{i}")
    assert [free_cpu(table, f"n{i}") for i in range(count)] == [1900] * count
    column = table.label_column("zone")
    assert [column.values[i] for i in column.ids[:count]] == [f"z{i % 3}" for i in range(count)]
