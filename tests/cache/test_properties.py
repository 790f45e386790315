"""Against an obvious model, under any sequence of changes, faults and own writes: the cache never goes back,
its handlers can keep exact accounts, nothing dead comes to life, and when all is calm it equals the store."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cache.script import NODES, PODS, World, node, pod

from fathom.cache.caches import Caches
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, key_of, uid_of
from fathom.seams.seam import Input

pytestmark = pytest.mark.slow

NAMES = st.sampled_from("abcde")
STEP = st.one_of(
    st.tuples(st.sampled_from(["touch", "touch", "touch", "delete", "own", "own", "both"]), NAMES),
    st.tuples(st.just("run"), st.sampled_from([0.0, 0.0005, 0.0015, 0.01, 0.7, 3.0, 11.0])),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("behind"), st.integers(0, 5)),
    st.tuples(
        st.sampled_from(["drop", "deaf", "hear", "compact", "caught up", "garbage", "probe", "elsewhere"]),
        st.none(),
    ),
)
SETTING = st.fixed_dictionaries(
    {
        "has_watch_list": st.booleans(),
        "knows_header": st.booleans(),
        "expires_by_event": st.booleans(),
        "events_per_chunk": st.integers(0, 2),
        "page_max": st.integers(0, 3),
    }
)


class Mirror:
    """What a handler that keeps accounts believes, and what it may never be told."""

    def __init__(self) -> None:
        self.objs: dict[Key, Obj] = {}
        self.dead: set[str] = set()

    def told(self, old: Obj | None, new: Obj | None) -> None:
        key = key_of(new or old or {})
        assert self.objs.get(key) == old, f"{key}: told of a change from what it never was"
        if new is None:
            assert old is not None
            self.dead.add(uid_of(old))
            del self.objs[key]
            return
        assert uid_of(new) not in self.dead, f"{key}: {uid_of(new)} has come back to life"
        if old is not None:
            assert uid_of(new) == uid_of(old)
            assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
        self.objs[key] = new


class Run:
    def __init__(self, *, wire: bool, setting: dict[str, Any]) -> None:
        self.world = World(wire=wire)
        for name, value in setting.items():
            setattr(self.world.server, name, value)
        self.world.server.create(PODS, pod("a"))
        self.caches: Caches = self.world.caches({"Pod": PODS})
        self.mirror = Mirror()
        self.caches.on_change("Pod", self.mirror.told)
        self.cache = self.caches._cache("Pod")
        self.reached = (0, 0, 0)
        self.count = 0

    def step(self, what: str, with_: Any) -> None:
        self.count += 1
        getattr(self, f"do_{what.replace(' ', '_')}")(with_)
        now = (self.cache.safe, self.cache.seen, self.cache.revision)
        assert all(after >= before for before, after in zip(self.reached, now, strict=True)), "it went back"
        self.reached = now

    def do_touch(self, name: str) -> Obj:
        server = self.world.server
        there = Key("default", name) in server.objects("pods")
        return (server.update if there else server.create)(PODS, pod(name, status={"count": self.count}))

    def do_delete(self, name: str) -> None:
        if Key("default", name) in self.world.server.objects("pods"):
            self.world.server.delete(PODS, name, "default")

    def do_own(self, name: str) -> None:
        """An own write, whose answer comes sooner or later."""
        answer = self.do_touch(name)
        delay_s = (0.0, 0.002, 0.5, 20.0)[self.count % 4]
        put = partial(self.caches.apply_write, "Pod", answer)
        self.world.later(delay_s, lambda: self.world.do(put))

    def do_both(self, name: str) -> None:
        """Two objects in one commit."""
        objects = self.world.server.objects("pods")
        pods = [pod(one, status={"count": self.count}) for one in (name, "z")]
        self.world.server.commit(
            *(("MODIFIED" if key_of(one) in objects else "ADDED", PODS, one) for one in pods)
        )

    def do_elsewhere(self, _: None) -> None:
        self.world.server.create(NODES, node(f"n{self.count}"))

    def do_run(self, seconds: float) -> None:
        self.world.run(seconds)

    def do_cut(self, chunks: int) -> None:
        self.world.server.chunks_left = chunks

    def do_behind(self, revisions: int) -> None:
        self.world.server.behind = max(0, self.world.server.revision - revisions)

    def do_caught_up(self, _: None) -> None:
        self.world.server.behind = None

    def do_drop(self, _: None) -> None:
        self.world.server.drop_watches()

    def do_deaf(self, _: None) -> None:
        self.world.server.deaf = True

    def do_hear(self, _: None) -> None:
        self.world.server.deaf = False

    def do_compact(self, _: None) -> None:
        self.world.server.compact()

    def do_probe(self, _: None) -> None:
        probe = self.caches.probe("Pod", timeout_s=2.0)
        self.world.do(lambda: self.world.domain.create_task(probe))

    def do_garbage(self, _: None) -> None:
        payload: Any = b"garbage\n" if self.world.wire else [("ADDED", {})]
        for number in self.world.server.watches:
            self.world.later(0, self.world.deliver, Input.CHUNK, number, 0, payload)

    def heal_and_settle(self) -> None:
        server = self.world.server
        server.deaf, server.behind, server.chunks_left = False, None, None
        self.world.run(200)  # Longer than the longest patience and the longest pause together.


@settings(max_examples=250, deadline=None)
@given(st.booleans(), SETTING, st.lists(STEP, max_size=40))
def test_the_cache_equals_the_store_when_settled(
    wire: bool, setting: dict[str, Any], steps: list[tuple[str, Any]]
) -> None:
    run = Run(wire=wire, setting=setting)
    for what, with_ in steps:
        run.step(what, with_)
    run.heal_and_settle()
    have = {key_of(obj): obj for obj in run.world.do(run.caches.snapshot).list("Pod")}
    assert have == run.world.server.objects("pods") == run.mirror.objs
    assert run.cache.revision == run.world.server.revision
    handler_bugs = [one for one in run.world.seen.events if "HandlerFailed" in type(one).__name__]
    assert handler_bugs == []


@settings(max_examples=40, deadline=None)
@given(SETTING, st.lists(STEP, max_size=25))
def test_the_same_script_gives_the_same_run(setting: dict[str, Any], steps: list[tuple[str, Any]]) -> None:
    def told() -> list[Any]:
        run = Run(wire=True, setting=setting)
        run.world.server.refuse(ApiError(503, "ServiceUnavailable", "down"), times=2)
        for what, with_ in steps:
            run.step(what, with_)
        run.heal_and_settle()
        return [run.world.changes, run.world.server.asks, run.world.seen.events]

    assert told() == told()


UNDER_A_SEED = """
from tests.cache.test_properties import Run
run = Run(wire=True, setting={"has_watch_list": False, "page_max": 2})
for number in range(200):
    run.step("touch", "abcdefghij"[number * 7 % 10])
    run.step("delete", "abcdefghij"[number * 3 % 10])
    run.step("run", 0.4)
    if number % 20 == 0:
        run.step("compact", None)
        run.step("drop", None)
view = run.world.do(run.caches.snapshot)
print(view.list("Pod"), view.revisions, view.ages, run.world.changes, run.world.server.asks)
"""


@pytest.mark.live
def test_a_run_is_the_same_under_every_hash_seed() -> None:
    def printed(seed: str) -> bytes:
        command = [sys.executable, "-c", UNDER_A_SEED]
        environ = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.run(command, env=environ, capture_output=True, check=True).stdout

    assert printed("1") == printed("2") != b""
