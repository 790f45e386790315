"""What a decision needs, what it lacks, and waiting for it."""

from __future__ import annotations

from functools import partial

import pytest
from tests.cache.script import NODES, PODS, POLICIES, World, node, pod

from fathom.cache.caches import Caches
from fathom.cache.freshness import Unmet, unmet, until_fresh
from fathom.cache.needs import AnyAge, AtLeast, Need, NoOlderThan, OwnWrites
from fathom.cache.own_writes import EVERYONE, OWNERS_MAX, WRITES_MAX, WriteLog
from fathom.model.errors import unavailable
from fathom.model.objects import Key


def lacking(world: World, caches: Caches, written: WriteLog, *needs: Need) -> list[Unmet]:
    view = world.do(caches.snapshot)
    return unmet(needs, view, written, now_s=world.now_s)


def test_what_is_not_listed_meets_no_need() -> None:
    world = World()
    world.server.deaf = True
    caches = world.caches({"Pod": PODS})
    expected = [Unmet("Pod", "NotSynced", "Pod has not been listed yet")]
    assert lacking(world, caches, WriteLog(), AnyAge()) == expected
    assert lacking(world, caches, WriteLog(), AtLeast({"Pod": 5}), NoOlderThan(1.0)) == expected


def test_any_age_is_met_by_whatever_is_known() -> None:
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    world.server.deaf = True
    world.run(1000)
    assert lacking(world, caches, WriteLog(), AnyAge()) == []


def test_at_least_names_the_kinds_that_are_behind() -> None:
    world = World()
    caches = world.caches({"Pod": PODS, "Node": NODES})
    world.server.create(PODS, pod("a"))
    world.run(2)
    need = AtLeast({"Pod": 1, "Node": 2})
    assert lacking(world, caches, WriteLog(), need) == [
        Unmet("Node", "BehindRevision", "cache has not reached revision 2", "at revision 1")
    ]


def test_no_older_than_looks_at_each_kind_by_itself() -> None:
    world = World()
    caches = world.caches({"Pod": PODS, "Node": NODES})
    world.run(4)
    for number, watch in list(world.server.watches.items()):
        if watch.resource == "nodes":
            del world.server.watches[number]
    world.run(3)
    assert lacking(world, caches, WriteLog(), NoOlderThan(2.0)) == [
        Unmet("Node", "Stale", "cache not confirmed current within 2 s", "not confirmed for 4.0 s")
    ]
    assert lacking(world, caches, WriteLog(), NoOlderThan(2.0, ("Pod",))) == []


def test_own_writes_gate_their_owner_and_nobody_else() -> None:
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    written = WriteLog()
    world.server.latency_s = 0.5
    made = world.server.create(PODS, pod("a"))
    written.record("rs-1", "Pod", int(made["metadata"]["resourceVersion"]), Key("default", "a"))
    assert lacking(world, caches, written, OwnWrites("rs-2")) == []
    assert lacking(world, caches, written, OwnWrites("rs-1")) == [
        Unmet(
            "Pod",
            "OwnWritesUnseen",
            "our own write at revision 1 of default/a is not visible yet",
            "at revision 0",
        )
    ]
    view, rest = world.wait(until_fresh(caches, [OwnWrites("rs-1")], written, timeout_s=5))
    assert (rest, [obj["metadata"]["name"] for obj in view.list("Pod")]) == ([], ["a"])
    assert len(written) == 0


def test_an_own_write_whose_answer_was_put_into_the_cache_needs_no_waiting() -> None:
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    written = WriteLog()
    world.server.deaf = True
    made = world.server.create(PODS, pod("a"))
    world.do(lambda: caches.apply_write("Pod", made))
    written.record("rs", "Pod", 1, Key("default", "a"))
    assert lacking(world, caches, written, OwnWrites("rs")) == []
    written.record("rs", "Pod", 1)  # Without a key, all of the revision must be there.
    assert [one.reason for one in lacking(world, caches, written, OwnWrites("rs"))] == ["OwnWritesUnseen"]


def test_an_own_delete_is_seen_when_the_object_is_gone_or_marked() -> None:
    world = World()
    world.server.create(PODS, pod("a"))
    world.server.create(PODS, pod("b"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    written = WriteLog()
    written.record_delete("rs", "Pod", Key("default", "a"), "uid-1")
    written.record_delete("rs", "Pod", Key("default", "b"), "uid-2")
    assert lacking(world, caches, written, OwnWrites("rs"))[0].why == (
        "our own deletion of default/a is not visible yet"
    )
    world.server.delete(PODS, "a", "default")
    world.server.create(PODS, pod("a"))  # A namesake.
    world.server.update(PODS, pod("b", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    world.run(1)
    assert lacking(world, caches, written, OwnWrites("rs")) == []


def test_many_writes_of_one_owner_are_kept_as_their_highest_revision() -> None:
    written = WriteLog()
    for number in range(WRITES_MAX + 1):
        written.record("rs", "Pod", number, Key("default", f"p{number}"))
    written.record_delete("rs", "Pod", Key("default", "x"), "uid")
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    pending = written.unseen("rs", world.do(caches.snapshot))
    assert [(write.revision, write.key) for write in pending] == [(WRITES_MAX, None)]


def test_writes_of_more_owners_than_can_be_kept_become_everyones() -> None:
    written = WriteLog()
    for number in range(OWNERS_MAX + 3):
        written.record(f"owner-{number}", "Pod", 100 + number)
    assert len(written) <= OWNERS_MAX + 1
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    view = world.do(caches.snapshot)
    assert written.unseen("owner-0", view) == written.unseen("somebody", view) != []
    world.server.revision = 50_000
    world.run(2)
    written.forget_seen("owner-1", world.do(caches.snapshot))
    assert EVERYONE not in written._writes


def test_waiting_ends_with_what_is_still_unmet_when_the_time_is_up() -> None:
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    began_s = world.now_s
    need = AtLeast({"Pod": 7})
    view, rest = world.wait(until_fresh(caches, [need], WriteLog(), timeout_s=3))
    assert rest == [Unmet("Pod", "BehindRevision", "cache has not reached revision 7", "at revision 0")]
    assert view.revision("Pod") == 0
    assert world.now_s - began_s == pytest.approx(3, abs=0.02)


def test_waiting_with_probes_meets_cross_kind_needs_where_bookmarks_are_rare() -> None:
    """A rollout gate on a real cluster: nodes must have reached the policy's activation, now."""
    world = World()
    world.server.knows_header = False
    caches = world.caches({"Node": NODES, "SchedulingPolicy": POLICIES}, shared_revisions=False)
    world.server.create(NODES, node("n"))
    policy = {"kind": "SchedulingPolicy", "apiVersion": "fathom.dev/v1alpha1", "metadata": {"name": "v5"}}
    world.run(20)
    activation = int(world.server.create(POLICIES, policy)["metadata"]["resourceVersion"])
    needs: list[Need] = [AtLeast({"Node": activation, "SchedulingPolicy": activation}), NoOlderThan(1.0)]
    _, rest = world.wait(until_fresh(caches, needs, WriteLog(), timeout_s=3))
    assert [(one.kind, one.reason) for one in rest] == [
        ("Node", "BehindRevision"),
        ("Node", "Stale"),
        ("SchedulingPolicy", "Stale"),
    ]
    view, rest = world.wait(until_fresh(caches, needs, WriteLog(), timeout_s=3, probe=True))
    assert rest == []
    assert view.revisions == {"Node": 2, "SchedulingPolicy": 2}


def test_a_probe_that_fails_is_tried_again_but_not_all_the_time() -> None:
    world = World()
    world.server.knows_header = False
    caches = world.caches({"Node": NODES})
    world.run(20)
    asked = len(world.server.asks)
    world.server.refuse(unavailable("down"), times=3)
    began_s = world.now_s
    _, rest = world.wait(until_fresh(caches, [NoOlderThan(1.0)], WriteLog(), timeout_s=10, probe=True))
    assert rest == []
    assert len(world.server.asks) - asked == 4
    assert 1.5 <= world.now_s - began_s < 2


def test_a_stale_policy_during_a_canary_holds_the_gate_until_every_watch_has_passed_its_activation() -> None:
    """The policy arrives quickly, the nodes' watch is twenty seconds late: the gate stays closed meanwhile,
    and says why."""
    world = World()
    caches = world.caches({"Node": NODES, "SchedulingPolicy": POLICIES})
    world.run(5)
    late = next(number for number, watch in world.server.watches.items() if watch.resource == "nodes")
    held = world.server.watches.pop(late)
    policy = {"kind": "SchedulingPolicy", "apiVersion": "fathom.dev/v1alpha1", "metadata": {"name": "v5"}}
    world.server.create(NODES, node("b7", status={"gpu": 0}))
    activation = int(world.server.create(POLICIES, policy)["metadata"]["resourceVersion"])
    needs: list[Need] = [AtLeast({"Node": activation, "SchedulingPolicy": activation}), NoOlderThan(3.0)]
    world.run(2)
    assert lacking(world, caches, WriteLog(), *needs) == [
        Unmet("Node", "BehindRevision", "cache has not reached revision 2", "at revision 0")
    ]
    world.later(2, partial(world.server.watches.__setitem__, late, held))
    world.later(2, partial(world.server._serve, held))
    world.later(3, partial(world.server._bookmark, late))
    view, rest = world.wait(until_fresh(caches, needs, WriteLog(), timeout_s=20))
    assert rest == []
    assert view.get("Node", Key("", "b7"))["status"] == {"gpu": 0}
