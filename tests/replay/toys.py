"""Small processes for tests of the recorder: one that behaves, and its brothers that let the outside in."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fathom.model.decision import Decision, Journal, Outcome, Subject, Table
from fathom.record.tape import ASK, Record
from fathom.seams.domain import Domain
from fathom.seams.host import Host
from fathom.seams.outside import SystemClock
from fathom.seams.process import Birth, Entry, Inside
from fathom.seams.seam import Ask, Input, Seam

COUNT = 20


class Toy:
    """Asks for a number of things in turn, each named after what it has heard before."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._heard: list[str] = []

    async def run(self) -> None:
        for index in range(self._inside.options.get("count", COUNT)):
            await asyncio.sleep(0.001)
            ask = self._ask(index)
            reply = await self._inside.seam.request(ask, timeout_s=5)
            self._heard.append(f"{reply.status}")
            self._inside.journal.decided(
                Decision(
                    id=f"{index}", time_ns=0, controller="toy", subject=Subject("x", "", "y"), verdict="go"
                )
            )

    def _ask(self, index: int) -> Ask:
        words = [self._inside.outside.ids.suffix(), str(self._inside.outside.clock.now_ns()), *self._heard]
        leak = LEAKS[self._inside.options.get("leak", "none")]
        if index == self._inside.options.get("at", COUNT // 2):
            words.append(leak())
        return Ask("POST", f"/things/{index}", " ".join(words).encode(), (("x-toy", "1"),))


_ALIVE: list[object] = []


def _kept_alive() -> object:
    """At an address that no other one gets."""
    _ALIVE.append(object())
    return _ALIVE[-1]


# How deciding code could let the outside in. Each gives another word every time, or in every interpreter.
LEAKS: dict[str, Callable[[], str]] = {
    "none": lambda: "none",
    "clock": lambda: str(time.monotonic_ns()),
    "random": lambda: str(random.random()),
    "system": lambda: os.urandom(8).hex(),
    "address": lambda: repr(_kept_alive()),
    "pid": lambda: str(os.getpid()),
    "hash order": lambda: " ".join({f"word-{number}" for number in range(50)}),
}


def begin(inside: Inside) -> None:
    inside.domain.create_task(Toy(inside).run())


def begin_silent(inside: Inside) -> None:
    """Another code than the one that recorded: it says less."""
    inside.domain.create_task(Toy(_with(inside, count=COUNT // 2)).run())


def begin_chatty(inside: Inside) -> None:
    """It says more."""
    inside.domain.create_task(Toy(inside).run())
    inside.domain.create_task(_later(inside))


async def _later(inside: Inside) -> None:
    await asyncio.sleep(0.005)
    await inside.seam.request(Ask("GET", "/more"), timeout_s=5)


def begin_broken(inside: Inside) -> None:
    inside.domain.create_task(Toy(inside).run())

    def fail(*_: object) -> None:
        raise ValueError("a bug that the live process did not have")

    inside.seam.deliver = fail  # type: ignore[method-assign,assignment]  # on purpose: no input can be taken


def _with(inside: Inside, **options: Any) -> Inside:
    inside.options = {**inside.options, **options}
    return inside


class ListTape:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None:
        self.records.append(Record(int(kind), number, now_ns, status, checksum, payload))

    def asked(self, number: int, ask: Ask, *, now_ns: int, checksum: int) -> None:
        line = f"{ask.method} {ask.target} {len(ask.body)}".encode()
        self.records.append(Record(ASK, number, now_ns, 0, checksum, line))


class ListJournal:
    def __init__(self) -> None:
        self.said: list[Decision | Outcome] = []

    def decided(self, decision: Decision) -> None:
        self.said.append(decision)

    def concluded(self, outcome: Outcome) -> None:
        self.said.append(outcome)

    def tabled(self, table: Table) -> None: ...


class Answering:
    """Answers everything, after a moment."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        asyncio.get_running_loop()  # Inside the Domain: the host's own loop is elsewhere.
        self._host._loop.call_soon(self._host.post, Input.REPLY, number, 200 + number % 2, b"{}")

    def cancel(self, number: int) -> None: ...

    async def close(self) -> None: ...


def recorded(
    entry: Entry = begin, *, journal: Journal | None = None, python: str = "", **options: Any
) -> list[Record]:
    """What a live run of a toy leaves on its tape."""
    tape = ListTape()
    birth = Birth(
        entry="tests.replay.toys:begin",
        seed="1",
        epoch_ns=SystemClock().now_ns(),
        options=options,
        python=python,
    )

    async def main() -> None:
        domain = Domain()
        host = Host(domain, SystemClock(), tape)
        seam = Seam(domain, Answering(host))
        inside = Inside(birth, domain, seam, journal=journal)
        host.start(seam, lambda: entry(inside), msgspec.json.encode(birth))
        while domain.tasks or not domain.inputs:
            await asyncio.sleep(0.001)
        host.stop()

    asyncio.run(asyncio.wait_for(main(), 20))
    return tape.records


def asks_of(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.kind == ASK]
