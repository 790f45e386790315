"""Between a controller and a real `fathom up`: stalls, 500s, broken connections, lost answers, dropped
watches, histories that are declared gone. And somebody who keeps changing what the controller looks after.

    python -m tests.replay.moody_proxy SEED KUBECONFIG WRITES_FILE        prints its port, serves until killed
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
from aiohttp import web

from fathom.client.http import ServerAddress
from fathom.client.servers import find_server
from fathom.seams.outside import SystemClock

GREETINGS = 12
PAUSE_S = 0.03
GONE = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}'
OWN_HEADERS = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}


class MoodyProxy:
    def __init__(self, seed: str, server: ServerAddress, writes: Path) -> None:
        self.rng = random.Random(seed)
        self.watches = 0
        self.server = server
        self.written = 0
        self.writes = writes.open("ab", buffering=0)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=server.tls, limit=0))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method != "GET":
            self.written += 1
            self.writes.write(f"{request.method} {request.path_qs} {len(body)}\n".encode())
        draw = self.rng.random()
        if draw < 0.01:
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))
        elif draw < 0.3:
            await asyncio.sleep(self.rng.uniform(0.0005, 0.005))
        draw = self.rng.random()
        if draw < 0.01:
            return web.Response(status=500, text="<html>out of order</html>")
        if draw < 0.015:
            return hung_up(request)
        if "watch" in request.query:
            self.watches += 1
            # By chance, and the fourth for certain: a short run opens few.
            if self.watches == 4 or self.rng.random() < 0.1:
                return web.Response(status=410, body=GONE)
        return await self.forward(request, body)

    async def forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OWN_HEADERS}
        url = self.server.url + request.path_qs
        async with self.session.request(request.method, url, data=body or None, headers=headers) as answer:
            if "watch" in request.query and answer.status == 200:
                return await self.relay(request, answer)
            content = await answer.read()
            if self.rng.random() < 0.005:  # It was done; nobody hears of it.
                return hung_up(request)
            return web.Response(status=answer.status, body=content, content_type="application/json")

    async def relay(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        left = self.rng.randrange(10, 150)
        async for piece in answer.content.iter_any():
            cut = self.rng.randrange(len(piece) + 1)
            await response.write(piece[:cut])
            left -= 1
            if not left:
                if self.rng.random() < 0.5 and request.transport is not None:
                    request.transport.abort()
                break
            await response.write(piece[cut:])
        return response

    # Somebody else, with a connection of their own.

    async def world(self) -> None:
        for number in range(GREETINGS):
            spec = {"message": "hello", "copies": 3}
            await self.act("POST", "", {"metadata": {"name": f"g{number}"}, "spec": spec})
        while True:
            await asyncio.sleep(PAUSE_S * self.rng.random())
            name = f"g{self.rng.randrange(GREETINGS)}"
            spec = {"message": f"hello {self.rng.randrange(5)}", "copies": self.rng.randrange(8)}
            await self.act("PATCH", f"/{name}", {"spec": spec})

    async def act(self, method: str, name: str, body: Any) -> None:
        url = f"{self.server.url}/apis/example.dev/v1/namespaces/default/greetings{name}"
        whole = {"apiVersion": "example.dev/v1", "kind": "Greeting", **body} if method == "POST" else body
        media = "application/json" if method == "POST" else "application/merge-patch+json"
        content = msgspec.json.encode(whole)
        async with self.session.request(method, url, data=content, headers={"content-type": media}) as answer:
            assert answer.status in {200, 201}, await answer.text()


def hung_up(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def main(seed: str, kubeconfig: Path, writes: Path) -> None:
    proxy = MoodyProxy(seed, find_server(kubeconfig, clock=SystemClock(), environ={}), writes)

    async def written(_: web.Request) -> web.Response:
        return web.Response(text=str(proxy.written))

    application = web.Application(client_max_size=1 << 26)
    application.router.add_get("/written", written)
    application.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201
    await proxy.world()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
