"""A key is in line at most once and in hand at most once."""

from __future__ import annotations

import asyncio
import random

from fathom.control.queue import WorkQueue


def run_queue_test(story) -> None:  # type: ignore[no-untyped-def]  # a local harness
    async def main() -> None:
        await story(WorkQueue[str](random.Random(1)))

    asyncio.run(main())


def test_a_key_added_twice_is_taken_once() -> None:
    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        queue.add("a")
        assert (await queue.take(), len(queue)) == ("a", 0)

    run_queue_test(story)


def test_a_key_that_changes_while_in_hand_comes_again_only_after_it_is_done() -> None:
    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await queue.take()
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.take() == "a"

    run_queue_test(story)


def test_a_failed_key_comes_again_after_a_pause() -> None:
    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await queue.take()
        queue.failed("a")
        assert len(queue) == 0
        assert await asyncio.wait_for(queue.take(), 2) == "a"

    run_queue_test(story)


def test_the_earliest_of_several_delays_counts() -> None:
    async def story(queue: WorkQueue[str]) -> None:
        queue.add_after("a", 60)
        queue.add_after("a", 0.01)
        queue.add_after("a", 60)
        assert await asyncio.wait_for(queue.take(), 2) == "a"

    run_queue_test(story)


def test_keys_are_taken_in_the_order_they_came() -> None:
    async def story(queue: WorkQueue[str]) -> None:
        for key in "abc":
            queue.add(key)
        assert [await queue.take() for _ in "abc"] == ["a", "b", "c"]

    run_queue_test(story)
