"""Exports and replays for the page: in a child process, one at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.model.errors import ApiError
from fathom.seams.outside import SystemClock
from fathom.web.recordings import ExportAsked, Recordings

pytestmark = pytest.mark.live


def test_one_export_runs_at_a_time_and_a_failed_one_leaves_room_for_the_next(tmp_path: Path) -> None:
    async def both() -> tuple[ApiError, ApiError]:
        recordings = Recordings(tmp_path, SystemClock(), iter("abc").__next__)
        first = asyncio.create_task(recordings.export(ExportAsked("pod/web")))
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as second:
            await recordings.export(ExportAsked("pod/api"))
        with pytest.raises(ApiError) as ended:
            await first
        assert (await recordings.state())["busy"] == ""
        return second.value, ended.value

    second, first = asyncio.run(both())
    assert (second.code, second.message) == (
        429,
        "the server is exporting pod/web, and does one at a time: try again later",
    )
    assert first.code == 400
    assert str(tmp_path) in first.message
    assert list((tmp_path / "page-exports").iterdir()) == []


def test_an_export_that_is_not_there_cannot_be_replayed(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, SystemClock(), lambda: "a")
    with pytest.raises(ApiError) as refused:
        recordings.start_replay("../../store.db")
    assert refused.value.code == 404
