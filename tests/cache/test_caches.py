"""Several kinds together: snapshots, waiting, handlers, own writes, probes, stopping."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.cache.script import NODES, PODS, World, node, pod

from fathom.cache.indexes import FOR_PODS
from fathom.cache.observer import CacheProbed, Echoed, HandlerFailed, NoObserver, Resumed, SeveralObservers
from fathom.cache.scope import CacheScope, ListPace
from fathom.cache.snapshot import NotSynced
from fathom.model.errors import unavailable
from fathom.model.objects import Key, Obj


def owned_pod(name: str, owner: str, node: str) -> Obj:
    return pod(name, meta={"ownerReferences": [{"uid": owner}]}, spec={"nodeName": node})


def test_a_snapshot_finds_objects_by_key_namespace_index_and_owner() -> None:
    world = World()
    server = world.server
    b = server.create(PODS, owned_pod("b", "rs-1", "n1"))
    a = server.create(PODS, owned_pod("a", "rs-1", "n2"))
    c = server.create(PODS, pod("c", "other"))
    caches = world.caches({"Pod": PODS}, indexes=FOR_PODS)
    world.run(1)
    view = world.do(caches.snapshot)
    assert view.get("Pod", Key("default", "b")) == b
    assert view.get("Pod", Key("default", "none")) is None
    assert view.list("Pod") == [a, b, c]
    assert view.list("Pod", "other") == [c]
    assert view.by_index("Pod", "node", "n1") == [b]
    assert view.by_index("Pod", "node", "") == [c]
    assert view.values("Pod", "node") == ["", "n1", "n2"]
    assert view.count("Pod", "tenant", "default") == 2
    assert view.owned("Pod", "rs-1") == [a, b]
    assert view.size("Pod") == 3
    assert view.revisions == {"Pod": 3}


def test_a_snapshot_stays_as_it_was() -> None:
    world = World()
    first = world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    view = world.do(caches.snapshot)
    world.server.update(PODS, pod("a", status={"phase": "Running"}))
    world.server.create(PODS, pod("b"))
    world.run(2)
    assert (view.list("Pod"), view.revision("Pod")) == ([first], 1)
    assert world.names(caches, "Pod") == ["a", "b"]
    assert view.age("Pod", now_s=world.now_s) > 2


def test_deciding_from_a_kind_that_was_never_listed_is_a_bug_that_says_so() -> None:
    world = World()
    world.server.deaf = True
    caches = world.caches({"Pod": PODS})
    view = world.do(caches.snapshot)
    with pytest.raises(NotSynced, match="Pod has not been listed yet"):
        view.list("Pod")
    assert (view.synced("Pod"), view.age("Pod")) == (False, float("inf"))
    with pytest.raises(KeyError, match="no cache of Node: there are Pod"):
        view.get("Node", Key("", "n"))


def test_at_least_waits_for_a_revision_and_no_longer_than_told() -> None:
    world = World()
    caches = world.caches({"Pod": PODS})
    world.run(1)
    assert world.wait(caches.at_least("Pod", 0, timeout_s=1)) is True
    began_s = world.now_s
    assert world.wait(caches.at_least("Pod", 3, timeout_s=2)) is False
    assert world.now_s - began_s == pytest.approx(2, abs=0.02)
    for name in "abc":
        world.later(0.5, partial(world.server.create, PODS, pod(name)))  # type: ignore[arg-type]  # its result is nobody's
    assert world.wait(caches.at_least("Pod", 3, timeout_s=5)) is True


def test_until_synced_names_the_kinds_that_are_not() -> None:
    world = World()
    world.server.faults.append(lambda ask: unavailable("down") if "nodes" in ask.target else None)
    caches = world.caches({"Pod": PODS, "Node": NODES})
    assert world.wait(caches.until_synced(timeout_s=3)) == ("Node",)
    world.server.faults.clear()
    assert world.wait(caches.until_synced(timeout_s=30)) == ()


def test_handlers_hear_of_every_change_in_order_also_of_those_that_handlers_cause() -> None:
    world = World()
    caches = world.caches({"Pod": PODS, "Node": NODES})
    world.run(1)
    heard: list[str] = []

    def write_on_first(old: Obj | None, new: Obj | None) -> None:
        assert new is not None
        heard.append(f"first {new['metadata']['name']}")
        if new["metadata"]["name"] == "a":
            answer = {**new, "metadata": {**new["metadata"], "resourceVersion": "90"}, "status": {}}
            caches.apply_write("Pod", answer)

    def listen(old: Obj | None, new: Obj | None) -> None:
        assert new is not None
        heard.append(f"second {new['metadata']['name']} at {new['metadata']['resourceVersion']}")

    caches.on_change("Pod", write_on_first)
    caches.on_change("Pod", listen)
    world.server.commit(("ADDED", PODS, pod("a")), ("ADDED", PODS, pod("b")))
    world.run(0.1)
    assert heard[:4] == ["first a", "second a at 1", "first b", "second b at 1"]
    assert heard[4:6] == ["first a", "second a at 90"]


def test_a_handler_that_comes_late_is_shown_what_is_there() -> None:
    world = World()
    a, b = world.server.create(PODS, pod("a")), world.server.create(PODS, pod("b"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    heard: list[tuple[Obj | None, Obj | None]] = []
    world.do(lambda: caches.on_change("Pod", lambda old, new: heard.append((old, new))))
    assert heard == [(None, a), (None, b)]


def test_a_resync_shows_everything_again_at_its_interval() -> None:
    world = World()
    a = world.server.create(PODS, pod("a"))
    world.caches({"Pod": PODS}, pace=ListPace(resync=60.0))
    world.run(50)
    world.changes.clear()
    world.run(200)
    assert world.changes == [("Pod", a, a)] * 3


def test_own_writes_are_visible_at_once_and_their_lag_is_measured() -> None:
    world = World()
    world.server.latency_s = 0.25
    world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(2)
    answer = world.server.update(PODS, pod("a", status={"phase": "Running"}))
    world.do(lambda: caches.apply_write("Pod", answer))
    assert world.do(caches.snapshot).get("Pod", Key("default", "a")) == answer
    world.changes.clear()
    world.run(1)
    assert world.changes == []
    assert Echoed("Pod", 0.25) in world.seen.events
    assert world.seen.lag_s == {"Pod": 0.25}


@pytest.mark.parametrize(
    ("scope", "answer"),
    [
        (CacheScope(PODS, labels="app=web"), pod("a")),
        (CacheScope(PODS, namespace="elsewhere"), pod("a")),
        (CacheScope(PODS, kind="PodTemplate"), pod("a")),
        (CacheScope(PODS), {**pod("a"), "kind": "Scale"}),
    ],
)
def test_an_answer_that_a_cache_may_not_hold_is_left_to_the_watch(scope: CacheScope, answer: Obj) -> None:
    world = World()
    caches = world.caches({"Pod": scope})
    world.run(1)
    answer["metadata"] |= {"uid": "u", "resourceVersion": "50"}
    world.do(lambda: caches.apply_write("Pod", answer))
    assert world.names(caches, "Pod") == []


def test_a_probe_makes_a_small_kind_fresh_at_once_without_bookmarks() -> None:
    world = World()
    world.server.sends_bookmarks = False
    caches = world.caches({"Node": NODES})
    world.server.create(PODS, pod("unrelated"))
    world.run(30)
    world.server.deaf = True
    n = world.server.create(NODES, node("n"))
    world.server.deaf = False
    assert world.do(caches.snapshot).age("Node") > 25
    assert world.wait(caches.probe("Node", timeout_s=5)) is True
    view = world.do(caches.snapshot)
    assert view.age("Node") < 0.1
    assert view.revision("Node") == 2
    assert world.changes == [("Node", None, n)]
    world.server.update(NODES, node("n", spec={}))  # The watch tells of revision 2 again, then goes on.
    world.run(1)
    assert len(world.changes) == 2


def test_a_probe_of_a_large_kind_asks_for_one_item_and_waits_for_the_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fathom.cache.reflector.PAGE_OBJECTS", 2)
    world = World()
    for name in "abc":
        world.server.create(PODS, pod(name))
    caches = world.caches({"Pod": PODS})
    world.run(0.5)
    world.server.create(NODES, node("n"))
    assert world.wait(caches.probe("Pod", timeout_s=5)) is True
    assert "limit=1" in world.server.asks[-1][1].target
    probed = next(one for one in world.seen.events if isinstance(one, CacheProbed))
    assert (probed.behind, probed.met) == (1, True)
    assert 0.4 < probed.took_s < 1.1  # Until the next bookmark.
    assert world.do(caches.snapshot).revision("Pod") == 4
    world.server.behind = 2
    assert world.wait(caches.probe("Pod", timeout_s=5)) is False


def test_a_probe_that_a_stale_or_silent_server_answers_is_not_met() -> None:
    world = World()
    world.server.create(NODES, node("n"))
    world.server.create(NODES, node("m"))
    caches = world.caches({"Node": NODES})
    world.run(1)
    world.server.behind = 1
    assert world.wait(caches.probe("Node", timeout_s=5)) is False
    assert world.names(caches, "Node") == ["m", "n"]
    world.server.deaf = True
    assert world.wait(caches.probe("Node", timeout_s=5)) is False
    world.server.deaf, world.server.behind = False, None
    world.server.refuse(unavailable("down"))
    assert world.wait(caches.probe("Node", timeout_s=5)) is False


def test_stopping_closes_the_watches_and_keeps_what_is_known() -> None:
    world = World()
    world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(1)
    assert len(world.server.watches) == 1
    world.wait(caches.stop())
    assert world.server.watches == {}
    asked = len(world.server.asks)
    world.run(60)
    assert len(world.server.asks) == asked
    view = world.do(caches.snapshot)
    assert (len(view.list("Pod")), view.age("Pod") > 59) == (1, True)


def test_two_caches_of_one_name_are_refused() -> None:
    world = World()
    with pytest.raises(ValueError, match="there is a cache of Pod already"):
        world.caches({"Pod": PODS}).add("Pod", CacheScope(PODS))


def test_several_observers_are_all_told_and_counts_count() -> None:
    world = World()
    other: list[Any] = []

    class Listening(NoObserver):
        def note(self, happening: Any) -> None:
            other.append(happening)

    both = SeveralObservers(world.seen, Listening())
    for happening in (Resumed("Pod", "ended", 3), HandlerFailed("Pod", "bug")):
        both.note(happening)
    assert other == world.seen.events == [Resumed("Pod", "ended", 3), HandlerFailed("Pod", "bug")]
    assert world.seen.resumes == {("Pod", "ended"): 1}
