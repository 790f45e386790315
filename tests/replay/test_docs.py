"""What docs/recording.md shows is run."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import pytest
from tests.replay.toys import Answering

from fathom.record.recorded_process import RecordedProcess
from fathom.record.replay import replay
from fathom.record.tape import DiskTape, reels
from fathom.seams.outside import Outside, RandomIds, SystemClock

PAGE = Path(__file__).parent.parent.parent / "docs" / "recording.md"


def test_the_documented_process_runs_is_recorded_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```python\n# web\.py\n(.*?)```", PAGE.read_text(), flags=re.S)
    (tmp_path / "documented_web.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    rng = random.Random(1)
    outside = Outside(clock=SystemClock(), ids=RandomIds(rng), rng=rng)
    tape = DiskTape(tmp_path / "tape")

    async def story() -> None:
        flight = RecordedProcess("documented_web:begin", {}, connect=Answering, outside=outside, tape=tape)
        running = asyncio.create_task(flight.run())
        while tape.records < 3:  # START, the request, its answer.
            await asyncio.sleep(0.01)
        flight.stop()
        await asyncio.wait_for(running, 10)

    asyncio.run(story())
    tape.close()
    (reel,) = reels(tmp_path / "tape")
    result = replay(reel.records())
    assert (result.matched, result.asks) == (True, 1)
