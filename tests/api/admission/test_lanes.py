"""Writers of one account take turns; others do not wait for them."""

from __future__ import annotations

import asyncio

import pytest

from fathom.api.admission.attempt import Charge
from fathom.api.admission.lanes import Lanes, lanes_of
from fathom.model.body import Body
from fathom.store.protocol import Delete, Expect, Put


def test_lanes_are_the_keys_that_charges_write_in_one_order() -> None:
    charges = [
        Charge((Expect("/a", 1),)),
        Charge((Expect("/c", 1),), (Put("/c", Body({})), Delete("/b"))),
        Charge((), (Delete("/b"),)),
    ]
    assert lanes_of(charges) == ("/b", "/c")
    assert lanes_of([]) == ()


def test_one_writer_at_a_time_is_in_a_lane_and_the_others_know_that_they_waited() -> None:
    lanes, inside, story = Lanes(), set[str](), list[tuple[int, bool]]()

    async def writer(number: int, keys: tuple[str, ...]) -> None:
        async with lanes.hold(keys) as waited:
            assert not inside & set(keys)
            inside.update(keys)
            await asyncio.sleep(0)
            inside.difference_update(keys)
            story.append((number, waited))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number, keys in enumerate([("a",), ("a",), ("b",), ("a", "b"), ("b",), ()]):
                group.create_task(writer(number, keys))

    asyncio.run(main())
    assert sorted(story) == [(0, False), (1, True), (2, False), (3, True), (4, True), (5, False)]
    assert [number for number, _ in story if number in {0, 1, 3}] == [0, 1, 3]
    assert lanes._lanes == {}


def test_who_gives_up_waiting_or_fails_inside_leaves_the_lane_free() -> None:
    async def main() -> None:
        lanes = Lanes()

        async def enter(seconds: float = 0.0) -> None:
            async with lanes.hold(("a", "b")):
                await asyncio.sleep(seconds)

        first = asyncio.create_task(enter(60))
        await asyncio.sleep(0)
        second = asyncio.create_task(enter())
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        with pytest.raises(KeyError):
            async with lanes.hold(("a",)):
                raise KeyError
        assert lanes._lanes == {}
        async with lanes.hold(("a", "b")) as waited:
            assert not waited

    asyncio.run(asyncio.wait_for(main(), 5))
