"""The cache on a live Domain, against the API server itself: in the same process, and over TLS."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api import harness
from tests.api.harness import pod, serving
from tests.cache.script import Recorder
from tests.clients.running import Server, running

from fathom.api.request import Response
from fathom.cache.caches import Caches
from fathom.cache.freshness import until_fresh
from fathom.cache.indexes import FOR_PODS
from fathom.cache.needs import AtLeast, Need, NoOlderThan, OwnWrites
from fathom.cache.observer import Listed, Silent
from fathom.cache.own_writes import WriteLog
from fathom.cache.scope import CacheScope, ListPace
from fathom.cache.silence import PROMPT_MIN
from fathom.client.api import Api, Resource
from fathom.client.http import HttpBackend
from fathom.client.outcomes import Committed
from fathom.client.servers import find_server
from fathom.model.objects import Key
from fathom.seams.domain import Domain
from fathom.seams.host import Host, NoTape
from fathom.seams.outside import SystemClock
from fathom.seams.seam import Ask, Backend, Input, Seam
from fathom.seams.streams import Streams

pytestmark = pytest.mark.live

PODS = Resource("", "v1", "pods")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)

# Long enough that a busy machine sends them in time: two late ones in a row would begin the count again.
BOOKMARK_S, BOOKMARKS = 0.5, PROMPT_MIN + 2

Story = Callable[[Caches, Api, Recorder], Awaitable[None]]


class InProcess:
    """Asks become calls of an API server on the host's loop."""

    def __init__(self, host: Host, api: harness.Api) -> None:
        self._host = host
        self._api = api
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._tasks[number] = self._host._loop.create_task(self._serve(number, ask, stream))

    def cancel(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None:
            self._host._loop.call_soon(task.cancel)

    async def _serve(self, number: int, ask: Ask, stream: bool) -> None:
        headers = {name.lower(): value for name, value in ask.headers}
        answer = await self._api.raw(ask.method, ask.target, ask.body, headers=headers)
        if isinstance(answer, Response):
            kind = Input.OPENED if stream else Input.REPLY
            self._host.post(kind, number, answer.status, answer.body)
            return
        self._host.post(Input.OPENED, number, 200)
        try:
            while (chunk := await answer.source.next()) is not None:
                self._host.post(Input.CHUNK, number, 0, chunk)
            self._host.post(Input.ENDED, number)
        finally:
            answer.source.close()


async def live(make: Callable[[Host], Backend], story: Story, *, pace: ListPace | None = None) -> None:
    """Tell a story inside a Domain that is alive on this loop."""
    domain = Domain()
    host = Host(domain, SystemClock(), NoTape())
    backend = make(host)
    seam = Seam(domain, backend)
    seen, api = Recorder(), Api(seam)
    caches = Caches(api, streams=Streams("seed"), observer=seen, pace=pace)
    caches.add("Pod", CacheScope(PODS), indexes=FOR_PODS)
    caches.add("Namespace", CacheScope(NAMESPACES))
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        caches.start()
        try:
            await story(caches, api, seen)
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)
        await caches.stop()

    tasks: list[Any] = []
    host.start(seam, lambda: tasks.append(domain.create_task(run())))
    try:
        async with asyncio.timeout(60):
            await ended
    finally:
        host.stop()
        if isinstance(backend, HttpBackend):
            await backend.close()
    assert domain.failures == []


def on_server(server: Server, story: Story, *, pace: ListPace | None = None) -> None:
    target = find_server(server.kubeconfig, clock=SystemClock(), environ={})
    asyncio.run(live(lambda host: HttpBackend(host, target), story, pace=pace))


async def follow_writes(caches: Caches, api: Api, seen: Recorder) -> None:
    """Create, update and delete pods; after each write the cache comes to show it, without another list."""
    assert await caches.until_synced(timeout_s=20) == ()
    written = WriteLog()
    for number in range(20):
        created = await api.create(PODS, "default", pod(f"p{number:02d}"))
        assert isinstance(created, Committed)
        written.record("test", "Pod", created.revision)
    view, unmet = await until_fresh(caches, [OwnWrites("test")], written, timeout_s=10)
    assert unmet == []
    assert [obj["metadata"]["name"] for obj in view.list("Pod", "default")] == [
        f"p{number:02d}" for number in range(20)
    ]
    first = view.list("Pod")[0]
    patched = await api.patch(PODS, "default", "p00", {"metadata": {"labels": {"app": "web"}}})
    assert isinstance(patched, Committed)
    caches.apply_write("Pod", patched.obj)
    found = caches.snapshot().get("Pod", Key("default", "p00"))
    assert found is not None
    assert found["metadata"]["labels"] == {"app": "web"}
    await api.delete(PODS, "default", "p00", uid=first["metadata"]["uid"])
    written.record_delete("test", "Pod", Key("default", "p00"), first["metadata"]["uid"])
    view, unmet = await until_fresh(caches, [OwnWrites("test")], written, timeout_s=10)
    assert (unmet, view.size("Pod")) == ([], 19)
    # A kind of which nothing happens keeps up by its bookmarks.
    needs: list[Need] = [AtLeast({"Namespace": patched.revision}), NoOlderThan(2.0)]
    view, unmet = await until_fresh(caches, needs, written, timeout_s=10)
    assert unmet == []
    lists = [happening for happening in seen.events if isinstance(happening, Listed)]
    assert sorted((one.kind, one.cause) for one in lists) == [("Namespace", "start"), ("Pod", "start")]


def test_a_cache_follows_an_api_server_in_the_same_process(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api:
            await live(lambda host: InProcess(host, api), follow_writes)

    asyncio.run(main())


def test_a_cache_follows_a_real_server_over_tls(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        on_server(server, follow_writes)


async def until(holds: Callable[[], bool], *, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.full
def test_a_cache_outlives_a_server_that_hangs(tmp_path: Path) -> None:
    """The server's process is stopped, with its sockets open: its watches fall silent, which is noticed, and
    visible as age; then it goes on. Nothing is lost, and no list is needed."""

    async def story(caches: Caches, api: Api, seen: Recorder) -> None:
        assert await caches.until_synced(timeout_s=20) == ()
        await api.create(PODS, "default", pod("before"))
        for _ in range(BOOKMARKS):  # So the server is known to send bookmarks as often as it is asked to.
            await until(lambda: caches.snapshot().age("Pod") > BOOKMARK_S / 2)
            await until(lambda: caches.snapshot().age("Pod") < BOOKMARK_S / 2)
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            await until(lambda: any(isinstance(each, Silent) for each in seen.events))
            assert caches.snapshot().age("Pod") > BOOKMARK_S
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        view, unmet = await until_fresh(caches, [NoOlderThan(0.5)], WriteLog(), timeout_s=20)
        assert unmet == []
        created = await api.create(PODS, "default", pod("after"))
        assert isinstance(created, Committed)
        assert await caches.at_least("Pod", created.revision, timeout_s=20)
        assert [obj["metadata"]["name"] for obj in caches.snapshot().list("Pod")] == ["after", "before"]
        assert [obj["metadata"]["name"] for obj in view.list("Pod")] == ["before"]
        assert seen.lists == {("Pod", "start"): 1, ("Namespace", "start"): 1}

    with running(tmp_path) as server:
        on_server(server, story, pace=ListPace(bookmark=BOOKMARK_S))
