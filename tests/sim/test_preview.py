"""Previews: an override tried in forks of a state, with and without it."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import pytest
from tests.sim.test_fork import REPLICAS, autoscaler, changed, settled, with_endpoints

from fathom.client.api import Resource
from fathom.kinds.preview_answer import Counts, Difference, Outcome, Preview, Spread
from fathom.model.body import Body
from fathom.model.objects import Obj
from fathom.model.resources import DEPLOYMENTS
from fathom.model.user import MASTERS, User
from fathom.sim.fork import end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState, ContainerSample, PodSample, state_of_world
from fathom.sim.preview.answer import preview_override
from fathom.sim.preview.difference import differences, with_fewer_workloads
from fathom.sim.preview.futures import APPROVER, AS_IF_APPROVED
from fathom.sim.scenarios.real import deployment
from fathom.store.contents import StoreContents
from fathom.store.protocol import Entry

ADMIN = User("admin", (MASTERS,))
CAPACITY_CLASSES = Resource("fathom.dev", "v1alpha1", "capacityclasses", namespaced=False)
SEEDS = ("1", "2")


def override(changes: Obj, *, target: str = "workload/web", lasts: str = "45m") -> Obj:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": {
            "target": target,
            "scope": "cluster",
            "reason": "a test",
            "expiresAfter": lasts,
            "changes": changes,
        },
    }


def previewed(state: ClusterState, changes: Obj, **options: str) -> Preview:
    return preview_override(state, override(changes, **options), user=ADMIN, minutes=2, seeds=SEEDS)


# Pure.


def outcome(seed: str, ready: int, **bound: int) -> Outcome:
    counts = Counts(bound=dict(bound), ready=ready)
    return Outcome(seed=seed, cluster=counts, target=counts, replicas={"shop/Deployment/web": 3})


def test_a_difference_has_the_spread_of_both_futures_and_of_the_change_seed_by_seed() -> None:
    without = (outcome("1", 3, a=1, b=2), outcome("2", 3, a=2, b=1))
    with_ = (outcome("1", 3, b=3), outcome("2", 2, b=2))
    rows = differences(without, with_)
    assert [row for row in rows if row.of == "target"] == [
        Difference(
            of="target",
            what="bound",
            zone="a",
            without=Spread(1, 2),
            with_=Spread(0, 0),
            change=Spread(-2, -1),
        ),
        Difference(
            of="target",
            what="bound",
            zone="b",
            without=Spread(1, 2),
            with_=Spread(2, 3),
            change=Spread(1, 1),
        ),
        Difference(of="target", what="ready", without=Spread(3, 3), with_=Spread(2, 3), change=Spread(-1, 0)),
    ]
    assert [(row.of, row.what) for row in rows[3:]] == [
        ("cluster", "bound"),
        ("cluster", "bound"),
        ("cluster", "ready"),
    ]


def test_equal_futures_have_no_difference() -> None:
    futures = (outcome("1", 3, a=1), outcome("2", 2, a=2))
    assert differences(futures, futures) == ()


def test_replicas_are_told_of_workloads_that_differ_and_of_the_target() -> None:
    one = Outcome(seed="1", replicas={"shop/Deployment/web": 3, "shop/Deployment/db": 2, "a/Deployment/b": 1})
    other = msgspec.structs.replace(one, replicas={**one.replicas, "shop/Deployment/db": 5})
    kept = with_fewer_workloads([one, other], frozenset({"shop/Deployment/web"}))
    assert [each.replicas for each in kept] == [
        {"shop/Deployment/web": 3, "shop/Deployment/db": 2},
        {"shop/Deployment/web": 3, "shop/Deployment/db": 5},
    ]


# In forks.


@lru_cache(maxsize=1)
def growing() -> ClusterState:
    """Three pods more are wanted than there are."""

    def more(key: str, obj: Obj) -> Obj:
        if key != "/registry/deployments.apps/default/web":
            return obj
        meta = {**obj["metadata"], "generation": obj["metadata"]["generation"] + 1}
        return {**obj, "metadata": meta, "spec": {**obj["spec"], "replicas": REPLICAS + 3}}

    return changed(settled(), more)


@pytest.mark.full
@pytest.mark.slow
def test_an_override_that_keeps_new_pods_out_of_a_zone_moves_them_to_others() -> None:
    answer = previewed(growing(), {"avoidZones": ["zone-a"]})
    assert answer.now is not None
    assert answer.now.target.bound["zone-a"] > 0
    for one in answer.with_:
        assert one.target.bound["zone-a"] == answer.now.target.bound["zone-a"]
        assert (sum(one.target.bound.values()), one.target.ready) == (REPLICAS + 3, REPLICAS + 3)
    assert all(sum(one.target.bound.values()) == REPLICAS + 3 for one in answer.without)
    assert {row.what for row in answer.difference} <= {"bound"}
    assert answer.after_the_end is not None
    assert [one.target.ready for one in answer.after_the_end.with_] == [REPLICAS + 3] * len(SEEDS)
    assert ("Deployment", "web") in {(each.kind, each.name) for each in answer.touched}
    assert {each.name for each in answer.not_modelled} >= {
        "foreign-controllers",
        "in-memory-queues",
        "gateway",
    }


@pytest.mark.slow
@pytest.mark.full
def test_the_same_state_and_override_give_the_same_answer() -> None:
    assert previewed(growing(), {"avoidZones": ["zone-a"]}) == previewed(
        growing(), {"avoidZones": ["zone-a"]}
    )


@pytest.mark.slow
@pytest.mark.full
def test_an_override_that_nothing_needs_changes_nothing_and_touches_only_its_target() -> None:
    answer = previewed(settled(), {"avoidZones": ["zone-a"]})
    assert answer.difference == ()
    assert answer.after_the_end is not None
    assert answer.after_the_end.difference == ()
    assert [(each.kind, each.name, each.generation) for each in answer.touched] == [("Deployment", "web", 1)]


@lru_cache(maxsize=1)
def with_reserved_nodes() -> ClusterState:
    """Two pods wait for reserved capacity that their tenant may not use."""
    notes = {"fathom.dev/capacity-class": "gold"}
    reserved = {"nodeSelector": {"topology.kubernetes.io/zone": "zone-c"}, "tenants": []}
    world = fork(settled(), "1")
    try:
        kind = {"apiVersion": "fathom.dev/v1alpha1", "kind": "CapacityClass"}
        gold = {**kind, "metadata": {"name": "gold"}, "spec": reserved}
        perform(world, lambda world: world.apply(CAPACITY_CLASSES, gold))
        perform(world, lambda world: world.apply(DEPLOYMENTS, deployment("golden", 2, notes=notes)))
        run_for(world, 30)
        return state_of_world(world)
    finally:
        end(world)


@pytest.mark.slow
@pytest.mark.full
def test_an_override_that_opens_reserved_capacity_lets_waiting_pods_in_and_they_stay_after_its_end() -> None:
    changes = {"allowReservedCapacityClass": "gold", "reservedReplicas": 2}
    answer = previewed(with_reserved_nodes(), changes, target="workload/golden")
    assert [one.target for one in answer.without] == [Counts(pending=2)] * len(SEEDS)
    assert [one.target for one in answer.with_] == [Counts(bound={"zone-c": 2}, ready=2)] * len(SEEDS)
    assert answer.after_the_end is not None
    assert [one.target.ready for one in answer.after_the_end.with_] == [2] * len(SEEDS)
    assert ("CapacityClass", "gold") in {(each.kind, each.name) for each in answer.touched}
    rows = [(row.what, row.zone, row.change) for row in answer.difference if row.of == "target"]
    assert rows == [
        ("bound", "zone-c", Spread(2, 2)),
        ("pending", None, Spread(-2, -2)),
        ("ready", None, Spread(2, 2)),
    ]


def busy() -> ClusterState:
    """Pods use nine tenths of what they request, and an autoscaler wants them to use six."""
    state = changed(settled(), with_endpoints)
    keys = (entry.key for entry in state.contents.entries if entry.key.startswith("/registry/pods/default/"))
    samples = (ContainerSample("main", 90_000_000, 1 << 20),)
    usage = tuple(PodSample("default", key.rpartition("/")[2], samples) for key in keys)
    obj = autoscaler(60)
    obj["metadata"] |= {"uid": "autoscaler-1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    key = "/registry/horizontalpodautoscalers.autoscaling/default/web"
    entries = (*state.contents.entries, Entry(key, Body(obj), 3, 3))
    contents = StoreContents(tuple(sorted(entries, key=lambda entry: entry.key)), state.contents.revision)
    return msgspec.structs.replace(state, contents=contents, usage=usage)


@pytest.mark.slow
@pytest.mark.full
def test_a_paused_autoscaler_leaves_the_replicas_as_they_are_until_the_override_ends() -> None:
    answer = previewed(busy(), {"pauseAutoscaler": True})
    wanted = "default/Deployment/web"
    assert [one.replicas[wanted] for one in answer.without] == [REPLICAS * 3 // 2] * len(SEEDS)
    assert [one.replicas[wanted] for one in answer.with_] == [REPLICAS] * len(SEEDS)
    (row,) = [row for row in answer.difference if row.what == "replicas"]
    assert (row.of, row.change) == (wanted, Spread(-REPLICAS // 2, -REPLICAS // 2))
    assert answer.after_the_end is not None
    assert [one.replicas[wanted] for one in answer.after_the_end.with_] == [REPLICAS * 3 // 2] * len(SEEDS)
    assert {row.what for row in answer.after_the_end.difference} <= {"bound"}, "only chance is left"
    assert [(each.kind, each.name) for each in answer.touched][:2] == [
        ("Deployment", "web"),
        ("HorizontalPodAutoscaler", "web"),
    ]


@pytest.mark.slow
def test_what_needs_an_approval_is_tried_as_if_it_had_one() -> None:
    def with_approvals(key: str, obj: Obj) -> Obj:
        if not key.startswith("/registry/steeringlimits.fathom.dev/"):
            return obj
        return {**obj, "spec": {**obj["spec"], "approvals": "on"}}

    obj = override({"drain": True}, target="node/node-1", lasts="60s")
    obj["metadata"]["namespace"] = "fathom-system"
    answer = preview_override(changed(settled(), with_approvals), obj, user=ADMIN, minutes=2, seeds=("1",))
    assert answer.refused is None
    assert AS_IF_APPROVED in answer.notes
    assert answer.override["approval"]["approver"] == APPROVER.name


@pytest.mark.slow
@pytest.mark.full
def test_an_override_whose_target_names_nothing_is_said_to() -> None:
    answer = previewed(settled(), {"avoidZones": ["zone-a"]}, target="workload/nobody", lasts="60s")
    assert answer.notes[-1] == "There is no workload/nobody in the namespace default."
    assert answer.touched == ()


@pytest.mark.slow
@pytest.mark.full
def test_an_override_that_ends_earlier_is_counted_before_its_end() -> None:
    answer = previewed(growing(), {"avoidZones": ["zone-a"]}, lasts="60s")
    assert answer.seconds == 55.0
    assert answer.after_the_end is not None
    assert answer.after_the_end.seconds == 360.0
    assert answer.notes == ("It expires after 60 s: the futures were counted before, after 55 s.",)


@pytest.mark.slow
@pytest.mark.full
def test_where_time_is_short_fewer_seeds_are_run_and_the_answer_says_so() -> None:
    obj = override({"avoidZones": ["zone-a"]}, lasts="60s")
    answer = preview_override(
        growing(), obj, user=ADMIN, minutes=2, seeds=("1", "2", "3"), has_time=lambda done: done < 2
    )
    assert answer.seeds == ("1", "2")
    assert (len(answer.with_), len(answer.without)) == (2, 2)
    assert answer.notes[-1] == "2 of 3 seeds were run: there was no time for more."


@pytest.mark.slow
def test_what_the_api_server_refuses_is_told_with_its_reason() -> None:
    answer = previewed(settled(), {"cordon": True}, target="zone/zone-a")
    assert answer.refused is not None
    assert (answer.refused.code, answer.refused.reason) == (422, "Invalid")
    assert "fathom-system" in answer.refused.message
    assert answer.with_ == ()


@pytest.mark.slow
def test_the_author_has_only_his_own_rights_in_the_fork() -> None:
    obj = override({"avoidZones": ["zone-a"]})
    answer = preview_override(settled(), obj, user=User("jane"), minutes=2, seeds=SEEDS)
    assert answer.refused is not None
    assert (answer.refused.code, answer.refused.reason) == (403, "Forbidden")


@pytest.mark.slow
@pytest.mark.full
def test_a_preview_leaves_its_state_as_it_was() -> None:
    before = [(entry.key, entry.revision, entry.body.encoded) for entry in growing().contents.entries]
    previewed(growing(), {"avoidZones": ["zone-a"]})
    assert [(entry.key, entry.revision, entry.body.encoded) for entry in growing().contents.entries] == before
