"""`kill -9` at any instant: nothing acknowledged is lost, nothing half-appears, no revision comes twice."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.chaos import store_writer

from fathom.store.protocol import Change, Entry
from fathom.store.sqlite import SqliteStore
from fathom.store.verify import verify


class Acknowledged(msgspec.Struct, frozen=True):
    number: int
    revision: int
    slot: int
    deleted: bool


def run_and_kill(data_dir: Path, rng: random.Random, seed: str) -> list[Acknowledged]:
    """What the victim had said when it died, some time after its first word."""
    victim = subprocess.Popen(
        [sys.executable, store_writer.__file__, str(data_dir), seed],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert victim.stdout is not None
    # Sometimes while it opens and recovers, mostly in the middle of things.
    first = victim.stdout.readline() if rng.random() < 0.9 else b""
    time.sleep(rng.random() * 0.25)
    victim.kill()
    said, complaints = victim.communicate()
    assert complaints == b""
    lines = (first + said).decode().splitlines(keepends=True)
    return [_parsed(line) for line in lines if line.endswith("\n")]


def _parsed(line: str) -> Acknowledged:
    number, revision, slot = map(int, line.split())
    return Acknowledged(number, revision, abs(slot), slot < 0)


class Found(msgspec.Struct, frozen=True):
    """A store after a death."""

    revision: int
    floor: int
    entries: dict[str, Entry]
    history: dict[int, list[Change]]  # Of the retained revisions.


async def look(data_dir: Path) -> Found:
    store = SqliteStore.open(data_dir)
    try:
        revision, floor = await store.revision(), store._feed.floor
        entries = {entry.key: entry for entry in (await store.range("/")).entries}
        history: dict[int, list[Change]] = {}
        if floor < revision:
            async for batch in store.watch("/", after=floor):
                for change in batch.changes:
                    history.setdefault(change.revision, []).append(change)
                if revision in history:  # A commit's changes are in one batch.
                    break
        return Found(revision, floor, entries, history)
    finally:
        await store.close()


def check(found: Found, acknowledged: list[Acknowledged], revision_before: int) -> None:
    assert found.revision >= max([revision_before, *(said.revision for said in acknowledged)])
    assert sorted(found.history) == list(range(found.floor + 1, found.revision + 1))
    for changes in found.history.values():
        assert len(changes) == 2
        assert _told(changes[0].entry) == _told(changes[1].entry)
    for said in acknowledged:
        if said.revision > found.floor:
            keys = [f"/{side}/{said.slot}" for side in store_writer.SIDES]
            assert [change.key for change in found.history[said.revision]] == keys
    said_revisions = {said.revision for said in acknowledged}
    unseen = [revision for revision in range(2, found.floor + 1) if revision not in said_revisions]
    newest: dict[int, Acknowledged] = {}
    for said in acknowledged:
        if said.slot not in newest or newest[said.slot].revision < said.revision:
            newest[said.slot] = said
    for slot in store_writer.SLOTS:
        _check_slot(found, slot, newest.get(slot), unseen)


def _check_slot(found: Found, slot: int, last: Acknowledged | None, unseen: list[int]) -> None:
    """What is there now is the last acknowledged write, or a later one that died before its word was out. Of
    `unseen` ones, which were compacted before anybody looked, nobody knows the slot but by what is there."""
    left, right = (found.entries.get(f"/{side}/{slot}") for side in store_writer.SIDES)
    assert _told(left) == _told(right)
    if last is None:
        return
    later = [
        revision
        for revision, changes in found.history.items()
        if revision > last.revision and changes[0].key == f"/left/{slot}"
    ]
    later += [
        revision
        for revision in unseen
        if revision > last.revision and (left is None or revision == left.revision)
    ]
    if not later:
        expected = None if last.deleted else (last.number, last.revision)
        assert (left and (left.body.obj["number"], left.revision)) == expected, f"{last} is lost"


def _told(entry: Entry | None) -> tuple[int, int, int] | None:
    return None if entry is None else (entry.body.obj["number"], entry.revision, entry.created)


def unsaid(found: Found, acknowledged: list[Acknowledged]) -> list[Acknowledged]:
    said = {one.revision for one in acknowledged}
    return [
        Acknowledged(
            number=change.entry.body.obj["number"] if change.entry else 0,
            revision=revision,
            slot=int(change.key.rpartition("/")[2]),
            deleted=change.entry is None,
        )
        for revision, (change, _) in found.history.items()
        if revision not in said
    ]


def survive(data_dir: Path, rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    acknowledged: list[Acknowledged] = []
    revision = 1
    for number in range(rounds):
        acknowledged += run_and_kill(data_dir, rng, f"{seed}/{number}")
        if not data_dir.joinpath("store.db").exists():  # It died before it made one.
            assert acknowledged == []
            continue
        assert verify(data_dir).problems == ()
        found = asyncio.run(look(data_dir))
        check(found, acknowledged, revision)
        # What was committed without a word is now seen, so it must stay too.
        acknowledged += unsaid(found, acknowledged)
        revision = found.revision
    return len(acknowledged)


def test_acknowledged_writes_survive_fifteen_deaths(tmp_path: Path) -> None:
    assert survive(tmp_path / "data", rounds=15, seed=1) > 15


@pytest.mark.full
@pytest.mark.timeout(900)
def test_acknowledged_writes_survive_a_hundred_deaths(tmp_path: Path) -> None:
    assert survive(tmp_path / "data", rounds=100, seed=2) > 100


def test_the_check_notices_a_commit_that_is_lost_or_half_there(tmp_path: Path) -> None:
    acknowledged = run_and_kill(tmp_path / "data", random.Random(3), "3")
    found = asyncio.run(look(tmp_path / "data"))
    check(found, acknowledged, 1)
    newest = max(acknowledged, key=lambda said: said.revision)
    lost = msgspec.structs.replace(newest, revision=found.revision + 1)
    wrong = msgspec.structs.replace(newest, slot=newest.slot % 40 + 1)
    half = {revision: changes[:1] for revision, changes in found.history.items()}
    one_side = {key: entry for key, entry in found.entries.items() if key.startswith("/left/")}
    for story, seen in (
        ([*acknowledged, lost], found),
        ([*acknowledged, wrong], found),
        (acknowledged, msgspec.structs.replace(found, history=half)),
        (acknowledged, msgspec.structs.replace(found, entries=one_side)),
        (acknowledged, msgspec.structs.replace(found, revision=newest.revision - 1)),
    ):
        with pytest.raises(AssertionError):
            check(seen, story, 1)
