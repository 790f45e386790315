"""How one kind's cache moves: by events, lists and own writes, and never backwards."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.cache.indexed import EARLY_MAX, AppliedChange, Change, IndexedCache, WentBack
from fathom.cache.indexes import STANDARD
from fathom.client.events import Event, MalformedEvent
from fathom.model.objects import Key, Obj
from fathom.model.well_known import WATCH_AGE_ANNOTATION


def obj(name: str, revision: int, *, uid: str = "", **parts: Any) -> Obj:
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(revision)}
    return {"kind": "Pod", "metadata": meta, **parts}


def bookmark(revision: int, *, age_s: float | None = None) -> Event:
    meta: Obj = {"resourceVersion": str(revision)}
    if age_s is not None:
        meta["annotations"] = {WATCH_AGE_ANNOTATION: f"{age_s:g}"}
    return Event("BOOKMARK", {"metadata": meta})


def added(*objs: Obj) -> list[Event]:
    return [Event("ADDED", one) for one in objs]


def synced(*objs: Obj, revision: int = 10, shared_revisions: bool = True) -> IndexedCache:
    cache = IndexedCache(STANDARD, shared_revisions=shared_revisions)
    cache.replace(objs, revision, [], asked_s=0.0)
    return cache


def apply(cache: IndexedCache, *events: Event, now_s: float = 1.0, opened_s: float = 0.0) -> AppliedChange:
    applied = AppliedChange()
    cache.apply(events, applied, now_s=now_s, opened_s=opened_s)
    return applied


def write(cache: IndexedCache, one: Obj, now_s: float = 0.0) -> list[Change]:
    changes: list[Change] = []
    cache.apply_write(one, changes, now_s=now_s)
    return changes


def replace(cache: IndexedCache, *objs: Obj, revision: int) -> list[Change]:
    changes: list[Change] = []
    cache.replace(objs, revision, changes, asked_s=2.0)
    return changes


def names(cache: IndexedCache) -> list[str]:
    return [one["metadata"]["name"] for one in cache.held().contents.all()]


def test_what_comes_late_does_not_make_the_cache_look_new() -> None:
    """A process that was paused for 40 s reads what was sent meanwhile in one go."""
    cache = synced(obj("a", 5))
    apply(cache, bookmark(10, age_s=1.0), now_s=101.0, opened_s=100.0)
    apply(cache, *added(obj("b", 12)), now_s=141.0, opened_s=100.0)
    assert cache.heard_s == 101.0
    apply(cache, bookmark(12, age_s=2.0), *added(obj("c", 14)), now_s=141.0, opened_s=100.0)
    assert cache.heard_s == 102.0
    apply(cache, bookmark(14, age_s=41.0), now_s=141.1, opened_s=100.0)
    assert cache.heard_s == 141.0


def test_a_bookmark_older_than_the_cache_says_nothing_about_its_age() -> None:
    cache = synced(obj("a", 5))
    apply(cache, bookmark(9, age_s=50.0), now_s=150.0, opened_s=100.0)
    assert cache.heard_s == 0.0


def test_a_bookmark_is_not_newer_than_its_arrival() -> None:
    cache = synced(obj("a", 5))
    apply(cache, bookmark(10, age_s=500.0), now_s=101.0, opened_s=100.0)
    assert cache.heard_s == 101.0


def test_where_the_server_does_not_say_when_it_sent_a_bookmark_arrival_counts() -> None:
    cache = synced(obj("a", 5))
    apply(cache, bookmark(10), now_s=101.0)
    assert cache.heard_s == 101.0
    apply(cache, *added(obj("b", 12)), now_s=102.0)
    assert cache.heard_s == 102.0


def test_until_a_bookmark_shows_what_the_server_says_no_event_makes_the_cache_look_new() -> None:
    """The list came in pages, so that no bookmark ended it; the watch was held back for 40 s since."""
    cache = synced(obj("a", 5))
    apply(cache, *added(obj("b", 12)), now_s=141.0, opened_s=100.0)
    assert (cache.seen, cache.heard_s) == (12, 0.0)
    apply(cache, bookmark(12, age_s=3.0), now_s=141.0, opened_s=100.0)
    assert cache.heard_s == 103.0


def test_an_event_completes_only_the_revisions_before_it() -> None:
    cache = synced(obj("a", 5))
    apply(cache, *added(obj("b", 12)))
    assert (cache.safe, cache.seen, cache.revision) == (11, 12, 11)
    apply(cache, bookmark(12))
    assert (cache.safe, cache.seen, cache.revision) == (12, 12, 12)


def test_where_a_revision_is_one_object_its_event_completes_it_for_readers_not_for_resuming() -> None:
    cache = synced(shared_revisions=False)
    apply(cache, *added(obj("b", 12)))
    assert (cache.safe, cache.seen, cache.revision) == (11, 12, 12)


def test_two_objects_of_one_revision_are_both_taken() -> None:
    for shared in (True, False):
        cache = synced(shared_revisions=shared)
        assert len(apply(cache, *added(obj("a", 12), obj("b", 12))).changes) == 2
        assert apply(cache, bookmark(12), *added(obj("a", 12))).again == 1


def test_an_event_that_was_told_before_changes_nothing() -> None:
    cache = synced(obj("a", 12), revision=12)
    applied = apply(cache, *added(obj("a", 12)), *added(obj("dead", 7)), Event("DELETED", obj("a", 9)))
    assert applied == AppliedChange(again=3)
    assert names(cache) == ["a"]
    assert cache.heard_s == 0.0


@pytest.mark.parametrize(("revision", "is_fresh"), [(9, False), (10, True), (11, True)])
def test_a_bookmark_is_fresh_unless_it_is_from_behind(revision: int, *, is_fresh: bool) -> None:
    cache = synced(revision=10)
    assert apply(cache, bookmark(revision)).fresh is is_fresh
    assert (cache.revision, cache.heard_s) == (max(10, revision), 1.0 if is_fresh else 0.0)


def test_an_older_list_is_refused_and_changes_nothing() -> None:
    cache = synced(obj("a", 5))
    apply(cache, *added(obj("b", 12)))
    with pytest.raises(WentBack) as refused:
        replace(cache, obj("c", 11), revision=11)
    assert (refused.value.have, refused.value.got) == (12, 11)
    assert (names(cache), cache.safe, cache.seen) == (["a", "b"], 11, 12)


def test_a_list_says_what_was_missed_and_keeps_what_is_equal() -> None:
    same, old, gone = obj("same", 3), obj("changed", 4), obj("gone", 5)
    cache = synced(same, old, gone)
    new, fresh = obj("changed", 15), obj("fresh", 16)
    changes = replace(cache, new, fresh, obj("same", 3), revision=20)
    assert changes == [(old, new), (None, fresh), (gone, None)]
    assert cache.get(Key("ns", "same")) is same


def test_a_write_is_visible_before_its_event_and_the_event_is_its_echo() -> None:
    cache = synced(obj("a", 5))
    before, ours = obj("a", 5), obj("a", 12, spec=1)
    assert write(cache, ours, now_s=1.0) == [(before, ours)]
    assert cache.revision == 10
    applied = apply(cache, Event("MODIFIED", obj("a", 12, spec=1)), now_s=1.5)
    assert applied == AppliedChange(fresh=True, echoes_s=[0.5])
    assert cache.get(Key("ns", "a")) is ours


def test_an_event_older_than_an_own_write_is_overtaken() -> None:
    cache = synced(obj("a", 5))
    ours = obj("a", 13)
    write(cache, ours)
    applied = apply(cache, Event("MODIFIED", obj("a", 12)), now_s=1.0)
    assert applied == AppliedChange(overtaken=1, fresh=True)
    assert cache.get(Key("ns", "a")) is ours


def test_a_delete_older_than_an_own_recreation_does_not_undo_it() -> None:
    """Ours: delete at 11, create at 12. The answer to the create comes before the event of the delete."""
    cache = synced(obj("a", 5, uid="first"))
    old, ours = obj("a", 5, uid="first"), obj("a", 12, uid="second")
    assert write(cache, ours) == [(old, None), (None, ours)]
    assert apply(cache, Event("DELETED", obj("a", 11, uid="first"))).overtaken == 1
    assert apply(cache, *added(obj("a", 12, uid="second"))).changes == []
    assert names(cache) == ["a"]


def test_a_delete_after_an_own_write_wins() -> None:
    cache = synced(obj("a", 5))
    write(cache, obj("a", 12))
    apply(cache, Event("DELETED", obj("a", 13)))
    assert names(cache) == []
    assert write(cache, obj("a", 12)) == []


def test_a_list_older_than_an_own_write_leaves_it_alone() -> None:
    cache = synced(obj("a", 5))
    created, updated = obj("new", 22), obj("a", 21)
    write(cache, created)
    write(cache, updated)
    assert replace(cache, obj("a", 5), revision=20) == []
    assert names(cache) == ["a", "new"]
    assert replace(cache, obj("a", 21), revision=30) == [(created, None)]


def test_an_own_write_that_the_watch_passes_in_silence_is_taken_back() -> None:
    """It never was in what this cache selects."""
    cache = synced()
    ours = obj("elsewhere", 12)
    write(cache, ours)
    assert apply(cache, bookmark(11)).changes == []
    assert apply(cache, bookmark(12)).changes == [(ours, None)]


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "Status", "metadata": {}, "status": "Success"},
        {"kind": "Pod", "metadata": {"name": "dry-run", "namespace": "ns"}},
        {"kind": "Pod", "metadata": {"resourceVersion": "99"}},
        {"kind": "Pod"},
        {},
    ],
)
def test_an_answer_that_is_no_stored_object_is_left_alone(answer: Obj) -> None:
    cache = synced()
    assert write(cache, answer) == []
    assert names(cache) == []


def test_nothing_is_written_into_a_cache_that_has_not_been_listed() -> None:
    cache = IndexedCache(STANDARD)
    assert write(cache, obj("a", 1)) == []


def test_own_writes_that_wait_for_their_event_are_bounded() -> None:
    cache = synced()
    told = sum(len(write(cache, obj(f"p{number}", 100 + number))) for number in range(EARLY_MAX + 50))
    assert told == EARLY_MAX
    apply(cache, *added(*(obj(f"p{number}", 100 + number) for number in range(EARLY_MAX + 50))))
    assert len(cache) == EARLY_MAX + 50


@pytest.mark.parametrize("bad", [{}, {"metadata": {}}, {"metadata": {"name": "x", "resourceVersion": "x"}}])
def test_changes_before_a_malformed_event_are_told_and_those_after_it_are_not(bad: Obj) -> None:
    cache = synced()
    applied = AppliedChange()
    with pytest.raises(MalformedEvent):
        cache.apply([*added(obj("a", 11)), Event("ADDED", bad), *added(obj("b", 13))], applied, now_s=1.0)
    assert len(applied.changes) == 1
    assert (names(cache), cache.safe) == (["a"], 10)


def test_an_event_of_a_type_that_nobody_knows_is_not_guessed_at() -> None:
    cache = synced()
    with pytest.raises(MalformedEvent, match="unknown event type 'RENAMED'"):
        apply(cache, Event("RENAMED", obj("a", 12)))
    assert (names(cache), cache.seen) == ([], 10)


def test_an_index_function_that_raises_leaves_the_object_out_and_the_revision_behind_it() -> None:
    def broken(one: Obj) -> tuple[str, ...]:
        return (one["spec"]["must-be-there"],)

    cache = IndexedCache({"broken": broken})
    applied = AppliedChange()
    cache.replace([obj("good", 5, spec={"must-be-there": "x"})], 10, [], asked_s=0.0)
    with pytest.raises(KeyError):
        cache.apply(added(obj("bad", 12)), applied, now_s=1.0)
    assert (names(cache), cache.safe, cache.seen) == (["good"], 11, 10)
    with pytest.raises(KeyError):
        cache.replace([obj("bad", 12)], 20, [], asked_s=0.0)
    assert (cache.safe, cache.seen) == (11, 10)


def test_a_delete_that_tells_nothing_new_is_one_change() -> None:
    old = obj("a", 5, spec={"x": 1})
    cache = synced(old)
    assert apply(cache, Event("DELETED", obj("a", 12, spec={"x": 1}))).changes == [(old, None)]
