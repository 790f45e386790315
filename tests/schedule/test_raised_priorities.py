"""Overrides that raise a workload's pods in the scheduling queue, for as long as they last."""

from __future__ import annotations

import pytest
from tests.control.worlds import told
from tests.schedule.test_known import NOW, S, own, pod

from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.resources import NODES, PODS
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.raised_priorities import RaisedPriority
from fathom.sim.report.chronicle import Chronicle, DecisionMade
from fathom.sim.scenarios.overriding import OVERRIDES, override
from fathom.sim.scenarios.scheduling import node, run_scheduler
from fathom.sim.scenarios.scheduling import pod as pod_object
from fathom.sim.world.world import World

REGION = "topology.kubernetes.io/region"


def raising(name: str, priority: int, *, target: str = "workload/web", scope: str = "cluster") -> Obj:
    spec = {"target": target, "scope": scope, "expiresAfter": "10m", "changes": {"raisePriority": priority}}
    return own("SchedulerOverride", name, spec, namespace="shop")


def raised(known: ClusterView, *, after_s: int = 0, owner: str = "web") -> RaisedPriority | None:
    return known.raised.of(pod(known, owner=owner), now_ns=NOW + after_s * S)


def test_the_largest_priority_of_the_overrides_in_force_counts() -> None:
    known = ClusterView()
    assert raised(known) is None
    known.put("SchedulerOverride", None, raising("a", 5))
    known.put("SchedulerOverride", None, raising("b", 9))
    known.put("SchedulerOverride", None, raising("other", 90, target="workload/other"))
    assert raised(known) == RaisedPriority(9, "shop/b")
    assert raised(known, after_s=600) is None
    assert raised(known, owner="third") is None
    assert known.raised.look_again(now_ns=NOW)
    assert not known.raised.look_again(now_ns=NOW + 600 * S)
    known.put("SchedulerOverride", raising("b", 9), None)
    assert raised(known) == RaisedPriority(5, "shop/a")


def test_an_override_lowers_no_priority() -> None:
    known = ClusterView()
    known.put("SchedulerOverride", None, raising("a", -5))
    assert raised(known) is None


def test_a_priority_is_raised_for_a_workload_in_its_scope() -> None:
    known = ClusterView()
    known.put("SchedulerOverride", None, raising("a", 5, scope="region/eu-west"))
    for name, region in (("n1", "eu-east"), ("n2", "eu-west")):
        room = {"allocatable": {"cpu": "4", "pods": "9"}}
        known.put("Node", None, {"metadata": {"name": name, "labels": {REGION: region}}, "status": room})
    known.raised.look_again(now_ns=NOW)
    assert raised(known) == RaisedPriority(5, "shop/a"), "without pods: there is a node in the scope"
    references = [{"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}]
    for name, node_name, expected in (("x", "n1", None), ("y", "n2", RaisedPriority(5, "shop/a"))):
        meta = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": references}
        known.put_pod({"metadata": meta, "spec": {"containers": [], "nodeName": node_name}})
        known.raised.look_again(now_ns=NOW)
        assert raised(known) == expected


def test_the_context_names_the_overrides_that_raise_a_pod() -> None:
    known = ClusterView()
    known.put("SchedulerOverride", None, raising("a", 5))
    context = known.context(pod(known), now_ns=NOW)
    assert context.raised == ("shop/a",)
    assert known.context(pod(known, owner="other"), now_ns=NOW).raised == ()
    assert known.context(pod(known), now_ns=NOW + S) is context, "contexts are kept while overrides last"
    assert known.context(pod(known), now_ns=NOW + 600 * S).raised == ()


@pytest.mark.parametrize(("lasts_s", "first"), [(60, "urgent"), (5, "early")])
def test_a_raised_pod_gets_the_next_room_evicts_nobody_and_the_record_says_why(
    lasts_s: int, first: str
) -> None:
    chronicle = Chronicle()

    async def story(world: World) -> None:
        run_scheduler(world, "scheduler")
        await world.apply(NODES, node("node-1"))
        for name in ("there", "early", "urgent"):
            await world.apply(PODS, pod_object(name, cpu="4"))
            await world.sleep(2)
        made = override("urgent", {"raisePriority": 1000}, lasts_s=lasts_s)
        stored = await world.apply(OVERRIDES, made)
        await world.sleep(10)
        assert _bound(world) == ["there"], "a pod was evicted for a raised one"
        there = world.get("pods", Key("default", "there"))
        assert there is not None
        await world.api.delete(PODS, "default", "there", uid=uid_of(there), grace_s=0)
        await world.sleep(10)
        assert _bound(world) == [first]
        decisions = [each.decision for each in chronicle.events if isinstance(each, DecisionMade)]
        (bind,) = [each for each in decisions if each.verdict == "bind" and each.subject.name == first]
        cited = [(each.uid, each.decisive) for each in bind.overrides]
        assert cited == ([(uid_of(stored), True)] if first == "urgent" else [])

    told(story, chronicle=chronicle)


def _bound(world: World) -> list[str]:
    pods = world.list("pods", "default")
    return [each["metadata"]["name"] for each in pods if lookup(each, "spec", "nodeName")]
