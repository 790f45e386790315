"""During an outage almost nothing is sent; afterwards everything is, soon."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from tests.control.stage import Stage

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Rejected
from fathom.control.breaker import Breaker, BreakerPass, BreakerView, Guarded
from fathom.model.errors import ApiError
from fathom.seams.seam import Ask, Reply, Stream

MAPS = Resource("", "v1", "configmaps")
ASK = Ask("GET", "/")


class Server:
    """Answers what `now` says, after `delay_s`, and notes when it was asked."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.asked_s: list[float] = []
        self.now: Callable[[], Reply] = lambda: Reply(200, b"{}")
        self.delay_s = 0.001

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        self.asked_s.append(self._stage.now_s)
        await asyncio.sleep(self.delay_s)
        return self.now()

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        return await self.request(ask, timeout_s=timeout_s)


def down() -> Reply:
    return Reply(0, b"connection refused")


def make(seed: int = 1) -> tuple[Stage, Server, Breaker, Guarded, list[BreakerView]]:
    stage = Stage()
    server, changes = Server(stage), list[BreakerView]()
    breaker = Breaker("here", random.Random(seed), on_change=changes.append)
    return stage, server, breaker, Guarded(server, breaker), changes


def send(stage: Stage, transport: Guarded) -> Reply:
    return stage.finish(transport.request(ASK, timeout_s=1))


def open_it(stage: Stage, server: Server, transport: Guarded) -> None:
    server.now = down
    for _ in range(5):
        send(stage, transport)


def test_it_opens_after_five_failures_in_a_row_and_then_nothing_is_sent() -> None:
    stage, server, breaker, transport, changes = make()
    open_it(stage, server, transport)
    assert [view.state for view in changes] == ["open"]
    refused = [send(stage, transport) for _ in range(100)]
    assert (len(server.asked_s), breaker.view.refused) == (5, 100)
    assert {reply.status for reply in refused} == {429}
    assert breaker.view.last_failure == "no answer: connection refused"


def test_an_answer_in_between_starts_the_count_again() -> None:
    stage, server, breaker, transport, _ = make()
    for _ in range(10):
        server.now = down
        for _ in range(4):
            send(stage, transport)
        server.now = lambda: Reply(404, b"{}")
        send(stage, transport)
    assert breaker.view.state == "closed"


@pytest.mark.parametrize("status", [200, 404, 409, 422, 429])
def test_a_server_that_says_no_is_well(status: int) -> None:
    stage, server, breaker, transport, _ = make()
    server.now = lambda: Reply(status, b"{}")
    for _ in range(50):
        send(stage, transport)
    assert breaker.view.state == "closed"


def test_a_probe_that_is_answered_closes_it() -> None:
    stage, server, breaker, transport, changes = make()
    open_it(stage, server, transport)
    stage.wait(1.0)
    server.now = lambda: Reply(200, b"{}")
    assert send(stage, transport).status == 200
    assert [view.state for view in changes] == ["open", "half-open", "closed"]
    assert breaker.view.failures == 0


def test_while_half_open_one_ask_at_a_time_is_out() -> None:
    stage, server, _, transport, _ = make()
    open_it(stage, server, transport)
    stage.wait(1.0)
    probe = stage.begin(transport.request(ASK, timeout_s=1))
    assert [send(stage, transport).status for _ in range(3)] == [429, 429, 429]
    assert (len(server.asked_s), probe.done()) == (6, False)


def test_an_abandoned_probe_makes_room_for_the_next() -> None:
    stage, server, breaker, transport, _ = make()
    open_it(stage, server, transport)
    stage.wait(1.0)
    probe = stage.begin(transport.request(ASK, timeout_s=1))
    stage.do(probe.cancel)
    assert breaker.view.state == "half-open"
    server.now = lambda: Reply(200, b"{}")
    assert send(stage, transport).status == 200


def test_an_answer_from_before_it_opened_says_nothing_about_now() -> None:
    stage, server, breaker, transport, _ = make()
    server.now, server.delay_s = lambda: Reply(200, b"{}"), 0.5
    slow = stage.begin(transport.request(ASK, timeout_s=1))
    server.delay_s = 0.001
    open_it(stage, server, transport)
    server.now = lambda: Reply(200, b"{}")
    stage.wait(0.495)
    assert slow.result().status == 200
    assert breaker.view.state == "open"


@pytest.mark.parametrize("seed", range(10))
def test_however_many_hammer_it_an_outage_of_30_s_sees_at_most_five_probes(
    seed: int,
) -> None:
    stage, server, breaker, transport, _ = make(seed)

    async def hammer() -> None:
        while True:
            await transport.request(ASK, timeout_s=1)
            await asyncio.sleep(0.05)

    workers = [stage.begin(hammer()) for _ in range(20)]
    stage.wait(5)
    server.now, before = down, len(server.asked_s)
    began_s = stage.now_s
    stage.wait(30)
    assert len(server.asked_s) - before <= 20 + 5 + 5
    late = [asked_s for asked_s in server.asked_s if asked_s > began_s + 1]
    assert len(late) <= 5
    server.now = lambda: Reply(200, b"{}")
    stage.wait(30)
    assert breaker.view.state == "closed"
    for worker in workers:
        stage.do(worker.cancel)


def test_reopened_soon_after_it_closed_it_stays_open_longer() -> None:
    stage, server, breaker, transport, changes = make()
    for _ in range(6):
        open_it(stage, server, transport)
        until_s = breaker.view.until_ns / 1e9
        stage.until(until_s)
        server.now = lambda: Reply(200, b"{}")
        send(stage, transport)
    spans = [(view.until_ns - view.since_ns) / 1e9 for view in changes if view.state == "open"]
    for span, whole in zip(spans, (1, 2, 4, 8, 16, 30), strict=True):
        assert whole / 2 <= span <= whole
    stage.wait(31)
    open_it(stage, server, transport)
    assert breaker.view.until_ns / 1e9 - stage.now_s <= 1


def test_a_vital_ask_passes_and_its_answer_ends_the_wait() -> None:
    stage, server, breaker, transport, _ = make()
    vital = Guarded(server, breaker, vital=True)
    open_it(stage, server, transport)
    assert send(stage, vital).status == 0
    until_ns = breaker.view.until_ns
    assert (breaker.view.state, until_ns > stage.domain.now_ns) == ("open", True)
    server.now = lambda: Reply(200, b"{}")
    assert send(stage, vital).status == 200
    halfway = breaker.view.state
    assert send(stage, transport).status == 200
    assert (halfway, breaker.view.state) == ("half-open", "closed")


def test_work_begins_one_scout_at_a_time_and_all_together_once_it_closed() -> None:
    stage, server, breaker, transport, _ = make()
    began: list[float] = []

    async def worker() -> None:
        await breaker.passable()
        began.append(stage.now_s)

    open_it(stage, server, transport)
    opened_s, until_s = stage.now_s, breaker.view.until_ns / 1e9
    workers = [stage.begin(worker()) for _ in range(5)]
    stage.until(until_s + 1.5)
    assert [round(at - until_s, 6) for at in began] == [0.0, 1.0]
    server.now = lambda: Reply(200, b"{}")
    assert send(stage, transport).status == 200
    assert len(began) == 5
    assert opened_s < began[0]
    stage.finish(asyncio.sleep(0))
    assert all(task.done() for task in workers)
    stage.finish(breaker.passable())


def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    stage, server, breaker, transport, _ = make()
    open_it(stage, server, transport)
    waiting = stage.begin(breaker.passable())
    stage.do(waiting.cancel)
    assert breaker._waiters == []


def test_what_it_answers_reads_as_turned_away_unread() -> None:
    stage, server, _, transport, _ = make()
    open_it(stage, server, transport)
    api = Api(transport)
    outcome = stage.finish(api.create(MAPS, "default", {"metadata": {"name": "x"}}))
    assert isinstance(outcome, Rejected)
    assert (outcome.code, outcome.reason) == (429, "CircuitOpen")
    assert outcome.retry_after_s >= 1.0
    with pytest.raises(ApiError) as caught:
        stage.finish(api.get(MAPS, "default", "x"))
    assert (caught.value.code, caught.value.reason) == (429, "CircuitOpen")


def test_streams_count_by_how_they_open() -> None:
    stage, server, breaker, transport, _ = make()
    server.now = lambda: Reply(503, b"{}")
    for _ in range(5):
        stage.finish(transport.open(ASK, timeout_s=1))
    assert breaker.view.state == "open"
    refused = stage.finish(transport.open(ASK, timeout_s=1))
    assert isinstance(refused, Reply)
    assert refused.status == 429


def test_a_pass_is_not_given_twice_for_one_probe() -> None:
    stage, server, breaker, transport, _ = make()
    open_it(stage, server, transport)
    stage.wait(1.0)
    first, second = stage.do(breaker.admit), stage.do(breaker.admit)
    assert isinstance(first, BreakerPass)
    assert not isinstance(second, BreakerPass)
