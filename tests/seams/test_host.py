"""A live Domain can be replayed from what its tape has; deadlines hold when nothing ever answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from fathom.seams.domain import Domain
from fathom.seams.host import Host
from fathom.seams.outside import SystemClock
from fathom.seams.process import Process
from fathom.seams.seam import Ask, Input, Reply, Seam, Stream

Record = tuple[Input, int, int, int, int, bytes]


class ListTape:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None:
        self.records.append((kind, number, now_ns, status, checksum, payload))

    def asked(self, number: int, ask: Ask, *, now_ns: int, checksum: int) -> None: ...


class Moody:
    """A backend that answers late, out of order, or not at all."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.host: Host | None = None

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        assert self.host is not None
        loop, post = self.host._loop, self.host.post
        if "never" in ask.target:
            return
        delay_s = self._rng.random() * 0.004
        loop.call_later(
            delay_s, post, Input.OPENED if stream else Input.REPLY, number, 200, ask.target.encode()
        )
        for index in range(3 if stream else 0):
            loop.call_later(delay_s + 0.001 * index, post, Input.CHUNK, number, 0, b"%d" % index)
        if stream:
            loop.call_later(delay_s + 0.005, post, Input.ENDED, number, 0, b"")

    def cancel(self, number: int) -> None: ...


class Deaf:
    """The backend of a replay: it only remembers what it was asked."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self.asks.append(ask)

    def cancel(self, number: int) -> None: ...


class Story:
    """Some deciding code: workers that ask, time out, read a stream, and write down what they saw."""

    def __init__(self, seam: Seam) -> None:
        self.seam = seam
        self.rng = random.Random("story")
        self.said: list[str] = []
        self.done = False

    def begin(self) -> None:
        asyncio.get_running_loop().create_task(self.run())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(self.worker(name))
            group.create_task(self.reader())
        self.done = True

    async def worker(self, name: str) -> None:
        for index in range(10):
            target = f"/{name}/{index}" if self.rng.random() < 0.8 else f"/{name}/never"
            reply = await self.seam.request(Ask("GET", target), timeout_s=0.01)
            self.said.append(f"{name}{index} {reply.status} {asyncio.get_running_loop().time():.9f}")
            await asyncio.sleep(self.rng.random() * 0.002)

    async def reader(self) -> None:
        stream = await self.seam.open(Ask("GET", "/watch"), timeout_s=1)
        assert isinstance(stream, Stream)
        while (chunks := await stream.read()) is not None:
            self.said.append(f"stream {chunks}")
        stream.close()


def live(tape: ListTape, make: Callable[[Seam], Story]) -> Story:
    async def main() -> Story:
        domain, backend = Domain(), Moody(random.Random(5))
        host = backend.host = Host(domain, SystemClock(), tape)
        seam = Seam(domain, backend)
        story = make(seam)
        host.start(seam, story.begin)
        async with asyncio.timeout(20):
            while not story.done:
                await asyncio.sleep(0.005)
        host.stop()
        assert domain.failures == []
        return story

    return asyncio.run(main())


def replayed(records: list[Record], make: Callable[[Seam], Story]) -> tuple[Story, Deaf]:
    domain, backend = Domain(), Deaf()
    seam = Seam(domain, backend)
    story = make(seam)
    process = Process(domain, seam, story.begin)
    for kind, number, now_ns, status, checksum, payload in records:
        if checksum:
            assert seam.asked[number] == checksum
        process.take(kind, number, now_ns, status, payload)
    return story, backend


def test_a_replay_says_what_the_live_process_said() -> None:
    tape = ListTape()
    first = live(tape, Story)
    again, asks = replayed(tape.records, Story)
    assert again.said == first.said
    assert len(asks.asks) == 31


def test_a_replay_of_a_prefix_says_a_prefix() -> None:
    tape = ListTape()
    first = live(tape, Story)
    half, _ = replayed(tape.records[: len(tape.records) // 2], Story)
    assert half.said == first.said[: len(half.said)]


def test_an_ask_that_is_never_answered_is_answered_by_its_deadline() -> None:
    domain = Domain()
    seam = Seam(domain, Deaf())
    answers: list[Reply] = []

    async def ask() -> None:
        answers.append(await seam.request(Ask("GET", "/"), timeout_s=2))

    domain.input(0, lambda: domain.create_task(ask()))
    domain.input(1_999_999_999)
    assert answers == []
    domain.input(2_000_000_000)
    assert answers == [Reply(0, b"no answer within 2 s")]
    assert seam.asked == {}


def test_signals_wait_until_somebody_listens() -> None:
    domain = Domain()
    seam = Seam(domain, Deaf())
    heard: list[str] = []

    async def listen() -> None:
        while True:
            heard.append(await seam.signal())

    domain.input(0, seam.deliver, Input.SIGNAL, 0, 0, b"reload")
    domain.input(1, lambda: domain.create_task(listen()))
    domain.input(2, seam.deliver, Input.SIGNAL, 0, 0, b"stop")
    assert heard == ["reload", "stop"]
