"""A small API server in a bad mood, with a world that does not sit still.

It stalls, fails before and after it has committed, hangs up, forgets history and drops watches in the middle
of a line. Pods become ready, vanish, and are wanted in other numbers all the time. It writes down the
checksum of every write before it looks at it, so that a test can ask: is it on the tape?

    python -m tests.replay.moody_server SEED WRITES_FILE      prints its port, then serves until it is killed
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from aiohttp import web

from fathom.seams.seam import Ask

SETS = 30
HISTORY = 2000  # Events; whoever asks for older ones gets a 410.
PAUSE_S = 0.004

Obj = dict[str, Any]


class Moody:
    def __init__(self, seed: str, writes: Path) -> None:
        self.rng = random.Random(seed)
        self.revision = 0
        self.objects: dict[str, dict[str, Obj]] = {"sets": {}, "pods": {}, "events": {}}
        self.history: deque[tuple[int, str, bytes]] = deque(maxlen=HISTORY)
        self.watches: dict[asyncio.Queue[bytes], str] = {}
        self.writes = writes.open("ab", buffering=0)
        self.written = 0

    # The store.

    def commit(self, kind: str, change: str, obj: Obj) -> Obj:
        self.revision += 1
        obj = {**obj, "revision": self.revision}
        if change == "DELETED":
            self.objects[kind].pop(obj["name"], None)
        elif kind != "events":
            self.objects[kind][obj["name"]] = obj
        line = msgspec.json.encode([change, obj]) + b"\n"
        self.history.append((self.revision, kind, line))
        for queue, watched in self.watches.items():
            if watched == kind:
                queue.put_nowait(line)
        if kind == "pods" and change == "ADDED":
            asyncio.get_running_loop().call_later(self.rng.uniform(0.005, 0.08), self.ready, obj["name"])
        return obj

    def ready(self, name: str) -> None:
        pod = self.objects["pods"].get(name)
        if pod is not None and not pod["ready"]:
            self.commit("pods", "MODIFIED", {**pod, "ready": True})

    async def world(self) -> None:
        for index in range(SETS):
            self.commit("sets", "ADDED", {"name": f"set-{index}", "replicas": 8, "ready": 0})
        while True:
            await asyncio.sleep(PAUSE_S)
            pods = self.objects["pods"]
            if self.rng.random() < 0.5 and pods:
                victim = list(pods.values())[self.rng.randrange(len(pods))]
                self.commit("pods", "DELETED", victim)
            else:
                wanted = self.objects["sets"][f"set-{self.rng.randrange(SETS)}"]
                self.commit("sets", "MODIFIED", {**wanted, "replicas": self.rng.randint(3, 20)})

    # Requests.

    async def handle(self, request: web.Request) -> web.StreamResponse:
        kind, name = request.match_info["kind"], request.match_info.get("name")
        if "watch" in request.query:
            return await self.watch(request, kind, int(request.query["after"]))
        body = await request.read()
        if request.method != "GET":
            self.written += 1
            self.writes.write(b"%08x\n" % Ask(request.method, request.path_qs, body).checksum())
        if (mood := await self.moodiness(request)) is not None:
            return mood
        status, answer = self.apply(request.method, kind, name, body)
        if self.rng.random() < 0.005:  # Committed; the answer comes late, or never.
            await asyncio.sleep(0.06)
            if self.rng.random() < 0.5:
                return self.hang_up(request)
        return web.Response(status=status, body=msgspec.json.encode(answer))

    async def moodiness(self, request: web.Request) -> web.Response | None:
        draw = self.rng.random()
        if draw < 0.01:
            await asyncio.sleep(self.rng.uniform(0.03, 0.08))
        elif draw < 0.4:
            await asyncio.sleep(self.rng.uniform(0.0005, 0.004))
        draw = self.rng.random()
        if draw < 0.015:
            return web.Response(status=500, text="<html>out of order</html>")
        return self.hang_up(request) if draw < 0.02 else None

    @staticmethod
    def hang_up(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    def apply(self, method: str, kind: str, name: str | None, body: bytes) -> tuple[int, Any]:
        objects = self.objects[kind]
        if method == "GET" and name is None:
            return 200, {"items": list(objects.values()), "revision": self.revision}
        if method == "POST":
            obj = msgspec.json.decode(body)
            taken = obj["name"] in objects
            return (409, {}) if taken else (201, self.commit(kind, "ADDED", obj))
        current = objects.get(name or "")
        if current is None:
            return 404, {}
        if method == "GET":
            return 200, current
        if method == "DELETE":
            return 200, self.commit(kind, "DELETED", current)
        obj = msgspec.json.decode(body)
        stale = obj["revision"] != current["revision"]
        return (409, {}) if stale else (200, self.commit(kind, "MODIFIED", obj))

    async def watch(self, request: web.Request, kind: str, after: int) -> web.StreamResponse:
        forgotten = bool(self.history) and after < self.history[0][0] - 1
        if forgotten or self.rng.random() < 0.1:
            return web.Response(status=410)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for revision, of, line in self.history:
            if revision > after and of == kind:
                queue.put_nowait(line)
        self.watches[queue] = kind
        try:
            return await self.stream(request, queue)
        finally:
            del self.watches[queue]

    async def stream(self, request: web.Request, queue: asyncio.Queue[bytes]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(self.rng.randrange(20, 200)):
            lines = await queue.get()
            while not queue.empty() and len(lines) < 65536:
                lines += queue.get_nowait()
            cut = self.rng.randrange(len(lines))
            await response.write(lines[:cut])
            if self.rng.random() < 0.02 and request.transport is not None:
                request.transport.abort()
                return response
            await response.write(lines[cut:])
        return response


async def main(seed: str, writes: Path) -> None:
    moody = Moody(seed, writes)
    application = web.Application()
    application.router.add_get("/written", lambda _: _number(moody.written))
    application.router.add_route("*", "/api/{kind}", moody.handle)
    application.router.add_route("*", "/api/{kind}/{name}", moody.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201
    await moody.world()


async def _number(number: int) -> web.Response:
    return web.Response(text=str(number))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2])))
