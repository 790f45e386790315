"""A runner against a real API server in the same process: no sockets, a clock that sleeping moves, runners
that die when told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from tests.api.harness import ADMIN
from tests.api.harness import Api as Server

from fathom.api.request import Response
from fathom.client.api import Api, own_resource
from fathom.client.outcomes import Committed
from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.runbook_run import RunbookRunStatus
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS
from fathom.seams.seam import Ask, Reply, Stream
from fathom.steer.runner import Runner, Surroundings
from fathom.steer.templates import resolved

RUNS = own_resource(runbook_run.DEFINITION)


class Died(Exception):
    """The runner's process is gone."""


class ServedTransport:
    """Requests go to the server as they are. `before` and `after` are called around each write: they may
    raise Died, or lose the answer by returning another."""

    def __init__(self, server: Server, token: str = ADMIN) -> None:
        self._server = server
        self._token = token
        self.writes: list[str] = []
        self.before: Callable[[int], None] = lambda number: None
        self.after: Callable[[int, Reply], Reply] = lambda number, reply: reply

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        number = len(self.writes)
        if ask.method != "GET":
            self.writes.append(f"{ask.method} {ask.target}")
            self.before(number)
        answer = await self._server.raw(
            ask.method, ask.target, ask.body, token=self._token, headers=dict(ask.headers)
        )
        assert isinstance(answer, Response)
        reply = Reply(answer.status, answer.body, dict(answer.headers).get("audit-id", ""))
        return reply if ask.method == "GET" else self.after(number, reply)

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        return Reply(501)


class Hands:
    """The clock, the sleep and the answers of one person at a terminal."""

    def __init__(self, answers: dict[str, str] | None = None) -> None:
        self.now_ns = 1_800_000_000 * SECOND_NS
        self.told: list[str] = []
        self.answers = answers or {}
        self.sleep: Callable[[float], Awaitable[None]] = self._sleep

    def around(self) -> Surroundings:
        return Surroundings(
            now_ns=lambda: self.now_ns,
            elapsed_ns=lambda: self.now_ns,
            sleep=self.sleep,
            tell=self.told.append,
            answer=self._answer,
        )

    async def _sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)

    async def _answer(self, step: str, question: str) -> str:
        return self.answers.get(step, "")


async def made_run(api: Api, content: RunbookSpec, name: str = "run-1", **parameters: str) -> Obj:
    plain = msgspec.to_builtins(content)
    run = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "RunbookRun",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "runbook": {"name": "book", "source": "cluster", "version": 1, "hash": spec_hash(content)},
            "content": plain,
            "parameters": resolved("book", content, parameters),
        },
    }
    outcome = await api.create(RUNS, "default", run)
    assert isinstance(outcome, Committed), outcome
    return outcome.obj


async def started(api: Api, run: Obj, hands: Hands, holder: str = "jane") -> RunbookRunStatus:
    return await Runner(api, run, holder=holder, around=hands.around()).start()


async def resumed(api: Api, hands: Hands, name: str = "run-1", holder: str = "joe") -> RunbookRunStatus:
    run = await api.get(RUNS, "default", name)
    assert run is not None
    return await Runner(api, run, holder=holder, around=hands.around()).resume()


async def aborted(api: Api, hands: Hands, name: str = "run-1", holder: str = "joe") -> RunbookRunStatus:
    run = await api.get(RUNS, "default", name)
    assert run is not None
    return await Runner(api, run, holder=holder, around=hands.around()).abort("not needed any more")
