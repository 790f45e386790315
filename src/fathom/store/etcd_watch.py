"""A watch on etcd that survives disconnects of its stream.

After a disconnect it resumes after the last revision it delivered, so no event is lost or delivered twice.
Events come in whole commits: etcd splits a commit over several messages only as marked fragments, which are
joined here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
from aetcd.rpc import rpc_pb2

from fathom.model.backoff import Backoff
from fathom.store.etcd_link import EtcdLink, Stubs
from fathom.store.etcd_wire import Keys, changes
from fathom.store.protocol import Batch, Compacted, FutureRevision, StoreUnavailable, WentBack

OPEN_AGAIN = Backoff(0.05, 2.0)
PROGRESS_AGAIN_S = 0.02  # A follower that lags behind its leader is asked again.

# etcd ends the stream when its member loses the leader, instead of sending nothing more.
_REQUIRE_LEADER = (("hasleader", "true"),)


class EtcdWatch(AsyncIterator[Batch]):
    def __init__(
        self,
        link: EtcdLink,
        keys: Keys,
        prefix: str,
        after: int,
        *,
        check_retained: Callable[[int, Stubs], Awaitable[None]],
        saw: Callable[[int], None],
    ) -> None:
        self._link = link
        self._keys = keys
        self.prefix = prefix
        self.position = after  # Everything up to and including this revision has been delivered.
        self._check_retained = check_retained
        self._saw = saw
        self._call: Any = None
        self._stubs: Stubs | None = None  # The endpoint of the current stream.
        self._reading: asyncio.Task[Any] | None = None  # Survives a cancelled `__anext__`.
        self._fragments: list[Any] = []  # Events of a message that has not ended yet.
        self._wanted = 0  # A revision whose progress report a caller has requested.
        self.marked = 0  # Of the newest marker written for this watch, see `EtcdStore.request_progress`.
        self._failures = 0
        self._closed = False
        self._behind = 0  # Members that were asked in a row and have not reached our position.
        self._invalid = False  # What was delivered may be wrong: `Compacted` comes next.

    def __aiter__(self) -> EtcdWatch:
        return self

    async def __anext__(self) -> Batch:
        while True:
            if self._closed:
                raise StoreUnavailable("the watch is closed")
            if self._invalid:
                self._invalid = False
                self._drop()
                raise Compacted(self.position + 1)
            try:
                response = await self._response()
            except WentBack as error:
                self._pass_over(error)
                continue
            except (grpc.aio.AioRpcError, StoreUnavailable):
                await self._stream_lost()
                continue
            batch = await self._batch_of(response)
            if batch is not None:
                self._saw(batch.revision)
                return batch

    async def ask_progress(self, revision: int) -> None:
        """Make etcd report progress at least this new. A watch that is reconnecting asks once connected."""
        self._wanted = max(self._wanted, revision)
        if self._call is not None and self._wanted > self.position:
            request = rpc_pb2.WatchRequest(progress_request=rpc_pb2.WatchProgressRequest())
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._call.write(request)

    def invalidate(self) -> None:
        """Make the reader range again."""
        self._invalid = True
        if self._call is not None:
            self._call.cancel()

    def close(self) -> None:
        self._closed = True
        self._drop()

    def __del__(self) -> None:
        self._drop()

    async def _response(self) -> Any:
        if self._call is None:
            await self._connect()
        reading = self._reading or asyncio.ensure_future(self._call.read())
        self._reading = reading
        # Not awaited directly: cancelling a read would cancel the whole stream with it.
        await asyncio.wait([reading])
        self._reading = None
        if reading.cancelled():
            raise StoreUnavailable("the stream is closed")
        response = reading.result()
        if response is grpc.aio.EOF:
            raise StoreUnavailable("etcd ended the stream")
        return response

    async def _connect(self) -> None:
        stubs = await self._link.ready()
        metadata = (*_REQUIRE_LEADER, *await self._link.credentials_of(stubs))
        with self._link.under_way():
            call = stubs.watch.Watch(metadata=metadata)
        try:
            await self._create(call, stubs)
            # Checked after the watch was created, for our own position: etcd before 3.5.16 continues at
            # `position + 1` although the deletions in that very revision are compacted already.
            await self._check_retained(self.position, stubs)
        except BaseException:
            call.cancel()
            self._stubs = stubs
            raise
        self._call, self._stubs = call, stubs
        self._failures = self._behind = 0
        await self.ask_progress(self._wanted)

    async def _create(self, call: Any, stubs: Stubs) -> None:
        create = rpc_pb2.WatchCreateRequest(
            key=self._keys.wire(self.prefix),
            range_end=self._keys.watch_end(self.prefix),
            start_revision=self.position + 1,
            prev_kv=True,
            progress_notify=True,
            fragment=True,
        )
        try:
            async with asyncio.timeout(self._link.options.request_timeout_s):
                with self._link.under_way():
                    await call.write(rpc_pb2.WatchRequest(create_request=create))
                    response = await call.read()
        except TimeoutError:
            self._link.avoid(stubs)
            raise StoreUnavailable(f"etcd at {stubs.endpoint} does not answer") from None
        if response is grpc.aio.EOF or not response.created or response.canceled:
            self._link.avoid(stubs)
            self._link.forget_token()  # It may be the reason.
            raise StoreUnavailable(f"etcd at {stubs.endpoint} refuses the watch")

    async def _batch_of(self, response: Any) -> Batch | None:
        """The batch that a message completes, if any."""
        if response.compact_revision:
            self._drop()
            raise Compacted(response.compact_revision)
        if response.canceled:
            await self._stream_lost()
            return None
        if response.events:
            self._fragments.extend(response.events)
            return None if response.fragment else self._whole_batch()
        return await self._progress(response.header.revision)

    def _whole_batch(self) -> Batch:
        """The last event's revision counts: while a watch catches up, the header's is ahead of it."""
        events, self._fragments = self._fragments, []
        self.position = events[-1].kv.mod_revision
        return Batch(changes(self._keys, events), self.position)

    async def _progress(self, revision: int) -> Batch | None:
        if self._wanted > revision:
            await asyncio.sleep(PROGRESS_AGAIN_S)
            await self.ask_progress(self._wanted)
        if revision <= self.position:
            return None
        self.position = revision
        return Batch((), revision)

    def _pass_over(self, error: WentBack) -> None:
        """This member has not reached what was delivered: try the others. Raises FutureRevision if all are
        so."""
        self._drop()
        if self._stubs is not None:
            self._link.avoid(self._stubs)
        self._behind += 1
        if self._behind >= len(self._link.options.endpoints):
            self._behind = 0
            raise FutureRevision(error.current) from error

    async def _stream_lost(self) -> None:
        self._drop()
        if self._closed:
            return
        if self._stubs is not None:
            self._link.avoid(self._stubs)
        self._failures += 1
        await asyncio.sleep(OPEN_AGAIN.whole_s(self._failures))

    def _drop(self) -> None:
        self._fragments = []
        self._reading = None
        if self._call is not None:
            self._call.cancel()
            self._call = None
