"""Pages about decisions and state, for the HTTPS endpoints of agents and of other processes.

    GET /records?query=JSON          decisions with their outcomes, and nodes' reasons: a `RecordQuery`
    GET /state?about=UID,UID         what each part of the process says about itself: `ProcessState`
    GET /past?revision=N             the objects at a revision, as its tapes have them: `TapeState`, packed
    GET /past?time=NANOSECONDS       the revision that the process had received at a time: the same

Journals are files: they are read in a thread. State is read on the process's own loop, between two inputs of
its Domain, so that no decision can depend on the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from fathom.metrics.registry import Registry
from fathom.model.record_query import ProcessState, RecordQuery
from fathom.record.journal_reader import JournalReader
from fathom.record.past_worker import NoPastAnswer, PastWorker
from fathom.record.recorded_answers import read_records
from fathom.record.recording_gaps import RecordingGap, read_gaps

ABOUT_MAX = 200  # UIDs in one question.
# Indexing a megabyte, some thousand decisions, takes 5 ms: half a percent of a core while there is more.
INDEX_NEXT_S, INDEX_S = 1.0, 10.0
OWN_FIELDS = frozenset({"connection", "caches", "received"})  # The rest of a description is `state`.


class RecordPages:
    """The pages of one process."""

    def __init__(self, registry: Registry, process: str) -> None:
        self._registry = registry
        self._process = process
        self._readers: dict[Path, JournalReader] = {}
        self._past_worker = PastWorker()

    def add_to(self, app: web.Application, *, index_ahead: bool = False) -> None:
        """`index_ahead`: the first query need not index all that was written since the start."""
        app.router.add_get("/records", self._records)
        app.router.add_get("/state", self._state)
        app.router.add_get("/past", self._past)
        if index_ahead:
            app.cleanup_ctx.append(self._indexing)

    async def _indexing(self, app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._index_ahead())
        yield
        task.cancel()

    async def _index_ahead(self) -> None:
        while True:
            readers = [self._reader(directory) for directory in tuple(self._registry.journals.values())]
            more = await asyncio.to_thread(_index_some, readers)
            await asyncio.sleep(INDEX_NEXT_S if more else INDEX_S)

    async def _records(self, request: web.Request) -> web.Response:
        try:
            query = msgspec.json.decode(request.query.get("query", "{}"), type=RecordQuery)
        except msgspec.DecodeError as error:
            return web.Response(status=400, text=f"query: {error}")
        readers = [self._reader(directory) for directory in self._registry.journals.values()]
        body = await asyncio.to_thread(_encoded_records, readers, query, self._process)
        return web.Response(body=body, content_type="application/json")

    def _reader(self, directory: Path) -> JournalReader:
        return self._readers.setdefault(directory, JournalReader(directory))

    async def _state(self, request: web.Request) -> web.Response:
        about = tuple(uid for uid in request.query.get("about", "").split(",") if uid)[:ABOUT_MAX]
        described = self._registry.states(about)
        gaps = await asyncio.to_thread(_journal_gaps, self._registry.journals)
        for component, of_journal in gaps.items():
            described.setdefault(component, {})["journal"] = {"gaps": msgspec.to_builtins(of_journal)}
        states = [state_of(self._process, component, parts) for component, parts in described.items()]
        return web.Response(body=msgspec.json.encode(states), content_type="application/json")

    async def _past(self, request: web.Request) -> web.Response:
        revision, time_ns = request.query.get("revision", "0"), request.query.get("time", "0")
        if not (revision.isdecimal() and time_ns.isdecimal()):
            return web.Response(status=400, text="revision and time must be numbers")
        try:
            body = await self._past_worker.ask(
                self._registry.tapes, revision=int(revision), time_ns=int(time_ns)
            )
        except NoPastAnswer as error:
            return web.Response(status=503, text=str(error))
        return web.Response(body=body, content_type="application/zlib")


def _journal_gaps(journals: dict[str, Path]) -> dict[str, list[RecordingGap]]:
    """Component -> when its decisions were not recorded."""
    gaps = {component: read_gaps(directory) for component, directory in tuple(journals.items())}
    return {component: listed for component, listed in gaps.items() if listed}


def _index_some(readers: list[JournalReader]) -> bool:
    with suppress(OSError):  # A query says so.
        return sum(reader.index_some() for reader in readers) > 0
    return False


def _encoded_records(readers: list[JournalReader], query: RecordQuery, process: str) -> bytes:
    records = [record for reader in readers for record in read_records(reader, query, process)]
    return msgspec.json.encode(records)


def state_of(process: str, component: str, described: dict[str, dict[str, Any]]) -> ProcessState:
    connection = described.get("connection", {})
    known = {"leads", "lease", "breaker"}
    more = {name: value for name, value in connection.items() if name not in known}
    return ProcessState(
        process=process,
        parts=(component,),
        leads=connection.get("leads"),
        lease=connection.get("lease", ""),
        breaker=connection.get("breaker", ""),
        caches=described.get("caches", {}),
        received=described.get("received", {}),
        state={
            **more,
            **{name: value for name, value in described.items() if name not in OWN_FIELDS},
        },
    )
