"""The store on a real etcd: several API servers at once, over grpc.aio.

etcd's revision is the store's revision, its transactions are our commits. A commit that was sent and not
answered is `Unknown`; it is never sent again.

Every linearizable answer is at least as new as any answer before it. One that is older comes from a member
that disagrees with the others, or from an older copy of the cluster: the next endpoint is asked, and if all
are older, the answer is `WentBack`.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from aetcd.rpc import rpc_pb2

from fathom.store import etcd_wire
from fathom.store.etcd_link import Closed, EtcdLink, EtcdOptions, Stubs
from fathom.store.etcd_members import EtcdMembers
from fathom.store.etcd_watch import EtcdWatch
from fathom.store.etcd_wire import Keys
from fathom.store.keys import check_commit, range_start
from fathom.store.protocol import (
    Batch,
    Compacted,
    Entry,
    Expect,
    FutureRevision,
    Outcome,
    Page,
    Put,
    StoreUnavailable,
    Unknown,
    WentBack,
    Write,
)

PAGE_KEYS_MAX = 500  # One message; a longer range is read in several at one revision.

_NO_ANSWER = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


class EtcdStore:
    def __init__(self, options: EtcdOptions) -> None:
        self._link = EtcdLink(options)
        self._keys = Keys(options.prefix)
        self._members = EtcdMembers(self._link, self._agree_again)
        self._watches: weakref.WeakSet[EtcdWatch] = weakref.WeakSet()
        self._true_progress: bool | None = None  # None until the server's version is known.
        self._seen = 0  # The newest revision in any answer.

    # Reading

    async def revision(self) -> int:
        """Every linearizable read returns it."""
        request = rpc_pb2.RangeRequest(key=self._keys.wire(""), count_only=True)
        return int((await self._range(request)).header.revision)

    async def get(self, key: str) -> Entry | None:
        response = await self._range(rpc_pb2.RangeRequest(key=self._keys.wire(key)))
        return self._keys.entry(response.kvs[0]) if response.kvs else None

    async def range(
        self, prefix: str, *, revision: int | None = None, limit: int = 0, after: str = ""
    ) -> Page:
        entries: list[Entry] = []
        start = self._keys.wire(range_start(prefix, after))
        at = revision or 0  # 0 is etcd's newest; later pages use the first answer's revision.
        while True:
            wanted = min(limit - len(entries), PAGE_KEYS_MAX) if limit else PAGE_KEYS_MAX
            response = await self._range(
                rpc_pb2.RangeRequest(
                    key=start,
                    range_end=self._keys.end(prefix),
                    limit=wanted,
                    revision=at,
                )
            )
            at = at or response.header.revision
            entries += self._keys.entries(response.kvs)
            if not response.more or len(entries) == limit:
                return Page(tuple(entries), at, response.more, response.count - len(response.kvs))
            start = response.kvs[-1].key + b"\0"

    async def _range(self, request: Any) -> Any:
        """Raises WentBack if every endpoint that answers is older than what was answered before."""
        current = 0
        for _ in self._link.options.endpoints:
            seen = self._seen
            stubs, response = await self._try_endpoints(
                lambda stubs: stubs.kv.Range, request, revision=request.revision
            )
            current = response.header.revision
            if current >= seen:
                self.saw(current)
                return response
            self._link.avoid(stubs)
        raise WentBack(current, seen)

    def saw(self, revision: int) -> None:
        self._seen = max(self._seen, revision)

    def accept_past(self) -> None:
        self._seen = 0

    async def _try_endpoints(
        self, method: Callable[[Stubs], Any], request: Any, *, revision: int = 0
    ) -> tuple[Stubs, Any]:
        """A read may be sent to every endpoint in turn: it changes nothing. The endpoint, and its answer."""
        failure: Exception = StoreUnavailable("no endpoints")
        for _ in self._link.options.endpoints:
            stubs = await self._link.ready()
            try:
                return stubs, await self._link.call(stubs, method(stubs), request)
            except grpc.aio.AioRpcError as error:
                failure = await self._read_error(error, revision, stubs)
                if not self._is_elsewhere(error, failure):
                    raise failure from error
                self._link.avoid(stubs)
        raise failure

    def _is_elsewhere(self, error: grpc.aio.AioRpcError, failure: Exception) -> bool:
        """Whether another endpoint may answer: this one does not, or is older than earlier answers."""
        return error.code() in _NO_ANSWER or isinstance(failure, WentBack)

    async def _read_error(self, error: grpc.aio.AioRpcError, revision: int, stubs: Stubs) -> Exception:
        code, details = error.code(), error.details() or ""
        if etcd_wire.is_future(code, details):
            seen, self_revision = self._seen, await self._revision_at(stubs)
            return WentBack(self_revision, seen) if revision <= seen else FutureRevision(self_revision)
        if code in _NO_ANSWER:
            return StoreUnavailable(f"etcd at {stubs.endpoint}: {code.name}: {details}")
        return etcd_wire.failed_read(code, details, revision)

    async def _revision_at(self, stubs: Stubs) -> int:
        """The newest revision of this endpoint; 0 if it does not answer any more."""
        request = rpc_pb2.RangeRequest(key=self._keys.wire(""), count_only=True)
        try:
            return int((await self._link.call(stubs, stubs.kv.Range, request)).header.revision)
        except grpc.aio.AioRpcError:
            return 0

    # Writing

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        check_commit(preconditions, writes)
        request = etcd_wire.txn(self._keys, preconditions, writes)
        if any(isinstance(write, Put) for write in writes):
            await self._members.check_room()
        stubs, seen = await self._link.ready(), self._seen
        try:
            response = await self._link.call(stubs, stubs.kv.Txn, request)
        except Closed as error:
            return Unknown(str(error))
        except grpc.aio.AioRpcError as error:
            if error.code() in _NO_ANSWER:
                self._link.avoid(stubs)
            if etcd_wire.is_full(error.details() or ""):
                self._members.refused_for_space()
            return etcd_wire.failed_commit(error.code(), error.details() or "")
        return self._outcome(preconditions, response, seen)

    def _outcome(self, preconditions: Sequence[Expect], response: Any, seen: int) -> Outcome:
        revision = response.header.revision
        if revision < seen:  # Members disagree: what happened here need not have happened there.
            return Unknown(str(WentBack(revision, seen)))
        self.saw(revision)
        return etcd_wire.outcome(self._keys, preconditions, response)

    # Watching

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        watch = EtcdWatch(
            self._link, self._keys, prefix, after, check_retained=self._check_retained, saw=self.saw
        )
        self._watches.add(watch)
        return watch

    def problem(self) -> str:
        return self._members.problem()

    async def request_progress(self) -> bool:
        if self._true_progress is None:
            _, status = await self._try_endpoints(
                lambda stubs: stubs.maintenance.Status, rpc_pb2.StatusRequest()
            )
            self._true_progress = etcd_wire.reports_true_progress(status.version)
        revision = await self.revision()
        behind = [watch for watch in self._watches if watch.position < revision]
        if self._true_progress:
            for watch in behind:
                await watch.ask_progress(revision)
            return True
        return await self._write_markers([watch for watch in behind if watch.marked < revision])

    async def _write_markers(self, watches: list[EtcdWatch]) -> bool:
        """For servers whose progress reports cannot be trusted: write markers that the watches see. False if
        that failed."""
        prefixes = sorted({watch.prefix for watch in watches})
        for start in range(0, len(prefixes), etcd_wire.OPERATIONS_MAX):
            chunk = prefixes[start : start + etcd_wire.OPERATIONS_MAX]
            stubs = await self._link.ready()
            try:
                markers = etcd_wire.markers(self._keys, chunk)
                response = await self._link.call(stubs, stubs.kv.Txn, markers)
            except grpc.aio.AioRpcError:
                return False
            for watch in watches:
                if watch.prefix in chunk:
                    watch.marked = max(watch.marked, response.header.revision)
        return True

    async def _check_retained(self, revision: int, stubs: Stubs) -> None:
        """Asks the member that the watch is at: members that disagree give one revision several meanings."""
        if revision <= 0:
            return
        request = rpc_pb2.RangeRequest(key=self._keys.wire(""), revision=revision, count_only=True)
        try:
            response = await self._link.call(stubs, stubs.kv.Range, request)
        except grpc.aio.AioRpcError as error:
            raise await self._read_error(error, revision, stubs) from error
        self.saw(response.header.revision)

    # Housekeeping

    async def compact(self, revision: int) -> None:
        """Compacts the whole etcd: other users of it lose their history too. Before etcd 3.5.16 choose a
        revision that deletes nothing, as `Retention` does."""
        request = rpc_pb2.CompactionRequest(revision=revision)
        try:
            await self._try_endpoints(lambda stubs: stubs.kv.Compact, request, revision=revision)
        except Compacted:
            return  # Another server has compacted it already.

    def _agree_again(self) -> None:
        """Members disagreed: whoever watches reads everything again."""
        for watch in tuple(self._watches):
            watch.invalidate()

    async def close(self) -> None:
        self._members.close()
        for watch in tuple(self._watches):
            watch.close()
        await self._link.close()
