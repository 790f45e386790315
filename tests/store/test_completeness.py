"""A watch resumed from any retained revision sees every later change exactly once and in order, while writers
write, compaction follows behind and readers come and go."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from tests.store.engines import put

from fathom.store.memory import MemoryStore
from fathom.store.protocol import Batch, Change, Committed, Compacted, Delete, Expect, Store, Write

KEYS = tuple(f"/{kind}/{name}" for kind in ("a", "ab", "b") for name in range(6))
PREFIXES = ("", "/a", "/a/", "/b/3")


class Ledger:
    """What was acknowledged: revision -> key -> value, None for a deletion."""

    def __init__(self) -> None:
        self.commits: dict[int, dict[str, object]] = {}

    def changes(self, prefix: str, after: int, upto: int) -> list[tuple[int, str, object]]:
        return [
            (revision, key, value)
            for revision in sorted(self.commits)
            if after < revision <= upto
            for key, value in self.commits[revision].items()
            if key.startswith(prefix)
        ]

    def state(self, prefix: str, upto: int) -> dict[str, object]:
        values = {key: value for _, key, value in self.changes(prefix, 0, upto)}
        return {key: value for key, value in values.items() if value is not None}


async def write(store: Store, ledger: Ledger, rng: random.Random, rounds: int) -> None:
    for number in range(rounds):
        chosen = rng.sample(KEYS, rng.randint(1, 4))
        current = {key: await store.get(key) for key in chosen}
        expects = [Expect(key, entry.revision if entry else 0) for key, entry in current.items()]
        values: dict[str, object] = {
            key: None if entry and rng.random() < 0.3 else number for key, entry in current.items()
        }
        writes: list[Write] = [
            Delete(key) if value is None else put(key, value) for key, value in values.items()
        ]
        outcome = await store.commit(expects, writes)
        if isinstance(outcome, Committed):
            ledger.commits[outcome.revision] = values
        if rng.random() < 0.2:
            await asyncio.sleep(rng.random() * 0.003)


def flat(changes: tuple[Change, ...]) -> list[tuple[int, str, object]]:
    return [(c.revision, c.key, c.entry.body.obj["value"] if c.entry else None) for c in changes]


class Follower:
    """Reads a prefix through many watches. `pieces` are the stretches it believes to have seen wholly."""

    def __init__(self, store: Store, rng: random.Random, prefix: str, after: int) -> None:
        self.store, self.rng, self.prefix = store, rng, prefix
        self.position = after
        self.pieces: list[tuple[int, int, list[tuple[int, str, object]]]] = []
        self.states: list[tuple[int, dict[str, object]]] = []  # (revision, what a range found there).
        self.resumed = 0
        self.compacted = 0

    async def follow(self) -> None:
        while True:
            try:
                await self._watch_for_a_while(self.rng.randint(1, 12))
            except Compacted:
                self.compacted += 1
                await self._start_again()
            self.resumed += 1
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.random() * 0.02)  # Be away, and fall behind.

    async def _watch_for_a_while(self, batches: int) -> None:
        watch = self.store.watch(self.prefix, after=self.position)
        for _ in range(batches):
            self._take(await anext(watch))

    def _take(self, batch: Batch) -> None:
        self.pieces.append((self.position, batch.revision, flat(batch.changes)))
        self.position = batch.revision

    async def _start_again(self) -> None:
        page = await self.store.range(self.prefix)
        self.states.append((page.revision, {e.key: e.body.obj["value"] for e in page.entries}))
        self.position = page.revision

    def check(self, ledger: Ledger) -> None:
        for after, upto, seen in self.pieces:
            assert after < upto
            assert seen == ledger.changes(self.prefix, after, upto)
        for revision, state in self.states:
            assert state == ledger.state(self.prefix, revision)


async def compact_behind(store: Store, ledger: Ledger, rng: random.Random) -> None:
    """At revisions that delete nothing: old etcds lose deletions of the very revision they compact at."""
    while True:
        await asyncio.sleep(0.01)
        recent = _deleting_nothing(ledger)[-30:]
        if recent:
            await store.compact(rng.choice(recent))


def _deleting_nothing(ledger: Ledger) -> list[int]:
    return sorted(revision for revision, values in ledger.commits.items() if None not in values.values())


async def run_story(store: Store, seed: int, rounds: int) -> list[Follower]:
    ledger, start = Ledger(), await store.revision()
    # Seeded apart, so that one does not move the others.
    followers = [
        Follower(store, random.Random(f"{seed} reader {n}"), PREFIXES[n % len(PREFIXES)], start)
        for n in range(8)
    ]
    reading = [asyncio.ensure_future(follower.follow()) for follower in followers]
    compacting = asyncio.ensure_future(compact_behind(store, ledger, random.Random(f"{seed} compact")))
    rngs = [random.Random(f"{seed} writer {n}") for n in range(6)]
    await asyncio.gather(*(write(store, ledger, rng, rounds) for rng in rngs))
    compacting.cancel()
    with suppress(asyncio.CancelledError):
        await compacting
    # One that comes back after all it knew was compacted: it must be told, whatever the others met.
    await store.compact(_deleting_nothing(ledger)[-1])
    late = Follower(store, random.Random(f"{seed} late"), "", start)
    followers.append(late)
    reading.append(asyncio.ensure_future(late.follow()))
    end = await store.revision()
    async with asyncio.timeout(20):
        while any(follower.position < end for follower in followers):
            broken = [task for task in reading if task.done()]
            assert not broken, [task.exception() for task in broken]
            await store.request_progress()
            await asyncio.sleep(0.02)
    for task in reading:
        task.cancel()
    for follower in followers:
        follower.check(ledger)
    assert late.compacted == 1
    return followers


@pytest.mark.parametrize("seed", [1, 2])
async def test_watches_are_complete_while_everything_moves(store: Store, seed: int) -> None:
    followers = await run_story(store, seed, rounds=60)
    assert sum(follower.resumed for follower in followers) > 20


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
async def test_watches_are_complete_while_much_moves(store: Store, seed: int) -> None:
    followers = await run_story(store, seed, rounds=600)
    assert sum(follower.resumed for follower in followers) > 200


async def test_a_follower_that_misses_a_change_would_be_noticed() -> None:
    """The check itself, on a store that loses one change in a hundred."""
    store = MemoryStore()
    rng, real = random.Random(5), store.watch

    def lossy(prefix: str, *, after: int) -> object:
        return Lossy(real(prefix, after=after), rng)

    store.watch = lossy  # type: ignore[method-assign, assignment]  # the point of the test
    with pytest.raises(AssertionError):
        await run_story(store, 1, rounds=60)
    await store.close()


class Lossy:
    def __init__(self, watch: object, rng: random.Random) -> None:
        self._watch, self._rng = watch, rng

    async def __anext__(self) -> Batch:
        batch: Batch = await anext(self._watch)  # type: ignore[call-overload]  # an AsyncIterator[Batch]
        kept = tuple(change for change in batch.changes if self._rng.random() > 0.01)
        return Batch(kept, batch.revision)
