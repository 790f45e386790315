"""A process in flight begins anew before its tape could lose its beginning; every run can be replayed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.record.entries import Lines
from tests.replay.toys import Answering

from fathom.record import recorded_process
from fathom.record.recorded_process import RecordedProcess
from fathom.record.replay import replay
from fathom.record.tape import DiskTape, reels
from fathom.seams.outside import Outside, RandomIds, SystemClock
from fathom.seams.process import Inside
from fathom.seams.seam import Ask

BUDGET = 256 * 1024


async def _talk(inside: Inside) -> None:
    """Asks until it is told something; leaves its count, and says who it was."""
    count = int(inside.birth.estate or b"0")
    told = asyncio.create_task(inside.seam.signal())
    while not told.done():
        noise = f"{inside.outside.rng.getrandbits(2048):x}"  # So that it does not pack well.
        await inside.seam.request(Ask("PUT", f"/{noise}?after={inside.birth.predecessor}"), timeout_s=1)
        count += 1
        await asyncio.sleep(0.0005)
    inside.estate = str(count).encode()
    inside.identity = f"talker-{inside.incarnation}"


def begin(inside: Inside) -> None:
    inside.domain.create_task(_talk(inside))


def begin_holder(inside: Inside) -> None:
    """Has an identity from the start, and says whom it follows."""
    inside.identity = f"holder-{inside.birth.seed}"
    inside.domain.create_task(_talk(inside))


def begin_stubborn(inside: Inside) -> None:
    """Does not listen, and clings to what it has."""

    async def cling() -> None:
        try:
            while True:
                await inside.seam.request(Ask("GET", f"/{inside.incarnation}"), timeout_s=1)
                await asyncio.sleep(0.01)
        finally:
            asyncio.get_running_loop().create_task(asyncio.sleep(5))
            await inside.seam.request(Ask("DELETE", "/lease"), timeout_s=1)

    inside.domain.create_task(cling())


def begin_brief(inside: Inside) -> None:
    inside.domain.create_task(asyncio.sleep(0))


def begin_badly(inside: Inside) -> None:
    raise KeyError("workers")


def outside() -> Outside:
    rng = random.Random(7)
    return Outside(clock=SystemClock(), ids=RandomIds(rng), rng=rng)


def flight(name: str, tape: DiskTape | None = None, **options: Any) -> RecordedProcess:
    entry = f"tests.replay.test_flight:{name}"
    return RecordedProcess(entry, {}, connect=Answering, outside=outside(), tape=tape, **options)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_process, "LOOK_S", 0.005)


def test_a_process_that_was_killed_is_known_to_the_one_that_is_started_in_its_place(tmp_path: Path) -> None:
    async def killed() -> str:
        tape = DiskTape(tmp_path, budget_bytes=BUDGET)
        flying = flight("begin_holder", tape)
        running = asyncio.create_task(flying.run())
        await until(lambda: tape.records > 5 and (tmp_path / "identity").exists())
        running.cancel()  # No signal: it releases nothing.
        await asyncio.wait((running,))
        tape.close()
        return (tmp_path / "identity").read_text()

    first, second = asyncio.run(killed()), asyncio.run(killed())
    births = [replay(reel.records()).birth for reel in reels(tmp_path)]
    assert first.startswith("holder-")
    assert [birth.predecessor for birth in births] == ["", first]
    assert second.startswith("holder-")


def test_a_process_without_a_tape_is_known_by_the_directory_that_it_held(tmp_path: Path) -> None:
    """That of its journal, for example: whoever holds it next knows that the process before has ended."""
    asked: list[str] = []

    class Noting(Answering):
        def start(self, number: int, ask: Ask, *, stream: bool) -> None:
            asked.append(ask.target.partition("?after=")[2])
            super().start(number, ask, stream=stream)

    async def killed() -> str:
        options: dict[str, Any] = {"connect": Noting, "outside": outside(), "held": tmp_path}
        running = asyncio.create_task(
            RecordedProcess("tests.replay.test_flight:begin_holder", {}, **options).run()
        )
        await until(lambda: len(asked) > 5 and (tmp_path / "identity").exists())
        running.cancel()  # No signal: it releases nothing.
        await asyncio.wait((running,))
        return (tmp_path / "identity").read_text()

    first = asyncio.run(killed())
    assert (set(asked), first.partition("-")[0]) == ({""}, "holder")
    asked.clear()
    asyncio.run(killed())
    assert set(asked) == {first}


def test_an_identity_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "identity").write_bytes(b"\xff")

    async def story() -> None:
        tape = DiskTape(tmp_path, budget_bytes=BUDGET)
        flying = flight("begin_brief", tape)
        await flying.run()
        tape.close()

    asyncio.run(story())
    assert [replay(reel.records()).birth.predecessor for reel in reels(tmp_path)] == [""]


def test_what_is_kept_always_begins_with_a_beginning_and_replays(tmp_path: Path) -> None:
    async def story() -> tuple[int, int]:
        tape = DiskTape(tmp_path, budget_bytes=BUDGET)
        flying = flight("begin", tape, age_s_min=0.0)
        running = asyncio.create_task(flying.run())
        await until(lambda: flying.incarnation == 8)
        flying.stop()
        await running
        lost = tape.lost
        tape.close()
        return flying.incarnation, lost

    incarnations, lost = asyncio.run(story())
    kept = reels(tmp_path)
    assert lost == 0
    assert sum(path.stat().st_size for path in tmp_path.glob("*.seg")) <= BUDGET
    assert [reel.run for reel in kept] == list(range(incarnations - len(kept) + 1, incarnations + 1))
    assert 2 <= len(kept) < incarnations  # Some are history, some were dropped.
    results = [replay(reel.records()) for reel in kept]
    assert [result.matched for result in results] == [True] * len(kept)
    births = [result.birth for result in results]
    assert [birth.incarnation for birth in births] == [reel.run for reel in kept]
    assert [birth.predecessor for birth in births] == [f"talker-{reel.run - 1}" for reel in kept]
    estates = [int(birth.estate) for birth in births]
    writes = [result.writes for result in results]
    assert [after - before for before, after in pairwise(estates)] == writes[:-1]


def test_a_process_that_does_not_listen_is_cut_off_and_says_nothing_more() -> None:
    said = Lines()
    asked: list[str] = []

    class Noting(Answering):
        def start(self, number: int, ask: Ask, *, stream: bool) -> None:
            asked.append(ask.method)
            super().start(number, ask, stream=stream)

    async def story() -> None:
        flying = RecordedProcess(
            "tests.replay.test_flight:begin_stubborn",
            {},
            connect=Noting,
            outside=outside(),
            log=said,
            grace_s=0.05,
        )
        running = asyncio.create_task(flying.run())
        await until(lambda: len(asked) > 3)
        flying.stop()
        await running

    asyncio.run(story())
    assert [event for event, _ in said.lines] == ["the process did not stop in time and was ended"]
    assert set(asked) == {"GET"}


def begin_particular(inside: Inside) -> None:
    inside.domain.create_task(inside.seam.request(Ask("GET", f"/{inside.options}"), timeout_s=1))


def test_a_process_sees_its_options_as_the_tape_has_them(tmp_path: Path) -> None:
    async def story() -> None:
        tape = DiskTape(tmp_path)
        entry = "tests.replay.test_flight:begin_particular"
        options = {"pair": (1, 2.0), "names": {"a": None}}
        await RecordedProcess(entry, options, connect=Answering, outside=outside(), tape=tape).run()
        tape.close()

    asyncio.run(asyncio.wait_for(story(), 10))
    (reel,) = reels(tmp_path)
    result = replay(reel.records())
    assert (result.matched, result.asks) == (True, 1)


def test_a_process_that_cannot_begin_raises() -> None:
    with pytest.raises(KeyError, match="workers"):
        asyncio.run(flight("begin_badly").run())


def test_a_process_that_ends_by_itself_is_over() -> None:
    flying = flight("begin_brief")
    asyncio.run(asyncio.wait_for(flying.run(), 10))
    assert flying.incarnation == 1


def test_a_restart_is_not_made_more_often_than_it_may(tmp_path: Path) -> None:
    async def story() -> tuple[int, bool]:
        tape = DiskTape(tmp_path, budget_bytes=BUDGET)
        flying = flight("begin", tape, age_s_min=3600.0)
        running = asyncio.create_task(flying.run())
        await until(lambda: tape.lost > 10)
        flying.stop()
        await running
        tape.close()
        return flying.incarnation, tape.recording

    assert asyncio.run(story()) == (1, False)
    (reel,) = reels(tmp_path)
    assert replay(reel.records()).matched  # From its beginning, as far as there was room.
