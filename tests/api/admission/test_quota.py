"""Quotas count exactly: whatever happens in whatever order, used is the sum of what is there."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.admission.world import (
    KINDS,
    Lost,
    World,
    asking,
    attempt,
    create,
    delete,
    obj,
    pod,
    refusal,
    update,
)

from fathom.api.admission.attempt import DELETE, Admitted, Charge
from fathom.api.admission.chain import Chain
from fathom.api.admission.quota import ResourceQuota, drift, recount
from fathom.model.body import Body
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, key_of
from fathom.model.quantity import parse
from fathom.store.protocol import Delete, Expect, Put

CHAIN = Chain([ResourceQuota()])
RULES = "/registry/quotarules.fathom.dev/default"
# What each write expects that a quota could count: no quota has begun or ended.
SAME_RULES = Charge((Expect(RULES, 0),))


def quota(hard: Obj, used: Obj | None = None, *, name: str = "q", **spec: Any) -> Obj:
    counted = {"hard": hard, "used": {**dict.fromkeys(hard, "0"), **(used or {})}}
    return obj("ResourceQuota", name, spec={"hard": hard, **spec}, status=counted)


def used_after(world: World, charges: tuple[Charge, ...], one: Obj) -> Obj:
    world.commit([], charges)
    found: Obj = world.named(one)["status"]["used"]
    return found


def test_a_pod_is_charged_to_the_quota_in_its_own_commit() -> None:
    mine = quota(
        {"pods": "2", "requests.cpu": "4", "limits.memory": "1Gi"}, {"pods": "1", "requests.cpu": "1500m"}
    )
    world = World(mine)
    asks = pod(containers=[asking(cpu="500m", limits={"memory": "256Mi"})])
    admitted = create(CHAIN, world, asks)
    after = {"pods": "2", "requests.cpu": "2", "limits.memory": "256Mi"}
    key = "/registry/resourcequotas/default/q"
    status = {"hard": mine["spec"]["hard"], "used": after}
    booked = Charge((Expect(key, world.revision_now),), (Put(key, Body({**mine, "status": status})),))
    assert admitted == Admitted(asks, (), (SAME_RULES, booked))


def test_a_namespace_without_quotas_is_not_charged() -> None:
    assert create(CHAIN, World(), pod()) == Admitted(pod(), (), (SAME_RULES,))
    other = quota({"services": "1"})
    assert create(CHAIN, World(other), pod()) == Admitted(pod(), (), (SAME_RULES,))


def test_what_exceeds_is_refused_with_the_numbers() -> None:
    world = World(quota({"pods": "2", "requests.cpu": "1"}, {"pods": "2", "requests.cpu": "750m"}))
    error = refusal(CHAIN, world, pod("p", containers=[asking(cpu="500m")]))
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=500m, '
        "used: pods=2,requests.cpu=750m, limited: pods=2,requests.cpu=1"
    )
    one_name = World(quota({"pods": "2"}, {"pods": "2"}))
    assert refusal(CHAIN, one_name, pod("p")).message == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )


def test_a_pod_must_ask_for_what_is_counted() -> None:
    world = World(quota({"limits.cpu": "4", "requests.memory": "1Gi", "pods": "9"}))
    containers = [asking("b"), asking("a", memory="1Mi")]
    assert refusal(CHAIN, world, pod("p", containers=containers)).message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: a,b; requests.memory for: b'
    )
    # What is not cpu or memory need not be asked for.
    gpus = World(quota({"requests.acme.com/gpu": "1"}))
    assert create(CHAIN, gpus, pod()) == Admitted(pod(), (), (SAME_RULES,))


def test_all_quotas_that_count_a_pod_are_charged_and_any_may_refuse() -> None:
    world = World(quota({"pods": "9"}, name="a"), quota({"count/pods": "1"}, {"count/pods": "1"}, name="b"))
    assert "exceeded quota: b, requested: count/pods=1" in refusal(CHAIN, world, pod()).message
    both = World(quota({"pods": "9"}, name="a"), quota({"count/pods": "1"}, name="b"))
    assert len(create(CHAIN, both, pod()).charges) == len([SAME_RULES, *both.list("resourcequotas")])


def test_a_pod_that_ended_or_is_gone_is_let_go() -> None:
    hard = {"pods": "5", "count/pods": "5", "cpu": "4"}
    world = World(quota(hard, {"pods": "2", "count/pods": "2", "cpu": "1"}))
    running = pod(phase="Running", containers=[asking(cpu="250m")])
    ended = {**running, "status": {"phase": "Succeeded"}}
    charges = update(CHAIN, world, ended, running, subresource="status").charges
    assert used_after(world, charges, quota(hard)) == {"pods": "1", "count/pods": "2", "cpu": "750m"}
    released = CHAIN.release(attempt(DELETE, None, ended), world)
    assert used_after(world, released, quota(hard)) == {"pods": "1", "count/pods": "1", "cpu": "750m"}
    released = CHAIN.release(attempt(DELETE, None, running), world)
    assert used_after(world, released, quota(hard)) == {"pods": "0", "count/pods": "0", "cpu": "500m"}


def test_marking_for_deletion_and_other_reports_release_nothing() -> None:
    world = World(quota({"pods": "5"}, {"pods": "1"}))
    running = pod(phase="Running")
    reported = {**running, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
    assert update(CHAIN, world, reported, running, subresource="status") == Admitted(reported)
    assert delete(CHAIN, world, running) == Admitted(None)


def test_a_quota_lowered_below_its_use_still_lets_go() -> None:
    world = World(quota({"pods": "1"}, {"pods": "3"}))
    running = pod(phase="Running")
    ended = pod(phase="Failed")
    charges = update(CHAIN, world, ended, running, subresource="status").charges
    assert used_after(world, charges, quota({"pods": "1"})) == {"pods": "2"}


def test_used_never_falls_below_nothing() -> None:
    world = World(quota({"pods": "1"}, {"pods": "0"}))
    released = CHAIN.release(attempt(DELETE, None, pod()), world)
    assert used_after(world, released, quota({"pods": "1"})) == {"pods": "0"}


def service(kind: str = "ClusterIP", ports: int = 1, **spec: Any) -> Obj:
    return obj(
        "Service", "s", spec={"type": kind, "ports": [{"port": port} for port in range(ports)], **spec}
    )


def claim(storage: str, storage_class: str = "") -> Obj:
    named = {"storageClassName": storage_class} if storage_class else {}
    return obj("PersistentVolumeClaim", "d", spec={"resources": {"requests": {"storage": storage}}, **named})


@pytest.mark.parametrize(
    ("new", "counted"),
    [
        (obj("ConfigMap", "c"), {"configmaps": "1", "count/configmaps": "1"}),
        (obj("Deployment", "d"), {"count/deployments.apps": "1"}),
        (service(), {"services": "1", "services.nodeports": "0", "services.loadbalancers": "0"}),
        (service("NodePort", 3), {"services": "1", "services.nodeports": "3", "services.loadbalancers": "0"}),
        (service("LoadBalancer", 2), {"services.nodeports": "2", "services.loadbalancers": "1"}),
        (
            service("LoadBalancer", 2, allocateLoadBalancerNodePorts=False),
            {"services.nodeports": "0", "services.loadbalancers": "1"},
        ),
        (claim("1Gi"), {"persistentvolumeclaims": "1", "requests.storage": "1Gi"}),
        (
            claim("1Gi", "gold"),
            {
                "requests.storage": "1Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "tin.storageclass.storage.k8s.io/requests.storage": "0",
            },
        ),
        (
            pod(containers=[asking(cpu="1", memory="1Gi", limits={"cpu": "2", "memory": "2Gi"})]),
            {"cpu": "1", "requests.cpu": "1", "memory": "1Gi", "requests.memory": "1Gi", "limits.cpu": "2"},
        ),
        (
            pod(
                containers=[
                    asking(others={"acme.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1G"})
                ]
            ),
            {"requests.acme.com/gpu": "2", "hugepages-2Mi": "4Mi", "requests.ephemeral-storage": "1G"},
        ),
    ],
)
def test_an_object_counts_under_all_its_names(new: Obj, counted: Obj) -> None:
    mine = quota(dict.fromkeys(counted, "100Gi"))
    world = World(mine)
    assert used_after(world, create(CHAIN, world, new).charges, mine) == counted
    world.put(new)
    assert recount(mine, world)["used"] == counted


def test_an_update_is_charged_with_the_difference() -> None:
    hard = {"services.nodeports": "3", "requests.storage": "3Gi"}
    world = World(quota(hard, {"services.nodeports": "1", "requests.storage": "2Gi"}))
    charges = update(CHAIN, world, service("NodePort", 3), service("NodePort", 1)).charges
    assert used_after(world, charges, quota(hard))["services.nodeports"] == "3"
    error = refusal(CHAIN, world, claim("4Gi"), claim("2Gi"))
    assert error.message.endswith(
        "exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, "
        "limited: requests.storage=3Gi"
    )
    assert update(CHAIN, world, service("NodePort", 1), service("NodePort", 1)) == Admitted(
        service("NodePort", 1)
    )


@pytest.mark.parametrize(
    ("spec", "counts", "does_not"),
    [
        ({"scopes": ["BestEffort"]}, pod(), pod(containers=[asking(cpu="1")])),
        ({"scopes": ["NotBestEffort"]}, pod(containers=[asking(cpu="1")]), pod()),
        ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=5), pod()),
        ({"scopes": ["NotTerminating"]}, pod(), pod(activeDeadlineSeconds=0)),
        ({"scopes": ["NotTerminating", "BestEffort"]}, pod(), pod(containers=[asking(cpu="1")])),
        ({"scopes": ["PriorityClass"]}, pod(priorityClassName="x"), pod()),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            pod(
                affinity={
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}
                }
            ),
            pod(),
        ),
        ({"scopes": ["Whatever"]}, None, pod()),
    ],
)
def test_a_scope_narrows_what_is_counted(spec: Obj, counts: Obj | None, does_not: Obj) -> None:
    world = World(quota({"pods": "1"}, {"pods": "1"}, **spec))
    assert create(CHAIN, world, does_not) == Admitted(does_not, (), (SAME_RULES,))
    if counts is not None:
        assert "exceeded quota" in refusal(CHAIN, world, counts).message
    assert recount(world.named(quota({"pods": "1"})), World(does_not))["used"] == {"pods": "0"}


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [
        ("In", ["high"], ["high"]),
        ("NotIn", ["high"], ["low", ""]),
        ("Exists", [], ["high", "low"]),
        ("DoesNotExist", [], [""]),
    ],
)
def test_a_scope_selector_chooses_by_priority_class(
    operator: str, values: list[str], counted: list[str]
) -> None:
    rule = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    world = World(quota({"pods": "0"}, scopeSelector={"matchExpressions": [rule]}))

    def is_counted(name: str) -> bool:
        try:
            create(CHAIN, world, pod(priorityClassName=name) if name else pod())
        except ApiError:
            return True
        return False

    assert [name for name in ("high", "low", "") if is_counted(name)] == counted


def test_only_pods_have_scopes() -> None:
    world = World(quota({"configmaps": "0", "pods": "1"}, scopes=["BestEffort"]))
    assert create(CHAIN, world, obj("ConfigMap", "c")) == Admitted(obj("ConfigMap", "c"), (), (SAME_RULES,))


def test_a_pod_that_changes_its_scope_changes_its_account() -> None:
    hard = {"pods": "5"}
    world = World(quota(hard, {"pods": "1"}, scopes=["NotTerminating"]))
    charges = update(CHAIN, world, pod(activeDeadlineSeconds=60), pod()).charges
    assert used_after(world, charges, quota(hard)) == {"pods": "0"}


def test_a_new_quota_is_stored_uncounted_and_then_counted() -> None:
    world = World(pod("a"), pod("b"), pod("done", phase="Succeeded"), obj("Pod", "x", namespace="other"))
    asked = obj("ResourceQuota", "q", spec={"hard": {"pods": "5", "count/pods": "5", "services": "1"}})
    assert create(CHAIN, world, asked).obj == {**asked, "status": {}}
    assert recount(asked, world) == {
        "hard": {"pods": "5", "count/pods": "5", "services": "1"},
        "used": {"pods": "2", "count/pods": "3", "services": "0"},
    }


def test_a_quota_that_counts_something_new_is_counted_anew() -> None:
    world = World(pod("a"))
    old = quota({"services": "1"}, {"services": "0"})
    changed = {**old, "spec": {"hard": {"pods": "9"}}}
    assert update(CHAIN, world, changed, old).obj == {**changed, "status": {}}
    assert update(CHAIN, world, old, old) == Admitted(old)


def test_a_quota_whose_limits_change_is_counted_in_that_commit() -> None:
    world = World(pod("a"))
    old = quota({"pods": "1"}, {"pods": "1"})
    changed = {**old, "spec": {"hard": {"pods": "9"}}}
    admitted = update(CHAIN, world, changed, old)
    assert admitted.obj == {**changed, "status": {"hard": {"pods": "9"}, "used": {"pods": "1"}}}
    assert admitted.charges == ()


def test_a_quota_that_nobody_has_counted_is_counted_when_first_needed() -> None:
    bare = obj("ResourceQuota", "q", spec={"hard": {"pods": "2"}})
    world = World(bare, pod("a"))
    assert used_after(world, create(CHAIN, world, pod("b")).charges, bare) == {"pods": "2"}


def test_a_quota_does_not_count_itself_out() -> None:
    mine = quota({"resourcequotas": "5"}, {"resourcequotas": "2"})
    other = quota({"pods": "1"}, name="other")
    world = World(mine, other)
    released = CHAIN.release(attempt(DELETE, None, mine), world)
    assert {write.key for charge in released for write in charge.writes} == {RULES}
    assert used_after(world, CHAIN.release(attempt(DELETE, None, other), world), mine) == {
        "resourcequotas": "1"
    }


def test_drift_is_told_by_name() -> None:
    world = World(pod("a"))
    assert drift(quota({"pods": "5", "services": "1"}, {"pods": "3"}), world) == {
        "pods": (parse("3"), parse("1"))
    }


Step = tuple[str, int, int]  # what, which pod, how large
steps = st.lists(
    st.tuples(st.sampled_from(["create", "end", "remove", "race"]), st.integers(0, 4), st.integers(1, 3)),
    max_size=30,
)
HARD = {"pods": "3", "requests.cpu": "5", "count/pods": "4"}


def sized(number: int, cpu: int, phase: str = "Running") -> Obj:
    return pod(f"p{number}", phase=phase, containers=[asking(cpu=str(cpu))])


def put(new: Obj) -> Put:
    key = key_of(new)
    return Put(KINDS["Pod"].store_key(key.namespace, key.name), Body(new))


def step(world: World, view: World, what: str, number: int, cpu: int) -> None:
    """One write, decided on what `view` showed and committed to what `world` is now."""
    key = put(sized(number, cpu)).key
    seen = next((one for one in view.list("pods", "default") if put(one.obj).key == key), None)
    if what == "create" and seen is None:
        new = sized(number, cpu)
        world.commit([put(new)], create(CHAIN, view, new).charges, Expect(key, 0))
    elif what == "end" and seen is not None:
        ended = {**seen.obj, "status": {"phase": "Failed"}}
        charges = update(CHAIN, view, ended, seen.obj, subresource="status").charges
        world.commit([put(ended)], charges, Expect(key, seen.revision))
    elif what == "remove" and seen is not None:
        released = CHAIN.release(attempt(DELETE, None, seen.obj), view)
        world.commit([Delete(key)], released, Expect(key, seen.revision))


@pytest.mark.slow
@settings(max_examples=150)
@given(steps)
def test_used_is_the_sum_of_what_is_there_and_never_beyond_the_limit(story: list[Step]) -> None:
    mine = quota(HARD)
    world = World(mine)
    for what, number, cpu in story:
        view = world.fork()
        if what == "race":  # Somebody else is faster, and decides on the same view.
            for other, rival in enumerate(("create", "end", "remove"), start=1):
                try_step(world, view, rival, (number + other) % 5, cpu)
        try_step(world, view, "create" if what == "race" else what, number, cpu)
        ledger = world.named(mine)
        assert drift(ledger, world) == {}
        assert all(parse(ledger["status"]["used"][name]) <= parse(limit) for name, limit in HARD.items())


def try_step(world: World, view: World, what: str, number: int, cpu: int) -> None:
    with contextlib.suppress(ApiError, Lost):
        step(world, view, what, number, cpu)
