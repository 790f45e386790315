"""Copies all objects of one store into another, of any engine: `fathom store migrate`.

    check the target ──> mark it unfinished ──> copy what is missing ──> compare everything ──> unmark

Revisions are the target's own. Its newest one ends above the source's, and its history is forgotten: whatever
revision a client holds from the source, its watch is answered with 410 and it lists again, and no revision
means two things. An interrupted migration is repeated: what was copied stays. An API server does not start on
a target that is marked unfinished.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec

from fathom.model.body import Body
from fathom.store.keys import RAISE_KEY
from fathom.store.protocol import BadCommit, Committed, Delete, Entry, Expect, Page, Put, Store
from fathom.store.unusable import StoreUnusable

MIGRATION_KEY = "/fathom/migration"  # Beside the API's registry, not in it.

# What a store keeps about itself, such as marks of times with its own revisions.
OWN_PREFIXES = ("/fathom/", "/health/")

COMMIT_KEYS_MAX = 100  # As many as etcd takes.
COMMIT_BYTES_MAX = 1_000_000  # etcd takes 1.5 MiB.
PAGE_KEYS = 500
RAISED_AT_ONCE = 64  # Commits in flight: etcd writes those that wait for it together.

Progress = Callable[[str], None]


class MigrationRefused(StoreUnusable):
    """The target cannot be used, or the source changed. The message says what to do."""


class Migrated(msgspec.Struct, frozen=True):
    objects: int  # In the source, and now in the target.
    copied: int  # By this run; the others were there.
    source_revision: int  # The source's newest revision.
    revision: int  # The target's newest revision.


async def migrate(source: Store, target: Store, *, progress: Progress) -> Migrated:
    """Raises MigrationRefused, and StoreUnavailable if a store cannot be used."""
    revision = await source.revision()
    await _check_target(target)
    await _commit(target, [Put(MIGRATION_KEY, Body({"unfinished": True}))])
    objects = copied = 0
    after = ""
    while True:
        page = await source.range("", limit=PAGE_KEYS, after=after)
        entries = [entry for entry in page.entries if not _is_own(entry.key)]
        copied += await _copy(entries, target)
        objects += len(entries)
        if not page.more:
            break
        after = page.entries[-1].key
        progress(f"copied {objects:,} objects, {page.remaining:,} are left")
    await compare(source, target)
    return Migrated(objects, copied, revision, await target.revision())


async def finish(target: Store) -> int:
    """The target is complete: API servers may use it. The revision of the last commit."""
    await _commit(target, [Delete(MIGRATION_KEY)])
    # Not the deletion itself: etcd before 3.5.16 loses deletions of the very revision it is compacted at.
    return await _commit(target, [Put(RAISE_KEY, Body({"migrated": True}))])


async def check_finished(store: Store) -> None:
    """Raises MigrationRefused for the target of a migration that was interrupted."""
    if await store.get(MIGRATION_KEY) is not None:
        raise MigrationRefused(
            "a migration into this store is not finished: run the same `fathom store migrate` again"
        )


async def compare(source: Store, target: Store) -> None:
    """Compare every key and body. Raises MigrationRefused with the first difference."""
    theirs, ours = _walk(source), _walk(target)
    while True:
        wanted, copied = await anext(theirs, None), await anext(ours, None)
        if wanted is None and copied is None:
            return
        if wanted is None or copied is None or not _is_same(wanted, copied):
            key = min(entry.key for entry in (wanted, copied) if entry is not None)
            raise MigrationRefused(
                f"source and target differ at {key}: somebody writes to one of them; stop every API server of"
                " both, empty the target, and migrate again"
            )


async def raise_revision(store: Store, above: int, *, progress: Progress) -> int:
    """Commit until the store's revision is above this one. The newest revision."""
    revision = await store.revision()
    while revision <= above:
        count = min(above + 1 - revision, RAISED_AT_ONCE)
        write = (Put(RAISE_KEY, Body({"above": above})),)
        outcomes = await asyncio.gather(*(store.commit((), write) for _ in range(count)))
        done = [outcome.revision for outcome in outcomes if isinstance(outcome, Committed)]
        if not done:
            raise MigrationRefused("the target does not answer: run the same command again")
        if revision // 10_000 != max(done) // 10_000:
            progress(f"the target is at revision {max(done):,}, and goes on to {above + 1:,}")
        revision = max(done)
    return revision


async def _check_target(target: Store) -> None:
    page = await target.range("", limit=PAGE_KEYS)
    if await target.get(MIGRATION_KEY) is None and any(not _is_own(e.key) for e in page.entries):
        raise MigrationRefused(
            "the target holds objects already: choose an empty data directory, or another etcd or prefix"
            " (etcd://HOST:PORT/PREFIX)"
        )


async def _copy(entries: Sequence[Entry], target: Store) -> int:
    if not entries:
        return 0
    there = await _between(target, entries[0].key, entries[-1].key)
    missing = [entry for entry in entries if entry.key not in there]
    for entry in entries:
        if entry.key in there and not _is_same(entry, there[entry.key]):
            raise MigrationRefused(
                f"the target has another {entry.key}: the source changed after an interrupted migration;"
                " empty the target, and migrate again"
            )
    for group in groups(missing):
        expects = [Expect(entry.key, 0) for entry in group]
        await _commit(target, [Put(entry.key, entry.body) for entry in group], expects)
    return len(missing)


async def _between(store: Store, first: str, last: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    head = await store.get(first)
    if head is not None:
        entries[first] = head
    after = first
    while True:
        page: Page = await store.range("", limit=PAGE_KEYS, after=after)
        entries |= {entry.key: entry for entry in page.entries if entry.key <= last}
        if not page.more or page.entries[-1].key >= last:
            return entries
        after = page.entries[-1].key


def groups(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Entries that fit into one commit."""
    group: list[Entry] = []
    size = 0
    for entry in entries:
        entry_bytes = len(entry.key) + len(entry.body.encoded)
        if group and (len(group) == COMMIT_KEYS_MAX or size + entry_bytes > COMMIT_BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry_bytes
    if group:
        yield group


async def _commit(store: Store, writes: Sequence[Put | Delete], expects: Sequence[Expect] = ()) -> int:
    try:
        outcome = await store.commit(expects, writes)
    except BadCommit as error:
        keys = f"{writes[0].key} and {len(writes) - 1} more" if len(writes) > 1 else writes[0].key
        raise MigrationRefused(
            f"the target does not take {keys}: {error}; etcd's --max-request-bytes sets its limit"
        ) from error
    if isinstance(outcome, Committed):
        return outcome.revision
    raise MigrationRefused(
        "the target changed, or did not answer: stop every API server on it, and run the same command again"
    )


async def _walk(store: Store) -> AsyncIterator[Entry]:
    after = ""
    while True:
        page = await store.range("", limit=PAGE_KEYS, after=after)
        for entry in page.entries:
            if not _is_own(entry.key):
                yield entry
        if not page.more:
            return
        after = page.entries[-1].key


def _is_own(key: str) -> bool:
    return key.startswith(OWN_PREFIXES)


def _is_same(one: Entry, other: Entry) -> bool:
    return one.key == other.key and one.body.encoded == other.body.encoded
