"""Work that is done one at a time: who waits, and who is sent away."""

from __future__ import annotations

import asyncio

import pytest

from fathom.ask.turns import Turns
from fathom.model.errors import ApiError


def test_one_works_at_a_time_and_others_wait_for_their_turn() -> None:
    async def story() -> list[str]:
        turns, told = Turns(waiting_max=2, wait_s_max=60, what="previews"), []

        async def work(name: str) -> None:
            async with turns:
                told.append(f"{name} begins")
                await asyncio.sleep(0)
                told.append(f"{name} ends")

        await asyncio.gather(work("a"), work("b"))
        return told

    assert asyncio.run(story()) == ["a begins", "a ends", "b begins", "b ends"]


def test_too_many_and_those_who_wait_too_long_are_sent_away_and_later_ones_are_not() -> None:
    async def story() -> None:
        turns = Turns(waiting_max=2, wait_s_max=0.01, what="previews")
        async with turns:
            with pytest.raises(ApiError, match="other previews are being made: ask again later") as late:
                await turns.__aenter__()
            assert late.value.code == 429
        full = Turns(waiting_max=1, wait_s_max=60, what="previews")
        async with full:
            with pytest.raises(ApiError, match="1 previews are being made: ask again later"):
                await full.__aenter__()
        async with turns, full:
            pass

    asyncio.run(story())
