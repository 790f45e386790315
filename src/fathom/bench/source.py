"""An API server that only sends prepared pods, as fast as its reader takes them: `python -m
fathom.bench.source`.

It answers what an operator requests at its start. A watch gets all pods; after `POST /go`, their changes
too. Every reader gets the same bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import Any

from aiohttp import web

from fathom.bench.podstream import FIRST_REVISION, bookmark, changes, initial

CHUNK_EVENTS = 100
BOOKMARK_S = 1.0

VERBS = ["get", "list", "watch", "patch", "update", "create", "delete"]
RESOURCES = [
    {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": plural == "pods",
        "kind": kind,
        "verbs": VERBS,
    }
    for plural, kind in (("pods", "Pod"), ("namespaces", "Namespace"), ("events", "Event"))
]
ANSWERS: dict[str, dict[str, Any]] = {
    "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0-source"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES},
}


class EventSource:
    def __init__(self, objects: int, events: int) -> None:
        self._initial = list(initial(objects))
        self._changes = list(changes(objects, events, per_chunk=CHUNK_EVENTS))
        self._last = FIRST_REVISION + objects + events
        self._go = asyncio.Event()
        self._asked_s = 0.0  # When the watch began, on the clock that all processes of a machine share.

    def application(self) -> web.Application:
        app = web.Application()
        for path, answer in ANSWERS.items():
            app.router.add_get(path, _answering(answer))
        app.router.add_get("/api/v1/pods", self.watch)
        app.router.add_post("/go", self.go)
        return app

    async def go(self, request: web.Request) -> web.Response:
        """Begin to send the changes."""
        self._go.set()
        return web.json_response({"asked_s": self._asked_s, "changes_s": time.monotonic()})

    async def watch(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("sendInitialEvents") != "true":
            raise web.HTTPBadRequest(text="this server only answers watches with sendInitialEvents=true")
        self._asked_s = time.monotonic()
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # The reader has read enough.
            await self._tell(response)
        return response

    async def _tell(self, response: web.StreamResponse) -> None:
        for chunk in self._initial:
            await response.write(chunk)
        await self._go.wait()
        for chunk in self._changes:
            await response.write(chunk)
        while True:
            await response.write(bookmark(self._last))
            await asyncio.sleep(BOOKMARK_S)


def _answering(answer: dict[str, Any]) -> Any:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response(answer)

    return handler


async def serve(objects: int, events: int) -> None:
    runner = web.AppRunner(EventSource(objects, events).application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201  # Our parent process reads it.
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
