"""A quota begins to count while writes that do not know of it are in progress: whichever commits first, used
is the sum of what is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.admission.test_quota import CHAIN, put, quota, sized
from tests.api.admission.test_stories import PODS, QUOTAS, used
from tests.api.admission.test_stories import pod as asked_pod
from tests.api.admission.test_stories import quota as asked_quota
from tests.api.admission.world import KINDS, Lost, World, attempt, create, update
from tests.api.harness import Answer, Api, tell

from fathom.api.admission.attempt import DELETE
from fathom.api.admission.quota import QUOTAS as QUOTA_RESOURCE
from fathom.api.admission.quota import RULES, corrected_status, drift, is_counted
from fathom.model.body import Body
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.model.view import Seen
from fathom.store.protocol import Delete, Expect, Outcome, Put, Unknown, Write

POD = "/registry/pods/default/p"
QUOTA = "/registry/resourcequotas/default/q"

Act = Callable[[Api], Awaitable[Answer]]


class Held:
    """The next commit that writes the key waits until it is let go. It has been decided on by then."""

    def __init__(self, api: Api, key: str) -> None:
        self._commit, self._key = api.core.store.commit, key
        self.arrived, self.let_go = asyncio.Event(), asyncio.Event()
        api.core.store.commit = self.commit

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        if not self.arrived.is_set() and any(write.key == self._key for write in writes):
            self.arrived.set()
            await self.let_go.wait()
        outcome: Outcome = await self._commit(preconditions, writes)
        return outcome

    async def until_arrived(self, writer: asyncio.Future[Answer]) -> None:
        arrived = asyncio.ensure_future(self.arrived.wait())
        await asyncio.wait((arrived, writer), return_when=asyncio.FIRST_COMPLETED)
        assert arrived.done(), f"answered without a commit: {writer.result()}"


async def create_pod(api: Api) -> Answer:
    return await api.post(PODS, asked_pod("p"))


async def end_pod(api: Api) -> Answer:
    return await api.patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}})


async def remove_pod(api: Api) -> Answer:
    return await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})


async def create_quota(api: Api) -> Answer:
    return await api.post(QUOTAS, asked_quota(pods="5"))


async def count_pods_too(api: Api) -> Answer:
    return await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "5"}}})


WRITES = [(create_pod, "1"), (end_pod, "0"), (remove_pod, "0")]  # With the pods that are counted then.
BEGINNINGS = [create_quota, count_pods_too]


@pytest.mark.parametrize("held_key", [POD, QUOTA])
@pytest.mark.parametrize(("write", "pods"), WRITES)
@pytest.mark.parametrize("begin", BEGINNINGS)
def test_a_quota_that_begins_beside_a_write_counts_it(
    tmp_path: Path, *, begin: Act, write: Act, pods: str, held_key: str
) -> None:
    async def story(api: Api) -> None:
        if begin is count_pods_too:
            assert (await api.post(QUOTAS, asked_quota(services="1"))).status == 201
        if write is not create_pod:
            assert (await create_pod(api)).status == 201
        first, second = (write, begin) if held_key == POD else (begin, write)
        held = Held(api, held_key)
        waiting = asyncio.ensure_future(first(api))
        await held.until_arrived(waiting)
        answers = [await second(api)]
        held.let_go.set()
        answers.append(await waiting)
        assert {answer.status for answer in answers} <= {200, 201}
        assert (await used(api))["pods"] == pods

    tell(story, tmp_path)


def test_a_quota_whose_count_is_lost_is_counted_by_the_next_write(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await create_pod(api)
        real = api.core.store.commit

        async def commit(preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
            counts = any(expect.key == QUOTA and expect.revision for expect in preconditions)
            outcome: Outcome = Unknown("lost") if counts else await real(preconditions, writes)
            return outcome

        api.core.store.commit = commit
        answer = await create_quota(api)
        assert (answer.status, answer.obj["status"]) == (201, {})
        api.core.store.commit = real
        assert (await api.post(PODS, asked_pod("other"))).status == 201
        assert await used(api) == {"pods": "2"}

    tell(story, tmp_path)


def test_a_quota_whose_count_is_lost_is_counted_by_housekeeping() -> None:
    bare = {**quota({"pods": "2"}), "status": {}}
    assert corrected_status(bare, World(bare)) == {"hard": {"pods": "2"}, "used": {"pods": "0"}}
    counted = quota({"pods": "2"})
    assert corrected_status(counted, World(counted)) is None


def test_a_namespace_without_quotas_has_no_rules(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for name in ("q", "r"):
            body = asked_quota(pods="5")
            body["metadata"]["name"] = name
            assert (await api.post(QUOTAS, body)).status == 201
        answers = await asyncio.gather(*(api.delete(f"{QUOTAS}/{name}") for name in ("q", "r")))
        assert [answer.status for answer in answers] == [200, 200]
        assert list(api.core.cache.list(RULES)) == []

    tell(story, tmp_path)


def test_a_dry_run_shows_the_count(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await create_pod(api)
        answer = await api.post(f"{QUOTAS}?dryRun=All", asked_quota(pods="5"))
        assert answer.obj["status"]["used"] == {"pods": "1"}

    tell(story, tmp_path)


# Any order of writes, each decided on a view that may be some commits old.

SPECS: list[Obj] = [
    {"hard": {"pods": "3"}},
    {"hard": {"pods": "2", "count/pods": "4"}},
    {"hard": {"services": "1"}},
    {"hard": {"pods": "3"}, "scopes": ["NotTerminating"]},
    {"hard": {"pods": "3"}, "scopes": ["Terminating"]},
]
WHATS = ["create", "end", "remove", "begin", "count", "lift"]
Step = tuple[str, int, int]  # what, which pod or spec, how many commits ago it was decided
steps = st.lists(
    st.tuples(st.sampled_from(WHATS), st.integers(0, len(SPECS) - 1), st.integers(0, 3)), max_size=30
)


def take(world: World, view: World, what: str, number: int) -> None:
    pods = {one.obj["metadata"]["name"]: one for one in view.list("pods", "default")}
    seen = pods.get(f"p{number}")
    new = sized(number, 1)
    key = put(new).key
    if what == "create" and seen is None:
        world.commit([put(new)], create(CHAIN, view, new).charges, Expect(key, 0))
    elif what == "end" and seen is not None:
        ended = {**seen.obj, "status": {"phase": "Failed"}}
        charges = update(CHAIN, view, ended, seen.obj, subresource="status").charges
        world.commit([put(ended)], charges, Expect(key, seen.revision))
    elif what == "remove" and seen is not None:
        world.commit(
            [Delete(key)], CHAIN.release(attempt(DELETE, None, seen.obj), view), Expect(key, seen.revision)
        )
    elif what in {"begin", "count", "lift"}:
        take_quota(world, view, what, SPECS[number])


def take_quota(world: World, view: World, what: str, spec: Obj) -> None:
    name = "q" if len(spec) == 1 else "scoped"
    key = KINDS["ResourceQuota"].store_key("default", name)
    quotas: dict[Any, Seen] = {
        one.obj["metadata"]["name"]: one for one in view.list(QUOTA_RESOURCE, "default")
    }
    seen = quotas.get(name)
    if what == "begin":
        asked = {**quota({}, name=name), "spec": spec, "status": seen.obj["status"] if seen else {}}
        admitted = create(CHAIN, view, asked) if seen is None else update(CHAIN, view, asked, seen.obj)
        assert admitted.obj is not None
        expect = Expect(key, seen.revision if seen else 0)
        world.commit([Put(key, Body(admitted.obj))], admitted.charges, expect)
    elif what == "count" and seen is not None:
        status = corrected_status(seen.obj, view)
        if status is not None:
            world.commit([Put(key, Body({**seen.obj, "status": status}))], (), Expect(key, seen.revision))
    elif what == "lift" and seen is not None:
        released = CHAIN.release(attempt(DELETE, None, seen.obj), view)
        world.commit([Delete(key)], released, Expect(key, seen.revision))


def counted_quotas(world: World) -> Iterator[Obj]:
    return (one.obj for one in world.list(QUOTA_RESOURCE, "default") if is_counted(one.obj))


@pytest.mark.slow
@settings(max_examples=300)
@given(steps)
def test_a_quota_that_is_counted_is_right_in_whatever_order_it_begins(story: list[Step]) -> None:
    world = World()
    past = [world.fork()]
    for what, number, ago in story:
        with contextlib.suppress(ApiError, Lost):
            take(world, past[-1 - min(ago, len(past) - 1)], what, number)
        past.append(world.fork())
        for each in counted_quotas(world):
            assert drift(each, world) == {}
    has_rules = any(True for _ in world.list(RULES))
    assert has_rules == any(True for _ in world.list(QUOTA_RESOURCE, "default"))
