"""What every engine promises, one rule at a time. The same tests run on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.store.engines import Place, body, put, writes

from fathom.model.body import Body
from fathom.store.protocol import (
    BadCommit,
    Batch,
    Change,
    Committed,
    Compacted,
    Conflict,
    Delete,
    Entry,
    Expect,
    FutureRevision,
    Page,
    Store,
    StoreUnavailable,
)


async def committed(store: Store, **values: object) -> int:
    outcome = await store.commit((), writes(**values))
    assert isinstance(outcome, Committed)
    return outcome.revision


async def gathered(watch: AsyncIterator[Batch], upto: int) -> list[Change]:
    """All changes until the watch has reached a revision."""
    changes: list[Change] = []
    async with asyncio.timeout(10):
        async for batch in watch:
            assert all(change.revision <= batch.revision for change in batch.changes)
            changes += batch.changes
            if batch.revision >= upto:
                break
    return changes


def keys(page: Page) -> list[str]:
    return [entry.key for entry in page.entries]


async def test_an_empty_store_is_at_revision_1_and_holds_nothing(store: Store, place: Place) -> None:
    revision = await store.revision()
    assert place.shared or revision == 1
    assert await store.range("") == Page((), revision, more=False)
    assert await store.get("/a") is None


async def test_every_commit_that_changes_something_is_one_revision(store: Store) -> None:
    start = await store.revision()
    assert await committed(store, a=1) == start + 1
    assert await committed(store, a=2, b=1, c=1) == start + 2
    assert await committed(store, a=None, b=2) == start + 3
    assert await store.revision() == start + 3
    assert (await store.range("/")).entries == (
        Entry("/b", body(2), start + 3, start + 2),
        Entry("/c", body(1), start + 2, start + 2),
    )


async def test_a_commit_that_changes_nothing_keeps_the_revision(store: Store) -> None:
    start = await committed(store, a=1)
    assert await store.commit((), ()) == Committed(start)
    assert await store.commit((), [Delete("/gone")]) == Committed(start)
    assert await store.commit([Expect("/a", start), Expect("/gone", 0)], ()) == Committed(start)
    assert await store.revision() == start


async def test_writing_the_same_again_is_a_change(store: Store) -> None:
    first = await committed(store, a=1)
    assert await committed(store, a=1) == first + 1
    assert await store.get("/a") == Entry("/a", body(1), first + 1, first)


async def test_a_key_made_anew_counts_anew(store: Store) -> None:
    first = await committed(store, a=1)
    await committed(store, a=None)
    assert await store.get("/a") is None
    await committed(store, a=2)
    assert await store.get("/a") == Entry("/a", body(2), first + 2, first + 2)


async def test_a_conflict_writes_nothing_and_tells_how_all_the_keys_are(store: Store) -> None:
    first = await committed(store, a=1)
    second = await committed(store, b=1)
    expects = [Expect("/a", first), Expect("/b", first), Expect("/c", 0)]
    current = {
        "/a": Entry("/a", body(1), first, first),
        "/b": Entry("/b", body(1), second, second),
        "/c": None,
    }
    assert await store.commit(expects, writes(a=2, d=1)) == Conflict(current, second)
    assert await store.revision() == second
    assert keys(await store.range("/")) == ["/a", "/b"]


@pytest.mark.parametrize("wrong", [0, 1, 1_000_000_000])
async def test_a_precondition_holds_only_at_the_very_revision(store: Store, wrong: int) -> None:
    revision = await committed(store, a=1)
    assert isinstance(await store.commit([Expect("/a", wrong)], writes(a=2)), Conflict)
    assert isinstance(await store.commit([Expect("/a", revision)], writes(a=2)), Committed)


async def test_absence_is_revision_0(store: Store) -> None:
    assert isinstance(await store.commit([Expect("/a", 5)], writes(a=1)), Conflict)
    assert isinstance(await store.commit([Expect("/a", 0)], writes(a=1)), Committed)
    await committed(store, a=None)
    assert isinstance(await store.commit([Expect("/a", 0)], writes(a=1)), Committed)


async def test_of_many_who_expect_the_same_exactly_one_wins(store: Store) -> None:
    revision = await committed(store, a=0)
    rivals = [store.commit([Expect("/a", revision)], writes(a=number)) for number in range(20)]
    outcomes = await asyncio.gather(*rivals)
    won = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Committed)]
    assert len(won) == 1
    winner = Entry("/a", body(won[0]), revision + 1, revision)
    lost = [outcome for outcome in outcomes if not isinstance(outcome, Committed)]
    assert lost == [Conflict({"/a": winner}, revision + 1)] * 19


async def test_concurrent_commits_get_revisions_of_their_own(store: Store) -> None:
    start = await store.revision()
    outcomes = await asyncio.gather(*(store.commit((), [put(f"/k{n}", n)]) for n in range(50)))
    revisions = [outcome.revision for outcome in outcomes if isinstance(outcome, Committed)]
    assert sorted(revisions) == list(range(start + 1, start + 51))
    entries = (await store.range("/k")).entries
    assert {entry.key: (entry.revision, entry.body) for entry in entries} == {
        f"/k{n}": (revisions[n], body(n)) for n in range(50)
    }


@pytest.mark.parametrize(
    "bad",
    [
        ([], [put("/a"), put("/a")]),
        ([], [put("/a"), Delete("/a")]),
        ([], [put("")]),
        ([Expect("", 0)], []),
        ([], [put("/\ud800")]),
        ([Expect("/\ud800", 0)], []),
    ],
)
async def test_a_commit_that_is_wrong_in_itself_is_refused(
    store: Store, bad: tuple[list[Expect], list[object]]
) -> None:
    start = await store.revision()
    with pytest.raises(BadCommit):
        await store.commit(*bad)  # type: ignore[arg-type]  # parametrize loses the element type
    assert await store.revision() == start


async def test_a_body_that_cannot_be_encoded_hurts_nobody_else(store: Store, place: Place) -> None:
    if place.engine == "memory":
        pytest.skip("memory encodes nothing")
    outcomes = await asyncio.gather(
        store.commit((), writes(a=1)),
        store.commit((), [put("/b", object())]),
        store.commit((), writes(c=1)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [Committed, TypeError, Committed]
    assert keys(await store.range("")) == ["/a", "/c"]


async def test_a_commit_of_a_hundred_writes_is_one_revision(store: Store) -> None:
    start = await store.revision()
    many = [put(f"/k{n:03}", n) for n in range(100)]
    assert await store.commit([Expect(write.key, 0) for write in many], many) == Committed(start + 1)
    assert {entry.revision for entry in (await store.range("")).entries} == {start + 1}
    assert [c.key for c in await gathered(store.watch("", after=start), start + 1)] == [w.key for w in many]


async def test_prefixes_are_of_the_string_not_of_a_path(store: Store) -> None:
    await store.commit((), [put(key) for key in ("/a", "/a/b", "/a/b/c", "/ab", "/a0", "/b", "/a\U0010ffff")])
    found = {prefix: keys(await store.range(prefix)) for prefix in ("/a", "/a/", "/ab", "/c", "/a\U0010ffff")}
    assert found == {
        "/a": ["/a", "/a/b", "/a/b/c", "/a0", "/ab", "/a\U0010ffff"],
        "/a/": ["/a/b", "/a/b/c"],
        "/ab": ["/ab"],
        "/c": [],
        "/a\U0010ffff": ["/a\U0010ffff"],
    }


async def test_keys_are_any_unicode_in_code_point_order(store: Store) -> None:
    strange = [
        "/\0",
        "/\x1e\x1f",
        "/ ",
        '/"\\',
        "/%",
        "/'",
        "/é",
        "/日本",
        "/\ud7ff",
        "/\ue000",
        "/\uffff",
        "/😀",
    ]
    await store.commit((), [put(key, key) for key in reversed(strange)])
    page = await store.range("/")
    assert [(entry.key, entry.body.obj["value"]) for entry in page.entries] == [(key, key) for key in strange]
    for key in strange:  # As a prefix too: each has its own end.
        assert keys(await store.range(key)) == [key]
    revision = await store.revision()
    changes = await gathered(store.watch("/", after=revision - 1), revision)
    assert sorted(change.key for change in changes) == strange


async def test_large_bodies_come_back_whole(store: Store) -> None:
    large = {f"/large{n}": "é" * 400_000 + str(n) for n in range(3)}
    start = await store.revision()
    for key, value in large.items():
        await store.commit((), [put(key, value)])
    assert {e.key: e.body.obj["value"] for e in (await store.range("/large")).entries} == large
    changes = await gathered(store.watch("/large", after=start), start + 3)
    assert {c.key: c.entry.body.obj["value"] for c in changes if c.entry} == large


async def test_a_body_is_bytes_that_nobody_reads(store: Store) -> None:
    pretty = b'{\n\t"kind": "Thing",\r\n "text": "\xc3\xa9 \\u0000"}'
    await store.commit((), [put("/a"), *writes(b=1)])
    revision = await store.revision()
    await store.commit([Expect("/a", revision)], [type(put("/a"))("/a", Body(encoded=pretty))])
    entry = await store.get("/a")
    assert entry is not None
    assert entry.body.encoded == pretty


# Reading back


async def test_any_retained_revision_can_be_read_back(store: Store) -> None:
    start = await store.revision()
    await committed(store, a=1, b=1)
    await committed(store, a=2)
    await committed(store, b=None, c=1)
    await committed(store, b=3)
    read = {n: await store.range("/", revision=start + n) for n in range(1, 5)}
    first, last = start + 1, start + 4
    a1, b1 = Entry("/a", body(1), first, first), Entry("/b", body(1), first, first)
    a2, c1 = Entry("/a", body(2), start + 2, first), Entry("/c", body(1), start + 3, start + 3)
    assert read == {
        1: Page((a1, b1), first, more=False),
        2: Page((a2, b1), start + 2, more=False),
        3: Page((a2, c1), start + 3, more=False),
        4: Page((a2, Entry("/b", body(3), last, last), c1), last, more=False),
    }


async def test_pages_of_one_revision_fit_together_while_others_write(store: Store) -> None:
    for number in range(7):
        await store.commit((), [put(f"/k/{number}", number)])
    page = await store.range("/k/", limit=3)
    revision, seen, remaining = page.revision, keys(page), [page.remaining]
    while page.more:
        await store.commit((), [put(f"/k/{len(seen)}x"), Delete(f"/k/{len(seen)}"), put("/l")])
        page = await store.range("/k/", revision=revision, limit=3, after=seen[-1])
        seen += keys(page)
        remaining.append(page.remaining)
    assert (seen, remaining) == ([f"/k/{number}" for number in range(7)], [4, 1, 0])
    assert page.revision == revision


@pytest.mark.parametrize(
    ("after", "limit", "expected", "more"),
    [
        ("", 2, ["/k/a", "/k/b"], True),
        ("/k/a", 0, ["/k/b", "/k/c"], False),
        ("/k/aa", 1, ["/k/b"], True),
        ("/k/b", 1, ["/k/c"], False),
        ("/k/c", 1, [], False),
        ("/z", 5, [], False),
        ("/a", 3, ["/k/a", "/k/b", "/k/c"], False),
    ],
)
async def test_a_page_starts_after_a_key_that_need_not_exist(
    store: Store, after: str, limit: int, expected: list[str], more: bool
) -> None:
    await store.commit((), [put(key) for key in ("/j", "/k/a", "/k/b", "/k/c", "/l")])
    page = await store.range("/k/", limit=limit, after=after)
    assert (keys(page), page.more) == (expected, more)


async def test_the_future_cannot_be_read(store: Store) -> None:
    revision = await committed(store, a=1)
    with pytest.raises(FutureRevision) as raised:
        await store.range("/", revision=revision + 1)
    assert raised.value.current == revision


# Compaction


async def test_compaction_keeps_what_is_current_at_its_revision(store: Store) -> None:
    await committed(store, a=1, b=1, c=1)
    await committed(store, a=2, b=None)
    floor = await committed(store, a=3)
    last = await committed(store, a=4, c=None)
    before = [await store.range("/", revision=revision) for revision in (floor, last)]
    await store.compact(floor)
    assert [await store.range("/", revision=revision) for revision in (floor, last)] == before
    for gone in (floor - 1, floor - 2):
        with pytest.raises(Compacted):
            await store.range("/", revision=gone)
        with pytest.raises(Compacted):
            await gathered(store.watch("/", after=gone), last)
    changes = await gathered(store.watch("/", after=floor), last)
    assert [(change.key, change.entry is None) for change in changes] == [("/a", False), ("/c", True)]
    assert [change.previous and change.previous.body for change in changes] == [body(3), body(1)]


async def test_compaction_of_a_deletion_at_the_newest_revision_keeps_the_revision(
    store: Store, place: Place
) -> None:
    await committed(store, a=1)
    last = await committed(store, a=None)
    await store.compact(last)
    assert await store.revision() == last
    assert await store.range("/") == Page((), last, more=False)
    if place.survives_close:
        await store.close()
        again = place.open()
        try:
            assert await again.revision() == last
            assert await committed(again, b=1) == last + 1
        finally:
            await again.close()


async def test_compacting_twice_or_further_back_is_no_error(store: Store) -> None:
    first = await committed(store, a=1)
    second = await committed(store, a=2)
    await store.compact(second)
    await store.compact(second)
    await store.compact(first)
    assert (await store.range("/")).entries == (Entry("/a", body(2), second, first),)


async def test_the_future_cannot_be_compacted(store: Store) -> None:
    revision = await committed(store, a=1)
    with pytest.raises(FutureRevision):
        await store.compact(revision + 1)


# Watching


async def test_a_watch_tells_each_change_with_what_was_there_before(store: Store) -> None:
    start = await store.revision()
    watch = store.watch("/", after=start)
    first = await committed(store, a=1, b=1)
    second = await committed(store, b=None, a=2)
    third = await committed(store, b=3)
    a1, b1 = Entry("/a", body(1), first, first), Entry("/b", body(1), first, first)
    a2, b3 = Entry("/a", body(2), second, first), Entry("/b", body(3), third, third)
    assert await gathered(watch, third) == [
        Change("/a", first, a1, None),
        Change("/b", first, b1, None),
        Change("/b", second, None, b1),
        Change("/a", second, a2, a1),
        Change("/b", third, b3, None),
    ]


async def test_a_watch_resumes_from_any_retained_revision(store: Store) -> None:
    start = await store.revision()
    for number in range(12):
        await store.commit((), writes(a=number, b=None if number % 3 else number))
    end = await store.revision()
    everything = await gathered(store.watch("", after=start), end)
    assert len(everything) == 20
    for after in range(start, end):
        changes = await gathered(store.watch("", after=after), end)
        assert changes == [change for change in everything if change.revision > after]


async def test_a_watch_resumes_between_commits_that_came_together(store: Store) -> None:
    start = await store.revision()
    await asyncio.gather(*(store.commit((), [put(f"/k{n}", n), put("/x", n)]) for n in range(10)))
    for after in range(start, start + 10):
        changes = await gathered(store.watch("", after=after), start + 10)
        assert [change.revision for change in changes[::2]] == list(range(after + 1, start + 11))
        assert [change.revision for change in changes[1::2]] == list(range(after + 1, start + 11))


async def test_a_watch_never_splits_a_commit(store: Store) -> None:
    start = await store.revision()
    for number in range(20):
        await store.commit((), [put(f"/k{key}", number) for key in range(7)])
    revisions: list[int] = []
    async with asyncio.timeout(10):
        async for batch in store.watch("", after=start):
            counts = {c.revision: 0 for c in batch.changes}
            for change in batch.changes:
                counts[change.revision] += 1
            assert set(counts.values()) <= {7}
            revisions += counts
            if batch.revision >= start + 20:
                break
    assert revisions == list(range(start + 1, start + 21))


async def test_a_watch_sees_only_its_prefix(store: Store) -> None:
    start = await store.revision()
    watch = store.watch("/a", after=start)
    await store.commit((), [put("/a"), put("/b"), put("/ab")])
    await store.commit((), [put("/b")])
    end = (await store.commit((), [Delete("/ab")])).revision  # type: ignore[union-attr]  # has no reason to fail
    changes = await gathered(watch, end)
    assert [(change.key, change.revision - start) for change in changes] == [
        ("/a", 1),
        ("/ab", 1),
        ("/ab", 3),
    ]


async def test_progress_comes_when_others_are_written(store: Store) -> None:
    start = await store.revision()
    watch = store.watch("/quiet/", after=start)
    async with asyncio.timeout(10):
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        revision = await committed(store, loud=1)
        batch = await waiting
        while batch.revision < revision:  # etcd may tell of an older state first.
            batch = await anext(watch)
    assert batch.changes == ()


async def test_requested_progress_reaches_the_newest_revision(store: Store) -> None:
    watches = [store.watch(prefix, after=await store.revision()) for prefix in ("", "/quiet/", "/x")]
    readers = [asyncio.ensure_future(gathered(watch, 1 << 60)) for watch in watches]
    revision = await committed(store, a=1)
    assert await store.request_progress() is True
    for reader in readers:
        reader.cancel()
    watches = [store.watch(prefix, after=revision - 1) for prefix in ("", "/quiet/", "/x")]
    assert [len(await gathered(watch, revision)) for watch in watches] == [1, 0, 0]
    assert keys(await store.range("")) == ["/a"]


async def test_a_watch_that_was_cancelled_while_waiting_goes_on(store: Store) -> None:
    start = await store.revision()
    watch = store.watch("/", after=start)
    for number in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await gathered(watch, 1 << 60)
        end = await committed(store, a=number)
        assert [c.entry and c.entry.body for c in await gathered(watch, end)] == [body(number)]


async def test_a_watch_from_the_future_is_refused(store: Store) -> None:
    revision = await committed(store, a=1)
    with pytest.raises(FutureRevision) as raised:
        await anext(store.watch("/", after=revision + 5))
    assert raised.value.current == revision


async def test_a_watch_below_the_floor_is_refused_at_once_and_one_above_goes_on(store: Store) -> None:
    first = await committed(store, a=1)
    watch = store.watch("/", after=first)
    second = await committed(store, a=2)
    assert len(await gathered(watch, second)) == 1
    third = await committed(store, a=3)
    await store.compact(second)
    with pytest.raises(Compacted):
        await anext(store.watch("/", after=first))
    assert len(await gathered(watch, third)) == 1
    assert len(await gathered(store.watch("/", after=second), third)) == 1


async def test_a_closed_store_says_so(store: Store) -> None:
    await committed(store, a=1)
    watch = store.watch("/", after=await store.revision())
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.05)
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(waiting, 5)
    for call in (
        store.revision(),
        store.get("/a"),
        store.range("/"),
        store.commit((), writes(a=1)),
        store.compact(2),
    ):
        with pytest.raises(StoreUnavailable):
            await call


async def test_what_was_committed_is_there_when_opened_again(store: Store, place: Place) -> None:
    if not place.survives_close:
        pytest.skip("memory forgets")
    start = await store.revision()
    await committed(store, a=1, b=1)
    end = await committed(store, a=2, b=None)
    changes = await gathered(store.watch("", after=start), end)
    page = await store.range("")
    await store.close()
    again = place.open()
    try:
        assert await again.range("") == page
        assert await gathered(again.watch("", after=start), end) == changes
        assert await committed(again, c=1) == end + 1
    finally:
        await again.close()


@pytest.mark.usefixtures("plain_asyncio")
async def test_plain_asyncio_will_do(store: Store) -> None:
    assert type(asyncio.get_running_loop()).__module__.startswith("asyncio")
    start = await store.revision()
    await asyncio.gather(*(store.commit((), [put(f"/k{n}")]) for n in range(10)))
    assert len(await gathered(store.watch("/k", after=start), start + 10)) == 10
    await store.compact(start + 5)
    assert len((await store.range("/k")).entries) == 10
