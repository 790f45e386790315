"""A stream's reader gets all chunks in order; one that is taken at once does not wake it."""

from __future__ import annotations

from typing import Any

from fathom.seams.domain import Domain
from fathom.seams.seam import Ask, Input, Seam, Stream

WATCH = Ask("GET", "/watch")


class Silent:
    def start(self, number: int, ask: Ask, *, stream: bool) -> None: ...

    def cancel(self, number: int) -> None: ...


class Reading:
    """A task that reads a stream, and takes small numbers at once."""

    def __init__(self) -> None:
        self.domain = Domain()
        self.seam = Seam(self.domain, Silent())
        self.read: list[Any] = []
        self.taken: list[Any] = []
        self.domain.input(0, lambda: self.domain.create_task(self._run()))
        self.deliver(Input.OPENED, 200, b"")

    async def _run(self) -> None:
        stream = await self.seam.open(WATCH, timeout_s=10.0)
        assert isinstance(stream, Stream)
        stream.take_now = self._take
        while (chunks := await stream.read()) is not None:
            self.read += chunks

    def _take(self, chunk: Any) -> bool:
        if chunk < 10:
            self.taken.append(chunk)
        return bool(chunk < 10)

    def deliver(self, kind: Input, status: int, payload: Any) -> None:
        self.domain.input(self.domain.now_ns + 1, self.seam.deliver, kind, 1, status, payload)


def test_a_chunk_that_can_be_taken_at_once_does_not_wake_the_reader() -> None:
    reading = Reading()
    woken = reading.domain.callbacks
    for chunk in (1, 2):
        reading.deliver(Input.CHUNK, 0, chunk)
    assert (reading.taken, reading.read, reading.domain.callbacks) == ([1, 2], [], woken)
    reading.deliver(Input.CHUNK, 0, 10)
    assert (reading.taken, reading.read) == ([1, 2], [10])


def test_no_chunk_is_taken_before_an_earlier_one_is_read_or_before_callbacks_that_wait() -> None:
    reading = Reading()

    def two_at_once() -> None:
        for chunk in (10, 1):
            reading.seam.deliver(Input.CHUNK, 1, 0, chunk)

    reading.domain.input(5, two_at_once)
    assert (reading.taken, reading.read) == ([], [10, 1])

    def after_a_callback() -> None:
        reading.domain.call_soon(reading.read.append, "callback")
        reading.seam.deliver(Input.CHUNK, 1, 0, 2)

    reading.domain.input(6, after_a_callback)
    assert (reading.taken, reading.read) == ([], [10, 1, "callback", 2])
