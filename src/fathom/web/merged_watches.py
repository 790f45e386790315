"""Several watches in one answer: a browser opens at most six connections to a server, over all its tabs.

    POST /ui/watch  {"watches": {"pods": "/api/v1/pods?resourceVersion=41", …}}
    ──> lines  ID TAB {"type": "ADDED", "object": …}

Each watch is a request of its own to the same API, with the same credentials and rights. A watch that is
refused or over says so in a line, `ERROR` or `END`; the others go on.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from fathom.api import http_text
from fathom.api.request import Request, Response, StreamResponse, StreamSource
from fathom.api.verbs.watch import BOOKMARK_HEADER
from fathom.api.web_page import Send
from fathom.model.body import encode_json
from fathom.model.errors import bad_request

WATCHES_MAX = 40
IDS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
# A line at least so often, so that the page knows that it is still connected.
BOOKMARK_S = "10"
CHUNKS_MAX = 4  # Waiting for a slow client; a chunk has at most a mebibyte.
# Of a request of the page: those that are made for it have no body, and accept something else.
NOT_PASSED_ON = frozenset({"content-length", "content-type", "transfer-encoding", "expect", "accept"})


class WatchesAsked(msgspec.Struct, frozen=True):
    watches: dict[str, str]  # Id -> path and query of the watch.


def requests_of(request: Request) -> dict[str, Request]:
    """Raises 400."""
    try:
        asked = msgspec.json.decode(request.body, type=WatchesAsked).watches
    except msgspec.DecodeError as error:
        raise bad_request(f"the body must name the watches: {error}") from None
    if not 0 < len(asked) <= WATCHES_MAX:
        raise bad_request(f"one stream has 1 to {WATCHES_MAX} watches, not {len(asked)}")
    return {name: _watch_request(request, name, address) for name, address in asked.items()}


def _watch_request(request: Request, name: str, address: str) -> Request:
    if not name or not set(name) <= IDS or not address.startswith(("/api/", "/apis/")):
        raise bad_request(f"{name[:50]!r} must have an id of letters and digits, and a path of the API")
    path, query = http_text.split(address.encode())
    headers = {key: value for key, value in request.headers.items() if key not in NOT_PASSED_ON}
    watching = {"watch": ["true"], "allowWatchBookmarks": ["true"]}
    return Request(
        method="GET",
        path=path.decode(),
        query={**http_text.parsed(query), **watching},
        headers={**headers, BOOKMARK_HEADER: BOOKMARK_S},
        remote=request.remote,
    )


async def merged(request: Request, send: Send) -> StreamResponse:
    """Raises 400."""
    refused: list[bytes] = []
    sources: dict[str, StreamSource] = {}
    for name, each in requests_of(request).items():
        answer = await send(each)
        if isinstance(answer, StreamResponse) and answer.status == 200:
            sources[name] = answer.source
        else:
            refused.append(_line(name, "ERROR", answer))
    return StreamResponse(MergedWatches(sources, refused), content_type="text/plain; charset=utf-8")


def _line(name: str, kind: str, answer: Any = None) -> bytes:
    obj = msgspec.Raw(answer.body) if isinstance(answer, Response) else {}
    return name.encode() + b"\t" + encode_json({"type": kind, "object": obj}) + b"\n"


class MergedWatches:
    """A StreamSource. Each watch has a task that reads it; the client's pace is theirs."""

    def __init__(self, sources: dict[str, StreamSource], first: list[bytes]) -> None:
        self._sources = sources
        self._first = first
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(CHUNKS_MAX)
        self._open = len(sources)
        self._tasks: list[asyncio.Task[None]] | None = None  # Made with the first chunk.

    async def next(self) -> bytes | None:
        if self._tasks is None:
            self._tasks = [asyncio.create_task(self._read(*each)) for each in self._sources.items()]
            # Sent at once, also when it is empty: the page learns that it is connected.
            return b"".join(self._first) + b"\n"
        return await self._chunks.get() if self._open else self._rest()

    def _rest(self) -> bytes | None:
        return None if self._chunks.empty() else self._chunks.get_nowait()

    async def _read(self, name: str, source: StreamSource) -> None:
        prefix = name.encode() + b"\t"
        while (chunk := await source.next()) is not None:
            lines = [prefix + line for line in chunk.split(b"\n") if line]
            await self._chunks.put(b"\n".join(lines) + b"\n")
        await self._chunks.put(_line(name, "END"))
        self._open -= 1
        if not self._open:
            await self._chunks.put(None)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()
        for task in self._tasks or ():
            task.cancel()
