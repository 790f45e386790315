"""What could make two runs of the same inputs differ, and does not: contexts, garbage, clocks, sets."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.record.entries import Lines
from tests.seams.test_host import Deaf, ListTape

from fathom.seams import domain as domains
from fathom.seams import host as hosts
from fathom.seams.domain import Domain, Runaway, driving
from fathom.seams.host import Host
from fathom.seams.process import Birth, DomainClock, Inside, NoEntry, Process, clock_payload, load_entry
from fathom.seams.seam import Ask, Input, Reply, Seam

pytestmark = pytest.mark.slow

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


class HandClock:
    """Both clocks are set by the test."""

    def __init__(self) -> None:
        self.wall_ns = 0
        self.up_ns = 0

    def now_ns(self) -> int:
        return self.wall_ns

    def monotonic_ns(self) -> int:
        return self.up_ns


class Living:
    """A hosted process that a test begins, feeds and looks at."""

    def __init__(self, begin: Callable[[Seam], object], **options: Any) -> None:
        self.clock, self.tape, self.domain = HandClock(), ListTape(), Domain()
        self.host = Host(self.domain, self.clock, self.tape, **options)
        self.seam = Seam(self.domain, Deaf())
        self.host.start(self.seam, lambda: begin(self.seam))

    def kinds(self) -> list[Input]:
        return [record[0] for record in self.tape.records]


async def turn() -> None:
    """Long enough for the host to pump what is there."""
    for _ in range(5):
        await asyncio.sleep(0)


def soon(coro: Any) -> None:
    asyncio.get_running_loop().create_task(coro)


def test_a_variable_of_the_hosts_context_is_not_seen_inside() -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(WHO.get())
        WHO.set("somebody")

    domain = Domain()
    token = WHO.set("the host")
    try:
        domain.input(0, lambda: domain.create_task(look()))
        domain.input(1, lambda: domain.create_task(look()))
    finally:
        WHO.reset(token)
    assert seen == ["nobody", "nobody"]


def test_garbage_is_collected_as_an_input_and_never_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "INPUTS_PER_COLLECTION", 10)
    ended: list[int] = []

    class Knot:
        def __init__(self, domain: Domain) -> None:
            self.domain = domain
            self.me = self  # Only a collection takes it away.

        def __del__(self) -> None:
            ended.append(self.domain.inputs)

    async def story() -> list[Input]:
        def begin(seam: Seam) -> None:
            soon(listen(seam))

        async def listen(seam: Seam) -> None:
            while True:
                await seam.signal()
                Knot(asyncio.get_running_loop())  # type: ignore[arg-type]  # it is the Domain

        living = Living(begin)
        assert not gc.isenabled()
        for _ in range(25):
            living.host.post(Input.SIGNAL, 0, 0, b"x")
            await turn()
        living.host.stop()
        return living.kinds()

    gc.collect()
    gc.enable()
    kinds = asyncio.run(story())
    assert gc.isenabled()
    places = [index + 1 for index, kind in enumerate(kinds) if kind is Input.COLLECT]
    assert len(places) == 2
    assert sorted(set(ended)) == places
    assert len(ended) == kinds[: places[-1]].count(Input.SIGNAL)


def test_what_a_finalizer_begins_is_finished_with_the_collection() -> None:
    said: list[str] = []
    domain = Domain()
    process = Process(domain, Seam(domain, Deaf()), lambda: domain.create_task(abandon()))

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            said.append(f"closed at input {domain.inputs}")

    async def abandon() -> None:
        generator: Any = numbers()
        knot = [generator]
        knot.append(knot)
        await anext(generator)

    gc.disable()
    try:
        process.take(Input.START, 0, 0, 0, b"")
        process.take(Input.TICK, 0, 1, 0, b"")
        assert said == []
        process.take(Input.COLLECT, 0, 2, 2, b"")
    finally:
        gc.enable()
    assert (said, domain.tasks) == (["closed at input 3"], ())


def test_collections_take_older_generations_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "INPUTS_PER_COLLECTION", 1)
    monkeypatch.setattr(hosts, "OLDER_EVERY", 2)

    async def story() -> list[int]:
        living = Living(lambda seam: None)
        for _ in range(7):
            living.host.post(Input.SIGNAL, 0)
            await turn()
        living.host.stop()
        return [status for kind, _, _, status, _, _ in living.tape.records if kind is Input.COLLECT]

    assert asyncio.run(story()) == [0, 1, 0, 2, 0, 1, 0]


def test_a_clock_that_goes_back_takes_no_time_back() -> None:
    seen: list[int] = []

    async def story() -> None:
        living = Living(lambda seam: soon(note(seam)))
        for up_ns in (5, 3, 9):
            living.clock.up_ns = up_ns
            living.host.post(Input.SIGNAL, 0)
            await turn()
        living.host.stop()

    async def note(seam: Seam) -> None:
        while True:
            await seam.signal()
            seen.append(seam._domain.now_ns)

    asyncio.run(story())
    assert seen == [5, 5, 9]


def test_a_wall_clock_that_is_set_is_an_input_and_small_errors_are_not() -> None:
    async def story() -> tuple[list[Input], int]:
        living = Living(lambda seam: None)
        inner = DomainClock(living.domain)
        await turn()
        for wall_ns in (99_000_000, 50_000_000_000, 50_050_000_000):
            living.clock.wall_ns = wall_ns
            living.host.post(Input.SIGNAL, 0)
            await turn()
        living.host.stop()
        return living.kinds(), inner.now_ns()

    assert asyncio.run(story()) == (
        [Input.START, Input.SIGNAL, Input.SIGNAL, Input.CLOCK, Input.SIGNAL],
        50_000_000_000,
    )


def test_a_clock_set_back_before_1970_survives_its_record() -> None:
    domain = Domain()
    process = Process(domain, Seam(domain, Deaf()), lambda: None)
    process.take(Input.CLOCK, 0, 0, 0, clock_payload(-5))
    assert domain.epoch_ns == -5


def test_a_process_that_cannot_begin_ends_its_host_with_the_error() -> None:
    async def story() -> None:
        def begin(seam: Seam) -> None:
            raise ValueError("bad options")

        living = Living(begin)
        with pytest.raises(ValueError, match="bad options"):
            await asyncio.wait_for(living.host.done, 5)
        living.host.post(Input.SIGNAL, 0)
        await turn()
        assert living.kinds() == [Input.START]

    asyncio.run(story())


def test_a_drain_that_never_ends_is_stopped_by_count_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "CALLBACKS_PER_INPUT_MAX", 100)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def story() -> None:
        living = Living(lambda seam: soon(spin()))
        with pytest.raises(Runaway, match="over 100 callbacks"):
            await asyncio.wait_for(living.host.done, 5)

    asyncio.run(story())


def test_failures_are_told_without_addresses_and_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "FAILURES_KEPT_MAX", 2)
    said = Lines()

    def fail() -> None:
        raise KeyError("no")

    def begin(seam: Seam) -> None:
        for _ in range(5):
            asyncio.get_running_loop().call_soon(fail)

    async def story() -> Domain:
        living = Living(begin, log=said)
        await turn()
        living.host.stop()
        return living.domain

    domain = asyncio.run(story())
    assert (domain.failed, len(domain.failures)) == (5, 2)
    what = {"what": f"Exception in <handle of {fail.__qualname__}>", "error": "KeyError('no')"}
    assert said.lines == [("deciding code failed", what)] * 2


def test_a_sleep_without_end_is_a_sleep() -> None:
    domain = Domain()
    domain.input(0, lambda: domain.create_task(asyncio.sleep(float("inf"))))
    domain.input(1 << 61)
    assert len(domain.tasks) == 1


def test_an_answer_that_comes_with_its_deadline_counts() -> None:
    replies: list[Reply] = []
    domain = Domain()
    seam = Seam(domain, Deaf())

    async def ask() -> None:
        replies.append(await seam.request(Ask("GET", "/"), timeout_s=1))

    domain.input(0, lambda: domain.create_task(ask()))
    domain.input(1_000_000_000, seam.deliver, Input.REPLY, 1, 200, b"just")
    domain.input(3_000_000_000)
    assert (replies, seam.waiting, seam.asked, domain.next_deadline_ns()) == (
        [Reply(200, b"just")],
        0,
        {},
        None,
    )


def test_deadlines_that_were_met_do_not_pile_up() -> None:
    domain = Domain()
    fired: list[int] = []

    def arm() -> None:
        for number in range(5000):
            timer = domain.call_later(60 + number % 7, fired.append, number)
            if number % 100:
                timer.cancel()

    domain.input(0, arm)
    assert len(domain._timers) <= domains.TIMERS_UNSWEPT
    domain.input(100_000_000_000)
    assert fired == sorted(range(0, 5000, 100), key=lambda number: (number % 7, number))


def test_an_answer_that_comes_too_late_is_no_input() -> None:
    replies: list[Reply] = []

    async def ask(seam: Seam) -> None:
        replies.append(await seam.request(Ask("GET", "/"), timeout_s=1))

    async def story() -> list[Input]:
        living = Living(lambda seam: soon(ask(seam)))
        await turn()
        living.clock.up_ns = 2_000_000_000
        living.host.post(Input.SIGNAL, 0)
        living.host.post(Input.REPLY, 1, 200, b"late")
        living.host.post(Input.CHUNK, 7, 0, b"of no stream")
        await turn()
        living.host.stop()
        return living.kinds()

    kinds = asyncio.run(story())
    assert [kind for kind in kinds if kind is not Input.CLOCK] == [Input.START, Input.SIGNAL]
    assert replies == [Reply(0, b"no answer within 1 s")]


def test_what_is_redacted_is_neither_recorded_nor_seen() -> None:
    def redact(target: str) -> Callable[[bytes], bytes] | None:
        return (lambda payload: payload.upper()) if "secrets" in target else None

    replies: list[Reply] = []

    async def ask(seam: Seam, target: str) -> None:
        replies.append(await seam.request(Ask("GET", target), timeout_s=1))

    async def story() -> list[bytes]:
        def begin(seam: Seam) -> None:
            soon(ask(seam, "/secrets/a"))
            soon(ask(seam, "/pods/a"))

        living = Living(begin, redact=redact)
        await turn()
        for number in (1, 2):
            living.host.post(Input.REPLY, number, 200, b"text")
        await turn()
        living.host.stop()
        return [record[5] for record in living.tape.records if record[0] is Input.REPLY]

    assert asyncio.run(story()) == [b"TEXT", b"text"]
    assert replies == [Reply(200, b"TEXT"), Reply(200, b"text")]


def test_a_tape_that_fails_ends_the_process_and_is_told() -> None:
    class Torn(ListTape):
        def append(self, kind: Input, number: int, **fields: Any) -> None:
            if kind is Input.SIGNAL:
                raise OverflowError("too large for a record")

    async def story() -> None:
        domain = Domain()
        host = Host(domain, HandClock(), Torn())
        host.start(Seam(domain, Deaf()), lambda: None)
        host.post(Input.SIGNAL, 0)
        with pytest.raises(OverflowError):
            await asyncio.wait_for(host.done, 5)

    asyncio.run(story())


def test_the_buried_run_no_further_and_are_not_heard(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """Their `finally` blocks run, because Python sees to that; whoever they reach for is not there."""
    said: list[str] = []
    domain, backend = Domain(), Deaf()
    seam = Seam(domain, backend)

    async def last_words() -> None:
        said.append("never")

    async def cling() -> None:
        try:
            await seam.request(Ask("GET", "/"), timeout_s=5)
        finally:
            said.append("finally")
            asyncio.get_running_loop().create_task(last_words())
            raise RuntimeError("and that went wrong")

    async def wait() -> None:
        await seam.signal()

    domain.input(0, lambda: [domain.create_task(cling()), domain.create_task(wait())])
    seam.cut()
    domain.bury()
    gc.collect()
    assert (said, len(backend.asks), domain.tasks, domain.failed) == (["finally"], 1, (), 0)
    assert (capfd.readouterr().err, list(recwarn)) == ("", [])


def test_each_signal_goes_to_one_listener() -> None:
    heard: list[str] = []
    domain = Domain()
    seam = Seam(domain, Deaf())

    async def listen(name: str) -> None:
        heard.append(f"{name} {await seam.signal()}")

    domain.input(0, lambda: [domain.create_task(listen(name)) for name in "ab"])
    domain.input(1, seam.deliver, Input.SIGNAL, 0, 0, b"reload")
    domain.input(2, seam.deliver, Input.SIGNAL, 0, 0, b"stop \xff")
    assert heard == ["a reload", "b stop \ufffd"]


def test_a_process_draws_the_same_from_the_same_birth_and_other_things_when_reborn() -> None:
    def drawn(incarnation: int) -> tuple[str, float, int]:
        domain = Domain()
        birth = Birth(entry="a:b", seed="82219", epoch_ns=1000, incarnation=incarnation)
        inside = Inside(birth, domain, Seam(domain, Deaf()))
        return inside.outside.ids.uid(), inside.outside.rng.random(), inside.outside.clock.now_ns()

    assert drawn(1) == drawn(1)
    assert drawn(1)[:2] != drawn(2)[:2]
    assert drawn(1)[2] == 1000


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nothing", "module:function"),
        (":x", "module:function"),
        ("no.such.module:x", "No module named"),
        ("fathom.seams.process:nothing", "has no nothing"),
        ("fathom.seams.host:ANSWERS", "is not a function"),
    ],
)
def test_an_entry_that_is_not_there_is_said(name: str, complaint: str) -> None:
    with pytest.raises(NoEntry, match=complaint):
        load_entry(name)


SETS = """
import asyncio
from fathom.seams.domain import Domain
domain, said = Domain(), []

async def nap(name, delay_s):
    try:
        await asyncio.sleep(delay_s)
    except asyncio.CancelledError:
        said.append(f"{name} cancelled")
        raise
    return name

async def fail():
    await asyncio.sleep(0.5)
    raise ValueError

async def story():
    tasks = [asyncio.create_task(nap(f"t{i}", i * 37 % 11 / 10)) for i in range(200)]
    done, pending = await asyncio.wait(tasks, timeout=0.55)
    said.extend(task.result() for task in done)
    said.extend(task.get_name() for task in pending)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    try:
        async with asyncio.TaskGroup() as group:
            for i in range(50):
                group.create_task(nap(f"g{i}", 9))
            group.create_task(fail())
    except* ValueError:
        said.append("failed")
    futures = {domain.create_future(): i for i in range(50)}
    said.extend(str(futures[future]) for future in set(futures))

domain.input(0, lambda: domain.create_task(story()))
while (due := domain.next_deadline_ns()) is not None:
    domain.input(due)
assert domain.failures == [] and len(said) > 300, domain.failures
print(" ".join(said))
"""


@pytest.mark.live
def test_sets_of_tasks_have_one_order_in_every_process() -> None:
    def run(hash_seed: str, padding: int) -> str:
        code = f"junk = [object() for _ in range({padding})]\n{SETS}"  # Other addresses too.
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert len({run("0", 0), run("1", 1000), run("777", 100_000)}) == 1


def test_whoever_drives_many_inputs_finds_its_own_loop_and_hooks_again() -> None:
    hooks = sys.get_asyncgen_hooks()
    one, other = Domain(), Domain()
    ran: list[asyncio.AbstractEventLoop] = []
    with driving():
        for domain in (one, other):
            domain.step(0, lambda: ran.append(asyncio.get_running_loop()))
    assert ran == [one, other]
    assert (asyncio._get_running_loop(), sys.get_asyncgen_hooks()) == (None, hooks)


def test_an_input_says_when_the_next_timer_is_due() -> None:
    domain = Domain()
    timers: list[asyncio.TimerHandle] = []

    def arm(*delays_s: float) -> None:
        timers.extend(domain.call_later(delay_s, list) for delay_s in delays_s)

    said = [
        domain.input(0, arm, 3.0, 2.0),
        domain.input(1, timers[1].cancel),
        domain.input(4_000_000_000),
    ]
    assert said == [2_000_000_000, 3_000_000_000, None]
