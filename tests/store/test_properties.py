"""Any sequence of calls gives on every engine what the obvious model gives."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.store.engines import ENGINES, EtcdServer, Place, body, bounds_of
from tests.store.model import Model

from fathom.store.protocol import Batch, Change, Compacted, Delete, Expect, FutureRevision, Put, Write

pytestmark = pytest.mark.slow

T = TypeVar("T")

# Few enough to meet again and again, and every one next to a prefix's edge.
KEYS = ("/a", "/a/", "/a/b", "/a/b/c", "/ab", "/a0", "/b", "/b/\U0010ffff", "/b/\U0010ffffx", "/ü", "/\0")
PREFIXES = ("", "/", "/a", "/a/", "/a/b", "/b/\U0010ffff", "/nothing")

keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(PREFIXES)
write_lists = st.lists(st.tuples(keys, st.none() | st.integers(0, 5)), max_size=4, unique_by=lambda w: w[0])
# How far a precondition's revision is from the truth.
expect_lists = st.lists(
    st.tuples(keys, st.sampled_from((0, 0, 0, -1, 1))), max_size=3, unique_by=lambda e: e[0]
)
parts = st.integers(0, 1000)  # Of the way from one revision to another.


class Reader:
    """A watch and how far it has read."""

    def __init__(self, prefix: str, position: int, watch: AsyncIterator[Batch]) -> None:
        self.prefix = prefix
        self.position = position
        self.watch = watch


class StoreMachine(RuleBasedStateMachine):
    engine: str
    etcd: EtcdServer | None

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        self.cleanup.enter_context(bounds_of(self.engine))
        directory = self.cleanup.enter_context(tempfile.TemporaryDirectory())
        self.runner = self.cleanup.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        self.place = Place(self.engine, Path(directory), self.etcd)
        self.store = self.place.open()
        self.model = Model(self.run(self.store.revision()))
        self.readers: list[Reader] = []

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asyncio.wait_for(call, 20))

    def teardown(self) -> None:
        self.run(self.store.close())
        self.cleanup.close()

    def between(self, low: int, high: int, part: int) -> int:
        return low + (high - low) * part // 1000

    def expects(self, near: list[tuple[str, int]]) -> list[Expect]:
        now = self.model.now
        return [Expect(key, max((now[key].revision if key in now else 0) + off, 0)) for key, off in near]

    @rule(near=expect_lists, values=write_lists)
    def commit(self, near: list[tuple[str, int]], values: list[tuple[str, int | None]]) -> None:
        writes: list[Write] = [Delete(key) if n is None else Put(key, body(n)) for key, n in values]
        expects = self.expects(near)
        assert self.run(self.store.commit(expects, writes)) == self.model.commit(expects, writes)

    @rule(groups=st.lists(st.tuples(expect_lists, write_lists), min_size=2, max_size=6))
    def commit_together(
        self, groups: list[tuple[list[tuple[str, int]], list[tuple[str, int | None]]]]
    ) -> None:
        """Commits that start in one round of the loop; they take effect in some order, all of them wholly."""
        if self.place.shared:
            return  # Their order over the network is not ours to know.
        commits = [
            (self.expects(near), [Delete(key) if n is None else Put(key, body(n)) for key, n in values])
            for near, values in groups
        ]

        async def together() -> list[Any]:
            return await asyncio.gather(*(self.store.commit(*commit) for commit in commits))

        assert self.run(together()) == [self.model.commit(*commit) for commit in commits]

    @rule(prefix=prefixes, part=parts, limit=st.integers(0, 4), after=st.just("") | keys)
    def read(self, prefix: str, part: int, limit: int, after: str) -> None:
        revision = self.between(self.model.first, self.model.revision, part)
        call = self.store.range(prefix, revision=revision, limit=limit, after=after)
        if revision < self.model.floor:
            with pytest.raises(Compacted):
                self.run(call)
        else:
            assert self.run(call) == self.model.range(prefix, revision, limit, after)

    @rule(prefix=prefixes, limit=st.integers(0, 4), after=st.just("") | keys)
    def read_now(self, prefix: str, limit: int, after: str) -> None:
        found = self.run(self.store.range(prefix, limit=limit, after=after))
        assert found == self.model.range(prefix, self.model.revision, limit, after)

    @rule(key=keys)
    def get(self, key: str) -> None:
        assert self.run(self.store.get(key)) == self.model.now.get(key)

    @rule(ahead=st.integers(1, 3))
    def read_the_future(self, ahead: int) -> None:
        for call in (
            self.store.range("", revision=self.model.revision + ahead),
            anext(self.store.watch("", after=self.model.revision + ahead)),
        ):
            with pytest.raises(FutureRevision):
                self.run(_awaited(call))

    @rule(part=parts)
    def compact(self, part: int) -> None:
        revision = self.between(self.model.first, self.model.revision, part)
        self.run(self.store.compact(revision))
        self.model.compact(revision)

    @precondition(lambda self: len(self.readers) < 5)
    @rule(prefix=prefixes, part=parts)
    def watch(self, prefix: str, part: int) -> None:
        after = self.between(self.model.floor, self.model.revision, part)
        self.readers.append(Reader(prefix, after, self.store.watch(prefix, after=after)))

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 4), reconnect=st.booleans())
    def follow(self, which: int, reconnect: bool) -> None:
        """Read all there is. One that reconnects, or is below the floor, may find itself compacted."""
        reader = self.readers[which % len(self.readers)]
        if reconnect:
            reader.watch = self.store.watch(reader.prefix, after=reader.position)
        expected = self.model.changes_after(reader.prefix, reader.position)
        try:
            found = self.run(self.taken(reader, len(expected)))
        except Compacted:
            assert reader.position < self.model.floor
            self.readers.remove(reader)
        else:
            assert found == expected

    async def taken(self, reader: Reader, count: int) -> list[Change]:
        found: list[Change] = []
        while len(found) < count:
            batch = await anext(reader.watch)
            assert batch.revision > reader.position
            reader.position = batch.revision
            found += batch.changes
        return found

    @precondition(lambda self: self.place.survives_close)
    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.place.open()
        for reader in self.readers:
            reader.watch = self.store.watch(reader.prefix, after=reader.position)

    @invariant()
    def revision_is_the_models(self) -> None:
        assert self.run(self.store.revision()) == self.model.revision


async def _awaited(call: Any) -> Any:
    return await call


EXAMPLES = {"memory": 100, "sqlite": 60, "sqlite-tight": 60, "etcd": 25}


@pytest.mark.parametrize("engine", ENGINES)
def test_any_sequence_of_calls_matches_the_model(engine: str, request: pytest.FixtureRequest) -> None:
    run_machine(engine, request, examples=EXAMPLES[engine], steps=30)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ENGINES)
def test_any_long_sequence_of_calls_matches_the_model(engine: str, request: pytest.FixtureRequest) -> None:
    run_machine(engine, request, examples=8 * EXAMPLES[engine], steps=80)


def run_machine(name: str, request: pytest.FixtureRequest, *, examples: int, steps: int) -> None:
    server = request.getfixturevalue("etcd_server") if name == "etcd" else None
    machine = type("Machine", (StoreMachine,), {"engine": name, "etcd": server})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))
