"""What the proxy does to requests and watches, between a client and a server that keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec
import pytest
from aiohttp import web

from fathom.chaos.cluster import Authority
from fathom.chaos.proxy import DROP, EXPIRE, Proxy, ProxyEvents
from fathom.chaos.server import HOST, ApiServer
from fathom.model.times import SECOND_NS
from fathom.seams.outside import live
from fathom.sim.world.active_faults import ActiveFaults
from fathom.sim.world.faults import (
    AnyFault,
    CrashAtWrite,
    HoldWatch,
    LoseReply,
    LoseRequest,
    Refuse,
    SlowReply,
    StaleServer,
)

MAPS = "/api/v1/namespaces/default/configmaps"
ADDED = b'{"type":"ADDED","object":{}}\n'


class Backend:
    """Answers everything, and remembers it."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.types: list[str | None] = []  # Their Content-Type.
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.got.append(f"{request.method} {request.raw_path}")
        self.types.append(request.headers.get("Content-Type"))
        if "watch" in request.query:
            return await self._watch(request)
        return web.json_response({"metadata": {"resourceVersion": str(len(self.got))}})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(await self.events.get())


class Host:
    """Time for the faults. Nothing momentary happens here."""

    began_ns = 0

    @property
    def now_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * SECOND_NS)

    def at(self, at_ns: int, call: Callable[..., None], /, *args: Any) -> object:
        return None

    def happen(self, fault: AnyFault) -> None: ...

    def state_of(self, process: str) -> str:
        return ""


class Scene:
    def __init__(self, backend: Backend, proxy: Proxy, client: aiohttp.ClientSession) -> None:
        self.backend, self.proxy, self.client = backend, proxy, client
        self.struck: list[tuple[str, int]] = []  # What the run was told, with the revision.
        self.crashed: list[CrashAtWrite] = []

    def inject(self, *faults: AnyFault) -> None:
        active = ActiveFaults(Host(), faults)
        active.begin()
        self.proxy.inject(active)

    async def ask(self, method: str, target: str) -> tuple[int, Any]:
        """Status and document; (0, None) if the connection was cut."""
        try:
            async with self.client.request(method, self.proxy.url + target) as answer:
                return answer.status, await answer.json()
        except aiohttp.ClientConnectionError:
            return 0, None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[aiohttp.StreamReader]:
        async with self.client.get(f"{self.proxy.url}{MAPS}?watch=true") as answer:
            yield answer.content


async def in_scene(tmp_path: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    authority, backend = Authority(tmp_path, live().clock), Backend()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", backend.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0, ssl_context=authority.server).start()
    backend.url = f"https://{HOST}:{runner.addresses[0][1]}"
    scenes: list[Scene] = []
    events = ProxyEvents(
        arrived=lambda ask: None,
        struck=lambda fault, what, revision=0, culprit="": scenes[0].struck.append((what, revision)),
        crash=lambda fault: scenes[0].crashed.extend([fault]),
    )
    proxy = Proxy(cast(ApiServer, backend), authority.client, events)
    await proxy.start(authority.server)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=authority.client)) as client:
        scenes.append(Scene(backend, proxy, client))
        try:
            await asyncio.wait_for(story(scenes[0]), 30)
        finally:
            await proxy.stop()
            await runner.cleanup()


def told(tmp_path: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    asyncio.run(in_scene(tmp_path, story))


def test_without_faults_requests_and_answers_pass_unchanged(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        target = f"{MAPS}?labelSelector=a%3Db&limit=5"
        assert await scene.ask("GET", target) == (200, {"metadata": {"resourceVersion": "1"}})
        assert scene.backend.got == [f"GET {target}"]

    told(tmp_path, story)


def test_a_request_without_a_content_type_gets_none(tmp_path: Path) -> None:
    """A server takes it for JSON; what aiohttp would add by itself is refused with 415."""

    async def story(scene: Scene) -> None:
        async with scene.client.post(
            scene.proxy.url + MAPS, data=b"{}", skip_auto_headers=("Content-Type",)
        ) as answer:
            assert answer.status == 200
        assert scene.backend.types == [None]

    told(tmp_path, story)


def test_a_lost_reply_is_carried_out_and_cut_off_once(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.inject(LoseReply(at_s=0, target="operator", match="POST "))
        assert await scene.ask("GET", MAPS) == (200, {"metadata": {"resourceVersion": "1"}})
        assert await scene.ask("POST", MAPS) == (0, None)
        assert await scene.ask("POST", MAPS) == (200, {"metadata": {"resourceVersion": "3"}})
        assert scene.backend.got == [f"GET {MAPS}", f"POST {MAPS}", f"POST {MAPS}"]
        assert scene.struck == [(f"POST {MAPS}: api-1 has carried it out, but the reply is lost", 2)]

    told(tmp_path, story)


@pytest.mark.slow
def test_a_lost_request_never_arrives(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.inject(LoseRequest(at_s=0, target="operator", match="POST "))
        assert await scene.ask("POST", MAPS) == (0, None)
        assert scene.backend.got == []
        assert scene.struck == [(f"POST {MAPS}: the request is lost", 0)]

    told(tmp_path, story)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
def test_a_refused_request_gets_a_status_and_changes_nothing(
    tmp_path: Path, status: Any, reason: str
) -> None:
    async def story(scene: Scene) -> None:
        scene.inject(Refuse(at_s=0, target="operator", match="PUT ", status=status))
        code, document = await scene.ask("PUT", f"{MAPS}/hello")
        assert (code, document["kind"], document["reason"]) == (status, "Status", reason)
        assert scene.backend.got == []

    told(tmp_path, story)


def test_a_program_that_dies_at_its_second_write_has_sent_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        fault = CrashAtWrite(at_s=0, target="operator", times=2)
        scene.inject(fault)
        assert (await scene.ask("POST", MAPS))[0] == 200
        assert await scene.ask("POST", MAPS) == (0, None)
        assert scene.backend.got == [f"POST {MAPS}"] * 2
        assert scene.struck == [(f"dies just after it sent POST {MAPS}", 2)]
        assert scene.crashed == [fault]

    told(tmp_path, story)


def test_the_end_of_the_faults_ends_what_waits_because_of_them(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.inject(SlowReply(at_s=0, target="operator", delay_s=600))
        asking = asyncio.create_task(scene.ask("POST", MAPS))
        while not scene.struck:
            await asyncio.sleep(0.01)
        scene.proxy.heal()
        assert (await asking)[0] == 200

    told(tmp_path, story)


def test_a_watch_that_is_held_back_gets_its_events_later_and_in_order(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.inject(HoldWatch(at_s=0, target="operator", for_s=600))
        scene.backend.events.put_nowait(ADDED)
        async with scene.watch() as content:
            while not scene.struck:
                await asyncio.sleep(0.01)
            assert scene.struck == [(f"watch of {MAPS}: its events are held back", 0)]
            scene.proxy.heal()
            assert await content.readline() == ADDED

    told(tmp_path, story)


def test_a_watch_that_expires_ends_with_410_gone(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.backend.events.put_nowait(ADDED)
        async with scene.watch() as content:
            assert await content.readline() == ADDED
            for watch in scene.proxy.watches:
                watch.end(EXPIRE)
            event = msgspec.json.decode(await content.readline())
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
            assert await content.read() == b""

    told(tmp_path, story)


def test_a_watch_that_is_dropped_breaks_off(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.backend.events.put_nowait(ADDED)
        async with scene.watch() as content:
            assert await content.readline() == ADDED
            for watch in scene.proxy.watches:
                watch.end(DROP)
            with pytest.raises(aiohttp.ClientError):
                await content.read()

    told(tmp_path, story)


def test_a_stale_server_answers_only_those_reads_from_its_old_cache_that_allow_for_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        old = f"{MAPS}?resourceVersion=0"
        assert await scene.ask("GET", old) == (200, {"metadata": {"resourceVersion": "1"}})
        scene.inject(StaleServer(at_s=0, target="api-1", for_s=600))
        assert await scene.ask("POST", MAPS) == (200, {"metadata": {"resourceVersion": "2"}})
        assert await scene.ask("GET", old) == (200, {"metadata": {"resourceVersion": "1"}})
        assert await scene.ask("GET", MAPS) == (200, {"metadata": {"resourceVersion": "3"}})

    told(tmp_path, story)


def test_a_server_that_is_down_cuts_connections_off(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.backend.url = f"https://{HOST}:1"
        assert await scene.ask("GET", MAPS) == (0, None)

    told(tmp_path, story)
