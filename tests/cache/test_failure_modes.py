"""Every way in which watches and caches go wrong, by name, and what becomes of it here."""

from __future__ import annotations

from functools import partial

import pytest
from tests.cache.script import NODES, PODS, POLICIES, World, node, pod

from fathom.cache.observer import CacheBehind, Listed, Resumed, Silent
from fathom.cache.scope import CacheScope
from fathom.model.errors import ApiError, unavailable
from fathom.model.objects import Key, Obj
from fathom.seams.seam import Ask


@pytest.fixture(params=["wire", "objects"])
def world(request: pytest.FixtureRequest) -> World:
    return World(wire=request.param == "wire")


def told(world: World) -> list[tuple[str, str]]:
    """(what, name) of every change that handlers heard of."""
    return [
        (
            "gone" if new is None else "new" if old is None else "changed",
            (new or old or {})["metadata"]["name"],
        )
        for _, old, new in world.changes
    ]


def test_ghost_objects_after_a_missed_delete_are_removed_with_their_last_state(world: World) -> None:
    world.server.create(PODS, pod("stays"))
    ghost = world.server.create(PODS, pod("ghost", spec={"nodeName": "n1"}))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    world.server.deaf = True
    world.server.delete(PODS, "ghost", "default")
    world.server.compact()
    world.server.deaf = False
    world.changes.clear()
    world.server.drop_watches()
    world.run(5)
    assert world.names(caches, "Pod") == ["stays"]
    assert world.changes == [("Pod", ghost, None)]
    assert world.seen.lists == {("Pod", "start"): 1, ("Pod", "expired"): 1}


def test_an_object_that_was_replaced_by_a_namesake_meanwhile_goes_and_comes(world: World) -> None:
    first = world.server.create(PODS, pod("web"))
    world.caches({"Pod": PODS})
    world.run(1)
    world.server.deaf = True
    world.server.delete(PODS, "web", "default")
    second = world.server.create(PODS, pod("web"))
    world.server.compact()
    world.server.deaf = False
    world.changes.clear()
    world.server.drop_watches()
    world.run(5)
    assert world.changes == [("Pod", first, None), ("Pod", None, second)]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_a_silent_watch_is_noticed_within_five_missing_bookmarks_and_reopened(world: World) -> None:
    caches = world.caches({"Pod": PODS})
    world.run(10)
    world.server.deaf = True
    world.server.create(PODS, pod("unheard"))
    world.run(4)
    assert not world.seen.resumes
    world.server.watches.clear()  # The server has forgotten us; no word of it ever reaches us.
    world.server.deaf = False
    world.run(4)
    assert world.names(caches, "Pod") == ["unheard"]
    silent, resumed = (one for one in world.seen.events if isinstance(one, Silent | Resumed))
    assert isinstance(silent, Silent)
    assert silent.silent_s == pytest.approx(5.0)
    assert resumed == Resumed("Pod", "silent", 0)


def test_a_watch_that_dies_before_its_first_bookmark_is_noticed_as_soon(world: World) -> None:
    """The end of the list says how often bookmarks come: none has to be seen first."""
    caches = world.caches({"Pod": PODS})
    world.run(0.5)
    world.server.watches.clear()
    world.server.create(PODS, pod("unheard"))
    world.run(7)
    assert world.names(caches, "Pod") == ["unheard"]
    silent = next(one for one in world.seen.events if isinstance(one, Silent))
    assert silent.silent_s == pytest.approx(5.0)


def test_a_server_that_promises_no_bookmarks_is_believed_by_what_it_sends(world: World) -> None:
    world.server.promises_bookmarks = False
    caches = world.caches({"Pod": PODS})
    world.run(10)
    world.server.watches.clear()
    world.server.create(PODS, pod("unheard"))
    world.run(7)
    assert world.names(caches, "Pod") == ["unheard"]


def test_a_silent_watch_of_a_server_with_a_bookmark_a_minute_is_not_given_up_early(world: World) -> None:
    world.server.knows_header = False
    world.caches({"Pod": PODS})
    world.run(89)
    assert not world.seen.resumes
    world.server.deaf = True
    world.server.watches.clear()
    world.run(70)
    assert any(isinstance(happening, Silent) for happening in world.seen.events)


def test_a_stuck_server_freezes_no_other_kind(world: World) -> None:
    """Answers to pods never come; nodes are served all the while."""
    world.server.faults.append(lambda ask: _hang() if "/pods" in ask.target else None)
    caches = world.caches({"Pod": PODS, "Node": NODES})
    world.server.create(NODES, node("n1"))
    world.run(30)
    assert world.names(caches, "Node") == ["n1"]
    assert world.wait(caches.until_synced(timeout_s=1)) == ("Pod",)


def _hang() -> ApiError:
    return unavailable("overloaded")


def test_an_answer_that_never_comes_is_given_up_by_its_deadline(world: World) -> None:
    world.server.deaf = True
    caches = world.caches({"Pod": PODS})
    world.run(9)
    assert world.seen.failures == {}
    world.server.deaf = False
    world.run(2)
    assert world.seen.failures == {"Pod": 1}
    assert caches.synced


def test_a_server_that_came_back_without_its_history_is_listed_soon(world: World) -> None:
    """As a kube-apiserver that was restarted: it could not be reached for so long that pauses are long, then
    its answer to the watch is 410."""
    world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    world.server.refuse(unavailable("connection refused"), times=6)
    world.server.drop_watches()
    world.run(5)
    world.server.create(PODS, pod("b"))
    world.server.compact()
    world.run(60)
    (answered_s,) = [s for s, ask in world.server.asks if "resourceVersion=1&" in ask.target][-1:]
    assert world.server.lists(since_s=answered_s) == 1
    assert world.server.lists(since_s=answered_s + 1) == 0
    assert world.is_settled(caches, "Pod", PODS)


def test_a_relist_storm_is_bounded_by_backoff(world: World) -> None:
    """The watch of every list is refused at once. In ten minutes: as few lists as a doubling pause allows."""
    world.caches({"Pod": PODS})
    world.run(1)
    world.server.faults.append(_expired)
    world.server.drop_watches()
    began_s = world.now_s
    world.run(600)
    assert 20 <= world.server.lists(since_s=began_s) <= 600 / 15 + 8


def _expired(ask: Ask) -> ApiError | None:
    if "watch=" in ask.target:
        return ApiError(400 if "sendInitial" in ask.target else 410, "Expired", "no watch for you")
    return None


def test_a_compaction_loop_slows_down_and_ends_when_the_server_keeps_its_history(world: World) -> None:
    """Every list is compacted before its watch begins."""
    world.server.has_watch_list = False
    world.server.create(PODS, pod("a"))
    compacting = True

    def compact(ask: Ask) -> None:
        if compacting and "watch=" in ask.target:
            world.server.revision += 1
            world.server.compact()

    world.server.faults.append(compact)
    caches = world.caches({"Pod": PODS})
    world.run(120)
    lists = world.server.lists()
    assert world.seen.lists["Pod", "expired"] == lists - 2  # The first one, and one try with WatchList.
    assert lists < 20
    compacting = False
    world.run(40)
    world.server.create(PODS, pod("b"))
    world.run(1)
    assert world.names(caches, "Pod") == ["a", "b"]
    assert world.server.lists() <= lists + 1


@pytest.mark.parametrize("by_event", [True, False])
def test_compaction_during_a_disconnect_costs_one_list_and_loses_nothing(
    world: World, *, by_event: bool
) -> None:
    world.server.expires_by_event = by_event
    for name in ("a", "b", "c"):
        world.server.create(PODS, pod(name))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    world.server.deaf = True
    world.server.delete(PODS, "a", "default")
    world.server.update(PODS, pod("b", status={"phase": "Running"}))
    world.server.create(PODS, pod("d"))
    world.server.compact()
    world.server.deaf = False
    world.changes.clear()
    world.server.drop_watches()
    world.run(5)
    assert world.is_settled(caches, "Pod", PODS)
    assert told(world) == [("changed", "b"), ("new", "d"), ("gone", "a")]
    assert world.seen.lists["Pod", "expired"] == 1


def test_a_disconnect_without_compaction_costs_no_list(world: World) -> None:
    world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    for number in range(5):
        world.server.drop_watches()
        world.server.create(PODS, pod(f"while-away-{number}"))
        world.run(12)
    assert world.is_settled(caches, "Pod", PODS)
    assert world.server.lists() == 1
    assert world.seen.resumes == {("Pod", "ended"): 5}


def test_a_bookmark_only_stream_keeps_the_cache_fresh_and_its_resume_cheap(world: World) -> None:
    """Nothing of our kind happens, but much else: compaction must not make our revision too old."""
    caches = world.caches({"Pod": PODS})
    for number in range(60):
        world.server.create(NODES, node(f"n{number}"))
        world.run(1)
    view = world.do(caches.snapshot)
    assert view.revision("Pod") >= 59
    assert view.age("Pod") <= 1.0
    world.server.floor = 58
    world.server.drop_watches()
    world.run(2)
    assert world.server.lists() == 1
    assert world.seen.resumes == {("Pod", "ended"): 1}


@pytest.mark.slow
def test_a_slow_consumer_that_the_server_drops_goes_on_where_it_was(world: World) -> None:
    """The server ends the stream of a watcher that cannot follow; again and again."""
    caches = world.caches({"Pod": PODS})
    world.run(1)
    for burst in range(20):
        for number in range(50):
            world.server.create(PODS, pod(f"p{burst:02d}-{number:02d}"))
        world.run(0.01)
        world.server.drop_watches()
        world.run(1)
    assert world.is_settled(caches, "Pod", PODS)
    assert world.server.lists() == 1
    assert len(told(world)) == 1000


def fail(old: Obj | None, new: Obj | None) -> None:
    raise RuntimeError("a handler's bug")


def test_a_slow_or_failing_handler_holds_up_neither_other_handlers_nor_other_kinds(world: World) -> None:
    caches = world.caches({"Pod": PODS, "Node": NODES}, start=False)
    caches.on_change("Pod", fail)
    heard: list[Obj | None] = []
    caches.on_change("Pod", lambda old, new: heard.append(new))
    world.do(caches.start)
    world.run(1)
    world.server.create(PODS, pod("a"))
    world.server.create(NODES, node("n"))
    world.run(1)
    assert [obj and obj["metadata"]["name"] for obj in heard] == ["a"]
    assert world.names(caches, "Node") == ["n"]


def test_a_late_write_answer_never_overwrites_what_is_newer(world: World) -> None:
    world.server.create(PODS, pod("web"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    ours = world.server.update(PODS, pod("web", status={"phase": "Pending"}))
    theirs = world.server.update(PODS, pod("web", status={"phase": "Running"}))
    world.run(1)
    world.changes.clear()
    world.do(lambda: caches.apply_write("Pod", ours))
    assert world.do(caches.snapshot).get("Pod", Key("default", "web")) == theirs
    assert world.changes == []


def test_a_late_write_answer_never_brings_a_deleted_object_back(world: World) -> None:
    world.server.create(PODS, pod("web"))
    caches = world.caches({"Pod": PODS})
    world.run(1.5)
    ours = world.server.update(PODS, pod("web", status={"phase": "Pending"}))
    gone = world.server.delete(PODS, "web", "default")
    world.run(0.01)  # The delete has been seen; no bookmark has confirmed its revision yet.
    for answer in (ours, gone):
        world.do(partial(caches.apply_write, "Pod", answer))
        assert world.names(caches, "Pod") == []
    world.run(5)
    assert world.names(caches, "Pod") == []


def test_a_watch_resumes_from_the_lists_revision_not_from_its_last_items(world: World) -> None:
    """1. The last item of the list is old. 2. Another was deleted since. 3. A watch from the item's revision
    would replay a delete, and with a compacted history end in a 410 for ever."""
    world.server.has_watch_list = False
    world.server.create(PODS, pod("a"))
    world.server.create(PODS, pod("b"))
    world.server.delete(PODS, "b", "default")
    world.server.create(NODES, node("n"))
    world.server.floor = 4
    world.caches({"Pod": PODS})
    world.run(2)
    watches = [ask.target for _, ask in world.server.asks if "watch=" in ask.target]
    assert [target for target in watches if "resourceVersion=4&" in target] == watches[1:]
    assert told(world) == [("new", "a")]


def test_a_stale_server_after_a_relist_is_refused_until_it_has_caught_up(world: World) -> None:
    """1. We have seen revision 3. 2. The watch expires. 3. The list is answered by a server that is at 1."""
    world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    world.server.delete(PODS, "a", "default")
    world.server.create(PODS, pod("b"))
    world.run(2)
    world.server.refuse(ApiError(410, "Expired", "too old"), only="resourceVersion=")
    world.server.behind = 1
    world.changes.clear()
    world.server.drop_watches()
    world.run(20)
    assert world.names(caches, "Pod") == ["b"]
    assert world.changes == []
    assert CacheBehind("Pod", 3, 1) in world.seen.events
    assert world.do(caches.snapshot).age("Pod") > 15
    world.server.behind = None
    world.run(31)
    assert world.do(caches.snapshot).age("Pod") < 2
    assert world.server.revision == 3


def test_a_stale_server_that_a_watch_is_resumed_at_is_waited_for(world: World) -> None:
    """It cannot know our revision yet: it says so, and we ask again, later, without going back."""
    world.server.create(PODS, pod("a"))
    world.server.create(PODS, pod("b"))
    caches = world.caches({"Pod": PODS})
    world.run(2)
    world.server.behind = 1
    world.server.drop_watches()
    world.run(5)
    assert world.names(caches, "Pod") == ["a", "b"]
    world.server.behind = None
    world.run(30)
    assert world.server.lists() == 1
    assert world.do(caches.snapshot).age("Pod") < 2


def test_capacity_is_not_released_while_an_object_is_only_marked_for_deletion(world: World) -> None:
    """Accounts kept by a handler: a pod counts until it is gone, and what is subtracted is what was added,
    also when the last update and the removal are one commit."""
    free = {"n1": 4}

    def account(old: Obj | None, new: Obj | None) -> None:
        for obj, sign in ((old, 1), (new, -1)):
            if obj is not None:
                free[obj["spec"]["nodeName"]] += sign * obj["spec"]["cpu"]

    caches = world.caches({"Pod": PODS})
    caches.on_change("Pod", account)
    spec = {"nodeName": "n1", "cpu": 3}
    world.server.create(PODS, pod("web", spec=spec))
    world.run(1)
    assert free == {"n1": 1}
    marked = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example/cleanup"]}
    world.server.update(PODS, pod("web", spec=spec, meta=marked))
    world.run(1)
    assert free == {"n1": 1}
    # The update that takes away the finalizer also changed the pod, and removed it.
    world.server.commit(("DELETED", PODS, pod("web", spec={"nodeName": "n1", "cpu": 2})))
    world.run(1)
    assert free == {"n1": 4}
    last = [(old, new) for _, old, new in world.changes[-2:]]
    assert last[0][1] is last[1][0]
    assert (last[1][0] or {})["spec"]["cpu"] == 2


def test_the_mixed_ages_of_a_snapshot_can_be_seen_kind_by_kind(world: World) -> None:
    """The policy's watch is current, the nodes' is delayed for twenty seconds."""
    caches = world.caches({"SchedulingPolicy": POLICIES, "Node": NODES})
    world.run(5)
    for number, watch in list(world.server.watches.items()):
        if watch.resource == "nodes":
            del world.server.watches[number]
    world.server.faults.append(lambda ask: _hang() if "/nodes" in ask.target else None)
    world.server.create(NODES, node("n"))
    policy = {"kind": "SchedulingPolicy", "apiVersion": "fathom.dev/v1alpha1", "metadata": {"name": "v5"}}
    world.server.create(POLICIES, policy)
    world.run(20)
    view = world.do(caches.snapshot)
    assert view.revisions == {"SchedulingPolicy": 2, "Node": 0}
    assert view.age("SchedulingPolicy") < 1.1
    assert 19 < view.age("Node") < 22


def test_a_commit_of_several_objects_that_is_cut_in_the_middle_is_read_again(world: World) -> None:
    """1. Two pods are bound in one commit. 2. The first event arrives. 3. The connection breaks. Resuming
    after that event's revision would lose the second pod for good."""
    caches = world.caches({"Pod": PODS})
    world.run(1)
    world.server.events_per_chunk = 1
    world.server.chunks_left = 1
    world.server.commit(*(("ADDED", PODS, pod(name)) for name in ("a", "b")))
    world.run(2)
    assert world.is_settled(caches, "Pod", PODS)
    assert world.seen.dropped == {("Pod", "again"): 1}
    assert told(world) == [("new", "a"), ("new", "b")]


def test_pages_that_expire_while_they_are_read_are_read_again(world: World) -> None:
    world.server.has_watch_list = False
    world.server.page_max = 2
    for name in "abcde":
        world.server.create(PODS, pod(name))
    world.server.refuse(ApiError(410, "Expired", "too old"), only="continue=")
    caches = world.caches({"Pod": PODS})
    world.run(1)
    assert world.names(caches, "Pod") == list("abcde")
    assert world.server.lists() == 3  # One try with WatchList, two with pages.


def test_pages_of_two_revisions_are_no_list(world: World) -> None:
    """1. The first page is of revision 3. 2. An object of it is deleted. 3. The second page is of 4."""
    world.server.has_watch_list = False
    world.server.page_max = 2
    for name in "abc":
        world.server.create(PODS, pod(name))
    world.server.pages_drift = True
    caches = world.caches({"Pod": PODS})
    world.run(0.0045)  # The first page has come, the second is being asked for.
    world.server.delete(PODS, "a", "default")
    world.run(1)
    assert world.names(caches, "Pod") == ["b", "c"]
    assert told(world) == [("new", "b"), ("new", "c")]


def test_a_server_that_ignores_watchlist_is_noticed_by_its_first_bookmark(world: World) -> None:
    """An old server sends the objects, and then changes, and never says where the line is."""
    world.server.create(PODS, pod("a"))
    without_end = world.server._mark
    world.server._mark = lambda watch, annotations: without_end(watch, {})  # type: ignore[method-assign]  # the script's own seam
    caches = world.caches({"Pod": PODS})
    world.run(2)
    assert world.names(caches, "Pod") == ["a"]
    assert [(one.cause, one.objects) for one in world.seen.events if isinstance(one, Listed)] == [
        ("start", 1)
    ]
    assert not any("sendInitial" in ask.target for _, ask in world.server.asks[1:])


def test_a_list_whose_end_is_never_sent_is_read_in_pages(world: World) -> None:
    """A kube-apiserver whose etcd cannot report progress: the objects come at once, the bookmark never."""
    for name in "ab":
        world.server.create(PODS, pod(name))
    world.server.ends_lists = world.server.knows_header = world.server.sends_bookmarks = False
    caches = world.caches({"Pod": PODS})
    world.run(12)
    assert world.names(caches, "Pod") == list("ab")
    for name in "cd":  # Two more lists: the second time it is not tried any more.
        world.server.deaf = True
        world.server.create(PODS, pod(name))
        world.server.compact()
        world.server.deaf = False
        world.server.drop_watches()
        world.run(15)
    assert world.names(caches, "Pod") == list("abcd")
    assert sum("sendInitial" in ask.target for _, ask in world.server.asks) == 2


def test_a_list_that_breaks_twice_is_read_in_pages_and_the_next_one_is_streamed_again(world: World) -> None:
    for name in "abc":
        world.server.create(PODS, pod(name))
    world.server.events_per_chunk = 1
    world.server.chunks_left = 1
    caches = world.caches({"Pod": PODS})
    world.run(0.01)
    world.server.chunks_left = 2
    world.run(3)
    assert world.names(caches, "Pod") == list("abc")
    asked = [ask.target for _, ask in world.server.asks]
    assert ["sendInitial" in target for target in asked] == [True, True, False, False]
    world.server.deaf = True
    world.server.create(PODS, pod("d"))
    world.server.compact()
    world.server.deaf = False
    world.server.drop_watches()
    world.run(5)
    assert world.names(caches, "Pod") == list("abcd")
    assert "sendInitial" in world.server.asks[-1][1].target


def test_garbage_in_a_stream_ends_it_and_nothing_that_came_before_is_lost() -> None:
    world = World(wire=True)
    caches = world.caches({"Pod": PODS})
    world.run(1)
    number = next(iter(world.server.watches))
    world.server.create(PODS, pod("a"))
    world.later(0.002, world.deliver, 3, number, 0, b"<html>502 Bad Gateway</html>\n")
    world.run(1)
    world.server.create(PODS, pod("b"))
    world.run(1)
    assert world.names(caches, "Pod") == ["a", "b"]
    assert world.seen.resumes == {("Pod", "broken"): 1}
    assert world.server.lists() == 1


def test_a_namespace_and_selectors_are_asked_of_the_server(world: World) -> None:
    world.server.create(PODS, pod("mine", "team"))
    world.server.create(PODS, pod("other", "else"))
    caches = world.caches({"Pod": CacheScope(PODS, "team", labels="app=web", fields="spec.nodeName=n1")})
    world.run(1)
    assert world.names(caches, "Pod") == ["mine"]
    target = world.server.asks[0][1].target
    assert target.startswith("/api/v1/namespaces/team/pods?watch=true&labelSelector=app%3Dweb")
    assert "fieldSelector=spec.nodeName%3Dn1" in target


def test_a_server_that_asks_for_patience_gets_it(world: World) -> None:
    error = ApiError(429, "TooManyRequests", "slow down", details={"retryAfterSeconds": 7})
    world.server.refuse(error)
    caches = world.caches({"Pod": PODS})
    world.run(6.9)
    assert len(world.server.asks) == 1
    world.run(0.5)
    assert caches.synced


def test_watches_of_many_processes_do_not_come_back_in_step(world: World) -> None:
    """The pause after a failure is drawn, from a stream of the kind's own."""
    world.server.faults.append(lambda ask: unavailable("down"))
    world.caches({"Pod": PODS, "Node": NODES})
    world.run(60)
    at_s = {
        plural: [t for t, ask in world.server.asks if plural in ask.target] for plural in ("pods", "nodes")
    }
    assert at_s["pods"][0] == at_s["nodes"][0]
    assert not set(at_s["pods"][1:]) & set(at_s["nodes"][1:])
    assert len(at_s["pods"]) < 12
