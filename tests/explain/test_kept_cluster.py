"""A cluster that is kept between questions answers as a new one does."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.explain.builders import NOW_NS, Obj, at, evidence, node, own, pod, why

from fathom.explain.why.kept_cluster import KeptCluster

Drawn = st.DrawFn

PLACES = ("", "a", "b")


def revised(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(crc32(str(obj).encode()))}}


@st.composite
def clusters(draw: Drawn) -> Any:
    """One state of a small cluster. An object that is the same in two states has the same revision."""
    nodes = [
        node(name, cpu=draw(st.sampled_from(["1", "2", "4"])), unschedulable=draw(st.booleans()))
        for name in draw(st.sets(st.sampled_from(["a", "b", "c"]), max_size=3))
    ]
    pods = [
        pod(name, on=draw(st.sampled_from(PLACES)), cpu=draw(st.sampled_from(["500m", "1"])))
        for name in draw(st.sets(st.sampled_from(["p", "q", "r"]), max_size=3))
    ]
    tenant = draw(st.sampled_from(["shop", "bank"]))
    namespace = {"metadata": {"name": "shop", "labels": {"fathom.dev/tenant": tenant}}, "spec": {"t": tenant}}
    limit = {"resources": {"cpu": draw(st.sampled_from(["1", "8"]))}}
    expiry = {"active": True, "expiresAt": at(draw(st.sampled_from([-9, 9])))}
    override = own(
        "SchedulerOverride", "calm", namespace="shop", target="workload/web", reason="r", expiresAfter="1h",
        changes={"avoidNodes": ["a"]}, status=expiry,
    )  # fmt: skip
    return {
        "nodes": [revised(obj) for obj in nodes],
        "pods": [revised(obj) for obj in (*pods, pod("web", cpu="2"))],
        "namespaces": [revised(namespace)],
        "tenantquotas_fathom_dev": [revised(own("TenantQuota", tenant, limits=[limit]))],
        "scheduleroverrides_fathom_dev": [revised(override)] if draw(st.booleans()) else [],
    }


@settings(max_examples=80, deadline=None)
@given(st.lists(clusters(), min_size=2, max_size=5))
def test_after_any_changes_the_answer_is_that_of_a_new_cluster(states: list[Any]) -> None:
    kept = KeptCluster()
    for state in states:
        case = evidence(**state)
        explanation = why(case, cluster=kept.view(case.objects, now_ns=NOW_NS))
        assert msgspec.to_builtins(explanation) == msgspec.to_builtins(why(case))


def test_room_that_was_held_for_a_pod_is_free_when_the_pod_is_gone() -> None:
    nominated = pod("big", cpu="3", priority=10, status={"nominatedNodeName": "a"})
    before = evidence(pods=[nominated, pod(cpu="2")], nodes=[node("a")])
    after = evidence(pods=[pod(cpu="2")], nodes=[node("a")])
    kept = KeptCluster()
    assert why(before, cluster=kept.view(before.objects, now_ns=NOW_NS)).stage == "unschedulable"
    assert why(after, cluster=kept.view(after.objects, now_ns=NOW_NS)).stage == "queued"
